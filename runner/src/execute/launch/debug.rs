//! Debugging one rank: it stops and waits for a debugger before its program starts, or runs under one.

use std::ffi::OsString;
use std::time::Duration;

use super::no_capture;
use super::torchrun;
use crate::case::{Case, Launch};
use crate::execute::process_tree::ProcessPlan;
use crate::execute::process_tree::show::Streams;
use crate::observation::Role;

/// Practically never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Stops rank `$1` and prints how to attach to it; every other rank goes on. The remaining words are the command to
/// execute.
const WAIT: &str = r#"
if [ "${RANK-0}" = "$1" ]; then
    [ -t 0 ] && exec >&0 2>&0
    echo "ftest: rank $1 waits, stopped, as process $$" >&2
    echo "ftest:   attach:  gdb -p $$ -ex 'handle SIGSTOP nostop nopass' -ex 'catch exec' -ex continue" >&2
    echo "ftest:   go on:   kill -CONT $$" >&2
    echo "ftest:   Python:  breakpoint() in the script, then go on: standard input is this rank's" >&2
    kill -STOP $$
fi
shift
exec "$@"
"#;
/// The first `$2` words that follow are for rank `$1`, the rest for every other rank.
const EITHER: &str = r#"
rank=$1 count=$2
shift 2
if [ "${RANK-0}" = "$rank" ]; then
    [ -t 0 ] && exec >&0 2>&0
    others=$(($# - count))
    while [ "$count" -gt 0 ]; do
        set -- "$@" "$1"
        shift
        count=$((count - 1))
    done
    shift "$others"
else
    shift "$count"
fi
exec "$@"
"#;

/// Which rank, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugRank {
    /// The global rank; 0 is the one process of a case without ranks.
    pub rank: u32,
    /// Words put before its program; if empty, it waits for a debugger to attach.
    pub debugger: Vec<String>,
}

impl DebugRank {
    /// Removes deadlines and retries from `case`.
    pub fn prepare(case: &mut Case) {
        case.timeout.kill = NEVER;
        case.timeout.slow = NEVER;
        case.timeout.idle = None;
        case.retries = None;
        // The other ranks wait in collectives until their own timeouts.
        let patience = protocol::env::COORDINATOR_TIMEOUT_MS.name;
        case.env.entry(patience.to_owned()).or_insert_with(|| i32::MAX.to_string());
    }

    /// Makes the rank's process accessible to the user.
    pub fn apply(&self, case: &Case, planned: &mut [ProcessPlan]) {
        for process in planned {
            match (&case.launch, process.role) {
                (Launch::Torchrun { nproc_per_node, args, .. }, Role::Launcher(node)) => {
                    let here = self.rank / nproc_per_node == node;
                    self.torchrun(case, args.len(), process, here);
                }
                (_, Role::Rank(rank)) if rank == self.rank => self.alone(process),
                (_, Role::Launcher(0)) => self.alone(process),
                _ => {}
            }
        }
    }

    fn alone(&self, process: &mut ProcessPlan) {
        let program = std::mem::take(&mut process.argv);
        if self.debugger.is_empty() {
            process.argv = shell(WAIT, [self.rank.to_string()]).chain(program).collect();
            process.streams = Streams::Interactive;
        } else {
            process.argv = self.below(program);
            process.streams = Streams::Inherited { stdout: true };
        }
    }

    /// torchrun starts the workers: each becomes a shell that checks whether it is the rank to debug.
    fn torchrun(&self, case: &Case, arguments: usize, process: &mut ProcessPlan, here: bool) {
        if !here {
            return;
        }
        no_capture::tee(case, arguments, process);
        let end = torchrun::end_of_options(&process.argv, arguments);
        let mut script = process.argv.split_off(end);
        script.remove(0);
        // The way torchrun itself starts a script.
        let python = process.argv.first().cloned().unwrap_or_default();
        script.splice(0..0, [python, "-u".into()]);
        process.argv.extend(["--no-python", torchrun::END].map(OsString::from));
        let rank = self.rank.to_string();
        if self.debugger.is_empty() {
            // torchrun reads its arguments as templates, in which `$$` means `$`.
            process.argv.extend(shell(&WAIT.replace("$$", "$$$$"), [rank]).chain(script));
        } else {
            let below = self.below(script.clone());
            process.argv.extend(shell(EITHER, [rank, below.len().to_string()]));
            process.argv.extend(below.into_iter().chain(script));
        }
        process.streams = Streams::Interactive;
    }

    /// `program` run under the debugger. `pdb` is a module of the program's own interpreter.
    fn below(&self, program: Vec<OsString>) -> Vec<OsString> {
        let debugger = self.debugger.iter().map(OsString::from);
        if self.debugger == ["pdb"] {
            let mut program = program.into_iter();
            let interpreter = program.next().unwrap_or_default();
            let options = ["-m".into(), "pdb".into()];
            return [interpreter].into_iter().chain(options).chain(program.filter(|word| word != "-u")).collect();
        }
        debugger.chain(program).collect()
    }
}

fn shell<const N: usize>(script: &str, arguments: [String; N]) -> impl Iterator<Item = OsString> + use<N> {
    let head = ["sh", "-c", script, "ftest-debug"].map(OsString::from);
    head.into_iter().chain(arguments.map(OsString::from))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::execute::launch::environment::Environment;
    use crate::execute::process_tree::Texts;
    use crate::execute::process_tree::inherit::UmaskOf;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    fn below(debugger: &str, program: &[&str]) -> Vec<OsString> {
        let debugger = debugger.split_whitespace().map(str::to_owned).collect();
        DebugRank { rank: 0, debugger }.below(words(program))
    }

    #[test]
    fn a_debugger_precedes_the_program_and_pdb_runs_within() {
        assert_eq!(below("gdb --args", &["./a", "x"]), words(&["gdb", "--args", "./a", "x"]));
        assert_eq!(below("pdb", &["python3", "-u", "t.py", "x"]), words(&["python3", "-m", "pdb", "t.py", "x"]));
    }

    #[test]
    fn one_rank_gets_the_first_words_and_every_other_the_rest() {
        let argv: Vec<OsString> = shell(EITHER, ["1".into(), "3".into()])
            .chain(words(&["echo", "first", "three", "echo", "all the", "rest", "of it"]))
            .collect();
        for (rank, expected) in [("1", "first three\n"), ("0", "all the rest of it\n")] {
            let mut command = std::process::Command::new(&argv[0]);
            let output = command.args(&argv[1..]).env("RANK", rank).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        }
    }

    #[test]
    fn torchrun_starts_shells_instead_of_the_script() {
        let text = "ftest: 1\nsuite: s\ncases: [{id: a, launch: {torchrun: {nproc_per_node: 2, script: t.py, args: [x, y]}}}]\n";
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("t.py"), "").unwrap();
        let suite = crate::suite::parse(&PathBuf::from("s.yaml"), text, directory.path()).unwrap();
        let mut planned = [ProcessPlan {
            role: Role::Launcher(0),
            argv: words(&["py", "-m", "torch.distributed.run", "--redirects=3", "--", "t.py", "x", "y"]),
            environment: Environment::new(),
            directory: PathBuf::new(),
            lifeline: false,
            at_our_death: None,
            streams: Streams::default(),
            umask: UmaskOf::Case,
            network: None,
            texts: Texts::default(),
        }];
        DebugRank { rank: 1, debugger: Vec::new() }.apply(&suite.cases[0], &mut planned);
        let argv = &planned[0].argv;
        assert_eq!(argv[3..8], words(&["--redirects=3", "--tee=3", "--no-python", "--", "sh"]));
        assert!(argv[9].to_string_lossy().contains("kill -STOP $$$$"));
        assert_eq!(argv[10..], words(&["ftest-debug", "1", "py", "-u", "t.py", "x", "y"]));
        assert!(matches!(planned[0].streams, Streams::Interactive));
    }
}
