//! How YAML errors become diagnostics: the place, what is wrong, and what to write instead.

use std::ops::Range;

use protocol::suggest;
use serde_yaml::budget::BudgetBreach;
use serde_yaml::{Error, MessageFormatter, UserMessageFormatter};

use crate::diagnostic::Diagnostic;
use crate::yaml::{MAX_ALIASES, MAX_DEPTH, MAX_NODES, span_in};

/// A reader's error as a diagnostic of `file`, whose content is `text`.
pub fn diagnose(file: &str, text: &str, error: &Error) -> Diagnostic {
    let error = error.without_snippet();
    let span = error.location().map_or(0..0, |location| span_in(text, location));
    let (message, help) = explain(error);
    if message.contains("tab") {
        return of_tab(file, text, span);
    }
    let diagnostic = Diagnostic::new(file, text, span, message);
    match help {
        Some(help) => diagnostic.with_help(help),
        None => diagnostic,
    }
}

/// A tab where YAML has none. The scanner may complain about the line before it.
fn of_tab(file: &str, text: &str, span: Range<usize>) -> Diagnostic {
    let line = text[..span.start.min(text.len())].rfind('\n').map_or(0, |end| end + 1);
    let mut start = line;
    let mut found = None;
    for line in text[line..].split_inclusive('\n').take(3) {
        let indent = line.len() - line.trim_start_matches([' ', '\t']).len();
        if let Some(at) = line[..indent].find('\t') {
            let tabs = line[at..indent].len() - line[at..indent].trim_start_matches('\t').len();
            found = Some(start + at..start + at + tabs);
            break;
        }
        start += line.len();
    }
    let (span, what) = match found {
        Some(found) => (found, "a tab in the indentation"),
        None => (span, "a tab"),
    };
    Diagnostic::new(file, text, span, what).with_help("YAML is indented by spaces: replace the tab by spaces")
}

/// The advice for a word that is not in `known`.
pub fn did_you_mean(word: &str, known: &[&str]) -> String {
    match suggest::nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "nothing is allowed here".to_owned(),
        None => format!("expected one of: {}", known.join(", ")),
    }
}

fn explain(mut error: &Error) -> (String, Option<String>) {
    while let Error::AliasError { error: inner, .. } = error {
        error = inner.without_snippet();
    }
    match error {
        Error::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{field}`"), Some(did_you_mean(field, expected)))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            (format!("unknown value `{variant}`"), Some(did_you_mean(variant, expected)))
        }
        Error::SerdeMissingField { field, .. } => {
            (format!("`{field}` is missing"), Some(format!("add `{field}: ...` here")))
        }
        Error::SerdeInvalidType { unexpected, expected, .. }
        | Error::SerdeInvalidValue { unexpected, expected, .. } => {
            (format!("expected {expected}, found {unexpected}"), None)
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or_else(String::new, |key| format!(" `{key}`"));
            (format!("the key{key} is given twice"), Some("keep one of the two".to_owned()))
        }
        Error::InvalidBooleanStrict { .. } => {
            ("expected a boolean".to_owned(), Some("write `true` or `false`".to_owned()))
        }
        Error::MultipleDocuments { .. } => {
            ("a second document starts here".to_owned(), Some("one file holds one document; remove `---`".to_owned()))
        }
        Error::Budget { breach, .. } => limit(breach),
        // The scanner's own limit, which brackets reach before ours.
        other if other.to_string().contains("recursion limit exceeded") => limit(&BudgetBreach::Depth { depth: 0 }),
        Error::Eof { .. } => ("the file is empty".to_owned(), None),
        other => (UserMessageFormatter.format_message(other).into_owned(), None),
    }
}

/// A limit that a file exceeds.
fn limit(breach: &BudgetBreach) -> (String, Option<String>) {
    match breach {
        BudgetBreach::Depth { .. } => (format!("lists and mappings are nested more than {MAX_DEPTH} deep"), None),
        BudgetBreach::Aliases { .. } => (format!("there are more than {MAX_ALIASES} aliases"), None),
        BudgetBreach::Nodes { .. } => {
            (format!("there are more than {MAX_NODES} values, counting those of aliases each time"), None)
        }
        _ => ("the file is larger or more complex than anything that a person writes".to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors are looked at")]
    struct Settings {
        retries: u32,
        enabled: bool,
    }

    fn first(text: &str) -> Diagnostic {
        read::<Settings>("s.yaml", text).unwrap_err().remove(0)
    }

    #[test]
    fn mistakes_have_place_and_advice() {
        let cases = [
            ("retris: 1\n", "s.yaml:1:1: unknown key `retris`", Some("did you mean `retries`?")),
            ("retries: 1\nenabled: yes\n", "s.yaml:2:10: expected a boolean", Some("write `true` or `false`")),
            ("retries: 1\nretries: 2\n", "s.yaml:2:1: the key `retries` is given twice", Some("keep one of the two")),
            ("retries: 1\n", "s.yaml:1:1: `enabled` is missing", Some("add `enabled: ...` here")),
            (
                "retries: 1\nenabled: true\n---\nretries: 1\n",
                "s.yaml:4:1: a second document starts here",
                Some("one file holds one document; remove `---`"),
            ),
        ];
        let tabs = "replace the tab by spaces";
        for (text, shown) in [
            ("retries: 1\n\tenabled: true\n", "s.yaml:2:1: a tab in the indentation"),
            ("retries:\n\t1\n", "s.yaml:2:1: a tab in the indentation"),
        ] {
            let diagnostic = first(text);
            assert_eq!(diagnostic.to_string(), shown, "{text:?}");
            assert!(diagnostic.help.is_some_and(|help| help.contains(tabs)));
        }
        for (text, shown, help) in cases {
            let diagnostic = first(text);
            assert_eq!(diagnostic.to_string(), shown);
            assert_eq!(diagnostic.help.as_deref(), help);
        }
    }
}
