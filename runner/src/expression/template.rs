//! `${{ expression }}` in text.

use serde_json::Value;

use super::deferred;

/// The start of an expression.
pub(crate) const OPEN: &str = "${{";
const CLOSE: &str = "}}";

/// The expressions in `text`, without the surrounding text.
pub fn expressions(text: &str) -> Vec<&str> {
    let inner = text.split(OPEN).skip(1);
    inner.filter_map(|part| Some(part[..part.find(CLOSE)?].trim())).collect()
}

/// The value of `text` in `context`. Text that consists only of one expression keeps the expression's type.
///
/// # Errors
/// A message about a wrong expression.
pub fn value(text: &str, context: &Value) -> Result<Value, String> {
    if let Some(expression) = whole(text) {
        return value_of(expression, context);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(OPEN) {
        out.push_str(&rest[..start]);
        let inner = &rest[start + OPEN.len()..];
        let end = inner.find(CLOSE).ok_or_else(|| format!("`{OPEN}` without `{CLOSE}`"))?;
        match value_of(&inner[..end], context)? {
            Value::String(text) => out.push_str(&text),
            value @ (Value::Bool(_) | Value::Number(_)) => out.push_str(&value.to_string()),
            other => return Err(format!("`{}` is {other}, which cannot be part of a text", inner[..end].trim())),
        }
        rest = &inner[end + CLOSE.len()..];
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

/// The expression of a scalar that consists only of one expression.
fn whole(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    (!inner.contains(OPEN)).then_some(inner)
}

fn value_of(expression: &str, context: &Value) -> Result<Value, String> {
    if let Some(text) = deferred::placeholder(expression)? {
        return Ok(Value::String(text));
    }
    super::evaluate(expression.trim(), context).map_err(|error| format!("`{}`: {error}", super::cut(expression.trim())))
}
