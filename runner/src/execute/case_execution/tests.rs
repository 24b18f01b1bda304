use std::ffi::OsString;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use protocol::announcement::Announcement;
use protocol::frame;
use protocol::message::{ToCoordinator, ToRank, VERSION};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::prepare::Needs;
use super::watch::Running;
use super::*;
use crate::case::{Kill, KillTarget, Launch, Timeout};
use crate::execute::Cancel;
use crate::execute::launch::environment::Environment;
use crate::execute::process_tree::inherit::UmaskOf;
use crate::execute::process_tree::show::Streams;
use crate::execute::process_tree::{Event, ProcessPlan, Texts};
use crate::host::install::Install;
use crate::observation::{Role, Waiting};
use crate::source::SourceLocation;

/// Longer than anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run that must leave no directory.
struct Run(Option<RunContext>);

impl Deref for Run {
    type Target = RunContext;

    fn deref(&self) -> &RunContext {
        self.0.as_ref().unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The guard cleans up after a failing test.
        if !std::thread::panicking() {
            let directory = self.directory().to_owned();
            drop(self.0.take());
            assert!(!directory.exists(), "left behind: {}", directory.display());
        }
    }
}

fn context(cancel: &Cancel) -> Run {
    Run(Some(RunContext::start(Install::find(), cancel.clone(), Arc::new(|_| {})).unwrap()))
}

fn case(argv: &[&str]) -> Case {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Case { launch: Launch::Argv { argv, ranks: None }, cwd: PathBuf::from("/"), ..Case::default() }
}

fn start(execution: &mut CaseExecution<'_>, role: Role, argv: &[&str]) {
    let argv = argv.iter().map(OsString::from).collect();
    let (mut environment, directory) = (Environment::new(), PathBuf::from("/"));
    environment.set(protocol::env::COOKIE.name, execution.tree.sweep().cookie.to_string());
    let (streams, texts, at_our_death) = (Streams::Captured, Texts::default(), Some(Signal::KILL));
    let umask = UmaskOf::Case;
    let plan = ProcessPlan {
        role,
        argv,
        environment,
        directory,
        lifeline: true,
        at_our_death,
        streams,
        umask,
        network: None,
        texts,
    };
    execution.tree.start(&plan, &execution.scratch, true).unwrap();
}

/// A case whose processes were started, which is watched until `deadline`.
fn running(execution: CaseExecution<'_>, deadline: Instant) -> Running<'_> {
    let needs = Needs { python: None, warm: None, limit: None, deadline, environment: Environment::new() };
    Running { execution, needs, port: None }
}

/// A coordinator that gives one answer.
fn answer(listener: UnixListener, json: &'static str) {
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buffer = Vec::new();
        while stream.read_buf(&mut buffer).await.unwrap_or(0) > 0 {
            while let Some(asked) = frame::decode(&mut buffer, frame::MAX_TO_COORDINATOR).unwrap() {
                let answer = match asked {
                    ToCoordinator::Hello { .. } => {
                        ToRank::Welcome { version: VERSION, cluster: None, clock: Box::default() }
                    }
                    _ => ToRank::Diagnosis { json: json.to_owned() },
                };
                stream.write_all(&frame::encode(&answer)).await.unwrap();
            }
        }
    });
}

/// What became of a case whose coordinator announced a hang and answers this.
async fn after_a_hang(json: Option<&'static str>) -> Execution {
    let (case, context) = (case(&["true"]), context(&Cancel::new()));
    let mut execution = CaseExecution::new(&case, &context).unwrap();
    let address = execution.scratch.join("c.sock");
    if let Some(json) = json {
        answer(UnixListener::bind(&address).unwrap(), json);
    }
    let address = address.display().to_string();
    execution.endpoint = Some(Endpoint { transport: "unix", address, token: String::new(), from: None });
    // Announces one hang, then does nothing until its standard input ends.
    let script = format!("echo '{}'; cat", Announcement::Hang("rank 0 waits".to_owned()));
    start(&mut execution, Role::Coordinator, &["sh", "-c", &script]);
    let event = execution.tree.next().await;
    assert!(matches!(event, Event::Line(Role::Coordinator, _)), "{event:?}");
    execution.tree.keep(event);
    start(&mut execution, Role::Launcher(0), &["true"]);
    let Over { mut execution, .. } = running(execution, Instant::now() + PATIENCE).watch().await;
    let (ran, observation) = (std::mem::take(&mut execution.ran), std::mem::take(&mut execution.observation));
    drop(execution);
    context.discard(&observation);
    Execution::Ran(Box::new(ran))
}

#[tokio::test]
async fn a_hang_that_is_none_any_more_does_not_end_the_case() {
    let gone_on = after_a_hang(Some(r#"{"hang":null,"waits_ms":null,"activities":[]}"#)).await;
    assert!(!gone_on.was_ended());
    let hung = r#"{"hang":{"sentence":"rank 0 waits","waits":[],"missing":[1],"cycle":[]},"waits_ms":[],"missing_processes":[1],"activities":[]}"#;
    let hung = after_a_hang(Some(hung)).await;
    assert!(hung.is_timeout());
    assert_eq!(hung.hang().unwrap().sentence, "rank 0 waits");
    let not_asked = after_a_hang(None).await;
    assert_eq!((not_asked.is_timeout(), not_asked.hang()), (true, None));
}

#[tokio::test]
async fn the_last_words_of_the_last_process_are_heard() {
    let kill = Kill {
        target: KillTarget::Coordinator,
        signal: 9,
        watch: 0,
        output: regex::bytes::Regex::new("^over$").unwrap(),
        place: SourceLocation::default(),
    };
    let case = Case { kill: vec![kill], ..case(&["echo", "over"]) };
    let context = context(&Cancel::new());
    let mut execution = CaseExecution::new(&case, &context).unwrap();
    start(&mut execution, Role::Launcher(0), &["echo", "over"]);
    let mut events = vec![execution.tree.next().await, execution.tree.next().await];
    // Put its end first, because they come in any order.
    events.sort_by_key(|event| matches!(event, Event::Line(..)));
    events.into_iter().for_each(|event| execution.tree.keep(event));
    let over = running(execution, Instant::now() + PATIENCE).watch().await;
    let seen = Ended { execution: over.execution, refusal: over.refusal }.collect(context.lives.begin()).await;
    assert_eq!(seen.execution.ran().unwrap().missed.kills, Vec::<String>::new());
    context.discard(&seen);
}

#[tokio::test]
async fn a_stop_is_seen_while_the_coordinator_starts() {
    let cancel = Cancel::new();
    let (case, context) = (Case { coordinator: true, ..case(&["true"]) }, context(&cancel));
    let prepared = CaseExecution::new(&case, &context).unwrap().prepare().await.ok().unwrap();
    let (started, ()) = tokio::join!(prepared.start(), async { cancel.raise() });
    let over = started.err().unwrap();
    assert!(matches!(over.refusal, Some(Execution::Interrupted)) && over.execution.tree.processes().is_empty());
    let seen = over.end().await.collect(context.lives.begin()).await;
    assert!(seen.execution.is_interrupted());
    assert_eq!(seen.leaked, Vec::<String>::new());
    context.discard(&seen);
}

/// What is seen of a shell's `script` that is watched for `time`, in which nothing may stand still for 300 ms.
async fn watched(script: &str, time: Duration) -> Observation {
    let timeout = Timeout { idle: Some(Duration::from_millis(300)), ..Timeout::default() };
    let (case, context) = (Case { timeout, ..case(&["true"]) }, context(&Cancel::new()));
    let mut execution = CaseExecution::new(&case, &context).unwrap();
    start(&mut execution, Role::Launcher(0), &["sh", "-c", script]);
    let over = running(execution, Instant::now() + time).watch().await;
    let observation = over.end().await.collect(context.lives.begin()).await;
    context.discard(&observation);
    observation
}

/// Where its processes were.
fn whereabouts(seen: &Observation) -> &[String] {
    match seen.execution.ran().and_then(|ran| ran.stop.waiting()) {
        Some(Waiting::Whereabouts(lines)) => lines,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_process_that_waits_for_ever_has_hung_and_one_that_sleeps_has_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fifo").display().to_string();
    let stuck = watched(&format!("mkfifo {path}; read x < {path}"), PATIENCE).await;
    let sentence = stuck.execution.hang().map(|hang| hang.sentence.clone()).unwrap_or_default();
    let expected = format!(
        "no process does anything, and none waits in NCCL: launcher 0 is in openat, waiting for the other end of {path}"
    );
    assert_eq!(sentence, expected);
    assert!(stuck.execution.is_timeout());
    let asleep = watched("exec sleep 60", Duration::from_millis(1500)).await;
    assert_eq!(whereabouts(&asleep), ["launcher 0 is in clock_nanosleep"]);
    let works = watched("while :; do :; done", Duration::from_millis(1500)).await;
    assert_eq!((works.execution.is_timeout(), whereabouts(&works).len()), (true, 1));
}
