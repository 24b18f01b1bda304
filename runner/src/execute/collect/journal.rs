//! The journal of a case's processes: gaps; findings, which become part of the cluster report; and resources not released at
//! exit.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;

use model::{files, sampling, transfer, upstream};
use protocol::device_report::{JournalEntry, JournalFinding, JournalLine, Left};
use protocol::finding::FindingKind;
use protocol::ids::{Rank, Sequence};
use protocol::report::{ClusterReport, Finding, FindingSite, MeasuredFinding};

use crate::check::finding;
use crate::host::whole_file;
use crate::observation::Gap;

/// The lines of a journal, by rank, then in order of arrival.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The gaps, including unreadable lines.
    pub gaps: Vec<Gap>,
    /// The findings, once each.
    pub findings: Vec<JournalFinding>,
    /// Resources not released, for each process that left any.
    pub left: Vec<Left>,
    /// Whether a relation has changed something in a program.
    pub is_changed: bool,
}

impl Journal {
    /// Reads the journal at `path`; a missing file is an empty journal.
    pub fn read(path: &Path) -> Journal {
        let mut journal = Journal::default();
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return journal,
            Err(error) => {
                journal.gaps.push(unknown(format!("{}: {error}", path.display())));
                return journal;
            }
        };
        let (mut known, mut passes) = (HashSet::new(), Vec::new());
        let (mut transfers, mut gradients, mut accesses) = (Vec::new(), Vec::new(), Vec::new());
        for line in String::from_utf8_lossy(&bytes).lines() {
            match serde_json::from_str(line) {
                Ok(JournalLine::Gap(JournalEntry { rank, library, name, detail, .. })) => {
                    journal.gaps.push(Gap { library, name, detail, count: 1, rank });
                }
                Ok(JournalLine::Finding(finding)) => {
                    // Processes of one rank may make the same mistake.
                    if known.insert((finding.kind, finding.rank, finding.sentence.clone())) {
                        journal.findings.push(finding);
                    }
                }
                Ok(JournalLine::Left(left)) => journal.left.push(left),
                Ok(JournalLine::Pass(pass)) => passes.push(pass),
                Ok(JournalLine::Transfer(transfer)) => transfers.push(transfer),
                Ok(JournalLine::Upstream(gradient)) => gradients.push(gradient),
                Ok(JournalLine::File(access)) => accesses.push(access),
                Ok(JournalLine::Change(_)) => journal.is_changed = true,
                // The end of a line may be missing if the disk was full; it is still a gap.
                Err(_) => journal.gaps.push(unknown(line.to_owned())),
            }
        }
        journal.findings.extend(sampling::disagreements(&passes).into_iter().map(samplers_differ));
        journal.findings.extend(transfer::disagreements(&transfers).into_iter().map(transfer_mismatch));
        journal.findings.extend(upstream::missing(&gradients).into_iter().map(missing_derivative));
        journal.findings.extend(files::conflicts(&accesses).into_iter().map(file_conflict));
        // Processes without a known rank run side by side, in any order.
        journal.findings.sort_by_cached_key(|finding| match finding.rank {
            Some(rank) => (rank, String::new()),
            None => (u32::MAX, finding.sentence.clone()),
        });
        journal.left.sort_by_key(|left| left.rank.unwrap_or(u32::MAX));
        journal
    }

    /// Adds to `gaps` those that are in no report: from processes that left no report (`_exit`, SIGKILL) or replaced their
    /// program (`exec`).
    pub fn add_gaps_to(&mut self, gaps: &mut Vec<Gap>) {
        let mut known: HashSet<Gap> = gaps.iter().map(|gap| Gap { count: 1, ..gap.clone() }).collect();
        gaps.extend(self.gaps.drain(..).filter(|gap| known.insert(gap.clone())));
        gaps.sort();
    }

    /// Its findings and their times, numbered for a report that already has `known` findings and names files relative to
    /// `root`.
    fn numbered(&self, known: u64, root: Option<&str>) -> (Vec<Finding>, Vec<MeasuredFinding>) {
        let site = |finding: &JournalFinding| {
            let (rank, site) = (finding.rank?, finding.site.as_ref()?);
            Some(FindingSite {
                rank: Rank(rank),
                operation: finding.operation.clone(),
                seqno: Sequence(0),
                completed: false,
                file: root.and_then(|root| site.below(root)).unwrap_or_else(|| site.file.clone()),
                line: site.line,
                function: site.function.clone(),
            })
        };
        let finding = |(index, finding): (u64, &JournalFinding)| Finding {
            index,
            kind: finding.kind,
            sentence: finding.sentence.clone(),
            comm_id: finding.comm_id,
            seqno: Sequence(0),
            operation: finding.operation.clone(),
            ranks: finding.rank.map(Rank).into_iter().collect(),
            processes: Vec::new(),
            observed_ranks: Vec::new(),
            sites: site(finding).into_iter().collect(),
        };
        let time =
            |(index, finding): (u64, &JournalFinding)| Some(MeasuredFinding { index, made_at_us: finding.made_at_us? });
        let numbered = || (known + 1..).zip(&self.findings);
        (numbered().map(finding).collect(), numbered().filter_map(time).collect())
    }

    /// Adds the findings to the cluster report at `report`; returns those that have no report, earliest first.
    ///
    /// # Errors
    /// One sentence if the report cannot be written; it then lacks the findings.
    pub fn add_to(&self, report: &Path) -> Result<Vec<Finding>, String> {
        if self.findings.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = std::fs::read(report).unwrap_or_default();
        // A report that does not parse is handled elsewhere.
        let Ok(mut parsed) = serde_json::from_slice::<ClusterReport>(&bytes) else {
            let (mut findings, times) = self.numbered(0, None);
            finding::sort_by_time(&mut findings, &times);
            return Ok(findings);
        };
        let (findings, times) = self.numbered(parsed.findings.len() as u64, parsed.measured.source_root.as_deref());
        parsed.findings.extend(findings);
        parsed.measured.findings.extend(times);
        let failed = |error: &dyn std::fmt::Display| format!("cluster report {}: {error}", report.display());
        let mut text = serde_json::to_vec_pretty(&parsed).map_err(|error| failed(&error))?;
        text.push(b'\n');
        whole_file::replace(report, &[&text]).map_err(|error| failed(&error))?;
        Ok(Vec::new())
    }
}

fn samplers_differ(sampling::Disagreement { pass, sentence }: sampling::Disagreement) -> JournalFinding {
    JournalFinding {
        pid: 0,
        rank: Some(pass.rank.0),
        kind: FindingKind::SamplersDiffer,
        sentence,
        comm_id: None,
        operation: "DistributedSampler".to_owned(),
        site: pass.site,
        made_at_us: None,
    }
}

fn transfer_mismatch(transfer::Disagreement { receive, sentence }: transfer::Disagreement) -> JournalFinding {
    JournalFinding {
        pid: 0,
        rank: Some(receive.rank.0),
        kind: FindingKind::TransferMismatch,
        sentence,
        comm_id: None,
        operation: "recv".to_owned(),
        site: receive.site,
        made_at_us: None,
    }
}

fn missing_derivative(upstream::Missing { rank, site, sentence }: upstream::Missing) -> JournalFinding {
    JournalFinding {
        pid: 0,
        rank: Some(rank.0),
        kind: FindingKind::MissingDerivative,
        sentence,
        comm_id: None,
        operation: "all_reduce".to_owned(),
        site,
        made_at_us: None,
    }
}

fn file_conflict(files::Conflict { access, sentence }: files::Conflict) -> JournalFinding {
    JournalFinding {
        pid: 0,
        rank: Some(access.rank.0),
        kind: FindingKind::FileConflict,
        sentence,
        comm_id: None,
        operation: access.noted.function.clone(),
        site: access.site,
        made_at_us: None,
    }
}

fn unknown(detail: String) -> Gap {
    Gap { library: "unknown".to_owned(), name: "unknown".to_owned(), detail, count: 1, rank: None }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn findings_come_by_rank_and_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let line = |pid: u32, rank: &str, kind: &str, what: &str| {
            format!(
                "{{\"pid\":{pid},\"rank\":{rank},\"kind\":\"{kind}\",\"sentence\":\"{what}\",\"comm_id\":null,\"operation\":\"cudaFree\"}}\n"
            )
        };
        let gap = "{\"pid\":1,\"rank\":0,\"library\":\"libcudart\",\"name\":\"cudaA\",\"detail\":\"\"}\n";
        let left =
            "{\"pid\":1,\"rank\":0,\"allocations\":1,\"bytes\":8,\"streams\":0,\"events\":0,\"communicators\":2}\n";
        let lines = [
            line(9, "null", "double_free", "z"),
            line(8, "null", "double_free", "a"),
            line(2, "1", "double_free", "b"),
            gap.to_owned(),
            line(1, "0", "foreign_free", "d"),
            left.to_owned(),
            line(1, "0", "double_free", "c"),
            line(3, "1", "double_free", "b"),
            "{\"pid\"".to_owned(),
        ];
        std::fs::write(&path, lines.concat()).unwrap();
        let journal = Journal::read(&path);
        let sentences: Vec<&str> = journal.findings.iter().map(|finding| finding.sentence.as_str()).collect();
        assert_eq!(sentences, ["d", "c", "b", "a", "z"]);
        assert_eq!((journal.left.len(), journal.left[0].communicators), (1, 2));
        let without_report = journal.add_to(&scratch.path().join("none")).unwrap();
        assert_eq!(without_report.iter().map(|finding| finding.index).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!((&without_report[0].ranks[..], &without_report[3].ranks[..]), (&[Rank(0)][..], &[][..]));
    }

    #[test]
    fn ranks_that_sample_differently_are_a_finding() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let pass = |rank: u32, seed: u32| {
            let site = json!({"file": "train.py", "line": 7, "function": "main"});
            let pass = json!({"rank": rank, "world_size": 2, "site": site, "earlier": 0, "replicas": 2, "replica": rank,
                "length": 8, "order": [seed, 0], "drops_last": false});
            format!("{pass}\n")
        };
        std::fs::write(&path, pass(1, 5) + &pass(0, 5)).unwrap();
        assert_eq!(Journal::read(&path), Journal::default());
        std::fs::write(&path, pass(1, 6) + &pass(0, 5)).unwrap();
        let [finding] = &Journal::read(&path).findings[..] else { panic!("not one finding") };
        assert_eq!((finding.kind, finding.rank), (FindingKind::SamplersDiffer, Some(1)));
        assert_eq!(finding.site.as_ref().map(|site| site.line), Some(7));
    }

    #[test]
    fn a_file_of_two_ranks_is_a_finding() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let access = |rank: u32, collectives: u64| {
            let position = json!({"0": collectives});
            let noted = json!({"path": "last.pt", "function": "torch.save", "writes": true, "began": position, "ended": position, "has_waited": false,
                "steps": 1, "attempt": 0});
            let site = json!({"file": "train.py", "line": 7, "function": "save"});
            format!("{}\n", json!({"rank": rank, "node": 0, "site": site, "noted": noted}))
        };
        std::fs::write(&path, access(0, 4) + &access(1, 5)).unwrap();
        assert_eq!(Journal::read(&path), Journal::default());
        std::fs::write(&path, access(0, 4) + &access(1, 4)).unwrap();
        let [finding] = &Journal::read(&path).findings[..] else { panic!("not one finding") };
        assert_eq!((finding.kind, finding.rank), (FindingKind::FileConflict, Some(1)));
    }

    #[test]
    fn a_recv_that_gets_something_else_is_a_finding() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let end = |is_send: bool, earlier: u64, tag: i64| {
            let route = json!({"group": "0", "source": 0, "destination": 1, "is_batched": false, "earlier": earlier});
            let site = json!({"file": "train.py", "line": 7, "function": "main"});
            let end = json!({"rank": u32::from(!is_send), "route": route, "is_send": is_send, "tag": tag, "shape": [4],
                "strides": [1], "site": site});
            format!("{end}\n")
        };
        let sends = end(true, 0, 1) + &end(true, 1, 2);
        std::fs::write(&path, sends.clone() + &end(false, 0, 1) + &end(false, 1, 2)).unwrap();
        assert_eq!(Journal::read(&path), Journal::default());
        std::fs::write(&path, sends + &end(false, 0, 2) + &end(false, 1, 1)).unwrap();
        let [finding] = &Journal::read(&path).findings[..] else { panic!("not one finding") };
        assert_eq!((finding.kind, finding.rank), (FindingKind::TransferMismatch, Some(1)));
    }

    #[test]
    fn gradients_of_a_sum_that_differ_are_a_finding() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let gradient = |rank: u32, gradient: u64| {
            let site = json!({"file": "train.py", "line": 7, "function": "main"});
            let line = json!({"rank": rank, "ranks": [0, 1], "site": site, "earlier": 0, "gradient": gradient});
            format!("{line}\n")
        };
        std::fs::write(&path, gradient(1, 5) + &gradient(0, 5)).unwrap();
        assert_eq!(Journal::read(&path), Journal::default());
        std::fs::write(&path, gradient(1, 6) + &gradient(0, 5)).unwrap();
        let [finding] = &Journal::read(&path).findings[..] else { panic!("not one finding") };
        assert_eq!((finding.kind, finding.rank), (FindingKind::MissingDerivative, Some(0)));
    }

    #[test]
    fn findings_have_their_times() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let line = |rank: u32, at: u64| {
            let finding = json!({"pid": 1, "rank": rank, "kind": "double_free", "sentence": "a", "comm_id": null,
                "operation": "cudaFree", "made_at_us": at});
            format!("{finding}\n")
        };
        std::fs::write(&path, line(0, 90) + &line(1, 80)).unwrap();
        let journal = Journal::read(&path);
        let (findings, times) = journal.numbered(4, None);
        assert_eq!(findings.iter().map(|finding| finding.ranks[0]).collect::<Vec<_>>(), [Rank(0), Rank(1)]);
        let time = |index, made_at_us| MeasuredFinding { index, made_at_us };
        assert_eq!(times, [time(5, 90), time(6, 80)]);
        let without_report = journal.add_to(&scratch.path().join("none")).unwrap();
        assert_eq!(without_report[0].ranks, [Rank(1)], "the first in time");
    }

    #[test]
    fn a_journal_adds_the_gaps_that_no_report_has() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("journal");
        let gap = |name: &str, count| Gap {
            library: "libcudart".into(),
            name: name.into(),
            detail: String::new(),
            count,
            rank: Some(0),
        };
        let entry =
            |name: &str| json!({"pid": 7, "rank": 0, "library": "libcudart", "name": name, "detail": ""}).to_string();
        let mut gaps = vec![gap("cudaA", 3)];
        let mut add = |path: &Path| {
            Journal::read(path).add_gaps_to(&mut gaps);
            gaps.clone()
        };
        assert_eq!(add(&path).len(), 1, "no journal has no gaps");
        std::fs::write(&path, format!("{}\n{}\n{}\n", entry("cudaA"), entry("cudaB"), entry("cudaB"))).unwrap();
        assert_eq!(add(&path), [gap("cudaA", 3), gap("cudaB", 1)]);
        std::fs::write(&path, "{\"pid\"").unwrap();
        assert_eq!(add(&path).len(), 3, "half a line is a gap too");
        std::fs::write(&path, b"{\"pid\": \xff").unwrap();
        assert_eq!(add(&path).len(), 4, "so is one that is not text");
        let unreadable = add(scratch.path());
        assert!(
            unreadable.iter().any(|gap| gap.detail.contains("Is a directory")),
            "so is a journal that cannot be read"
        );
    }
}
