//! The value of one expression in one context.

use serde_json::Value;

use super::context::Context;
use super::error::ExpressionError;

/// The value of `expression`, with the fields of `context` as names.
///
/// # Errors
/// Wrong syntax, an unknown name or attribute, or a wrong type.
pub(crate) fn evaluate(expression: &str, context: &Value) -> Result<Value, ExpressionError> {
    let value = Context::new(context).evaluate(expression)?;
    serde_json::to_value(&value).map_err(|error| ExpressionError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::names;
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
