//! The one place that reads YAML: its options, its limits, and how its errors become diagnostics.

use std::ops::Range;

use protocol::suggest;
use serde::de::DeserializeOwned;
use serde_yaml::budget::BudgetBreach;
use serde_yaml::options::DuplicateKeyPolicy;
use serde_yaml::{Error, Location, MessageFormatter, Options, UserMessageFormatter};

use crate::diagnostic::Diagnostic;

/// Deepest nesting of a file.
const MAX_DEPTH: usize = 32;
/// Most aliases of a file.
const MAX_ALIASES: usize = 256;
/// Most values of a file, with aliases written out.
const MAX_NODES: usize = 250_000;
/// Longest text that is read at all, bytes: none written by hand is larger.
const MAX_BYTES: usize = 4 << 20;

/// `text`, the content of `file`, as a `T`. Booleans are only `true` and `false`; a repeated key is a mistake.
///
/// # Errors
/// The mistakes, with places and advice. A mistake of syntax hides those behind it.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Vec<Diagnostic>> {
    read_with(file, text, DuplicateKeyPolicy::Error).map_err(|(diagnostic, _)| vec![diagnostic])
}

/// Like [`read`], but a repeated key only adds to `mistakes`: the last one counts, so that the rest is checked as well.
pub fn read_on<T: DeserializeOwned>(file: &str, text: &str, mistakes: &mut Vec<Diagnostic>) -> Option<T> {
    match read_with(file, text, DuplicateKeyPolicy::Error) {
        Ok(value) => Some(value),
        Err((diagnostic, repeated)) => {
            mistakes.push(diagnostic);
            if !repeated {
                return None;
            }
            read_with(file, text, DuplicateKeyPolicy::LastWins).map_err(|(next, _)| mistakes.push(next)).ok()
        }
    }
}

fn read_with<T: DeserializeOwned>(
    file: &str,
    text: &str,
    duplicate_keys: DuplicateKeyPolicy,
) -> Result<T, (Diagnostic, bool)> {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes; {MAX_BYTES} are the most that is read", text.len());
        return Err((Diagnostic::new(file, text, 0..0, message), false));
    }
    serde_yaml::from_str_with_options(text, options(duplicate_keys)).map_err(|error| {
        let repeated = matches!(error.without_snippet(), Error::DuplicateMappingKey { .. });
        (diagnose(file, text, &error), repeated)
    })
}

fn options(duplicate_keys: DuplicateKeyPolicy) -> Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! { max_depth: MAX_DEPTH, max_aliases: MAX_ALIASES, max_nodes: MAX_NODES },
        duplicate_keys: duplicate_keys,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// A reader's error as a diagnostic of `file`, whose content is `text`.
pub fn diagnose(file: &str, text: &str, error: &Error) -> Diagnostic {
    let error = error.without_snippet();
    let span = error.location().map_or(0..0, |location| span_in(text, location));
    let (message, help) = explain(error);
    let diagnostic = Diagnostic::new(file, text, span, message);
    match help {
        Some(help) => diagnostic.with_help(help),
        None => diagnostic,
    }
}

/// The advice for a word that is none of `known`.
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

/// The bytes that a location covers; nothing at 0 when it has none.
pub fn byte_range(location: Location) -> Range<usize> {
    let span = location.span();
    match (span.byte_offset(), span.byte_len()) {
        (Some(offset), Some(length)) => offset as usize..(offset + length) as usize,
        _ => 0..0,
    }
}

fn span_in(text: &str, location: Location) -> Range<usize> {
    if location.span().byte_offset().is_some() {
        return byte_range(location);
    }
    let line = location.line().max(1) as usize - 1;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = location.column().max(1) as usize - 1;
    let offset: usize = text[start..].chars().take(column).map(char::len_utf8).sum();
    start + offset..start + offset
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::node::{Node, Value};

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
        for (text, shown, help) in cases {
            let diagnostic = first(text);
            assert_eq!(diagnostic.to_string(), shown);
            assert_eq!(diagnostic.help.as_deref(), help);
        }
    }

    #[test]
    fn bombs_and_depth_are_refused() {
        let refused = |text: &str, why: &str| {
            let diagnostic = read::<Node>("s.yaml", text).unwrap_err().remove(0);
            assert!(diagnostic.to_string().contains(why), "{diagnostic}");
        };
        for depth in [40, 300, 100_000] {
            refused(&format!("{}1{}", "[".repeat(depth), "]".repeat(depth)), "more than 32 deep");
            refused(&"- ".repeat(depth), "more than 32 deep");
        }
        refused(&format!("a: &a 1\nb: [{}]\n", "*a,".repeat(300)), "more than 256 aliases");
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..24 {
            laughs += &format!("a{level}: &a{level} [{}]\n", format!("*a{},", level - 1).repeat(10));
        }
        refused(&laughs, "more than 250000 values");
    }

    #[test]
    fn nodes_know_where_they_stand() {
        let text = "name: é\nlist:\n  - 1\n  - {x: 2.5, y: true}\n";
        let node: Node = read("n.yaml", text).unwrap();
        let Value::Map(entries) = &node.value else { panic!("{node:?}") };
        assert_eq!(&text[entries[1].key_span.clone()], "list");
        let Value::List(items) = &entries[1].node.value else { panic!("{node:?}") };
        assert_eq!((&items[0].value, &text[items[0].span.clone()]), (&Value::Integer(1), "1"));
        let Value::Map(inner) = &items[1].value else { panic!("{node:?}") };
        assert_eq!((inner[0].key.as_str(), &text[inner[0].node.span.clone()]), ("x", "2.5"));
        assert_eq!(inner[1].node.value, Value::Bool(true));
    }
}
