//! Snapshot checks: compare parts of a report with the accepted text. A changed text waits beside it as `.snap.new`.

use std::path::PathBuf;

use similar::TextDiff;

use crate::check::report::ReportKind;
use crate::check::snapshot_file::{Comparison, Selection, SnapshotFile};
use crate::check::{Failure, FailureKind};
use crate::host::shell;
use crate::observation::Observation;
use crate::source::SourceLocation;

/// Maximum number of diff lines shown.
const DIFF_LINES: usize = 60;

/// One snapshot of a case.
#[derive(Clone, Debug)]
pub struct SnapshotCheck {
    /// Unique in the case.
    pub name: String,
    /// Which report.
    pub of: ReportKind,
    /// The selected part of the report.
    pub selection: Selection,
    /// The accepted file.
    pub path: PathBuf,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// What happens to a text that differs from the accepted one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotMode {
    /// It waits for review as `.snap.new`.
    Review,
    /// It is accepted.
    Accept,
    /// It is put into the attempt's directory, where `ftest accept --from` finds it: a CI job does not change the
    /// source tree.
    Collect,
    /// It is only compared: another check of the case failed, and the result of a wrong run must not be accepted.
    CompareOnly,
}

/// The case that a snapshot is of.
#[derive(Clone, Debug)]
pub struct Owner {
    /// The suite file, as the user named it.
    pub suite: String,
    /// `suite/case[matrix]`.
    pub case: String,
    /// A filter that selects only this case, to be put between single quotes.
    pub filter: String,
}

impl SnapshotCheck {
    /// The file of this snapshot of `owner`.
    pub fn file(&self, owner: &Owner) -> SnapshotFile {
        SnapshotFile {
            path: self.path.clone(),
            source: owner.suite.clone(),
            expression: format!("{} {}", owner.case, self.name),
        }
    }

    /// The failure if the text differs from the accepted one and is not accepted now.
    pub fn check(&self, owner: &Owner, observation: &Observation, mode: SnapshotMode) -> Option<Failure> {
        let failure = |expected: String, got: String, next: &str| {
            Some(Failure {
                place: Some(self.place.clone()),
                kind: FailureKind::Snapshot,
                expected,
                got,
                next: next.to_owned(),
            })
        };
        let wanted = format!("the {} is as in {}", self.of.name(), self.path.display());
        let Some(document) = self.of.document(observation) else {
            return failure(wanted, format!("there is no {}", self.of.name()), "");
        };
        let text = match self.selection.text(&document) {
            Ok(text) => text,
            Err(error) => return failure(wanted, error, ""),
        };
        let file = self.file(owner);
        let comparison = match file.compare(&text) {
            Ok(comparison) => comparison,
            Err(error) => return failure(wanted, error.to_string(), "remove the file and accept a new one"),
        };
        let got = match &comparison {
            Comparison::Same => {
                // A pending snapshot from an earlier run is obsolete. Failing to remove it does not fail the case.
                let _ = file.forget_pending();
                return None;
            }
            Comparison::New => "there is no accepted snapshot yet".to_owned(),
            Comparison::Changed(accepted) => difference(accepted, &text),
        };
        match mode {
            SnapshotMode::Accept => match file.accept(&text) {
                Ok(()) => None,
                Err(error) => failure(wanted, format!("cannot accept it: {error}"), ""),
            },
            SnapshotMode::Review => match file.leave_pending(&text) {
                Ok(()) => {
                    let next = format!(
                        "look at it with `ftest review {0}`, or accept it with `ftest accept {0} -E {1}`",
                        shell::quoted(&owner.suite),
                        shell::quoted(&owner.filter)
                    );
                    failure(wanted, got, &next)
                }
                Err(error) => failure(wanted, got, &format!("{} cannot be written: {error}", file.pending().display())),
            },
            SnapshotMode::Collect => {
                let directory = observation.scratch.join("snapshots");
                match file.copy_pending(&directory, &text) {
                    Ok(()) => {
                        let next =
                            "`ftest review --from` with this run's directory shows it, `ftest accept --from` takes it";
                        failure(wanted, got, next)
                    }
                    Err(error) => failure(wanted, got, &format!("{} cannot be written: {error}", directory.display())),
                }
            }
            SnapshotMode::CompareOnly => {
                // A pending snapshot from an earlier, correct run does not belong to this run and must not be accepted
                // by mistake.
                let _ = file.forget_pending();
                failure(wanted, got, "nothing was left for review, since other checks did not hold")
            }
        }
    }
}

fn difference(accepted: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(accepted.trim_end(), new.trim_end());
    let text = diff.unified_diff().context_radius(2).header("accepted", "new").missing_newline_hint(false).to_string();
    let lines: Vec<&str> = text.lines().collect();
    match lines.get(DIFF_LINES..) {
        Some(more) if !more.is_empty() => format!("{}\n... {} more lines", lines[..DIFF_LINES].join("\n"), more.len()),
        _ => lines.join("\n"),
    }
}
