//! What `ftest exec` and `ftest bench` report about their command besides the exit code: gaps and findings, in one summary on
//! stderr.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use protocol::report::{ClusterReport, Finding};
use runner::check::{common_cause, finding, gap};
use runner::execute::collect::journal::Journal;
use runner::execute::collect::reports;
use runner::execute::coordinator;
use runner::observation::{Gap, Observation};
use runner::verdict::exit_code::ExitCode;

/// Maximum number of gaps and findings listed; the rest are counted.
const LISTED: usize = 10;

/// Where the cluster report goes.
pub(super) struct ReportPlace {
    /// Where the coordinator writes it.
    pub(super) written: PathBuf,
    /// A pipe or device that gets a copy, because findings cannot be read back from it.
    copy: Option<PathBuf>,
}

impl ReportPlace {
    /// A place in `scratch`, unless the user wants a file.
    pub(super) fn new(scratch: &Path, wanted: Option<&Path>) -> ReportPlace {
        let inside = coordinator::report_path(scratch);
        match wanted {
            Some(path) if path.exists() && !path.is_file() => {
                ReportPlace { written: inside, copy: Some(path.to_path_buf()) }
            }
            Some(path) => ReportPlace { written: path.to_path_buf(), copy: None },
            None => ReportPlace { written: inside, copy: None },
        }
    }

    fn read(&self) -> Result<ClusterReport, String> {
        let failed = |path: &Path, error: &dyn std::fmt::Display| format!("cluster report {}: {error}", path.display());
        let bytes = std::fs::read(&self.written).map_err(|error| failed(&self.written, &error))?;
        if let Some(copy) = &self.copy {
            std::fs::write(copy, &bytes).map_err(|error| failed(copy, &format!("cannot be written: {error}")))?;
        }
        serde_json::from_slice(&bytes).map_err(|error| failed(&self.written, &error))
    }
}

/// Gaps and findings that are not allowed.
#[derive(Default)]
pub(super) struct Seen {
    gaps: Vec<Gap>,
    findings: Vec<Finding>,
}

impl Seen {
    /// Adds the gaps that the processes recorded in `scratch`.
    pub(super) fn add_gaps(&mut self, scratch: &Path, allow: &[String]) {
        let mut observation = Observation::default();
        Journal::read(&reports::journal(scratch)).add_gaps_to(&mut observation.gaps);
        self.gaps.extend(gap::not_allowed(allow, &[], &observation).into_iter().cloned());
    }

    /// Adds the findings that the processes recorded in `scratch` to the cluster report, and collects all findings in
    /// it.
    ///
    /// # Errors
    /// One sentence if the report cannot be read, or written to where the user wants it.
    pub(super) fn add_findings(
        &mut self,
        scratch: &Path,
        report: &ReportPlace,
        allow: &[String],
    ) -> Result<(), String> {
        let refused = |finding: &Finding| !allow.iter().any(|word| word == finding.kind.word());
        let without_report = Journal::read(&reports::journal(scratch)).add_to(&report.written)?;
        self.findings.extend(without_report.into_iter().filter(refused));
        let mut report = report.read()?;
        finding::sort_by_time(&mut report.findings, &report.measured.findings);
        self.findings.extend(report.findings.into_iter().filter(refused));
        Ok(())
    }

    /// Prints the summary for `program`; returns the exit code for a command that ended with `code`. A nonzero `code`
    /// is kept.
    pub(super) fn judge(&self, program: &str, code: i32) -> i32 {
        eprint!("{}", self.summary(program));
        match (code, self.gaps.is_empty(), self.findings.is_empty()) {
            (0, false, _) => ExitCode::CouldNotRun as i32,
            (0, true, false) => ExitCode::Failed as i32,
            (code, ..) => code,
        }
    }

    fn summary(&self, program: &str) -> String {
        let mut text = String::new();
        let causes = common_cause::by_cause(self.findings.clone());
        let mut title = format!("{program}: {}", count(self.findings.len(), "finding"));
        if causes.len() < self.findings.len() {
            title.push_str(&format!(" with {}", count(causes.len(), "cause")));
        }
        let findings: Vec<String> = causes.iter().map(|cause| cause.describe().replace('\n', "\n    ")).collect();
        list(&mut text, &title, &findings);
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
                    [first, others @ ..] => {
                        format!("{library}.{name}: {first} and {}", count(others.len(), "other"))
                    }
                }
            })
            .collect();
        let means = ": ftest does not implement this, and results that depend on it prove nothing";
        list(&mut text, &format!("{program}: {}{means}", count(gaps.len(), "gap")), &gaps);
        if !text.is_empty() {
            text.push_str(program);
            text.push_str(": `--allow` lets a kind of gap or finding pass; `ftest docs gaps`, `ftest docs findings`\n");
        }
        text
    }
}

fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}

fn list(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    text.push_str(&format!("{title}\n"));
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
        assert_eq!(seen(&[]).judge("ftest exec", 0), 0);
        assert_eq!(seen(&[]).summary("ftest exec"), "");
        let broken = seen(&[gap("cudaLaunchKernel", "a"), gap("cudaLaunchKernel", "b"), gap("cudaFoo", "")]);
        assert_eq!(broken.judge("ftest exec", 0), 3);
        assert_eq!(broken.judge("ftest exec", 7), 7, "the command's own error stays");
        let summary = broken.summary("ftest exec");
        assert!(summary.starts_with("ftest exec: 2 gaps: "), "{summary}");
        assert!(summary.contains("\n  libcudart.cudaFoo\n  libcudart.cudaLaunchKernel: a and 1 other\n"), "{summary}");
    }

    #[test]
    fn a_report_that_cannot_be_read_is_trouble_and_a_pipe_gets_a_copy() {
        let scratch = tempfile::tempdir().unwrap();
        let inside = coordinator::report_path(scratch.path());
        let place = ReportPlace::new(scratch.path(), Some(Path::new("/dev/null")));
        assert_eq!(place.written, inside);
        let trouble = || Seen::default().add_findings(scratch.path(), &place, &[]).unwrap_err();
        assert!(trouble().contains("cluster-report.json: No such file"), "{}", trouble());
        std::fs::write(&inside, "{").unwrap();
        assert!(trouble().contains("cluster-report.json: EOF"), "{}", trouble());
        let wanted = scratch.path().join("report.json");
        assert_eq!(ReportPlace::new(scratch.path(), Some(&wanted)).written, wanted);
    }
}
