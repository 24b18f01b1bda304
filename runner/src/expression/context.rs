//! The values of names in expressions, converted once for all expressions of a case.

use std::collections::BTreeMap;

use minijinja::value::{Serde, Value as JinjaValue, ValueKind};
use serde::Serialize;
use serde_json::Value;

use super::compile::compile;
use super::error::ExpressionError;

/// Characters shown of a long value, and maximum length of a value shown whole.
const SHOWN: (usize, usize) = (80, 100);

/// Names and their values.
#[derive(Clone, Debug, Default)]
pub struct Context {
    values: BTreeMap<String, JinjaValue>,
}

/// The result of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    /// True.
    True,
    /// False.
    False,
    /// Not a boolean: the shortened value.
    Neither(String),
}

impl Context {
    /// The fields of a mapping.
    pub(crate) fn new(fields: &Value) -> Context {
        let mut context = Context::default();
        for (name, value) in fields.as_object().into_iter().flatten() {
            context.add(name, value);
        }
        context
    }

    /// One more name.
    pub(crate) fn add(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.values.insert(name.to_owned(), JinjaValue::from(Serde(value)));
    }

    /// Adds a name with only the `wanted` parts of its mapping; the others are none.
    pub(crate) fn add_parts(&mut self, name: &str, value: &Value, wanted: impl Fn(&str) -> bool) {
        let Some(parts) = value.as_object() else { return self.add(name, value) };
        let convert = |(name, value): (&String, &Value)| {
            let value = if wanted(name) { JinjaValue::from(Serde(value)) } else { JinjaValue::from(()) };
            (name.clone(), value)
        };
        self.values.insert(name.to_owned(), JinjaValue::from_pairs(parts.iter().map(convert)));
    }

    /// The value of `expression`.
    ///
    /// # Errors
    /// Wrong syntax, an unknown name or attribute, or a wrong type.
    pub(super) fn evaluate(&self, expression: &str) -> Result<JinjaValue, ExpressionError> {
        let value = compile(expression)?.eval(JinjaValue::from_pairs(self.values.clone()))?;
        if value.is_undefined() {
            return Err(ExpressionError("a name in it is not defined".to_owned()));
        }
        Ok(value)
    }

    /// Whether `expression` is true.
    ///
    /// # Errors
    /// As [`Context::evaluate`].
    pub(crate) fn truth(&self, expression: &str) -> Result<Truth, ExpressionError> {
        let value = self.evaluate(expression)?;
        Ok(match truth(&value) {
            Some(true) => Truth::True,
            Some(false) => Truth::False,
            None => Truth::Neither(brief(&value)),
        })
    }
}

/// The boolean that a value is.
pub(super) fn truth(value: &JinjaValue) -> Option<bool> {
    (value.kind() == ValueKind::Bool).then(|| value.is_true())
}

/// A value on one line; a long one is shortened, and its type is added. Reads only as much of it as is shown.
pub(super) fn brief(value: &JinjaValue) -> String {
    let (cut, whole) = SHOWN;
    let mut text = String::new();
    if spaced(value, &mut text, whole) && text.chars().count() <= whole {
        return text;
    }
    let head: String = text.chars().take(cut).collect();
    let count = value.len().unwrap_or_default();
    let what = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => format!("list of {count}"),
        ValueKind::Map => format!("mapping of {count}"),
        ValueKind::String => format!("text of {count} characters"),
        _ => "cut".to_owned(),
    };
    format!("{head} ... ({what})")
}

/// Writes a value, and gives up when the text is longer than `limit`. Returns whether all of it was written.
fn spaced(value: &JinjaValue, out: &mut String, limit: usize) -> bool {
    let (open, close) = match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => ('[', ']'),
        ValueKind::Map => ('{', '}'),
        _ => {
            out.push_str(&serde_json::to_string(value).unwrap_or_else(|_| value.to_string()));
            return true;
        }
    };
    out.push(open);
    for (index, item) in value.try_iter().into_iter().flatten().enumerate() {
        // In bytes; a character has at most four.
        if out.len() > 4 * limit {
            return false;
        }
        if index > 0 {
            out.push_str(", ");
        }
        let part = if open == '{' {
            out.push_str(&format!("{item}: "));
            value.get_item(&item).unwrap_or_default()
        } else {
            item
        };
        if !spaced(&part, out, limit) {
            return false;
        }
    }
    out.push(close);
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_values_are_cut_and_say_what_they_are() {
        let show = |value: Value| brief(&JinjaValue::from(Serde(&value)));
        assert_eq!(show(json!([1, 2.5, "a\"b", null, true, {"k": []}])), r#"[1, 2.5, "a\"b", null, true, {k: []}]"#);
        let long = show(json!((0..1_000_000).collect::<Vec<u32>>()));
        assert!(
            long.starts_with("[0, 1, 2, ") && long.ends_with("... (list of 1000000)") && long.len() < 120,
            "{long}"
        );
        let long = show(json!({"a": "x".repeat(500), "b": 1}));
        assert!(long.starts_with("{a: \"xxx") && long.ends_with(" ... (mapping of 2)"), "{long}");
        assert!(show(json!("ä".repeat(300))).ends_with(" ... (text of 300 characters)"));
        assert_eq!(show(json!("ä".repeat(98))).chars().count(), 100);
    }

    #[test]
    fn what_is_not_wanted_is_none_under_its_name() {
        let mut context = Context::new(&json!({"a": 1}));
        context.add_parts("report", &json!({"links": [1, 2], "timeline": [1]}), |name| name == "links");
        assert_eq!(context.truth("report.links | length == 2 and report.timeline is none").unwrap(), Truth::True);
        assert_eq!(context.truth("report | length == a + 1").unwrap(), Truth::True);
        assert_eq!(context.truth("report.links").unwrap(), Truth::Neither("[1, 2]".into()));
        assert!(context.truth("report.other").is_err());
    }
}
