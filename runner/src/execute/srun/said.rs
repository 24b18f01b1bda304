//! Messages of Slurm on the standard error of srun and of tasks when it did not do as requested.

use std::path::Path;

use crate::observation::{Captured, Exit, ProcessObservation, Role};

/// Bytes at the end of a stream that are examined.
const END: usize = 16 << 10;
/// Lines that are quoted.
const LINES: usize = 4;

/// Why a task was not started, or was refused by its own `ftest __task`.
pub(in crate::execute) fn refusal(processes: &[ProcessObservation]) -> Option<String> {
    processes.iter().find_map(|process| match &process.exit {
        Exit::NotStarted(why) if process.role != Role::Srun => Some(format!("{}: {why}", process.role)),
        _ => None,
    })
}

/// Slurm's message on why nothing was started (see `started`), or why Slurm itself ended the step.
pub(in crate::execute) fn why(processes: &[ProcessObservation], started: bool) -> Option<String> {
    let srun = processes.iter().find(|process| process.role == Role::Srun)?;
    let said = end_of(&srun.stderr);
    if !started {
        return Some(format!("Slurm started no rank; srun {}; {}", srun.exit.clause(), last_words(&said)));
    }
    let all =
        processes.iter().filter(|process| process.role != Role::Coordinator).map(|process| end_of(&process.stderr));
    let line =
        all.flat_map(|text| text.lines().filter(|line| ends_the_step(line)).map(str::to_owned).collect::<Vec<_>>());
    line.min_by_key(String::len).map(|line| format!("Slurm ended the step: {}", line.trim()))
}

/// About the task with this `role`, which left nothing in the directory of the case, below `scratch`, although srun has ended.
pub(in crate::execute) fn untraced(role: Role, processes: &[ProcessObservation], scratch: &Path) -> Option<String> {
    let srun = processes.iter().find(|process| process.role == Role::Srun)?;
    Some(format!(
        "{role} was not started, or its machine does not share {} with this one: set TMPDIR to a directory that all machines share; \
         srun {}; {}",
        scratch.display(),
        srun.exit.clause(),
        last_words(&end_of(&srun.stderr))
    ))
}

/// The last lines that srun wrote, as the end of a sentence.
pub fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match &lines[lines.len().saturating_sub(LINES)..] {
        [] => "it said nothing".to_owned(),
        last => format!("it said: {}", last.join("; ")),
    }
}

/// Whether the line shows that Slurm or an administrator ended the step.
fn ends_the_step(line: &str) -> bool {
    let ours = line.starts_with("slurmstepd") || line.starts_with("srun:");
    let cancelled = line.contains("CANCELLED AT");
    ours && (cancelled || line.contains("Node failure") || line.contains("NODE FAILURE"))
}

fn end_of(stream: &Captured) -> String {
    let bytes = if stream.truncated { &stream.tail } else { &stream.head };
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(END)..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(role: Role, exit: Exit, stderr: &str) -> ProcessObservation {
        let stderr = Captured { head: stderr.into(), bytes: stderr.len() as u64, ..Captured::default() };
        ProcessObservation { role, exit, stdout: Captured::default(), stderr }
    }

    #[test]
    fn slurms_own_words_are_passed_on() {
        // As Slurm 22.05 words it.
        let partition = "srun: error: invalid partition specified: nope\nsrun: error: Unable to allocate resources: Invalid partition name specified\n";
        let no_partition = [process(Role::Srun, Exit::Code(1), partition)];
        let said = why(&no_partition, false).unwrap();
        assert!(said.contains("srun ended with code 1") && said.contains("Invalid partition name specified"), "{said}");
        let silent = [process(Role::Srun, Exit::Signal(9), "")];
        assert_eq!(why(&silent, false).unwrap(), "Slurm started no rank; srun was ended by SIGKILL; it said nothing");
    }

    #[test]
    fn a_step_that_slurm_ends_is_told_from_ranks_that_fail() {
        let limit = "slurmstepd-n0: error: *** STEP 8.0 ON n0 CANCELLED AT 2026-11-23T04:03:53 DUE TO TIME LIMIT ***\n";
        let ended = [
            process(Role::Rank(0), Exit::Signal(9), limit),
            process(Role::Srun, Exit::Signal(9), "srun: error: n1: task 1: Killed\n"),
        ];
        assert!(why(&ended, true).unwrap().contains("DUE TO TIME LIMIT"));
        let failed = [
            process(Role::Rank(0), Exit::Code(7), "CANCELLED AT dawn\n"),
            process(Role::Srun, Exit::Code(7), "srun: error: n1: task 0: Exited with exit code 7\n"),
        ];
        assert_eq!(why(&failed, true), None);
        let untraced = untraced(Role::Rank(2), &failed, Path::new("/tmp/x")).unwrap();
        assert!(untraced.starts_with("rank 2 was not started, or its machine does not share /tmp/x"), "{untraced}");
        assert!(untraced.contains("srun ended with code 7; it said: srun: error: n1: task 0"), "{untraced}");
        let refused = [process(Role::Rank(1), Exit::NotStarted("not found".into()), "")];
        assert_eq!(refusal(&refused).unwrap(), "rank 1: not found");
    }
}
