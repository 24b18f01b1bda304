//! What processes noted in their journal besides gaps: their findings, which become part of the cluster report, and what they had
//! not given back at their end.

use std::path::Path;

use protocol::device_report::{JournalFinding, JournalLine, Left};
use protocol::ids::{Rank, Sequence};
use protocol::report::{ClusterReport, Finding, FindingSite};

use crate::host::whole_file;

/// The findings and leftovers in a journal, by rank, then in the order in which they came. A line that cannot be read is a gap
/// (`reports::add_journal`).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// The findings, once each.
    pub findings: Vec<JournalFinding>,
    /// What was left, of each process that left something.
    pub left: Vec<Left>,
}

impl Journal {
    /// Reads the journal at `path`; none is an empty one.
    pub fn read(path: &Path) -> Journal {
        let mut journal = Journal::default();
        for line in String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).lines() {
            match serde_json::from_str(line) {
                Ok(JournalLine::Finding(finding)) => {
                    // Processes of one rank that make the same mistake.
                    let same = |other: &JournalFinding| {
                        (other.kind, other.rank, &other.sentence) == (finding.kind, finding.rank, &finding.sentence)
                    };
                    if !journal.findings.iter().any(same) {
                        journal.findings.push(finding);
                    }
                }
                Ok(JournalLine::Left(left)) => journal.left.push(left),
                Ok(JournalLine::Gap(_)) | Err(_) => {}
            }
        }
        journal.findings.sort_by_key(|finding| finding.rank.unwrap_or(u32::MAX));
        journal.left.sort_by_key(|left| left.rank.unwrap_or(u32::MAX));
        journal
    }

    /// Its findings as those of a report that has `known` already and names files from `root`.
    fn numbered(&self, known: u64, root: Option<&str>) -> Vec<Finding> {
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
            observed_ranks: Vec::new(),
            sites: site(finding).into_iter().collect(),
        };
        (known + 1..).zip(&self.findings).map(finding).collect()
    }

    /// Adds the findings to the cluster report at `report`; gives those back for which there is no report.
    ///
    /// # Errors
    /// One sentence when the report cannot be written; the findings are lost to it.
    pub fn add_to(&self, report: &Path) -> Result<Vec<Finding>, String> {
        if self.findings.is_empty() {
            return Ok(Vec::new());
        }
        let bytes = std::fs::read(report).unwrap_or_default();
        // What a report that does not parse means is judged elsewhere.
        let Ok(mut parsed) = serde_json::from_slice::<ClusterReport>(&bytes) else { return Ok(self.numbered(0, None)) };
        let findings = self.numbered(parsed.findings.len() as u64, parsed.measured.source_root.as_deref());
        parsed.findings.extend(findings);
        let failed = |error: &dyn std::fmt::Display| format!("cluster report {}: {error}", report.display());
        let mut text = serde_json::to_vec_pretty(&parsed).map_err(|error| failed(&error))?;
        text.push(b'\n');
        whole_file::replace(report, &[&text]).map_err(|error| failed(&error))?;
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
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
            line(9, "null", "double_free", "a"),
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
        assert_eq!(sentences, ["d", "c", "b", "a"]);
        assert_eq!((journal.left.len(), journal.left[0].communicators), (1, 2));
        let without_report = journal.add_to(&scratch.path().join("none")).unwrap();
        assert_eq!(without_report.iter().map(|finding| finding.index).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!((&without_report[0].ranks[..], &without_report[3].ranks[..]), (&[Rank(0)][..], &[][..]));
    }
}
