//! Workflow commands in a log, and groups around output.
//!
//! A line of a log that looks like a workflow command is executed. So output of programs is printed only while commands
//! are stopped, by a word that no program can know.

use crate::execute::process_tree::cookie::random_word;
use crate::host::printable;
use crate::source::SourceLocation;

/// `text` in a foldable group, such that none of its lines is executed.
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

pub(super) fn command(kind: &str, file: Option<String>, place: &SourceLocation, title: &str, message: &str) -> String {
    let place = match file {
        Some(file) if place.line > 0 => format!("file={},line={},col={},", property(&file), place.line, place.column),
        _ => String::new(),
    };
    format!("::{kind} {place}title={}::{}\n", property(&printable::visible(title)), data(message))
}

/// The text after `::` of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A value of a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
