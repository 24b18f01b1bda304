//! Values that become known only when a case runs: `${{ fixtures.NAME.OUTPUT }}` and, in a fixture, `${{ dir.scratch }}`.
//! They stay in the text unchanged until then.

use std::sync::OnceLock;

use regex::{Captures, Regex};

use crate::expression;

/// A value that is known later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// An output of a fixture.
    Output {
        /// The fixture.
        fixture: String,
        /// The variable.
        output: String,
    },
    /// The fixture's own directory.
    Scratch,
}

fn pattern() -> Option<&'static Regex> {
    static PATTERN: OnceLock<Option<Regex>> = OnceLock::new();
    let text = r"\$\{\{\s*(?:(dir\.scratch)|fixtures\.([A-Za-z0-9_-]+)\.([A-Za-z_][A-Za-z0-9_]*))\s*\}\}";
    PATTERN.get_or_init(|| Regex::new(text).ok()).as_ref()
}

fn deferred(found: &Captures<'_>) -> Deferred {
    match (found.get(2), found.get(3)) {
        (Some(fixture), Some(output)) => {
            Deferred::Output { fixture: fixture.as_str().to_owned(), output: output.as_str().to_owned() }
        }
        _ => Deferred::Scratch,
    }
}

/// The placeholder of `expression` until its value is known; `None` if it is known now.
///
/// # Errors
/// One sentence if it does more than name a late value.
pub fn placeholder(expression: &str) -> Result<Option<String>, String> {
    let expression = expression.trim();
    let text = format!("${{{{ {expression} }}}}");
    if pattern().is_some_and(|pattern| pattern.find(&text).is_some_and(|found| found.as_str() == text)) {
        return Ok(Some(text));
    }
    // A mistake in the expression is reported where it is evaluated.
    let names = expression::names(expression).unwrap_or_default();
    if names.iter().any(|name| name == "fixtures") {
        return Err("a fixture's outputs are known only when the case runs; write only the name: \
                    `${{ fixtures.NAME.OUTPUT }}`"
            .to_owned());
    }
    Ok(None)
}

/// The late values that `text` waits for.
pub fn waits_for(text: &str) -> Vec<Deferred> {
    pattern().map(|pattern| pattern.captures_iter(text).map(|found| deferred(&found)).collect()).unwrap_or_default()
}

/// Fills the late values into `text`; those that `value` does not have are unchanged.
pub fn fill(text: &mut String, value: &dyn Fn(&Deferred) -> Option<String>) {
    if let Some(pattern) = pattern().filter(|_| text.contains("${{")) {
        let filled = pattern.replace_all(text, |found: &Captures<'_>| {
            value(&deferred(found)).unwrap_or_else(|| found.get(0).map_or(String::new(), |all| all.as_str().to_owned()))
        });
        *text = filled.into_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_values_are_named_and_filled() {
        assert_eq!(placeholder(" fixtures.my-data.DIR ").unwrap().unwrap(), "${{ fixtures.my-data.DIR }}");
        assert_eq!(placeholder("dir.scratch").unwrap().unwrap(), "${{ dir.scratch }}");
        assert_eq!(placeholder("dir"), Ok(None));
        assert_eq!(placeholder("'fixtures.a.B'"), Ok(None));
        assert!(placeholder("fixtures.data.DIR | upper").is_err());
        assert!(placeholder("fixtures['data']").is_err());
        let mut text = "a=${{ fixtures.x.A }} ${{fixtures.y.B}} ${{ dir.scratch }} $ {{".to_owned();
        assert_eq!(waits_for(&text).len(), 3);
        fill(&mut text, &|deferred| match deferred {
            Deferred::Output { fixture, output } if fixture == "x" => Some(format!("{output}!")),
            Deferred::Output { .. } => None,
            Deferred::Scratch => Some("/s".to_owned()),
        });
        assert_eq!(text, "a=A! ${{fixtures.y.B}} /s $ {{");
    }
}
