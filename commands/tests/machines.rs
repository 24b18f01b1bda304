//! Runs on several machines, from outside: who cannot join, what does not fit, and what is left when one end is killed. Here both ends
//! are on this machine; the suite `machines` has them apart.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::program;
use crate::waiting::until;

const TOKEN: &str = "sixteen letters or more";
const SLEEPERS: &str = "echo $$ > new.$RANK; mv new.$RANK rank.$RANK; exec sleep 987";

fn write(place: &Path, more: &str, script: &str) {
    let suite = format!(
        "ftest: 1\nsuite: s\ncases:\n- id: a\n  cluster: {{ nodes: 2, gpus_per_node: 1, profile: a100 }}\n  {more}\n  \
         launch: {{ argv: [bash, -c, \"{script}\"], ranks: 2 }}\n"
    );
    fs::write(place.join("s.yaml"), suite).unwrap();
}

fn in_place(mut command: Command, place: &Path, token: &str) -> Command {
    command.current_dir(place).env("TMPDIR", place).env("NO_COLOR", "1").env("FTEST_AGENT_TOKEN", token);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// An ftest that waits for a machine.
struct Run {
    child: Child,
    errors: BufReader<ChildStderr>,
    address: String,
}

impl Run {
    fn start(place: &Path) -> Run {
        let mut command = in_place(program::ftest(), place, TOKEN);
        let mut child = command
            .args(["run", "s.yaml", "--machines", "1", "--listen", "127.0.0.1:0", "-j1", "--no-fail-fast"])
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        let (said, address) = line.trim().rsplit_once(' ').unwrap();
        assert!(said.starts_with("ftest: waiting for 1 machine for up to 600 s") && said.ends_with("--join"), "{line}");
        Run { child, errors, address: address.to_owned() }
    }

    fn agent(&self, place: &Path, token: &str) -> Child {
        let mut command = in_place(program::ftest(), place, token);
        command.args(["agent", "--join", &self.address]).spawn().unwrap()
    }

    /// Its exit code, and what it printed.
    fn finish(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        self.errors.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The processes of both ranks, once they run.
fn ranks(place: &Path) -> [i32; 2] {
    let number = |rank: u32| fs::read_to_string(place.join(format!("rank.{rank}"))).ok()?.trim().parse::<i32>().ok();
    until("both ranks run", || Some([number(0)?, number(1)?]))
}

fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ")
}

fn kill(child: &Child) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::KILL).unwrap();
}

/// The directories of runs in `place`.
fn left(place: &Path) -> Vec<String> {
    let names = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("ft-")).collect()
}

#[test]
fn ranks_run_on_the_machine_of_their_node_and_what_they_write_and_leave_comes_back() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    // Each has the directory of its machine, and the token is not among its variables.
    let script = "echo $RANK node $FTEST_NODE; echo at $FTEST_SCRATCH; echo [${FTEST_AGENT_TOKEN-none}]; echo e$RANK >&2; exit $((RANK * 7))";
    let expected = "expect: { exit: { all: 0, rank: { 1: 7 } }, stderr: [{ rank: 1, contains: e1 }, { rank: 0, contains: e0 }], \
                    stdout: [{ rank: all, contains: '[none]' }, { rank: 1, contains: 1 node 1 }, { rank: 0, contains: 0 node 0 }] }";
    write(place.path(), expected, script);
    let run = Run::start(place.path());
    let agent = run.agent(place.path(), TOKEN);
    let (code, printed) = run.finish();
    assert_eq!(code, Some(0), "{printed}");
    let output = agent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output).contains("this is machine 1 of the run at 127.0.0.1:"), "{output:?}");
    assert_eq!(left(place.path()), [""; 0]);
}

#[test]
fn who_has_another_token_or_none_does_not_join() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "coordinator: false", "exit 0");
    let run = Run::start(place.path());
    let other = run.agent(place.path(), "another word of sixteen").wait_with_output().unwrap();
    assert_eq!(other.status.code(), Some(3));
    assert!(
        text(&other).contains("has a different token; FTEST_AGENT_TOKEN must be the same here and there"),
        "{other:?}"
    );
    let none = run.agent(place.path(), "").wait_with_output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none).contains("FTEST_AGENT_TOKEN is not set: the machines of a run share a secret"), "{none:?}");
    let short = run.agent(place.path(), "short").wait_with_output().unwrap();
    assert!(text(&short).contains("FTEST_AGENT_TOKEN has 5 bytes; use 16 to 1024"), "{short:?}");
    // The run goes on waiting.
    let agent = run.agent(place.path(), TOKEN);
    let (code, printed) = run.finish();
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("127.0.0.1 did not join: it is not an agent with this run's token"), "{printed}");
    assert_eq!(agent.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
fn a_run_does_not_wait_forever_and_says_who_is_missing() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "coordinator: false", "exit 0");
    let mut command = in_place(program::ftest(), place.path(), TOKEN);
    command.args(["run", "s.yaml", "--machines", "2", "--listen", "127.0.0.1:0", "--global-timeout", "1s"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output).contains("--machines: 0 of 2 machines joined within 1 s"), "{output:?}");
    let mut nobody = in_place(program::ftest(), place.path(), TOKEN);
    let output = nobody.args(["agent", "--join", "127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output).contains("start `ftest run ... --listen 127.0.0.1:1 --machines N` first"), "{output:?}");
}

#[test]
fn what_does_not_fit_is_refused_before_anybody_is_waited_for() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "network: {}", "exit 0");
    let mut command = in_place(program::ftest(), place.path(), TOKEN);
    let output = command.args(["run", "s.yaml", "--machines", "1", "--listen", "127.0.0.1:0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        text(&output).contains("s.yaml:4:7: case s/a: `network` simulates the links between its nodes"),
        "{output:?}"
    );
}

#[test]
fn a_killed_agent_is_named_and_leaves_nothing() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "coordinator: false\n  matrix: { axes: { n: [1, 2] } }", SLEEPERS);
    let run = Run::start(place.path());
    let mut agent = run.agent(place.path(), TOKEN);
    let ranks = ranks(place.path());
    kill(&agent);
    agent.wait().unwrap();
    let (code, printed) = run.finish();
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("node1 was lost with its machine, ") && printed.contains(" (127.0.0.1): "), "{printed}");
    // The next case cannot run.
    assert!(printed.contains("2 cases: 2 broken") && printed.contains("node1 cannot run on "), "{printed}");
    until("nothing is left", || (ranks.iter().all(|pid| is_gone(*pid)) && left(place.path()).is_empty()).then_some(()));
}

#[test]
fn of_a_rank_whose_agent_is_lost_before_it_answers_nobody_says_that_it_never_started() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    // The agent stands still when it is told to start its rank.
    fs::write(
        place.path().join("s.yaml"),
        "ftest: 1\nsuite: s\nfixtures:\n  still: { setup: { argv: [sh, -c, 'until kill -STOP $(cat agent); do sleep 0.01; done'] } }\n\
         cases:\n- id: a\n  cluster: { nodes: 2, gpus_per_node: 1, profile: a100 }\n  coordinator: false\n  uses: [still]\n  \
         launch: { argv: [sh, -c, 'echo > rank.$RANK; exec sleep 987'], ranks: 2 }\n",
    )
    .unwrap();
    let run = Run::start(place.path());
    let mut agent = run.agent(place.path(), TOKEN);
    fs::write(place.path().join("agent"), agent.id().to_string()).unwrap();
    until("rank 0 runs", || place.path().join("rank.0").exists().then_some(()));
    kill(&agent);
    agent.wait().unwrap();
    let (code, printed) = run.finish();
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("got:      node1 was lost with its machine, "), "{printed}");
    assert!(!printed.contains("never started"), "{printed}");
}

#[test]
fn when_ftest_is_killed_its_agent_leaves_nothing() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "coordinator: false", SLEEPERS);
    let mut run = Run::start(place.path());
    let agent = run.agent(place.path(), TOKEN);
    let ranks = ranks(place.path());
    kill(&run.child);
    run.child.wait().unwrap();
    let output = agent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(text(&output).contains(" is lost: "), "{output:?}");
    until("nothing is left", || (ranks.iter().all(|pid| is_gone(*pid)) && left(place.path()).is_empty()).then_some(()));
}

#[test]
fn ctrl_c_ends_a_case_on_all_machines() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    write(place.path(), "coordinator: false", SLEEPERS);
    let run = Run::start(place.path());
    let agent = run.agent(place.path(), TOKEN);
    let ranks = ranks(place.path());
    kill_process(Pid::from_raw(run.child.id() as i32).unwrap(), Signal::INT).unwrap();
    let (code, printed) = run.finish();
    assert_eq!(code, Some(130), "{printed}");
    assert_eq!(agent.wait_with_output().unwrap().status.code(), Some(0));
    assert!(ranks.iter().all(|pid| is_gone(*pid)) && left(place.path()).is_empty());
}
