//! Expressions of suites (`${{ ... }}` and `invariants`): one strict environment in which a wrong name is an error, never nothing.

pub mod compare;
mod context;
pub mod deferred;
mod environment;
mod explain;
mod limit;
mod print;
pub mod template;

use std::borrow::Cow;

use minijinja::{Error, ErrorKind, Expression};
use serde_json::Value;

pub(crate) use context::{Context, Truth};
use environment::environment;
pub(crate) use explain::{attributes, explain, uses};

/// Characters of an expression or path that a message shows.
const SHOWN: usize = 200;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExpressionError(String);

impl From<Error> for ExpressionError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::UndefinedError => "a name in it is not defined".to_owned(),
            kind => kind.to_string(),
        };
        ExpressionError(match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind,
        })
    }
}

/// The value of `expression` where the names are the fields of `context`.
///
/// # Errors
/// Wrong syntax, an unknown name or attribute, or a wrong type.
pub(crate) fn evaluate(expression: &str, context: &Value) -> Result<Value, ExpressionError> {
    let value = Context::new(context).evaluate(expression)?;
    serde_json::to_value(&value).map_err(|error| ExpressionError(error.to_string()))
}

/// The top-level names that `expression` uses, sorted.
///
/// # Errors
/// Wrong syntax.
pub(crate) fn names(expression: &str) -> Result<Vec<String>, ExpressionError> {
    let compiled = compile(expression)?;
    let mut names: Vec<String> = compiled
        .undeclared_variables(false)
        .into_iter()
        .filter(|name| !environment().globals().any(|(global, _)| global == name))
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn compile<'a>(expression: &'a str) -> Result<Expression<'a, 'a>, ExpressionError> {
    limit::check(expression)?;
    Ok(environment().compile_expression(expression)?)
}

/// `text` for a message: shortened where it is too long to read.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keeps_types_and_large_numbers() {
        let context = json!({"matrix": {"world": 5, "big": u64::MAX}, "ranks": [{"n": 1}, {"n": 2}]});
        assert_eq!(evaluate("matrix.world // 2", &context), Ok(json!(2)));
        assert_eq!(evaluate("matrix.big", &context), Ok(json!(u64::MAX)));
        assert_eq!(evaluate("ranks | map(attribute='n') | sum", &context), Ok(json!(3)));
        assert_eq!(evaluate("ranks | pluck('n') | list", &context), Ok(json!([1, 2])));
        assert_eq!(evaluate("approx(1.0, 1.0000001)", &context), Ok(json!(true)));
        assert_eq!(evaluate("matrix.no | default('x')", &context), Ok(json!("x")));
    }

    #[test]
    fn a_wrong_name_is_an_error_everywhere() {
        let context = json!({"ranks": [{"n": 1}]});
        for expression in [
            "rank",
            "ranks[0].m",
            "ranks | map(attribute='m') | sum",
            "ranks | pluck('m')",
            "ranks[0].m | pluck('x') | list | length == 0",
            "ranks[0].m | map(attribute='x') | list | length == 0",
            "ranks[0].m | map('upper') | list | length == 0",
            "ranks[0].m | sum == 0",
            "ranks[0].m | selectattr('x') | list | length == 0",
            "ranks[0].m | list | length == 0",
            "ranks | sum(attribute='m')",
            "1 +",
            "['a'] | sum",
        ] {
            assert!(evaluate(expression, &context).is_err(), "{expression}");
        }
        assert_eq!(
            names("ranks | length == matrix.world + range(2) | length"),
            Ok(vec!["matrix".into(), "ranks".into()])
        );
    }
}
