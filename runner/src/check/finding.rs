//! Findings: errors between ranks or in one process. An unexpected finding fails the case; an expected one must occur.

use std::collections::BTreeMap;
use std::path::Path;

use protocol::finding::FindingKind;
use protocol::report::{FaultKind, Finding, FindingSite, InjectedFault, MeasuredFinding, Note};
use protocol::site;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::check::common_cause::{Cause, by_cause, describe};
use crate::check::exit::ExitExpectation;
use crate::check::{Failure, FailureKind};
use crate::host::docs;
use crate::observation::{Exit, Observation, Role};
use crate::source::SourceLocation;

/// A finding that must occur, and does not fail the case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingExpectation {
    /// What kind.
    pub kind: FindingKind,
    /// The global ranks at fault, sorted; any ranks if absent.
    pub ranks: Option<Vec<u32>>,
    /// Substrings of its message.
    pub contains: Vec<String>,
    /// Program lines by global rank: `train.py:31`, with as much of the path as needed.
    pub lines: BTreeMap<u32, String>,
    /// It need not occur.
    pub optional: bool,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

impl FindingExpectation {
    fn means(&self, finding: &Finding) -> bool {
        let ranks = || finding.ranks.iter().map(|rank| rank.0);
        self.kind == finding.kind
            && self.ranks.as_ref().is_none_or(|wanted| wanted.iter().copied().eq(ranks()))
            && self.contains.iter().all(|part| finding.sentence.contains(part.as_str()))
            && self
                .lines
                .iter()
                .all(|(rank, line)| finding.sites.iter().any(|site| site.rank.0 == *rank && is_at(site, line)))
    }

    /// The failure if no finding matches.
    pub fn check(&self, observation: &Observation) -> Option<Failure> {
        let found = findings(observation);
        if self.optional || found.iter().any(|finding| self.means(finding)) {
            return None;
        }
        let mut expected = format!("a finding {}", self.kind.word());
        if let Some(ranks) = &self.ranks {
            expected.push_str(&format!(" of ranks {ranks:?}"));
        }
        if !self.contains.is_empty() {
            expected.push_str(&format!(" with `{}`", self.contains.join("`, `")));
        }
        for (rank, line) in &self.lines {
            expected.push_str(&format!(", rank {rank} at {line}"));
        }
        let seen: Vec<String> = found.iter().map(describe).collect();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Finding,
            expected,
            got: if seen.is_empty() { "no finding".to_owned() } else { seen.join("\n") },
            next: String::new(),
        })
    }
}

/// Whether a rank was at `line`, which may give any number of the file's trailing path components.
fn is_at(site: &FindingSite, line: &str) -> bool {
    let place = format!("{}:{}", site.file, site.line);
    place.strip_suffix(line).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// The program line that reports point to: that of the first rank at fault, else of the first rank, if the file is below `root`.
fn line_of_program(finding: &Finding, root: Option<&str>) -> Option<SourceLocation> {
    let root = Path::new(root?);
    let is_below =
        |site: &&FindingSite| site.line > 0 && !site.file.starts_with('<') && Path::new(&site.file).is_relative();
    let mut sites: Vec<&FindingSite> = finding.sites.iter().filter(is_below).collect();
    sites.sort_by_key(|site| !finding.ranks.contains(&site.rank));
    let site = sites.first()?;
    Some(SourceLocation { file: root.join(&site.file), line: site.line as usize, column: 1 })
}

/// Sorts by time, earliest first, because later findings may be consequences. Findings without a time come last, in
/// their original order.
pub fn sort_by_time(findings: &mut [Finding], times: &[MeasuredFinding]) {
    let times: BTreeMap<u64, u64> = times.iter().map(|time| (time.index, time.made_at_us)).collect();
    findings.sort_by_key(|finding| times.get(&finding.index).copied().unwrap_or(u64::MAX));
}

/// The findings of the cluster report, earliest first, and those of processes without a cluster.
pub fn findings(observation: &Observation) -> Vec<Finding> {
    let mut findings: Vec<Finding> = part(observation, "/findings");
    sort_by_time(&mut findings, &part::<MeasuredFinding>(observation, "/measured/findings"));
    findings.extend(observation.findings.iter().cloned());
    findings
}

/// The notes of the cluster report: things that are unusual but may be intended.
pub fn notes(observation: &Observation) -> Vec<String> {
    let sentence = |note: Note| {
        let parts: Vec<String> = std::iter::once(note.sentence).chain(site::describe(&note.sites)).collect();
        format!("{} (this may be intended; {})", parts.join("; "), docs::finding("order"))
    };
    part::<Note>(observation, "/notes").into_iter().map(sentence).collect()
}

fn part<T: DeserializeOwned>(observation: &Observation, pointer: &str) -> Vec<T> {
    let value = observation.cluster_report.as_ref().and_then(|report| report.pointer(pointer));
    // A malformed report is reported as a separate failure.
    value.and_then(|value| serde_json::from_value(Value::clone(value)).ok()).unwrap_or_default()
}

/// One failure, earliest first, for every finding that is neither expected nor a necessary result of `killed` ranks, the case's
/// faults or its link cuts (`is_cut`).
pub fn failures(
    expected: &[FindingExpectation],
    exits: &ExitExpectation,
    (killed, is_cut): (&[u32], bool),
    observation: &Observation,
) -> Vec<Failure> {
    let has_cause = exits.cause(observation).is_some();
    let faults: Vec<InjectedFault> = part(observation, "/resilience/injected_faults");
    let unexpected = findings(observation).into_iter().filter(|finding| {
        let is_due = expected.iter().any(|expectation| expectation.means(finding))
            || (is_cut && finding.kind == FindingKind::Unreachable)
            || is_meant(finding, killed, &faults, has_cause, observation);
        !is_due
    });
    let report = observation.cluster_report.as_ref();
    let root = report.and_then(|report| report.pointer("/measured/source_root")).and_then(Value::as_str);
    let failure = |cause: Cause| {
        let finding = &cause.first;
        let word = finding.kind.word();
        Failure {
            place: line_of_program(finding, root),
            kind: FailureKind::Finding,
            expected: "no finding".to_owned(),
            got: cause.describe(),
            next: format!("{} ({})", finding.kind.row().fix, docs::finding(word)),
        }
    };
    by_cause(unexpected.collect()).into_iter().map(failure).collect()
}

/// Whether the finding results from what the case did to the ranks at fault, or is the loss of ranks that ended with an
/// error, which `expect.exit` covers, or that their launcher ended because one did (`has_cause`).
fn is_meant(
    finding: &Finding,
    killed: &[u32],
    faults: &[InjectedFault],
    has_cause: bool,
    observation: &Observation,
) -> bool {
    let explains = |fault: &InjectedFault| {
        let absent = match fault.kind {
            FaultKind::Kill | FaultKind::Stop | FaultKind::Drop | FaultKind::NcclError | FaultKind::CutLink => true,
            // The rank is late, but it arrives.
            FaultKind::Delay | FaultKind::SlowLink => finding.kind.is_timeout(),
            // The rank still makes the calls it must make.
            FaultKind::Corrupt => false,
            FaultKind::Gpu => fault.gpu.as_ref().is_some_and(|change| change.is_fatal),
        };
        absent && fault.rank.is_none_or(|rank| finding.ranks.contains(&rank))
    };
    let did_fail = |rank: u32| {
        let process = observation.process(Role::Rank(rank));
        process.is_some_and(|process| match process.exit {
            Exit::Code(0) => false,
            Exit::Unknown => has_cause,
            _ => true,
        })
    };
    // ftest ends the ranks of a hang one after the other.
    let was_ended = finding.kind == FindingKind::RankLost && observation.execution.hang().is_some();
    let processes = if finding.processes.is_empty() { &finding.ranks } else { &finding.processes };
    finding.kind.is_absence()
        && (was_ended
            || faults.iter().any(explains)
            || (!processes.is_empty() && processes.iter().all(|rank| killed.contains(&rank.0) || did_fail(rank.0))))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::*;
    use crate::observation::{Captured, Execution, Hang, ProcessObservation, Ran, Stop, Waiting};

    fn finding(kind: &str, ranks: &[u32]) -> Value {
        json!({ "index": 1, "kind": kind, "sentence": format!("ranks {ranks:?}"), "comm_id": 1, "seqno": 4,
            "operation": "all_reduce", "ranks": ranks, "observed_ranks": [0] })
    }

    fn seen(findings: &[Value], faults: &[Value], exits: &[Exit]) -> Observation {
        let process = |(rank, exit): (usize, &Exit)| ProcessObservation {
            role: Role::Rank(rank as u32),
            exit: exit.clone(),
            stdout: Captured::default(),
            stderr: Captured::default(),
        };
        Observation {
            cluster_report: Some(json!({ "findings": findings, "resilience": { "injected_faults": faults } })),
            processes: exits.iter().enumerate().map(process).collect(),
            scratch: PathBuf::new(),
            ..Observation::default()
        }
    }

    fn expect(kind: FindingKind, ranks: Option<&[u32]>) -> FindingExpectation {
        FindingExpectation {
            kind,
            ranks: ranks.map(<[u32]>::to_vec),
            contains: Vec::new(),
            lines: BTreeMap::new(),
            optional: false,
            place: SourceLocation::default(),
        }
    }

    #[test]
    fn a_finding_fails_unless_it_is_expected() {
        let observation = seen(&[finding("count_mismatch", &[1])], &[], &[]);
        let failures_with = |expected: &[FindingExpectation]| {
            failures(expected, &ExitExpectation::default(), (&[], false), &observation).len()
        };
        assert_eq!(failures_with(&[]), 1);
        assert_eq!(failures_with(&[expect(FindingKind::CountMismatch, None)]), 0);
        assert_eq!(failures_with(&[expect(FindingKind::CountMismatch, Some(&[1]))]), 0);
        assert_eq!(failures_with(&[expect(FindingKind::CountMismatch, Some(&[0]))]), 1);
        assert_eq!(failures_with(&[expect(FindingKind::DtypeMismatch, None)]), 1);
        let absent = expect(FindingKind::DtypeMismatch, Some(&[2])).check(&observation).unwrap();
        assert_eq!(absent.expected, "a finding dtype_mismatch of ranks [2]");
        assert_eq!(absent.got, "count_mismatch: ranks [1]");
        let optional = FindingExpectation { optional: true, ..expect(FindingKind::DtypeMismatch, None) };
        assert_eq!(optional.check(&observation), None);
    }

    #[test]
    fn the_first_finding_in_time_comes_first() {
        let named = |index: u64, kind: &str| {
            let mut named = finding(kind, &[0]);
            named["index"] = index.into();
            named
        };
        let of_unknown_time = named(1, "rank_lost");
        let mut observation =
            seen(&[of_unknown_time, named(2, "count_mismatch"), named(3, "uninitialized_read")], &[], &[]);
        let report = observation.cluster_report.as_mut().unwrap();
        report["measured"] =
            json!({ "findings": [{ "index": 2, "made_at_us": 70 }, { "index": 3, "made_at_us": 60 }] });
        let indices = |findings: Vec<Finding>| findings.iter().map(|finding| finding.index).collect::<Vec<_>>();
        assert_eq!(indices(findings(&observation)), [3, 2, 1]);
        let failures = failures(&[], &ExitExpectation::default(), (&[], false), &observation);
        assert!(failures[0].got.starts_with("uninitialized_read"), "{}", failures[0].got);
    }

    /// The report of a run names files from its root, whose own place is known.
    #[test]
    fn a_finding_has_the_lines_of_its_ranks() {
        let site = |rank: u32, file: &str, line: u32| {
            json!({ "rank": rank, "operation": "all_reduce", "seqno": 4,
            "completed": rank == 1, "file": file, "line": line, "function": "step" })
        };
        let mut count = finding("count_mismatch", &[1]);
        count["sites"] = json!([site(0, "src/train.py", 31), site(1, "src/train.py", 29)]);
        let mut observation = seen(&[count], &[], &[]);
        let report = observation.cluster_report.as_mut().unwrap();
        report["measured"] = json!({ "source_root": "/repository" });
        let failure = &failures(&[], &ExitExpectation::default(), (&[], false), &observation)[0];
        let place = failure.place.clone().unwrap();
        assert_eq!(place.to_string(), "/repository/src/train.py:29:1", "the rank at fault comes first");
        let lines: Vec<&str> = failure.got.lines().collect();
        assert_eq!(lines[1], "rank 0 called all_reduce at src/train.py:31 (step)");
        assert_eq!(lines[2], "rank 1 got as far as all_reduce 4, called at src/train.py:29 (step)");
        for (rank, line, is) in [
            (0, "train.py:31", true),
            (0, "src/train.py:31", true),
            (0, "rain.py:31", false),
            (0, "train.py:3", false),
            (1, "train.py:31", false),
            (2, "train.py:31", false),
        ] {
            let lines = BTreeMap::from([(rank, line.to_owned())]);
            let expected = FindingExpectation { lines, ..expect(FindingKind::CountMismatch, None) };
            assert_eq!(expected.check(&observation).is_none(), is, "{rank} {line}");
            assert_eq!(
                failures(&[expected], &ExitExpectation::default(), (&[], false), &observation).is_empty(),
                is,
                "{rank} {line}"
            );
        }
    }

    #[test]
    fn a_note_has_its_lines_and_fails_nothing() {
        let site = |rank: u32, line: u32| {
            json!({ "rank": rank, "operation": "all_reduce", "seqno": 4, "completed": false, "file": "train.py",
                "line": line, "function": "step" })
        };
        let mut observation = seen(&[], &[], &[]);
        let note = json!({ "sentence": "ranks called all_reduce from different lines", "comm_id": 1, "seqno": 4,
            "operation": "all_reduce", "sites": [site(0, 31), site(1, 29)] });
        observation.cluster_report.as_mut().unwrap()["notes"] = json!([note]);
        assert_eq!(
            notes(&observation),
            ["ranks called all_reduce from different lines; rank 0 called all_reduce at train.py:31 (step); \
                 rank 1 called all_reduce at train.py:29 (step) (this may be intended; `ftest docs findings#order`)"]
        );
        assert_eq!(failures(&[], &ExitExpectation::default(), (&[], false), &observation), []);
    }

    /// Code without a file, or outside the repository, has no line in the repository.
    #[test]
    fn only_lines_below_the_root_are_pointed_at() {
        let mut lost = finding("rank_lost", &[1]);
        let site = |rank: u32, file: &str, line: u32| {
            json!({ "rank": rank, "operation": "all_reduce", "seqno": 4,
            "completed": false, "file": file, "line": line, "function": "step" })
        };
        lost["sites"] = json!([site(0, "<string>", 3), site(1, "/elsewhere/a.py", 3), site(2, "libtorch.so", 0)]);
        let lost: Finding = serde_json::from_value(lost).unwrap();
        assert_eq!(line_of_program(&lost, Some("/repository")), None);
        assert_eq!(line_of_program(&lost, None), None);
    }

    #[test]
    fn what_a_case_does_to_a_rank_is_not_a_finding() {
        let fault = |kind: &str, rank: Option<u32>| json!({ "index": 1, "kind": kind, "rank": rank, "comm_id": null, "seqno": 0, "operation": "none" });
        let lost = finding("rank_lost", &[1]);
        let late = finding("timeout_waiting_for_collective", &[1]);
        let none: [Value; 0] = [];
        for (findings, faults, killed, exits, expected) in [
            (&lost, &none[..], &[][..], &[Exit::Code(0), Exit::Code(0)][..], 1),
            (&lost, &none, &[], &[Exit::Code(0), Exit::Unknown], 1),
            (&lost, &none, &[], &[Exit::Code(0), Exit::Code(7)], 0),
            (&lost, &none, &[], &[Exit::Code(0), Exit::Signal(9)], 0),
            (&lost, &none, &[1], &[], 0),
            (&lost, &none, &[2], &[], 1),
            (&lost, &[fault("kill", Some(1))], &[], &[], 0),
            (&lost, &[fault("kill", Some(2))], &[], &[], 1),
            (&lost, &[fault("corrupt", Some(1))], &[], &[], 1),
            (&lost, &[fault("delay", Some(1))], &[], &[], 1),
            (&lost, &[fault("slow_link", None)], &[], &[], 1),
            (&lost, &[fault("cut_link", None)], &[], &[], 0),
            (&late, &[fault("delay", Some(1))], &[], &[], 0),
            (&late, &[fault("delay", Some(0))], &[], &[], 1),
            (&late, &[fault("slow_link", None)], &[], &[], 0),
            (&late, &[fault("stop", Some(1))], &[], &[], 0),
            (&finding("count_mismatch", &[1]), &[fault("kill", Some(1))], &[1], &[], 1),
        ] {
            let observation = seen(std::slice::from_ref(findings), faults, exits);
            assert_eq!(
                failures(&[], &ExitExpectation::default(), (killed, false), &observation).len(),
                expected,
                "{faults:?} {killed:?} {exits:?}"
            );
        }
    }

    #[test]
    fn the_order_in_which_a_hang_is_ended_is_not_a_finding() {
        let exits = [Exit::Unknown, Exit::Unknown];
        for (kind, with_hang, expected) in [
            ("rank_lost", false, 1),
            ("rank_lost", true, 0),
            ("timeout_waiting_for_collective", true, 1),
            ("count_mismatch", true, 1),
        ] {
            let mut observation = seen(&[finding(kind, &[1])], &[], &exits);
            if with_hang {
                let stop = Stop::TimedOut { limit: None, waiting: Waiting::new(Some(Hang::default())) };
                observation.execution = Execution::Ran(Box::new(Ran { stop, ..Ran::default() }));
            }
            assert_eq!(
                failures(&[], &ExitExpectation::default(), (&[], false), &observation).len(),
                expected,
                "{kind}"
            );
        }
    }
}
