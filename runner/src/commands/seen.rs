//! What `ftest exec` reports about its command besides the exit code: gaps and findings, in one summary on stderr.

use std::collections::BTreeMap;
use std::path::Path;

use protocol::report::{ClusterReport, Finding};

use crate::check::gap;
use crate::execute::{coordinator, reports};
use crate::observation::{Gap, Observation};
use crate::verdict::exit_code::ExitCode;

/// Most gaps and findings that are listed; the rest is counted.
const LISTED: usize = 10;

/// Gaps and findings that are not allowed.
pub(super) struct Seen {
    gaps: Vec<Gap>,
    findings: Vec<Finding>,
}

impl Seen {
    /// Reads what is left in `scratch` once all processes have ended. The cluster report is `report`, if it has a place of its own.
    pub(super) fn read(scratch: &Path, report: Option<&Path>, allow: &[String]) -> Seen {
        let mut observation = Observation::default();
        reports::add_journal(&mut observation.gaps, &reports::journal(scratch));
        let inside = coordinator::report_path(scratch);
        let bytes = std::fs::read(report.unwrap_or(&inside)).unwrap_or_default();
        // A coordinator without a report is reported elsewhere.
        let report: Option<ClusterReport> = serde_json::from_slice(&bytes).ok();
        let allowed = |finding: &Finding| allow.iter().any(|word| word == finding.kind.word());
        Seen {
            gaps: gap::not_allowed(allow, &[], &observation).into_iter().cloned().collect(),
            findings: report.into_iter().flat_map(|report| report.findings).filter(|found| !allowed(found)).collect(),
        }
    }

    /// Prints the summary; gives the exit code of a command that ended with `code`. Its own error stays.
    pub(super) fn judge(&self, code: i32) -> i32 {
        eprint!("{}", self.summary());
        match (code, self.gaps.is_empty(), self.findings.is_empty()) {
            (0, false, _) => ExitCode::CouldNotRun as i32,
            (0, true, false) => ExitCode::Failed as i32,
            (code, ..) => code,
        }
    }

    fn summary(&self) -> String {
        let mut text = String::new();
        let findings: Vec<String> =
            self.findings.iter().map(|found| format!("{}: {}", found.kind.word(), found.sentence)).collect();
        list(&mut text, "finding", "", &findings);
        let mut kinds: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for gap in &self.gaps {
            kinds.entry((&gap.library, &gap.name)).or_default().push(&gap.detail);
        }
        let gaps: Vec<String> = kinds
            .into_iter()
            .map(|((library, name), mut details)| {
                details.retain(|detail| !detail.is_empty());
                details.dedup();
                match details.as_slice() {
                    [] => format!("{library}.{name}"),
                    [one] => format!("{library}.{name}: {one}"),
                    [first, others @ ..] => format!("{library}.{name}: {first} and {} others", others.len()),
                }
            })
            .collect();
        let means = ": ftest does not implement this, and what the command took from there proves nothing";
        list(&mut text, "gap", means, &gaps);
        if !text.is_empty() {
            text.push_str("ftest exec: `--allow` lets a kind of gap or finding pass; docs/gaps.md, docs/findings.md\n");
        }
        text
    }
}

fn list(text: &mut String, word: &str, means: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let plural = if lines.len() == 1 { "" } else { "s" };
    text.push_str(&format!("ftest exec: {} {word}{plural}{means}\n", lines.len()));
    for line in lines.iter().take(LISTED) {
        text.push_str(&format!("  {line}\n"));
    }
    if lines.len() > LISTED {
        text.push_str(&format!("  and {} more\n", lines.len() - LISTED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(name: &str, detail: &str) -> Gap {
        Gap { library: "libcudart".into(), name: name.into(), detail: detail.into(), count: 1, rank: Some(0) }
    }

    #[test]
    fn a_success_with_gaps_or_findings_is_none() {
        let seen = |gaps: &[Gap]| Seen { gaps: gaps.to_vec(), findings: Vec::new() };
        assert_eq!(seen(&[]).judge(0), 0);
        assert_eq!(seen(&[]).summary(), "");
        let broken = seen(&[gap("cudaLaunchKernel", "a"), gap("cudaLaunchKernel", "b"), gap("cudaFoo", "")]);
        assert_eq!(broken.judge(0), 3);
        assert_eq!(broken.judge(7), 7, "the command's own error stays");
        let summary = broken.summary();
        assert!(summary.starts_with("ftest exec: 2 gaps: "), "{summary}");
        assert!(summary.contains("\n  libcudart.cudaFoo\n  libcudart.cudaLaunchKernel: a and 1 others\n"), "{summary}");
    }
}
