//! Output for GitHub Actions: annotations on suite lines, and the job summary.

mod command;
mod path;

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::check::{Failure, FailureKind};
use crate::host::printable;
use crate::host::variable;
use crate::record::{CaseRun, Run};
use crate::report::{incomplete, words};
use crate::source::SourceLocation;
use crate::verdict::Verdict;

use command::command;
pub use command::{group, silence};
use path::repository_path;

/// GitHub shows at most this many annotations of a kind per step.
const MOST_ANNOTATIONS: usize = 10;
/// Maximum length of an annotation's text.
const LONGEST: usize = 4 << 10;
/// GitHub drops a summary of more than 1 MiB entirely.
pub const SUMMARY_LIMIT: usize = 900 << 10;

/// Whether we run in a workflow.
pub fn is_on() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// Annotations for cases that did not pass, worst first, one per case; then, while there is room, for the other lines that their
/// failures name; then for flaky cases. File names are relative to the repository's root.
pub fn annotations(run: &Run, workspace: Option<&Path>) -> String {
    let file = |place: &SourceLocation| repository_path(workspace, &run.info.directory, &place.file);
    let mut text = String::new();
    let nowhere = SourceLocation::default();
    let kind = if run.info.partial { "warning" } else { "error" };
    let incomplete = incomplete(run);
    let incomplete = incomplete.iter().map(|what| command(kind, None, &nowhere, "not a whole run", what));
    let mut bad: Vec<(u8, &CaseRun)> =
        run.cases.iter().filter_map(|case| Some((severity(case.verdict()?)?, case))).collect();
    bad.sort_by_key(|(severity, _)| *severity);
    let teardowns = run.teardowns.iter().map(|(fixture, failure)| {
        let title = format!("{fixture}: could not be torn down");
        let place = failure.place.clone().unwrap_or_default();
        command("error", file(&place), &place, &title, &details(&[failure]))
    });
    let title = |case: &CaseRun| format!("{}: {}", case.info.case, case.verdict().map_or("", Verdict::word));
    let cases = bad.iter().map(|(_, case)| {
        let failures: Vec<&Failure> = case.failures().collect();
        let message = format!("{}\nagain: {}", message(case, &failures), words::rerun(case));
        let place = first_place(case);
        command("error", file(place), place, &title(case), &message)
    });
    // The case's own annotation lists all of them, but appears on only one line.
    let other_lines = bad.iter().flat_map(|(_, case)| {
        let mut annotated = vec![first_place(case)];
        let failures = case.failures().filter_map(|failure| Some((failure, failure.place.as_ref()?)));
        let on_new_lines = failures.filter(move |(_, place)| {
            let is_new = annotated.iter().all(|other| (&other.file, other.line) != (&place.file, place.line));
            annotated.push(place);
            is_new
        });
        on_new_lines.filter_map(|(failure, place)| {
            let file = file(place)?;
            Some(command("error", Some(file), place, &title(case), &details(&[failure])))
        })
    });
    text.extend(incomplete.chain(teardowns).chain(cases).chain(other_lines).take(MOST_ANNOTATIONS));
    let flaky =
        run.cases.iter().filter(|case| case.flaky() && severity(case.verdict().unwrap_or(&Verdict::Passed)).is_none());
    let flaky = flaky.map(|case| {
        let title = format!("{}: flaky", case.info.case);
        let failures: Vec<&Failure> = case.failures().collect();
        let message = format!("attempt {} passed\n{}", case.attempts.len(), message(case, &failures));
        command("warning", file(&case.info.place), &case.info.place, &title, &message)
    });
    text.extend(flaky.take(MOST_ANNOTATIONS));
    text
}

/// Adds `text` to the job summary, if there is one.
///
/// # Errors
/// One sentence on why it cannot be written.
pub fn add_summary(render: impl FnOnce(usize) -> String) -> Result<(), String> {
    let Some(path) = variable::get("GITHUB_STEP_SUMMARY").map(PathBuf::from) else {
        return Ok(());
    };
    // Existing text counts, too.
    let there = std::fs::metadata(&path).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX));
    let text = render(SUMMARY_LIMIT.saturating_sub(there));
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write the job summary {}: {error}", path.display()))
}

/// The place of a case's annotation.
fn first_place(case: &CaseRun) -> &SourceLocation {
    case.failures().find_map(|failure| failure.place.as_ref()).unwrap_or(&case.info.place)
}

/// 0 for the worst; `None` if it is not an error.
fn severity(verdict: &Verdict) -> Option<u8> {
    match verdict {
        Verdict::Broken => Some(0),
        Verdict::Timeout => Some(1),
        Verdict::Failed => Some(2),
        Verdict::Passed | Verdict::Skipped { .. } | Verdict::Xfailed { .. } => None,
    }
}

fn message(case: &CaseRun, failures: &[&Failure]) -> String {
    // A failure of that kind tells the same.
    let told = failures.iter().any(|failure| failure.kind == FailureKind::Hang);
    let hang = case.shown().and_then(|attempt| attempt.hang.as_ref()).filter(|_| !told);
    let hang = hang.map_or_else(String::new, |hang| format!("{}\n", hang.story()));
    format!("{hang}{}", details(failures))
}

fn details(failures: &[&Failure]) -> String {
    let parts: Vec<String> = failures
        .iter()
        .map(|failure| {
            let next = if failure.next.is_empty() { String::new() } else { format!("\nnext: {}", failure.next) };
            format!("{}\nexpected: {}\ngot: {}{next}", failure.kind, failure.expected, failure.got)
        })
        .collect();
    let text = printable::visible(&parts.join("\n"));
    match text.len() {
        length if length <= LONGEST => text,
        _ => format!("{}\n...", &text[..text.floor_char_boundary(LONGEST)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::Event;
    use crate::report::html::tests::{finished, run};

    #[test]
    fn the_worst_come_first_and_no_more_than_are_shown() {
        let mut events: Vec<_> = (0..12).map(|index| finished(&format!("s/f{index}"), Verdict::Failed, 5)).collect();
        events.push(finished("s/t", Verdict::Timeout, 5));
        events.push(finished("s/b", Verdict::Broken, 5));
        events.push(finished("s/p", Verdict::Passed, 5));
        let text = annotations(&run(&events), None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), MOST_ANNOTATIONS);
        assert!(lines[0].contains("title=s/b%3A broken::") && lines[1].contains("title=s/t%3A timeout::"), "{text}");
        assert!(lines[2].contains("title=s/f0%3A failed::"), "{text}");
    }

    #[test]
    fn every_line_that_failures_name_has_one() {
        let failure = |file: &str, line: usize| Failure {
            place: Some(SourceLocation { file: file.into(), line, column: 1 }),
            kind: FailureKind::Unknown("race".into()),
            expected: "none".into(),
            got: format!("at {line}"),
            next: String::new(),
        };
        let failed = |name: &str, failures: Vec<Failure>| {
            let [mut attempt, end] = finished(name, Verdict::Failed, 5);
            if let Event::AttemptFinished { attempt, .. } = &mut attempt {
                attempt.failures = failures;
            }
            [attempt, end]
        };
        let lines = [("/w/r/a.py", 3), ("/w/r/a.py", 3), ("/w/r/b.py", 5), ("/elsewhere/c.py", 7)];
        let several = failed("s/several", lines.map(|(file, line)| failure(file, line)).into());
        let one = failed("s/one", vec![failure("/w/r/b.py", 5)]);
        let text = annotations(&run(&[several, one]), Some(Path::new("/w/r")));
        let found: Vec<&str> = text.lines().map(|line| line.split("::").nth(1).unwrap()).collect();
        assert_eq!(
            found,
            [
                "error file=a.py,line=3,col=1,title=s/several%3A failed",
                "error file=b.py,line=5,col=1,title=s/one%3A failed",
                "error file=b.py,line=5,col=1,title=s/several%3A failed",
            ]
        );
        assert!(text.lines().next().unwrap().contains("at 7"), "the case's own annotation tells all: {text}");
    }
}
