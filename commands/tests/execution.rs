//! Execution against programs that misbehave: real processes, every wait bounded.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use runner::case::{Case, Kill, KillTarget, Launch, Timeout};
use runner::execute::process_tree::cookie::{Cookie, random_word};
use runner::execute::process_tree::sweep::{Process, Sweep};
use runner::execute::{Cancel, RunContext, run_case};
use runner::host::install::Install;
use runner::observation::{Exit, Observation, Role};
use runner::source::SourceLocation;

use crate::program;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn case(argv: &[&str], ranks: Option<u32>) -> Case {
    Case {
        id: "case".into(),
        suite: "suite".into(),
        timeout: Timeout { slow: PATIENCE, kill: PATIENCE, grace: Duration::from_millis(300), ..Timeout::default() },
        launch: Launch::Argv { argv: argv.iter().map(|word| (*word).to_owned()).collect(), ranks },
        dir: PathBuf::from("/"),
        cwd: PathBuf::from("/"),
        ..Case::default()
    }
}

fn shell(script: &str) -> Case {
    case(&["sh", "-c", script], None)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn context(cancel: &Cancel) -> RunContext {
    let install = Install::around(None, Path::new(env!("CARGO_BIN_EXE_ftest")));
    RunContext::start(install, cancel.clone(), Arc::new(|_| {})).unwrap()
}

/// Runs one case to its end and checks that nothing is left of it.
fn observe(case: &Case) -> Observation {
    runtime().block_on(async {
        let context = context(&Cancel::new());
        let observation = tokio::time::timeout(PATIENCE, run_case(case, &context)).await.expect("a case ends");
        context.discard(&observation);
        assert!(!observation.scratch.exists());
        observation
    })
}

fn launcher(observation: &Observation) -> (&Exit, String, String) {
    let process = observation.process(Role::Launcher(0)).expect("the plain process is observed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (&process.exit, text(&process.stdout.head), text(&process.stderr.head))
}

#[test]
fn a_plain_process_is_seen_as_it_was() {
    let observation = observe(&shell("echo out; echo err >&2; cat; exit 3"));
    assert_eq!(launcher(&observation), (&Exit::Code(3), "out\n".to_owned(), "err\n".to_owned()));
    assert_eq!((observation.execution.infra_error(), &observation.leaked[..]), (None, &[][..]));
}

#[test]
fn ranks_know_their_seats_and_share_a_directory() {
    let script =
        "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR; touch $FTEST_SCRATCH/$RANK; exit $RANK";
    let observation = observe(&case(&["sh", "-c", script], Some(3)));
    let seen: Vec<_> = observation
        .ranks()
        .map(|(rank, process)| (rank, process.exit.clone(), String::from_utf8_lossy(&process.stdout.head).into_owned()))
        .collect();
    let expected: Vec<_> =
        (0..3).map(|rank| (rank, Exit::Code(rank as i32), format!("{rank}/3 {rank}/3 127.0.0.1\n"))).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_signal_is_distinguished_from_a_code() {
    assert_eq!(launcher(&observe(&shell("kill -SEGV $$"))).0, &Exit::Signal(11));
}

#[test]
fn more_output_than_a_pipe_holds_does_not_block() {
    let script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; echo end";
    let observation = observe(&shell(script));
    let process = observation.process(Role::Launcher(0)).unwrap();
    assert_eq!((&process.exit, process.stdout.bytes, process.stderr.bytes), (&Exit::Code(0), 3_000_004, 3_000_000));
    assert!(process.stdout.truncated && process.stdout.tail.ends_with(b"\0end\n"));
}

#[test]
fn a_missing_program_is_reported_at_once() {
    let started = Instant::now();
    let observation = observe(&case(&["no-such-program-anywhere"], Some(2)));
    assert!(started.elapsed() < Duration::from_secs(10));
    let error = observation.execution.infra_error().unwrap();
    assert!(error.contains("rank 0: no-such-program-anywhere: not found in PATH="), "{error}");
}

#[test]
fn a_panic_leaves_no_process_and_does_not_wait_for_one() {
    let (sender, started) = mpsc::channel();
    let panicked = std::thread::spawn(move || {
        let context = context(&Cancel::new());
        let mut command = std::process::Command::new("sleep");
        command.arg("1000").env("FTEST_CASE_COOKIE", context.cookie().to_string());
        sender.send((context.cookie().clone(), command.spawn().unwrap())).unwrap();
        panic!("a bug of ours");
    });
    assert!(panicked.join().is_err());
    let (mark, mut child) = started.recv().unwrap();
    let left = runtime().block_on(async {
        let mut sweep = Sweep::new(mark);
        sweep.awaited.insert(child.id() as i32);
        sweep.wait(sweep.find(), runner::execute::run::clock::Instant::now() + PATIENCE).await
    });
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(left, Vec::new());
}

#[test]
fn a_daemon_that_left_its_session_and_its_parent_is_found() {
    // The middle shell ends, so the daemon belongs to nobody; it also holds no stream.
    let script = "setsid sh -c '(sleep 1000 </dev/null >/dev/null 2>&1 &)'; exit 0";
    let observation = observe(&shell(script));
    assert_eq!(launcher(&observation).0, &Exit::Code(0));
    assert!(observation.leaked.iter().any(|leak| leak.contains("sleep (pid ")), "{:?}", observation.leaked);
}

#[test]
fn a_held_stream_does_not_hold_the_case() {
    let started = Instant::now();
    let observation = observe(&shell("sleep 1000 & echo done"));
    assert!(started.elapsed() < Duration::from_secs(20));
    assert_eq!(launcher(&observation).1, "done\n");
    assert!(observation.leaked.iter().any(|leak| leak.contains("sleep")), "{:?}", observation.leaked);
}

#[test]
fn a_helper_that_ends_by_itself_is_no_leak() {
    let observation = observe(&shell("sleep 0.1 & exit 0"));
    assert_eq!(observation.leaked, Vec::<String>::new());
}

#[test]
fn the_deadline_ends_a_program_that_ignores_sigterm() {
    let mut case = shell("trap '' TERM; echo waiting; while :; do sleep 1000; done");
    case.timeout.kill = Duration::from_millis(300);
    let started = Instant::now();
    let observation = observe(&case);
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(observation.execution.is_timeout() && observation.leaked.is_empty());
    assert_eq!(launcher(&observation).0, &Exit::Signal(9));
}

#[test]
fn the_grace_lets_a_program_end_in_order() {
    let mut case = shell("trap 'echo bye; exit 0' TERM; echo waiting; while :; do sleep 0.05; done");
    case.timeout.kill = Duration::from_millis(500);
    case.timeout.grace = Duration::from_secs(20);
    let observation = observe(&case);
    assert!(observation.execution.is_timeout());
    let (exit, stdout, _) = launcher(&observation);
    assert_eq!((exit, stdout.as_str()), (&Exit::Code(0), "waiting\nbye\n"));
}

#[test]
fn a_stopped_program_is_ended_too() {
    let mut case = shell("kill -STOP $$");
    case.timeout.kill = Duration::from_millis(300);
    let observation = observe(&case);
    assert!(observation.execution.is_timeout());
    let ran = observation.execution.ran().unwrap();
    assert_eq!((&ran.unfinished, &ran.stopped), (&vec![Role::Launcher(0)], &vec![Role::Launcher(0)]));
    assert!(matches!(launcher(&observation).0, Exit::Signal(_)), "{:?}", launcher(&observation).0);
}

#[test]
fn the_wish_to_stop_ends_a_case() {
    let observation = runtime().block_on(async {
        let cancel = Cancel::new();
        let context = context(&cancel);
        let case = shell("sleep 1000");
        let stop = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            cancel.raise();
        };
        let run = tokio::time::timeout(PATIENCE, run_case(&case, &context));
        let (observation, ()) = tokio::join!(run, stop);
        let observation = observation.expect("a cancelled case ends");
        context.discard(&observation);
        observation
    });
    assert!(observation.execution.is_interrupted());
    assert_eq!(launcher(&observation).0, &Exit::Signal(15));
}

#[test]
fn a_rank_is_killed_when_it_says_the_word() {
    let mut case = case(&["sh", "-c", "echo rank $RANK ready; [ $RANK = 0 ] || exec sleep 1000"], Some(2));
    let kill = |rank: u32, output: &str| Kill {
        target: KillTarget::Rank(rank),
        signal: 9,
        watch: rank,
        output: regex::bytes::Regex::new(output).unwrap(),
        place: SourceLocation::default(),
    };
    case.kill = vec![kill(1, "^rank 1 ready$"), kill(0, "never said")];
    let observation = observe(&case);
    let exits: Vec<_> = observation.ranks().map(|(_, process)| process.exit.clone()).collect();
    assert_eq!(exits, [Exit::Code(0), Exit::Signal(9)]);
    assert!(observation.notes[0].contains("signal 9 sent to"), "{:?}", observation.notes);
    assert_eq!(observation.execution.ran().unwrap().missed.kills.len(), 1);
}

/// `ftest run` on a suite whose one case has two ranks, which write a line to a pipe and then stay, with helpers outside their
/// session.
struct Started {
    child: Child,
    everything: Sweep,
    temporary: tempfile::TempDir,
}

impl Started {
    fn new() -> Started {
        let temporary = tempfile::tempdir_in("/tmp").unwrap();
        let fifo = temporary.path().join("ready");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let suite = temporary.path().join("stay.yaml");
        let script = format!(
            "(setsid sleep 1000 &) ; trap '' TERM HUP; sleep 1000 & echo ready > {}; sleep 1000",
            fifo.display()
        );
        let text = format!(
            "ftest: 1\nsuite: stay\ncases:\n  - id: stay\n    timeout: {{ slow: 100s, kill: 200s, grace: 500ms }}\n    launch: {{ argv: [sh, -c, {script:?}], ranks: 2 }}\n"
        );
        std::fs::write(&suite, text).unwrap();
        let outer = random_word();
        let mut command = program::ftest();
        command.arg("run").arg(&suite).env("TMPDIR", temporary.path()).env("FTEST_CASE_COOKIE", &outer);
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        // A writer of its own: the pipe has no end between the two ranks.
        let fifo = File::options().read(true).write(true).open(fifo).unwrap();
        std::thread::spawn(move || {
            let lines = BufReader::new(fifo).lines();
            lines.map_while(Result::ok).for_each(|line| drop(sender.send(line)));
        });
        for rank in 0..2 {
            assert_eq!(lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("rank {rank} starts")), "ready");
        }
        Started { child, everything: Sweep::new(Cookie::from_text(outer)), temporary }
    }

    /// Waits until the processes of `before` are gone, for at most 5 s; then nothing of the run is left.
    fn assert_nothing_is_left(&self, before: Vec<Process>) {
        runtime().block_on(async {
            let deadline = runner::execute::run::clock::Instant::now() + Duration::from_secs(5);
            let left = self.everything.wait(before, deadline).await;
            assert!(left.is_empty(), "still there: {left:?}");
        });
        assert_eq!(self.everything.find(), Vec::new());
        let left: Vec<_> = std::fs::read_dir(self.temporary.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("ft-"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
    }
}

#[test]
fn killing_ftest_leaves_no_process_and_no_directory() {
    let mut started = Started::new();
    // With the guard: it is ftest's child although it does not carry the mark.
    let before = started.everything.find();
    assert!(before.len() >= 6, "ftest, guard, two shells and their helpers: {before:?}");
    started.child.kill().unwrap();
    started.child.wait().unwrap();
    started.assert_nothing_is_left(before);
}

#[test]
fn ctrl_c_ends_a_run_in_order() {
    let mut started = Started::new();
    let pid = rustix::process::Pid::from_child(&started.child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let status = started.child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert_eq!(started.everything.find(), Vec::new());
}
