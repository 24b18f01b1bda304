//! `${{ expression }}` in scalars, replaced after parsing. A scalar that consists only of an expression keeps the
//! expression's type.

use model::node::{Entry, Node, Value};

use crate::check::capture;
use crate::expression;
use crate::expression::template;
use crate::suite::reader::Reader;

/// `node` with every expression replaced; a wrong one is reported, and its scalar becomes empty text.
pub(crate) fn render(reader: &Reader<'_>, node: &Node, context: &serde_json::Value) -> Node {
    render_at(reader, node, context, Position::Elsewhere)
}

/// [`render`] of a case: captures in its `expect` stay, because their values are known only after its processes have
/// ended.
pub(crate) fn render_case(reader: &Reader<'_>, node: &Node, context: &serde_json::Value) -> Node {
    render_at(reader, node, context, Position::Case)
}

/// The position in a case: captures are allowed only below `expect.report` and `expect.perf`.
#[derive(Clone, Copy, PartialEq)]
enum Position {
    Elsewhere,
    Case,
    Expect,
    Checks,
}

impl Position {
    fn below(self, key: &str) -> Position {
        match (self, key) {
            (Position::Case, "expect") => Position::Expect,
            (Position::Expect, "report" | "perf") | (Position::Checks, _) => Position::Checks,
            _ => Position::Elsewhere,
        }
    }
}

fn render_at(reader: &Reader<'_>, node: &Node, context: &serde_json::Value, place: Position) -> Node {
    let value = match &node.value {
        Value::Text(text) if place == Position::Checks && uses_captures(text) => node.value.clone(),
        Value::Text(text) if text.contains(template::OPEN) => match scalar(text, context) {
            Ok(value) => value,
            Err(error) => {
                if uses_captures(text) {
                    let help = "they are allowed in `report` and `perf`, and without `${{ }}` in `invariants`";
                    reader.mistake(&node.span, "captures are known when the processes have ended", help);
                } else {
                    reader.mistake(&node.span, explained(error, text, context), names(context));
                }
                reader.spoil(&node.span);
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

/// Whether an expression in `text` uses captures.
pub(crate) fn uses_captures(text: &str) -> bool {
    text.contains(template::OPEN)
        && text.contains(capture::NAME)
        && template::expressions(text)
            .iter()
            .any(|inner| expression::names(inner).is_ok_and(|names| names.iter().any(|name| name == capture::NAME)))
}

fn names(context: &serde_json::Value) -> String {
    let matrix: Vec<&str> =
        context["matrix"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let matrix = if matrix.is_empty() { String::new() } else { format!("matrix.{}, ", matrix.join(", matrix.")) };
    let cluster = if context.get("cluster").is_some() { "cluster, " } else { "" };
    let repository = if context.get(REPOSITORY).is_some() { ", repository" } else { "" };
    format!("there are {matrix}{cluster}case.id, suite, dir{repository} and env (the environment of ftest)")
}

/// The name of the root of the suite's Git repository. It is undefined for a suite in none.
pub(super) const REPOSITORY: &str = "repository";

/// `error` about `text`, or what is special about a name that it uses.
fn explained(error: String, text: &str, context: &serde_json::Value) -> String {
    let is_used =
        |inner: &&&str| expression::names(inner).is_ok_and(|names| names.iter().any(|name| name == REPOSITORY));
    match template::expressions(text).iter().find(is_used) {
        Some(inner) if context.get(REPOSITORY).is_none() => {
            let directory = context["dir"].as_str().unwrap_or_default();
            format!("`{inner}`: {directory} is in no Git repository, so `{REPOSITORY}` has no value")
        }
        _ => error,
    }
}

/// Replaces a scalar with a wrong expression. The file is rejected anyway.
pub(super) const POISON: &str = "?";

fn scalar(text: &str, context: &serde_json::Value) -> Result<Value, String> {
    template::value(text, context).and_then(from_json)
}

fn from_json(value: serde_json::Value) -> Result<Value, String> {
    Ok(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => Value::Integer(number.into()),
            (_, Some(number), _) => Value::Integer(number.into()),
            (_, _, Some(number)) => Value::Float(number),
            _ => return Err(format!("{number} is not a number")),
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
