//! Findings with one cause: a missing order between two lines of a program races for every tensor and on every rank.

use protocol::finding::FindingKind;
use protocol::report::Finding;
use protocol::site;

/// Its kind and message, and a line for each place where its ranks were.
pub fn describe(finding: &Finding) -> String {
    let mut lines = vec![format!("{}: {}", finding.kind.word(), finding.sentence)];
    lines.extend(site::describe(&finding.sites));
    lines.join("\n")
}

/// Findings with one cause, of which the first stands for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The earliest.
    pub first: Finding,
    /// The later ones.
    pub others: Vec<Finding>,
}

/// What races with the same cause have in common: the line of the later access, the streams, and the line of the earlier one.
#[derive(PartialEq, Eq)]
struct Race<'a> {
    line: (&'a str, u32),
    streams: [&'a str; 2],
    earlier: &'a str,
}

impl Race<'_> {
    /// From `A on STREAM of device 0 reads 8 bytes that B on STREAM of device 0 writes (called at LINE), and ...`.
    fn from_finding(finding: &Finding) -> Option<Race<'_>> {
        if finding.kind != FindingKind::Race {
            return None;
        }
        let (later, earlier) = finding.sentence.split_once(" bytes that ")?;
        let start = earlier.find(" (called ")?;
        let called = &earlier[start..start + earlier[start..].find(')')?];
        let site = finding.sites.first()?;
        let streams = [stream(later)?, stream(earlier)?];
        Some(Race { line: (&site.file, site.line), streams, earlier: called })
    }
}

/// `stream 2` of `aten::cat on stream 2 of device 0 ...`.
fn stream(access: &str) -> Option<&str> {
    Some(access.split_once(" on ")?.1.split_once(" of device ")?.0)
}

/// The findings by cause, in order.
pub fn by_cause(findings: Vec<Finding>) -> Vec<Cause> {
    let mut causes: Vec<Cause> = Vec::new();
    for finding in findings {
        let race = Race::from_finding(&finding);
        let known = race
            .and_then(|race| causes.iter_mut().find(|cause| Race::from_finding(&cause.first).as_ref() == Some(&race)));
        match known {
            Some(cause) => cause.others.push(finding),
            None => causes.push(Cause { first: finding, others: Vec::new() }),
        }
    }
    causes
}

impl Cause {
    /// The first finding, and a line about the others.
    pub fn describe(&self) -> String {
        let mut text = describe(&self.first);
        if self.others.is_empty() {
            return text;
        }
        let distinct = |mut words: Vec<String>| {
            words.sort();
            words.dedup();
            words.join(", ")
        };
        let operations = distinct(self.others.iter().map(|finding| finding.operation.clone()).collect());
        let mut ranks: Vec<u32> = self.others.iter().flat_map(|finding| &finding.ranks).map(|rank| rank.0).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let ranks = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        text.push_str(&format!(
            "\n{} more with this cause, between the same lines and streams: {operations} on ranks {ranks}",
            self.others.len()
        ));
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn race(operation: &str, rank: u32, line: u32, stream: &str, earlier: &str) -> Finding {
        let sentence = format!(
            "{operation} on {stream} of device {rank} reads 8 bytes that aten::fill_ on the default stream of device {rank} \
             writes (called at {earlier}), and nothing orders the two; the memory is of an allocation of 8 bytes at a.py:1"
        );
        let site = json!({"rank": rank, "operation": operation, "seqno": 0, "completed": false, "file": "a.py", "line": line,
            "function": "main"});
        serde_json::from_value(json!({"index": 1, "kind": "race", "sentence": sentence, "comm_id": null, "seqno": 0,
            "operation": operation, "ranks": [rank], "observed_ranks": [], "sites": [site]}))
        .unwrap()
    }

    #[test]
    fn races_between_the_same_lines_and_streams_have_one_cause() {
        let findings = vec![
            race("aten::cat", 0, 11, "stream 2", "a.py:9"),
            race("aten::mul", 1, 11, "stream 2", "a.py:9"),
            race("aten::cat", 0, 13, "stream 2", "a.py:9"),
            race("aten::cat", 1, 11, "stream 2", "a.py:9"),
            race("aten::cat", 0, 11, "stream 3", "a.py:9"),
            race("aten::cat", 0, 11, "stream 2", "a.py:8"),
        ];
        let causes = by_cause(findings);
        assert_eq!(causes.iter().map(|cause| cause.others.len()).collect::<Vec<_>>(), [2, 0, 0, 0]);
        let text = causes[0].describe();
        assert!(text.starts_with("race: aten::cat on stream 2 of device 0 reads"), "{text}");
        let end = "\n2 more with this cause, between the same lines and streams: aten::cat, aten::mul on ranks 1";
        assert!(text.ends_with(end), "{text}");
        assert!(!causes[1].describe().contains("with this cause"));
    }

    #[test]
    fn findings_of_other_kinds_and_without_a_line_stay_apart() {
        let other = |kind: &str| {
            let mut finding = race("aten::cat", 0, 11, "stream 2", "a.py:9");
            finding.kind = serde_json::from_value(json!(kind)).unwrap();
            finding
        };
        assert_eq!(by_cause(vec![other("uninitialized_read"), other("uninitialized_read")]).len(), 2);
        let mut unknown = race("aten::cat", 0, 11, "stream 2", "a.py:9");
        unknown.sites.clear();
        assert_eq!(by_cause(vec![unknown.clone(), unknown]).len(), 2);
    }
}
