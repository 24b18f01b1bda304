//! Tests of verdicts: which outcomes take precedence, and what happens to snapshots.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::observation::{Captured, Gap, Missed, ProcessObservation};
use crate::suite;

const CLUSTER: &str = "cluster: {nodes: 1, gpus_per_node: 2, profile: a100}";

/// The one case of a suite with these lines.
pub(super) fn case(dir: &Path, lines: &str) -> Arc<Case> {
    // Ranks have no launcher.
    let launch = if lines.contains("launcher:") { "{argv: [x]}" } else { "{argv: [x], ranks: 2}" };
    let text = format!("ftest: 1\nsuite: s\ncases:\n- id: one\n  launch: {launch}\n  {CLUSTER}\n  {lines}\n");
    let suite = suite::parse(&dir.join("s.yaml"), &text, dir).unwrap_or_else(|error| panic!("{error}"));
    Arc::clone(&suite.cases[0])
}

pub(super) fn process(role: Role, exit: Exit) -> ProcessObservation {
    ProcessObservation { role, exit, stdout: Captured::default(), stderr: Captured::default() }
}

pub(super) fn observation(code: i32) -> Observation {
    Observation {
        processes: vec![
            process(Role::Rank(0), Exit::Code(code)),
            process(Role::Rank(1), Exit::Code(0)),
            process(Role::Coordinator, Exit::Code(0)),
        ],
        device_reports: vec![json!({"report_version": 3, "measured": {"pid": std::process::id()}})],
        ..Observation::default()
    }
}

/// The execution of a case that was started.
pub(super) fn ran(seen: &mut Observation) -> &mut Ran {
    seen.execution.ran_mut().unwrap()
}

/// The observation of an execution that ended with `code`, and otherwise as `ran` is.
fn after(ran: Ran, code: i32) -> Observation {
    Observation { execution: Execution::Ran(Box::new(ran)), ..observation(code) }
}

fn verdict(case: &Case, observation: &Observation) -> (Verdict, Vec<String>) {
    let (verdict, failures) = judge(case, observation, SnapshotMode::Review);
    (verdict, failures.iter().map(|failure| failure.kind.to_string()).collect())
}

/// The observation of a run in which rank 0 printed this.
fn printed(text: &str, execution: Execution) -> Observation {
    let mut seen = Observation { execution, ..observation(0) };
    seen.processes[0].stdout.head = text.as_bytes().to_vec();
    seen
}

#[test]
fn a_variant_fails_or_breaks_its_case_by_what_became_of_it() {
    let lines =
        "holds_under: [hash-seed, {ranks: 1}]\n  compared: {numbers: 'loss (?P<loss>.*)'}\n  expect: {stdout: first}";
    let case = case(Path::new("/"), lines);
    let judged = |variants: Vec<Observation>| {
        let seen = Observation { variants, ..printed("first loss 0.5", Execution::default()) };
        verdict(&case, &seen)
    };
    let right = || printed("loss 0.5", Execution::default());
    let near = || printed("loss 0.500001", Execution::default());
    let relation = || vec!["relation".to_owned()];
    assert_eq!(judged(vec![right(), near()]), (Verdict::Passed, vec![]), "the expected text is not the variant's");
    assert_eq!(judged(vec![near(), right()]), (Verdict::Failed, relation()));
    assert_eq!(judged(vec![right()]), (Verdict::Broken, relation()), "nobody knows whether the second holds");
    let mut ended = right();
    ended.processes[0].exit = Exit::Code(1);
    assert_eq!(judged(vec![right(), ended]), (Verdict::Failed, relation()));
    let gap = Gap { library: "cudart".into(), name: "cudaX".into(), detail: String::new(), count: 1, rank: None };
    let with_gap = Observation { gaps: vec![gap], ..right() };
    assert_eq!(judged(vec![right(), with_gap]), (Verdict::Broken, relation()));
    let late = printed("", Execution::OutOfTime("the run".to_owned()));
    assert_eq!(judged(vec![right(), late]), (Verdict::Broken, relation()));
    let skipped = Verdict::Skipped { reason: "the run was interrupted".to_owned() };
    assert_eq!(judged(vec![right(), printed("", Execution::Interrupted)]), (skipped, vec![]));
}

#[test]
fn what_is_left_on_a_gpu_is_a_leak_where_nothing_may_be_left() {
    let left = Left { rank: Some(1), allocations: 2, bytes: 1024, streams: 1, communicators: 1, ..Left::default() };
    let seen = Observation { left: vec![left], ..observation(0) };
    let strict = case(Path::new("/"), "expect: {leaks: none}");
    let (verdict, failures) = judge(&strict, &seen, SnapshotMode::Review);
    assert_eq!(verdict, Verdict::Failed);
    let expected = "rank 1 ended with 2 allocations of device memory (1024 bytes), 1 stream and 1 communicator";
    assert_eq!(failures.iter().map(|failure| failure.got.as_str()).collect::<Vec<_>>(), [expected]);
    let one = Left { pid: 7, events: 1, ..Left::default() };
    assert_eq!(left_by(&one), "process 7 ended with 1 event");
    let pinned = Left { pid: 7, pinned: 1, pinned_bytes: 4096, ..Left::default() };
    assert_eq!(left_by(&pinned), "process 7 ended with 1 allocation of pinned memory (4096 bytes)");
    assert_eq!(judge(&case(Path::new("/"), "tags: [a]"), &seen, SnapshotMode::Review).0, Verdict::Passed);
}

#[test]
fn ours_counts_more_than_a_timeout_and_that_more_than_a_failure() {
    let case = case(Path::new("/"), "expect: {exit: 0}");
    let gap = Gap {
        library: "cudart".into(),
        name: "cudaLaunchKernel".into(),
        detail: String::new(),
        count: 2,
        rank: Some(1),
    };
    assert_eq!(verdict(&case, &observation(0)), (Verdict::Passed, vec![]));
    assert_eq!(verdict(&case, &observation(1)), (Verdict::Failed, vec!["exit".to_owned()]));
    let late = || Stop::TimedOut { limit: None, waiting: Waiting::default() };
    let ended_early = after(Ran { stop: late(), ..Ran::default() }, 1);
    assert_eq!(verdict(&case, &ended_early), (Verdict::Failed, vec!["exit".to_owned()]), "no deadline is to blame");
    let late = after(Ran { stop: late(), unfinished: vec![Role::Rank(0)], ..Ran::default() }, 1);
    assert_eq!(verdict(&case, &late), (Verdict::Timeout, vec!["timeout".to_owned()]), "it was ended");
    let with_gap = Observation { gaps: vec![gap], ..late };
    assert_eq!(verdict(&case, &with_gap), (Verdict::Broken, vec!["gap".to_owned(), "timeout".to_owned()]));
    let leaking = Observation { leaked: vec!["process 7".into()], ..observation(0) };
    assert_eq!(verdict(&case, &leaking), (Verdict::Failed, vec!["leak".to_owned()]));
    let missed = Missed { kills: vec!["rank 1".into()], ..Missed::default() };
    let untriggered = after(Ran { missed, ..Ran::default() }, 0);
    assert_eq!(verdict(&case, &untriggered), (Verdict::Failed, vec!["kill".to_owned()]));
    let missed = Missed { faults: vec!["`delay` at rank 1".into()], ..Missed::default() };
    let unhurt = after(Ran { missed, ..Ran::default() }, 0);
    assert_eq!(verdict(&case, &unhurt), (Verdict::Failed, vec!["fault".to_owned()]));
    assert_eq!(
        verdict(&case, &Execution::NotStarted("no shim".into()).into()),
        (Verdict::Broken, vec!["infra".to_owned()])
    );
    let skipped = Execution::Skipped("no torch".into()).into();
    assert_eq!(verdict(&case, &skipped), (Verdict::Skipped { reason: "no torch".into() }, vec![]));
    let mut dead = observation(0);
    dead.processes[2].exit = Exit::Signal(11);
    assert_eq!(verdict(&case, &dead), (Verdict::Broken, vec!["coordinator".to_owned()]));
}

#[test]
fn an_allowed_gap_breaks_nothing_and_a_wanted_one_must_come() {
    let gap =
        Gap { library: "cudart".into(), name: "cudaLaunchKernel".into(), detail: String::new(), count: 2, rank: None };
    let with_gap = Observation { gaps: vec![gap], ..observation(0) };
    let root = Path::new("/");
    assert_eq!(verdict(&case(root, "allow_gaps: [cudart.cudaLaunch*]"), &with_gap).0, Verdict::Passed);
    assert_eq!(verdict(&case(root, "allow_gaps: [cublas.*]"), &with_gap).0, Verdict::Broken);
    let wanted = case(root, "expect: {gaps: [cudart.cudaLaunchKernel]}");
    assert_eq!(verdict(&wanted, &with_gap).0, Verdict::Passed);
    assert_eq!(verdict(&wanted, &observation(0)), (Verdict::Failed, vec!["gap".to_owned()]));
}

#[test]
fn a_snapshot_is_left_for_review_accepted_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let case = case(dir.path(), "expect: {snapshot: {of: device, select: ['$[*].report_version']}}");
    let accepted = dir.path().join("snapshots/s/one.snap");
    let pending = dir.path().join("snapshots/s/one.snap.new");

    assert_eq!(verdict(&case, &observation(0)), (Verdict::Failed, vec!["snapshot".to_owned()]));
    assert!(pending.exists() && !accepted.exists());
    assert_eq!(judge(&case, &observation(1), SnapshotMode::Accept).0, Verdict::Failed, "a wrong run is not blessed");
    assert!(!accepted.exists());
    assert_eq!(judge(&case, &observation(0), SnapshotMode::Accept).0, Verdict::Passed);
    assert!(!pending.exists());
    assert!(fs::read_to_string(&accepted).unwrap().ends_with("---\n[\n  {\n    \"report_version\": 3\n  }\n]\n"));
    assert_eq!(verdict(&case, &observation(0)), (Verdict::Passed, vec![]));

    let mut changed = observation(0);
    changed.device_reports[0]["report_version"] = json!(4);
    let (_, failures) = judge(&case, &changed, SnapshotMode::Review);
    assert!(failures[0].got.contains("-    \"report_version\": 3\n+    \"report_version\": 4"), "{}", failures[0].got);
    assert!(pending.exists());
    changed.scratch = dir.path().join("scratch");
    fs::remove_file(&pending).unwrap();
    assert_eq!(judge(&case, &changed, SnapshotMode::Collect).0, Verdict::Failed);
    assert!(changed.scratch.join("snapshots/one.snap.new").exists() && !pending.exists(), "CI changes no source tree");
    file_of_an_earlier_run(&pending);
    assert_eq!(judge(&case, &observation(1), SnapshotMode::Review).0, Verdict::Failed);
    assert!(!pending.exists(), "what waited is not this wrong run's");
    file_of_an_earlier_run(&pending);
    assert_eq!(verdict(&case, &observation(0)).0, Verdict::Passed);
    assert!(!pending.exists(), "a pending snapshot without a reason goes");
}

#[test]
fn the_command_that_accepts_a_snapshot_means_its_case() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("my suites");
    fs::create_dir(&root).unwrap();
    let spaced =
        case(&root, "matrix: {axes: {c: [x y]}}\n  expect: {snapshot: {of: device, select: ['$[*].report_version']}}");
    let (_, failures) = judge(&spaced, &observation(0), SnapshotMode::Review);
    let file = spaced.place.file.display();
    let next = format!(
        "look at it with `ftest review '{file}'`, or accept it with `ftest accept '{file}' -E 'id(=\"s/one[c=x y]\")'`"
    );
    assert_eq!(failures[0].next, next);
}

fn file_of_an_earlier_run(path: &Path) {
    fs::write(path, "---\nsource: s\nexpression: e\n---\n1\n").unwrap();
}

#[test]
fn a_cluster_report_must_be_valid() {
    let broken = Observation { cluster_report: Some(json!({"world_size": 2})), ..observation(0) };
    let (verdict, kinds) = verdict(&case(Path::new("/"), "expect: {exit: 0}"), &broken);
    assert_eq!((verdict, kinds[0].as_str()), (Verdict::Broken, "schema"));
}
