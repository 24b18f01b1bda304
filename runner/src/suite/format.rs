//! The standard format of suites: the layout comes from the crate pretty_yaml, comments stay, and values are verified to stay
//! the same.

use model::diagnostic::Diagnostic;
use model::node::{Node, Value};
use model::yaml;
use pretty_yaml::config::{FormatOptions, LanguageOptions, LayoutOptions, Quotes};
use yaml_parser::SyntaxKind;

/// Maximum length of a line that is not broken, characters.
const WIDTH: usize = 180;

/// Why a text was not formatted. The text is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It is not YAML, or not in the subset that suites may use.
    #[error("{0}")]
    Mistake(Diagnostic),
    /// The formatted file would mean something else: a bug of ours, not of the file.
    #[error("{file}: formatting would change {what}; the file was not changed")]
    Changes {
        /// The file.
        file: String,
        /// What would differ.
        what: &'static str,
    },
}

/// `text`, the content of `file`, formatted.
///
/// # Errors
/// It cannot be parsed, or would not parse the same afterwards.
pub fn format(file: &str, text: &str) -> Result<String, FormatError> {
    let before = read(file, text)?;
    let options = FormatOptions {
        layout: LayoutOptions { print_width: WIDTH, indent_width: 2, ..LayoutOptions::default() },
        // Quotes around a number or a version make it text, so they are kept.
        language: LanguageOptions { quotes: Quotes::PreferDouble, ..LanguageOptions::default() },
    };
    let changes = |what| FormatError::Changes { file: file.to_owned(), what };
    // Text that our reader accepts but the formatter does not is left alone.
    let out = pretty_yaml::format_text(text, &options).map_err(|_| changes("everything (it cannot be formatted)"))?;
    let after = read(file, &out)?;
    if !same((&before, text), (&after, &out)) {
        return Err(changes("a value"));
    }
    if comments(text) != comments(&out) {
        return Err(changes("a comment"));
    }
    Ok(out)
}

fn read(file: &str, text: &str) -> Result<Node, FormatError> {
    yaml::read(file, text).map_err(|mistakes| {
        let first = mistakes.into_iter().next();
        FormatError::Mistake(first.unwrap_or_else(|| Diagnostic::new(file, text, 0..0, "it cannot be read")))
    })
}

/// Whether two trees are equal, including how numbers are written: `010` in an environment is not 10.
fn same((left, left_text): (&Node, &str), (right, right_text): (&Node, &str)) -> bool {
    match (&left.value, &right.value) {
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| same((left, left_text), (right, right_text)))
        }
        (Value::Map(left), Value::Map(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| {
                    left.key == right.key && same((&left.node, left_text), (&right.node, right_text))
                })
        }
        (Value::Text(left), Value::Text(right)) => left == right,
        (left_value, right_value) => {
            left_value == right_value && left_text.get(left.span.clone()) == right_text.get(right.span.clone())
        }
    }
}

/// The comments in their order.
fn comments(text: &str) -> Option<Vec<String>> {
    let tree = yaml_parser::parse(text).ok()?;
    let tokens = tree.descendants_with_tokens().filter_map(|element| element.into_token());
    let comments = tokens.filter(|token| token.kind() == SyntaxKind::COMMENT);
    Some(comments.map(|token| token.text().trim_end().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_changes_and_nothing_else() {
        let text = "# first\nftest:   1\nsuite: 'x'   # the name\n\n\n\ncases:\n    - id:   a\n      env: {A: 010,B: \"1.0\", C: no}\n      launch: {argv: [sh, -c, \"a  b\"]}\n";
        let out = format("s.yaml", text).unwrap();
        assert_eq!(
            out,
            "# first\nftest: 1\nsuite: \"x\" # the name\n\ncases:\n  - id: a\n    env: { A: 010, B: \"1.0\", C: no }\n    launch: { argv: [sh, -c, \"a  b\"] }\n"
        );
        assert_eq!(format("s.yaml", &out).unwrap(), out);
    }

    #[test]
    fn a_difference_is_seen() {
        let node = |text: &str| yaml::read::<Node>("s.yaml", text).unwrap();
        for (left, right) in [("a: 010", "a: 10"), ("a: 1", "a: \"1\""), ("a: [1, 2]", "a: [2, 1]"), ("a: x", "b: x")] {
            assert!(same((&node(left), left), (&node(left), left)), "{left}");
            assert!(!same((&node(left), left), (&node(right), right)), "{left} {right}");
        }
        assert_ne!(comments("a: 1 # x"), comments("a: 1 # y"));
        assert!(matches!(format("s.yaml", "a: [1"), Err(FormatError::Mistake(_))));
    }
}
