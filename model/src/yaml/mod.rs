//! The one place that reads YAML: its options, its limits, and the places of its errors.

mod explain;

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_yaml::options::DuplicateKeyPolicy;
use serde_yaml::{Error, Location, Options};

use crate::diagnostic::Diagnostic;

pub use explain::{diagnose, did_you_mean};

/// The deepest nesting in a file.
const MAX_DEPTH: usize = 32;
/// The most aliases in a file.
const MAX_ALIASES: usize = 256;
/// The most values in a file, with aliases expanded.
const MAX_NODES: usize = 250_000;
/// The longest text that is read at all, in bytes: none written by hand is longer.
const MAX_BYTES: usize = 4 << 20;

/// `text`, the content of `file`, as a `T`. Booleans are only `true` and `false`; a repeated key is a mistake.
///
/// # Errors
/// The mistakes, with places and advice. A syntax error hides those after it.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Vec<Diagnostic>> {
    read_with(file, text, DuplicateKeyPolicy::Error).map_err(|(diagnostic, _)| vec![diagnostic])
}

/// Like [`read`], but a repeated key only adds to `mistakes`: the last one counts, so the rest is checked as well.
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

/// The bytes that a location covers; an empty range at 0 if it has none.
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

    use super::*;
    use crate::node::{Node, Value};

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
