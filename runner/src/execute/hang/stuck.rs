//! Ranks that wait without NCCL (for a gloo peer, a key of a store, a socket, a lock, a file): where each is, what it waits for, and
//! who has left.

use std::path::Path;

use protocol::ids::{Rank, names};

use super::awaited::{self, Holders};
use super::native_state;
use super::python_stack::{frames, is_the_users, last};
use crate::check::exit;
use crate::execute::process_tree::Running;
use crate::execute::process_tree::sweep::Process;
use crate::observation::{Hang, ProcessObservation, Role};

/// The longest line of a program that is shown, characters.
const LONGEST: usize = 120;

/// The ranks among the processes of a case; of a case without ranks, the process that the runner started. Children of theirs,
/// which have the same rank, are left out.
pub(in crate::execute) fn ranks(processes: &[Process], started: &[Running]) -> Vec<(Role, Process)> {
    let rank_of = |pid: i32| processes.iter().find(|process| process.pid == pid).and_then(|process| process.rank);
    let own = processes.iter().filter(|process| process.rank.is_some() && rank_of(process.parent) != process.rank);
    let mut ranks: Vec<(Role, Process)> =
        own.filter_map(|process| Some((Role::Rank(process.rank?), process.clone()))).collect();
    if ranks.is_empty() {
        let running =
            |process: &Process| started.iter().find(|running| running.exit.is_none() && running.pid == process.pid);
        ranks = processes.iter().filter_map(|process| Some((running(process)?.role, process.clone()))).collect();
    }
    ranks.sort_by_key(|(role, _)| *role);
    ranks
}

/// What each rank waits for, one sentence for all that wait for the same; then those that have left, of `size` in all.
pub(in crate::execute) fn sentences(processes: &[Process], started: &[Running], size: Option<u32>) -> Vec<String> {
    let ranks = ranks(processes, started);
    let name = |process: &Process| {
        let role = ranks.iter().find(|(_, rank)| rank.pid == process.pid).map(|(role, _)| role.to_string());
        role.or_else(|| {
            started.iter().find(|running| running.pid == process.pid).map(|running| running.role.to_string())
        })
        .unwrap_or_else(|| process.describe())
    };
    let named: Vec<(String, i32)> = processes.iter().map(|process| (name(process), process.pid)).collect();
    let holders = Holders::from_processes(&named);
    let mut groups: Vec<(String, Vec<Role>)> = Vec::new();
    for (role, process) in &ranks {
        let does = does(process, &role.to_string(), &holders);
        match groups.iter_mut().find(|(known, _)| *known == does) {
            Some((_, roles)) => roles.push(*role),
            None => groups.push((does, vec![*role])),
        }
    }
    let mut sentences: Vec<String> =
        groups.into_iter().map(|(does, roles)| format!("{} {does}", who(&roles))).collect();
    let is_here = |rank: u32| ranks.iter().any(|(role, _)| *role == Role::Rank(rank));
    for rank in (0..size.unwrap_or(0)).filter(|rank| !is_here(*rank)) {
        let exit =
            started.iter().find(|running| running.role == Role::Rank(rank)).and_then(|running| running.exit.as_ref());
        let how = exit.map(|exit| format!(": {}", exit::describe(exit))).unwrap_or_default();
        sentences.push(format!("rank {rank} has ended{how}"));
    }
    sentences
}

/// What a process is doing, to follow its name, in words that fit one and several.
fn does(process: &Process, name: &str, holders: &Holders) -> String {
    if process.is_stopped() {
        return "stopped by a signal".to_owned();
    }
    match (native_state::main_call(process.pid), awaited::describe(process, name, holders)) {
        (Some(call), Some(what)) => format!("in {call}, waiting for {what}"),
        (Some(call), None) => format!("in {call}"),
        (None, _) => "running".to_owned(),
    }
}

fn who(roles: &[Role]) -> String {
    let ranks: Vec<Rank> =
        roles.iter().filter_map(|role| if let Role::Rank(rank) = role { Some(Rank(*rank)) } else { None }).collect();
    match roles {
        [one] if ranks.is_empty() => format!("{one} is"),
        _ if ranks.len() == 1 => format!("rank {} is", ranks[0]),
        _ => format!("{} are", names("rank", "ranks", &ranks)),
    }
}

/// The hang of processes that do nothing anymore.
pub(in crate::execute) fn hang(sentences: &[String], details: Vec<String>) -> Hang {
    let sentence = format!("no process does anything, and none waits in NCCL: {}", sentences.join("; "));
    Hang { idle: true, sentence, details, ..Hang::default() }
}

/// Where in their programs the processes were that did not end by themselves, by the stack that Python prints when it is ended; one
/// line for all at the same place.
pub(in crate::execute) fn places(processes: &[ProcessObservation], unfinished: &[Role]) -> Vec<String> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut groups: Vec<(String, Vec<Role>)> = Vec::new();
    let stopped = processes.iter().filter(|process| unfinished.contains(&process.role));
    for process in stopped.filter(|process| process.role != Role::Coordinator) {
        let Some(place) = place(&last(&process.stderr), &here) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == place) {
            Some((_, roles)) => roles.push(process.role),
            None => groups.push((place, vec![process.role])),
        }
    }
    // torchrun's own stack says nothing where those of its workers are known.
    let has_ranks = groups.iter().any(|(_, roles)| matches!(roles[0], Role::Rank(_)));
    groups.retain(|(_, roles)| !has_ranks || matches!(roles[0], Role::Rank(_)));
    groups.into_iter().map(|(place, roles)| format!("{} at {place}", who(&roles))).collect()
}

/// "train.py:13 (validate), in barrier: `dist.barrier()`": the innermost line that is the user's in the last stack of `stderr`, and
/// the function of a library in which it waits. Files below `here` are named relative to it.
fn place(stderr: &str, here: &Path) -> Option<String> {
    let frames = frames(stderr)?;
    let own = frames.iter().find(|frame| is_the_users(frame)).or(frames.first())?;
    let source = std::fs::read_to_string(&own.file).ok();
    let line = source.as_ref().and_then(|text| text.lines().nth((own.line as usize).checked_sub(1)?)).map(str::trim);
    let line: String = line.unwrap_or_default().chars().take(LONGEST).collect();
    let callee = frames.first().filter(|place| *place != own);
    let file = own.below(&here.to_string_lossy()).unwrap_or_else(|| own.file.clone());
    let mut place = format!("{file}:{} ({})", own.line, own.function);
    if let Some(callee) = callee {
        place.push_str(&format!(", in {}", callee.function));
    }
    if !line.is_empty() {
        place.push_str(&format!(": `{line}`"));
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Captured, Exit};

    fn stack(file: &str) -> String {
        format!(
            "step 1\nFatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n  File \"/w/other.py\", line 1 in f\n\n\
             Current thread 0x00007f8a (most recent call first):\n  File \"/v/lib/python3.12/site-packages/torch/distributed/x.py\", \
             line 9 in barrier\n  File \"{file}\", line 2 in train\n  File \"{file}\", line 34 in <module>\n\nExtension modules: x\n"
        )
    }

    #[test]
    fn processes_at_one_place_are_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("train.py");
        std::fs::write(&file, "def train():\n    dist.barrier()\n").unwrap();
        let text = stack(&file.display().to_string());
        let process = |role, text: &str| ProcessObservation {
            role,
            exit: Exit::Unknown,
            stdout: Captured::default(),
            stderr: Captured { head: text.into(), ..Captured::default() },
        };
        let unfinished = vec![Role::Rank(0), Role::Rank(1), Role::Rank(2), Role::Launcher(0)];
        let processes = vec![
            process(Role::Rank(0), &text),
            process(Role::Rank(1), &text),
            process(Role::Rank(2), "Fatal Python error: Aborted\n"),
            process(Role::Rank(3), &text),
            process(Role::Launcher(0), &text),
        ];
        let place = format!("ranks 0 and 1 are at {}:2 (train), in barrier: `dist.barrier()`", file.display());
        assert_eq!(places(&processes, &unfinished), [place]);
        assert_eq!(super::place(&text, directory.path()).unwrap(), "train.py:2 (train), in barrier: `dist.barrier()`");
        assert_eq!(
            super::place("Current thread 0x1 (most recent call first):\n  <no Python frame>\n", Path::new("/")),
            None
        );
    }
}
