//! What GitHub Actions reads: annotations on the lines of suites, groups around output, the job's summary.
//!
//! A line of a log that looks like a workflow command is executed. Output of programs is therefore printed only while
//! commands are stopped, by a word that no program can know.

use std::io::Write;
use std::path::{Component, Path, PathBuf};

use crate::check::Failure;
use crate::execute::process_tree::cookie::random_word;
use crate::host::printable;
use crate::host::variable;
use crate::record::{CaseRun, Run};
use crate::report::words;
use crate::source::SourceLocation;
use crate::verdict::Verdict;

/// GitHub shows so many annotations of a kind in a step.
const MOST_ANNOTATIONS: usize = 10;
/// Longest text of an annotation.
const LONGEST: usize = 4 << 10;
/// GitHub drops a summary of more than 1 MiB as a whole.
pub const SUMMARY_LIMIT: usize = 900 << 10;

/// Whether a workflow runs us.
pub fn is_on() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// `text` in a group that can be folded, with no line of it executed.
pub fn group(title: &str, text: &str) -> String {
    let (stop, resume) = silence();
    let title = printable::visible(title);
    format!("::group::{}\n{stop}{}{resume}::endgroup::\n", data(&title), text.trim_end_matches('\n'))
}

/// The two lines between which no line of a log is executed. The second starts a new line, whatever precedes it.
pub fn silence() -> (String, String) {
    let word = format!("{}{}", random_word(), random_word());
    (format!("::stop-commands::{word}\n"), format!("\n::{word}::\n"))
}

/// Annotations of what did not pass, the worst first, then of flaky cases. Files are named from the repository's root.
pub fn annotations(run: &Run, workspace: Option<&Path>) -> String {
    let file = |place: &SourceLocation| repository_path(workspace, &run.info.directory, &place.file);
    let mut text = String::new();
    let mut bad: Vec<(u8, &CaseRun)> =
        run.cases.iter().filter_map(|case| Some((severity(case.verdict()?)?, case))).collect();
    bad.sort_by_key(|(severity, _)| *severity);
    let teardowns = run.teardowns.iter().map(|(fixture, failure)| {
        let title = format!("{fixture}: could not be torn down");
        let place = failure.place.clone().unwrap_or_default();
        command("error", file(&place), &place, &title, &details(&[failure]))
    });
    let cases = bad.iter().map(|(_, case)| {
        let verdict = case.verdict().map_or("", Verdict::word);
        let title = format!("{}: {verdict}", case.info.case);
        let failures: Vec<&Failure> = case.failures().collect();
        let place = failures.iter().find_map(|failure| failure.place.as_ref()).unwrap_or(&case.info.place);
        let message = format!("{}\nagain: {}", message(case, &failures), words::rerun(case));
        command("error", file(place), place, &title, &message)
    });
    text.extend(teardowns.chain(cases).take(MOST_ANNOTATIONS));
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

/// Adds `text` to the summary of the job, where there is one.
///
/// # Errors
/// A sentence on why it cannot be written.
pub fn add_summary(render: impl FnOnce(usize) -> String) -> Result<(), String> {
    let Some(path) = variable::get("GITHUB_STEP_SUMMARY").map(PathBuf::from) else {
        return Ok(());
    };
    // What is there already counts, too.
    let there = std::fs::metadata(&path).map_or(0, |file| usize::try_from(file.len()).unwrap_or(usize::MAX));
    let text = render(SUMMARY_LIMIT.saturating_sub(there));
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("cannot write the job summary {}: {error}", path.display()))
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
    let hang = case.shown().and_then(|attempt| attempt.hang.as_ref());
    let hang = hang.map_or_else(String::new, |hang| format!("{}\n", hang.sentence));
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

fn command(kind: &str, file: Option<String>, place: &SourceLocation, title: &str, message: &str) -> String {
    let place = match file {
        Some(file) if place.line > 0 => format!("file={},line={},col={},", property(&file), place.line, place.column),
        _ => String::new(),
    };
    format!("::{kind} {place}title={}::{}\n", property(&printable::visible(title)), data(message))
}

/// The text behind `::` of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A value of a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// `file`, named from `directory`, as the repository at `workspace` names it.
fn repository_path(workspace: Option<&Path>, directory: &Path, file: &Path) -> Option<String> {
    if file.as_os_str().is_empty() {
        return None;
    }
    let path = straight(&directory.join(file));
    let root = straight(workspace.unwrap_or(directory));
    path.strip_prefix(&root).ok().map(|path| path.display().to_string())
}

/// Without `.` and `..`, by the words alone.
fn straight(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(straight.pop()),
            part => straight.push(part),
        }
    }
    straight
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::{finished, run};

    #[test]
    fn commands_are_escaped() {
        let place = SourceLocation { file: "a,b:c.yaml".into(), line: 3, column: 5 };
        let text =
            command("error", Some("a,b:c.yaml".into()), &place, "x: 50%\n", "one\r\n::set-output name=a::b 100%");
        assert_eq!(
            text,
            "::error file=a%2Cb%3Ac.yaml,line=3,col=5,title=x%3A 50%25%0A::one%0D%0A::set-output name=a::b 100%25\n"
        );
    }

    #[test]
    fn output_is_not_executed() {
        let evil = "::error::mine\n::endgroup::\n::stop-commands::x\n##[set-env name=PATH;]/tmp\n";
        let text = group("s/a\n::error::title", evil);
        let lines: Vec<&str> = text.lines().collect();
        let word = lines[1].strip_prefix("::stop-commands::").unwrap();
        assert_eq!(lines[0], "::group::s/a%0A::error::title");
        assert!(word.len() >= 16 && !evil.contains(word));
        assert_eq!(lines[lines.len() - 2..], [&format!("::{word}::"), "::endgroup::"]);
        assert_eq!(text.matches(word).count(), 2);
        assert_ne!(text, group("s/a\n::error::title", evil), "the word is another one each time");
    }

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
    fn files_are_named_from_the_repository() {
        let named = |workspace: &str, directory: &str, file: &str| {
            repository_path(Some(Path::new(workspace)), Path::new(directory), Path::new(file))
        };
        assert_eq!(named("/w/r", "/w/r/sub", "../suites/a.yaml"), Some("suites/a.yaml".into()));
        assert_eq!(named("/w/r", "/w/r", "./a.yaml"), Some("a.yaml".into()));
        assert_eq!(named("/w/r", "/w/r", "/elsewhere/a.yaml"), None);
        assert_eq!(named("/w/r", "/w/r", ""), None);
    }
}
