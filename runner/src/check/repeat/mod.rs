//! Compares two runs of a `deterministic` case bit for bit: its output, the cluster report without measured values, the
//! device reports, the contents of replicas, and the files it wrote.

mod devices;
mod files;
mod replicas;
mod report;
mod streams;

use regex::bytes::Regex;

use crate::check::{Failure, FailureKind};
use crate::observation::Observation;
use crate::source::SourceLocation;

pub use report::in_report;

/// Requires that two runs of a case do not differ.
#[derive(Clone, Debug, Default)]
pub struct Deterministic {
    /// Parts of an output line that are ignored.
    pub ignore: Vec<Regex>,
    /// What is not compared: words of [`EXCEPTIONS`].
    pub except: Vec<&'static str>,
    /// Globs of files that are not compared, by name or by path from FTEST_SCRATCH.
    pub except_files: Vec<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// What a case may exclude from the comparison.
pub const EXCEPTIONS: &[&str] = &["stderr", "devices", "files"];

/// Maximum number of differences shown per kind.
const SHOWN: usize = 3;

/// Maximum number of characters shown of a line or value.
const WIDTH: usize = 120;

impl Deterministic {
    /// Every difference between the two runs of a case. Their scratch directories must still exist.
    pub fn compare(&self, first: &Observation, second: &Observation) -> Vec<Failure> {
        let unless = |word: &str, differences: &dyn Fn() -> Vec<String>| {
            if self.except.contains(&word) { Vec::new() } else { differences() }
        };
        let kinds = [
            (
                "both runs print the same",
                streams::stdout(&self.ignore, first, second),
                "seed every generator on every rank; `deterministic: {ignore: [REGEX]}` leaves out times and addresses",
            ),
            (
                "both runs print the same lines on stderr, in any order",
                unless("stderr", &|| streams::stderr(&self.ignore, first, second)),
                "`deterministic: {ignore: [REGEX]}` leaves out times and addresses, `except: [stderr]` all of it",
            ),
            (
                "both runs have the same cluster report, except for what is measured",
                in_report(first, second),
                "look for a branch on time, on random numbers or on which rank comes first",
            ),
            (
                "both runs have the same device reports, except for what is measured",
                unless("devices", &|| devices::differences(&first.device_reports, &second.device_reports)),
                "look for a branch on time, on random numbers or on which thread comes first; `except: [devices]` leaves \
                 the reports out",
            ),
            (
                "replicas hold the same in both runs",
                replicas::tensors(first, second),
                "seed every generator on every rank, and see `torch.use_deterministic_algorithms`",
            ),
            (
                "both runs write the same files to FTEST_SCRATCH",
                unless("files", &|| files::differences(&self.except_files, first, second)),
                "`deterministic: {except_files: [GLOB]}` leaves out a file that has a time or an id in it",
            ),
        ];
        let failure = |(expected, differences, next): (&str, Vec<String>, &str)| {
            let (shown, more) = differences.split_at(differences.len().min(SHOWN));
            let rest = match more.len() {
                0 => String::new(),
                count => format!("; {count} more"),
            };
            (!shown.is_empty()).then(|| self.failure(expected, format!("{}{rest}", shown.join("; ")), next))
        };
        kinds.into_iter().filter_map(failure).collect()
    }

    /// The failure for a second run that did not pass; `why` is the reason.
    pub fn failed(&self, why: String) -> Failure {
        self.failure("the second run passes, as the first did", why, "")
    }

    fn failure(&self, expected: &str, got: String, next: &str) -> Failure {
        Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Deterministic,
            expected: expected.to_owned(),
            got,
            next: next.to_owned(),
        }
    }
}

fn short(text: &str) -> String {
    let mut short: String = text.chars().take(WIDTH).collect();
    if short.len() < text.len() {
        short.push_str(" ...");
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::observation::{Captured, Exit, ProcessObservation, Role};

    fn seen(outputs: &[&str], report: Value) -> Observation {
        let process = |(rank, output): (u32, &&str)| ProcessObservation {
            role: Role::Rank(rank),
            exit: Exit::Code(0),
            stdout: Captured { head: output.as_bytes().to_vec(), ..Captured::default() },
            stderr: Captured::default(),
        };
        let processes = (0..).zip(outputs).map(process).collect();
        Observation { processes, cluster_report: Some(report), ..Observation::default() }
    }

    fn differences(first: &Observation, second: &Observation, ignore: &[&str]) -> Vec<String> {
        let ignore = ignore.iter().map(|regex| Regex::new(regex).unwrap()).collect();
        let deterministic = Deterministic { ignore, ..Deterministic::default() };
        deterministic.compare(first, second).into_iter().map(|failure| failure.got).collect()
    }

    #[test]
    fn lines_that_differ_are_named() {
        let (one, other) = (seen(&["a\nloss 0.5\n", "b\n"], json!({})), seen(&["a\nloss 0.25\n", "b\n"], json!({})));
        assert!(differences(&one, &one, &[]).is_empty());
        assert_eq!(differences(&one, &other, &[]), ["stdout of rank 0, line 2: `loss 0.5`, then `loss 0.25`"]);
        assert!(differences(&one, &other, &["loss .*"]).is_empty());
        let longer = seen(&["a\nloss 0.5\nmore", "b\n"], json!({}));
        assert_eq!(differences(&one, &longer, &[]), ["stdout of rank 0, line 3: ``, then `more`"]);
        let alone = seen(&["a\nloss 0.5\n"], json!({}));
        assert_eq!(differences(&one, &alone, &[]), ["rank 1 ran only the first time"]);
    }
}
