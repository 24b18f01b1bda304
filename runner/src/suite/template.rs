//! `${{ expression }}` in scalars, replaced after parsing. A scalar that is nothing else keeps the expression's type.

use model::node::{Entry, Node, Value};

use crate::check::capture;
use crate::expression;
use crate::late;
use crate::suite::reader::{Reader, to_json};

const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// `node` with every expression replaced; a wrong one is noted, and its scalar becomes empty text.
pub(crate) fn render(reader: &Reader<'_>, node: &Node, context: &serde_json::Value) -> Node {
    render_at(reader, node, context, Place::Elsewhere)
}

/// [`render`] of a case: what its `expect` says with captures stays, since those are known when its processes have ended.
pub(crate) fn render_case(reader: &Reader<'_>, node: &Node, context: &serde_json::Value) -> Node {
    render_at(reader, node, context, Place::Case)
}

/// Where in a case: only below `expect.report` and `expect.perf` may captures stand.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Elsewhere,
    Case,
    Expect,
    Checks,
}

impl Place {
    fn below(self, key: &str) -> Place {
        match (self, key) {
            (Place::Case, "expect") => Place::Expect,
            (Place::Expect, "report" | "perf") | (Place::Checks, _) => Place::Checks,
            _ => Place::Elsewhere,
        }
    }
}

fn render_at(reader: &Reader<'_>, node: &Node, context: &serde_json::Value, place: Place) -> Node {
    let value = match &node.value {
        Value::Text(text) if place == Place::Checks && uses_captures(text) => node.value.clone(),
        Value::Text(text) if text.contains(OPEN) => match scalar(text, context) {
            Ok(value) => value,
            Err(error) => {
                if uses_captures(text) {
                    let help = "they may stand in `report` and `perf`, and without `${{ }}` in `invariants`";
                    reader.mistake(&node.span, "captures are known when the processes have ended", help);
                } else {
                    reader.mistake(&node.span, error, names(context));
                }
                Value::Text(POISON.to_owned())
            }
        },
        Value::List(items) => Value::List(items.iter().map(|item| render_at(reader, item, context, place)).collect()),
        Value::Map(entries) => Value::Map(
            entries
                .iter()
                .map(|entry| Entry {
                    key: entry.key.clone(),
                    key_span: entry.key_span.clone(),
                    node: render_at(reader, &entry.node, context, place.below(&entry.key)),
                })
                .collect(),
        ),
        other => other.clone(),
    };
    Node { value, span: node.span.clone() }
}

/// The expressions in `text`, without what is around them.
pub(crate) fn expressions(text: &str) -> Vec<&str> {
    let inner = text.split(OPEN).skip(1);
    inner.filter_map(|part| Some(part[..part.find(CLOSE)?].trim())).collect()
}

/// Whether an expression in `text` uses captures.
pub(crate) fn uses_captures(text: &str) -> bool {
    text.contains(OPEN)
        && text.contains(capture::NAME)
        && expressions(text)
            .iter()
            .any(|inner| expression::names(inner).is_ok_and(|names| names.iter().any(|name| name == capture::NAME)))
}

/// What `text` becomes.
///
/// # Errors
/// A wrong expression, in words.
pub(crate) fn value(text: &str, context: &serde_json::Value) -> Result<serde_json::Value, String> {
    let value = scalar(text, context)?;
    Ok(to_json(&located(value)))
}

fn names(context: &serde_json::Value) -> String {
    let matrix: Vec<&str> =
        context["matrix"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let matrix = if matrix.is_empty() { String::new() } else { format!("matrix.{}, ", matrix.join(", matrix.")) };
    let cluster = if context.get("cluster").is_some() { "cluster, " } else { "" };
    format!("there are {matrix}{cluster}case.id, suite, dir and env (the environment of ftest)")
}

/// What a scalar with a wrong expression becomes. The file is refused anyway.
const POISON: &str = "?";

fn scalar(text: &str, context: &serde_json::Value) -> Result<Value, String> {
    if let Some(expression) = whole(text) {
        return value_of(expression, context).and_then(from_json);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        out.push_str(&rest[..start]);
        let inner = &rest[start + OPEN.len()..];
        let end = inner.find(CLOSE).ok_or_else(|| format!("`{OPEN}` without `{CLOSE}`"))?;
        match value_of(&inner[..end], context)? {
            serde_json::Value::String(text) => out.push_str(&text),
            value @ (serde_json::Value::Bool(_) | serde_json::Value::Number(_)) => out.push_str(&value.to_string()),
            other => return Err(format!("`{}` is {other}, which cannot stand inside text", inner[..end].trim())),
        }
        rest = &inner[end + CLOSE.len()..];
    }
    out.push_str(rest);
    Ok(Value::Text(out))
}

/// The expression of a scalar that is nothing but one expression.
fn whole(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    (!inner.contains(OPEN)).then_some(inner)
}

fn value_of(expression: &str, context: &serde_json::Value) -> Result<serde_json::Value, String> {
    if let Some(text) = late::placeholder(expression)? {
        return Ok(serde_json::Value::String(text));
    }
    expression::evaluate(expression.trim(), context)
        .map_err(|error| format!("`{}`: {error}", expression::cut(expression.trim())))
}

fn from_json(value: serde_json::Value) -> Result<Value, String> {
    Ok(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Value::Integer(number.into()),
            (_, Some(number), _) => Value::Integer(number.into()),
            (_, _, Some(number)) => Value::Float(number),
            _ => return Err(format!("{number} is no number")),
        },
        serde_json::Value::String(text) => Value::Text(text),
        serde_json::Value::Array(items) => {
            Value::List(items.into_iter().map(|item| from_json(item).map(located)).collect::<Result<_, _>>()?)
        }
        serde_json::Value::Object(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| from_json(value).map(|value| Entry { key, key_span: 0..0, node: located(value) }))
                .collect::<Result<_, _>>()?,
        ),
    })
}

fn located(value: Value) -> Node {
    Node { value, span: 0..0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_whole_scalar_keeps_its_type() {
        let context = json!({"matrix": {"world": 4, "dtype": "bf16"}});
        for (text, expected) in [
            ("${{ matrix.world }}", Value::Integer(4)),
            ("  ${{matrix.world // 2}} ", Value::Integer(2)),
            ("${{ matrix.world == 4 }}", Value::Bool(true)),
            ("n=${{ matrix.world }}", Value::Text("n=4".into())),
            ("${{ matrix.world }}${{ matrix.dtype }}", Value::Text("4bf16".into())),
        ] {
            assert_eq!(scalar(text, &context), Ok(expected), "{text}");
        }
        for text in ["${{ matrix.typo }}", "a ${{ matrix }}", "${{ 1 +", "x ${{ y }} z", "${{ }}"] {
            assert!(scalar(text, &context).is_err(), "{text}");
        }
    }
}
