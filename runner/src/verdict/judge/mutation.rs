//! Tests that every check can fail: for each key of `expect`, each comparison of a report value, each rule of the verdict and
//! each kind of finding there is an observation that passes, and the same with one change that does not. The lists of keys and
//! kinds are the code's own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::finding::KINDS;
use protocol::ids::{Rank, Sequence};
use protocol::report::Finding;
use serde_json::{Value, json};

use super::tests::{case, observation, process, ran};
use super::*;
use crate::observation::{FixtureError, Gap, Hang, PythonError};
use crate::suite::language::Section;
use crate::suite::language::expect as language;
use crate::verdict::conclusion::{Conclusion, Outcome};
use crate::verdict::exit_code::ExitCode;
use crate::verdict::policy;

/// A change to an observation.
type Change = fn(&mut Observation);

/// One key of `expect`: a case that uses it, an observation that satisfies it, and a change that violates it.
struct Mutation {
    key: &'static str,
    lines: &'static str,
    right: Change,
    wrong: Change,
    kind: FailureKind,
}

const fn mutation(key: &'static str, lines: &'static str, right: Change, wrong: Change, kind: FailureKind) -> Mutation {
    Mutation { key, lines, right, wrong, kind }
}

fn nothing(_: &mut Observation) {}

fn write(seen: &mut Observation, rank: usize, text: &str) {
    seen.processes[rank].stdout.head = text.as_bytes().to_vec();
    seen.processes[rank].stdout.bytes = text.len() as u64;
}

fn write_error(seen: &mut Observation, text: &str) {
    seen.processes[0].stderr.head = text.as_bytes().to_vec();
    seen.processes[0].stderr.bytes = text.len() as u64;
}

fn finding(kind: protocol::finding::FindingKind) -> Finding {
    Finding {
        index: 1,
        kind,
        sentence: "rank 1 did it".to_owned(),
        comm_id: None,
        seqno: Sequence(0),
        operation: "all_reduce".to_owned(),
        ranks: vec![Rank(1)],
        processes: Vec::new(),
        observed_ranks: Vec::new(),
        sites: vec![protocol::report::FindingSite {
            rank: Rank(1),
            operation: "all_reduce".to_owned(),
            seqno: Sequence(0),
            completed: false,
            file: "train.py".to_owned(),
            line: 31,
            function: "step".to_owned(),
        }],
    }
}

fn race(seen: &mut Observation) {
    seen.findings = vec![finding(protocol::finding::FindingKind::Race)];
}

fn gap(seen: &mut Observation) {
    let (library, name) = ("cudart".to_owned(), "cudaLaunchKernel".to_owned());
    seen.gaps = vec![Gap { library, name, detail: String::new(), count: 1, rank: None }];
}

fn runs_again_otherwise(seen: &mut Observation) {
    let mut again = observation(0);
    write(&mut again, 0, "loss 0.5");
    seen.again = Some(Box::new(again));
}

fn prints_otherwise_under_a_relation(seen: &mut Observation) {
    let mut variant = observation(0);
    write(&mut variant, 0, "loss 0.5");
    seen.variants = vec![variant];
}

fn hang(seen: &mut Observation) {
    let sentence = "rank 0 waits for rank 1".to_owned();
    let hang = Hang { idle: true, sentence, missing: vec![1], ..Hang::default() };
    ran(seen).stop = Stop::TimedOut { limit: None, waiting: Waiting::new(Some(hang)) };
}

/// The keys of `expect` and of its parts, except those in [`COMPARISONS`].
const KEYS: &[Mutation] = &[
    mutation("expect.exit", "exit: 0", nothing, |seen| seen.processes[0].exit = Exit::Code(1), FailureKind::Exit),
    mutation(
        "expect.stdout",
        "stdout: done",
        |seen| write(seen, 0, "done"),
        |seen| write(seen, 0, "do"),
        FailureKind::Stdout,
    ),
    mutation(
        "expect.stderr",
        "stderr: W",
        |seen| write_error(seen, "W"),
        |seen| write_error(seen, "w"),
        FailureKind::Stderr,
    ),
    mutation(
        "expect.report",
        "report: [{of: device, path: '$[0].report_version', eq: 3}]",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Report,
    ),
    mutation(
        "expect.invariants",
        "invariants: ['devices[0].report_version == 3']",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Invariant,
    ),
    mutation(
        "expect.perf",
        "perf: [{metric: '$[0].report_version', of: device, upper: 3}]",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Perf,
    ),
    mutation(
        "expect.snapshot",
        "snapshot: {of: device, select: ['$[*].report_version']}",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Snapshot,
    ),
    mutation(
        "expect.within",
        "within: 5s",
        |seen| seen.duration = Duration::from_secs(5),
        |seen| seen.duration = Duration::from_secs(6),
        FailureKind::Within,
    ),
    mutation(
        "expect.leaks",
        "leaks: none",
        nothing,
        |seen| seen.shared_memory = vec![PathBuf::from("/dev/shm/x")],
        FailureKind::Leak,
    ),
    mutation("expect.hang", "hang: rank 0 waits", hang, |seen| ran(seen).stop = Stop::Finished, FailureKind::Hang),
    mutation("expect.findings", "findings: [race]", race, |seen| seen.findings.clear(), FailureKind::Finding),
    mutation("expect.gaps", "gaps: ['cudart.*']", gap, |seen| seen.gaps.clear(), FailureKind::Gap),
    mutation("exit.all", "exit: {all: 0}", nothing, |seen| seen.processes[1].exit = Exit::Code(1), FailureKind::Exit),
    mutation(
        "exit.rank",
        "exit: {rank: {0: 7}}",
        |seen| seen.processes[0].exit = Exit::Code(7),
        |seen| seen.processes[0].exit = Exit::Code(0),
        FailureKind::Exit,
    ),
    mutation(
        "exit.others",
        "exit: {rank: {0: any}, others: 0}",
        nothing,
        |seen| seen.processes[1].exit = Exit::Code(1),
        FailureKind::Exit,
    ),
    mutation(
        "exit.launcher",
        "exit: {launcher: 2}",
        |seen| seen.processes = vec![process(Role::Launcher(0), Exit::Code(2))],
        |seen| seen.processes = vec![process(Role::Launcher(0), Exit::Code(0))],
        FailureKind::Exit,
    ),
    mutation("exit.code", "exit: {code: 0}", nothing, |seen| seen.processes[0].exit = Exit::Code(1), FailureKind::Exit),
    mutation(
        "exit.signal",
        "exit: {rank: {0: {signal: SIGKILL}}}",
        |seen| seen.processes[0].exit = Exit::Signal(9),
        |seen| seen.processes[0].exit = Exit::Signal(15),
        FailureKind::Exit,
    ),
    mutation(
        "output.rank",
        "stdout: {rank: 1, contains: done}",
        |seen| write(seen, 1, "done"),
        |seen| {
            write(seen, 0, "done");
            write(seen, 1, "");
        },
        FailureKind::Stdout,
    ),
    mutation(
        "output.contains",
        "stdout: {contains: [a, b]}",
        |seen| write(seen, 0, "ab"),
        |seen| write(seen, 0, "a"),
        FailureKind::Stdout,
    ),
    mutation(
        "output.matches",
        "stdout: {matches: '^loss \\d+$'}",
        |seen| write(seen, 0, "loss 3"),
        |seen| write(seen, 0, "loss x"),
        FailureKind::Stdout,
    ),
    mutation("output.absent", "stdout: {absent: nan}", nothing, |seen| write(seen, 1, "nan"), FailureKind::Stdout),
    mutation(
        "count.where",
        "report: [{of: device, path: '$[*].report_version', count: {where: {eq: 3}, eq: 1}}]",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Report,
    ),
    mutation(
        "count.eq",
        "report: [{of: device, path: '$[*].report_version', count: {eq: 1}}]",
        nothing,
        |seen| seen.device_reports.push(json!({ "report_version": 3 })),
        FailureKind::Report,
    ),
    mutation(
        "count.min",
        "report: [{of: device, path: '$[*].report_version', count: {min: 1}}]",
        nothing,
        |seen| seen.device_reports[0] = json!({}),
        FailureKind::Report,
    ),
    mutation(
        "count.max",
        "report: [{of: device, path: '$[*].report_version', count: {max: 1}}]",
        nothing,
        |seen| seen.device_reports.push(json!({ "report_version": 3 })),
        FailureKind::Report,
    ),
    mutation(
        "perf.metric",
        "perf: [{metric: '$[0].report_version', of: device, upper: 3}]",
        nothing,
        |seen| seen.device_reports[0] = json!({}),
        FailureKind::Perf,
    ),
    mutation(
        "perf.reference",
        "perf: [{metric: '$[0].report_version', of: device, reference: 3, upper: '+10%'}]",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Perf,
    ),
    mutation(
        "perf.lower",
        "perf: [{metric: '$[0].report_version', of: device, lower: 3}]",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(2),
        FailureKind::Perf,
    ),
    mutation(
        "perf.upper",
        "perf: [{metric: '$[0].report_version', of: device, upper: 3}]",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Perf,
    ),
    mutation(
        "invariant.that",
        "invariants: [{that: 'ranks[0].exit.code == 0'}]",
        nothing,
        |seen| seen.processes[0].exit = Exit::Code(1),
        FailureKind::Invariant,
    ),
    mutation(
        "snapshot.select",
        "snapshot: {of: device, select: ['$[*].report_version']}",
        nothing,
        |seen| seen.device_reports[0]["report_version"] = json!(4),
        FailureKind::Snapshot,
    ),
    mutation(
        "finding.kind",
        "findings: [{kind: race}]",
        race,
        |seen| seen.findings[0].kind = protocol::finding::FindingKind::RankLost,
        FailureKind::Finding,
    ),
    mutation(
        "finding.ranks",
        "findings: [{kind: race, ranks: [1]}]",
        race,
        |seen| seen.findings[0].ranks = vec![Rank(0)],
        FailureKind::Finding,
    ),
    mutation(
        "finding.contains",
        "findings: [{kind: race, contains: rank 1 did}]",
        race,
        |seen| seen.findings[0].sentence = "rank 0 did it".to_owned(),
        FailureKind::Finding,
    ),
    mutation(
        "finding.lines",
        "findings: [{kind: race, lines: {1: 'train.py:31'}}]",
        race,
        |seen| seen.findings[0].sites[0].line = 32,
        FailureKind::Finding,
    ),
];

/// Keys that determine how another key is applied or shown, and check nothing themselves. `fatal`, `capture` and the parts of a
/// snapshot are tested where they are defined.
const MODIFIERS: &[&str] = &[
    "exit.fatal",
    "output.fatal",
    "output.because",
    "output.capture",
    "report.of",
    "report.rank",
    "report.path",
    "report.fatal",
    "report.because",
    "report.rel",
    "report.abs",
    "report.dtype",
    "report.nan",
    "perf.of",
    "perf.name",
    "perf.unit",
    "perf.because",
    "perf.warn_lower",
    "perf.warn_upper",
    "invariant.id",
    "invariant.fatal",
    "invariant.because",
    "snapshot.name",
    "snapshot.of",
    "snapshot.redact",
    "snapshot.round",
    "snapshot.sort",
    "finding.optional",
];

/// The comparisons of a report value: the check, a value that satisfies it, and one that does not.
const COMPARISONS: &[(&str, &str, &str, &str)] = &[
    ("eq", "eq: 4", "4", "5"),
    ("ne", "ne: 4", "5", "4"),
    ("lt", "lt: 4", "3", "4"),
    ("le", "le: 4", "4", "5"),
    ("gt", "gt: 4", "5", "4"),
    ("ge", "ge: 4", "4", "3"),
    ("between", "between: [2, 4]", "4", "5"),
    ("near", "near: 4, abs: 0.5", "4.5", "4.6"),
    ("unordered", "eq: [1, 2], unordered: true", "[2, 1]", "[2, 2]"),
    ("in", "in: [1, 2]", "2", "3"),
    ("contains", "contains: b", "\"abc\"", "\"ac\""),
    ("matches", "matches: '^a.c$'", "\"abc\"", "\"axe\""),
    ("type", "type: integer", "4", "4.5"),
    ("len", "len: 2", "[1, 2]", "[1]"),
    ("unique", "unique: true", "[1, 2]", "[1, 1]"),
    ("sorted", "sorted: ascending", "[1, 2]", "[2, 1]"),
    ("all", "all: {gt: 0}", "1", "0"),
    ("any", "any: {gt: 0}", "1", "0"),
    ("none", "none: {gt: 0}", "0", "1"),
    ("count", "count: {where: {gt: 0}, eq: 1}", "1", "0"),
];

#[test]
fn every_key_of_expect_has_an_example_that_fails() {
    let sections: [&Section; 10] = [
        &language::EXPECT,
        &language::EXIT,
        &language::ONE_EXIT,
        &language::OUTPUT,
        &language::REPORT,
        &language::COUNT,
        &language::PERF,
        &language::INVARIANT,
        &language::SNAPSHOT,
        &language::FINDING,
    ];
    let name = |section: &Section, key: &str| format!("{}.{key}", section.name.replace("one_exit", "exit"));
    let known: BTreeSet<String> =
        sections.iter().flat_map(|section| section.keys().map(|key| name(section, key.name))).collect();
    let own: Vec<String> = KEYS.iter().map(|row| row.key.to_owned()).collect();
    let compared = COMPARISONS.iter().map(|(key, ..)| format!("report.{key}"));
    // Both check whether there is a value at all.
    let present = ["report.exists", "report.absent"].map(str::to_owned);
    let modifiers = MODIFIERS.iter().map(|key| (*key).to_owned());
    let covered: BTreeSet<String> = own.into_iter().chain(compared).chain(present).chain(modifiers).collect();
    assert_eq!(covered, known, "a key without an example, or an example without a key");
}

#[test]
fn what_satisfies_each_key_passes_and_what_does_not_fails() {
    for Mutation { key, lines, right, wrong, kind } in KEYS {
        let dir = tempfile::tempdir().unwrap();
        let case = case(dir.path(), &format!("expect: {{{lines}}}"));
        let mut seen = observation(0);
        right(&mut seen);
        let (verdict, failures) = judge(&case, &seen, SnapshotMode::Accept);
        assert_eq!((verdict, failures), (Verdict::Passed, vec![]), "{key}");
        wrong(&mut seen);
        let (verdict, failures) = judge(&case, &seen, SnapshotMode::CompareOnly);
        let kinds: Vec<&FailureKind> = failures.iter().map(|failure| &failure.kind).collect();
        assert!(verdict == Verdict::Failed && kinds.contains(&kind), "{key}: {verdict:?} {kinds:?}");
    }
}

#[test]
fn every_comparison_holds_for_one_value_and_not_for_another() {
    let judged = |check: &str, value: Option<&str>| {
        let case = case(Path::new("/"), &format!("expect: {{report: [{{of: device, path: '$[0].value', {check}}}]}}"));
        let mut seen = observation(0);
        if let Some(value) = value {
            seen.device_reports[0]["value"] = serde_json::from_str::<Value>(value).unwrap();
        }
        judge(&case, &seen, SnapshotMode::CompareOnly).0
    };
    for (key, check, right, wrong) in COMPARISONS {
        assert_eq!(judged(check, Some(right)), Verdict::Passed, "{key} {right}");
        assert_eq!(judged(check, Some(wrong)), Verdict::Failed, "{key} {wrong}");
    }
    for (check, is, is_not) in [("exists: true", Some("1"), None), ("absent: true", None, Some("1"))] {
        assert_eq!((judged(check, is), judged(check, is_not)), (Verdict::Passed, Verdict::Failed), "{check}");
    }
}

#[test]
fn every_kind_of_finding_fails_a_case_that_does_not_expect_it() {
    let plain = case(Path::new("/"), "expect: {exit: 0}");
    for row in KINDS {
        let seen = Observation { findings: vec![finding(row.kind)], ..observation(0) };
        let (verdict, failures) = judge(&plain, &seen, SnapshotMode::CompareOnly);
        let kinds: Vec<&FailureKind> = failures.iter().map(|failure| &failure.kind).collect();
        assert_eq!((verdict, kinds), (Verdict::Failed, vec![&FailureKind::Finding]), "{}", row.word);
        let expecting = case(Path::new("/"), &format!("expect: {{findings: [{}]}}", row.word));
        assert_eq!(judge(&expecting, &seen, SnapshotMode::CompareOnly).0, Verdict::Passed, "{}", row.word);
        assert_eq!(judge(&expecting, &observation(0), SnapshotMode::CompareOnly).0, Verdict::Failed, "{}", row.word);
    }
}

/// A rule of the verdict, the change that triggers it, and the resulting verdict.
const RULES: &[(FailureKind, &str, Change, Verdict)] = &[
    (FailureKind::Infra, "", |seen| ran(seen).infra_error = Some("no shim".to_owned()), Verdict::Broken),
    (FailureKind::Python, "", |seen| seen.execution = Execution::NoPython(PythonError::default()), Verdict::Broken),
    (FailureKind::Fixture, "", |seen| seen.execution = Execution::NoFixture(FixtureError::default()), Verdict::Broken),
    (
        FailureKind::Environment,
        "",
        |seen| seen.refused = vec!["no thread; raise the limit".to_owned()],
        Verdict::Broken,
    ),
    (FailureKind::Gap, "", gap, Verdict::Broken),
    (FailureKind::Coordinator, "", |seen| seen.processes[2].exit = Exit::Code(1), Verdict::Broken),
    (FailureKind::Schema, "", |seen| seen.cluster_report = Some(json!({ "world_size": 2 })), Verdict::Broken),
    (FailureKind::Finding, "", race, Verdict::Failed),
    (
        FailureKind::Timeout,
        "",
        |seen| ran(seen).stop = Stop::TimedOut { limit: None, waiting: Waiting::default() },
        Verdict::Timeout,
    ),
    (FailureKind::Hang, "", hang, Verdict::Timeout),
    (FailureKind::Kill, "", |seen| ran(seen).missed.kills = vec!["rank 1".to_owned()], Verdict::Failed),
    (FailureKind::Cut, "", |seen| ran(seen).missed.cuts = vec!["rank 1".to_owned()], Verdict::Failed),
    (FailureKind::Fault, "", |seen| ran(seen).missed.faults = vec!["`delay`".to_owned()], Verdict::Failed),
    (FailureKind::Leak, "", |seen| seen.leaked = vec!["process 7".to_owned()], Verdict::Failed),
    (FailureKind::Exit, "", |seen| seen.processes[0].exit = Exit::Signal(11), Verdict::Failed),
    (FailureKind::Deterministic, "deterministic: true", runs_again_otherwise, Verdict::Failed),
    (FailureKind::Deterministic, "deterministic: true", |seen| seen.again = None, Verdict::Broken),
    (
        FailureKind::Relation,
        "holds_under: [hash-seed]\n  compared: {numbers: 'loss (?P<loss>.*)'}",
        prints_otherwise_under_a_relation,
        Verdict::Failed,
    ),
];

/// The kinds of failure that are about several attempts of a case, or about what surrounds them: no rule of one verdict.
const OF_ATTEMPTS: &[FailureKind] = &[
    FailureKind::Chaos,
    FailureKind::Flaky,
    FailureKind::Iterations,
    FailureKind::Skip,
    FailureKind::Slurm,
    FailureKind::Teardown,
];

#[test]
fn every_rule_of_the_verdict_has_an_example_that_fails() {
    let mut made: BTreeSet<FailureKind> = KEYS.iter().map(|row| row.kind.clone()).collect();
    for (rule, lines, change, expected) in RULES {
        let case = case(Path::new("/"), lines);
        let mut seen = observation(0);
        write(&mut seen, 0, "loss 0.25");
        if case.deterministic.is_some() {
            seen.again = Some(Box::new(seen.clone()));
        }
        if case.holds_under.is_some() {
            seen.variants = vec![seen.clone()];
        }
        let passes = judge(&case, &seen, SnapshotMode::CompareOnly);
        assert_eq!(passes, (Verdict::Passed, vec![]), "{rule}");
        change(&mut seen);
        let (verdict, failures) = judge(&case, &seen, SnapshotMode::CompareOnly);
        let kinds: Vec<&FailureKind> = failures.iter().map(|failure| &failure.kind).collect();
        assert!(verdict == *expected && kinds.contains(&rule), "{rule}: {verdict:?} {kinds:?}");
        made.insert(rule.clone());
    }
    made.insert(passing_is_a_failure_where_it_is_expected().kind);
    made.extend(OF_ATTEMPTS.iter().cloned());
    let all: BTreeSet<FailureKind> = FailureKind::ALL.iter().cloned().collect();
    assert_eq!(made, all, "a kind of failure without an example");
}

fn conclusion(verdict: Verdict) -> Conclusion {
    let (failures, perf, observation) = (Vec::new(), Vec::new(), observation(0));
    Conclusion::from_outcome(Outcome {
        verdict,
        failures,
        perf,
        observation,
        duration: Duration::ZERO,
        relations: Vec::new(),
        slow: false,
        kept: false,
    })
}

fn passing_is_a_failure_where_it_is_expected() -> Failure {
    let case = case(Path::new("/"), "xfail: {reason: known}");
    let mut passed = conclusion(Verdict::Passed);
    policy::apply(case.xfail.as_ref().unwrap(), &mut passed);
    assert_eq!(passed.verdict, Verdict::Failed);
    let mut failed = conclusion(Verdict::Failed);
    policy::apply(case.xfail.as_ref().unwrap(), &mut failed);
    assert!(matches!(failed.verdict, Verdict::Xfailed { .. }));
    passed.failures.remove(0)
}

#[test]
fn every_verdict_has_the_exit_code_that_is_documented() {
    let reason = String::new;
    for verdict in [
        Verdict::Passed,
        Verdict::Failed,
        Verdict::Broken,
        Verdict::Timeout,
        Verdict::Skipped { reason: reason() },
        Verdict::Xfailed { reason: reason() },
    ] {
        // See docs/cli.md. Without a wildcard, so that a new verdict does not compile until its code is added here.
        let expected = match verdict {
            Verdict::Passed | Verdict::Skipped { .. } | Verdict::Xfailed { .. } => 0,
            Verdict::Failed | Verdict::Timeout => 1,
            Verdict::Broken => 3,
        };
        assert_eq!(ExitCode::from_verdict(&verdict) as u8, expected, "{}", verdict.word());
        assert_eq!(verdict.is_neutral(), expected == 0, "{}", verdict.word());
    }
}
