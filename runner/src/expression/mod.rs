//! Expressions of suites (`${{ ... }}` and `invariants`): one strict environment in which a wrong name is an error, never nothing.

pub mod compare;
mod context;
pub mod deferred;
mod explain;
mod limit;
mod print;
pub mod template;

use std::borrow::Cow;
use std::sync::OnceLock;

use minijinja::value::{Kwargs, Rest, Value as JinjaValue, ValueIter, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Expression, State, UndefinedBehavior};
use serde_json::Value;

pub(crate) use context::{Context, Truth};
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

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_filter("map", map);
        environment.add_filter("pluck", pluck);
        environment.add_filter("sum", sum);
        environment.add_function("approx", approx);
        environment
    })
}

/// `list | pluck('a.b')`: that attribute of every item; an item without it is an error.
fn pluck(list: &JinjaValue, path: &str) -> Result<Vec<JinjaValue>, Error> {
    items(list)?.enumerate().map(|(index, item)| attribute(&item, path, index)).collect()
}

/// The items of a list. Jinja iterates over a name that is not there as if it were empty.
fn items(list: &JinjaValue) -> Result<ValueIter, Error> {
    if list.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "the list is not there"));
    }
    list.try_iter()
}

fn attribute(item: &JinjaValue, path: &str, index: usize) -> Result<JinjaValue, Error> {
    let mut value = item.clone();
    for part in path.split('.') {
        value = match part.parse::<usize>() {
            Ok(position) if value.kind() == ValueKind::Seq => value.get_item(&JinjaValue::from(position))?,
            _ => value.get_attr(part)?,
        };
        if value.is_undefined() {
            let message = format!("item {index} has no `{part}` (of `{path}`)");
            return Err(Error::new(ErrorKind::UndefinedError, message));
        }
    }
    Ok(value)
}

/// Jinja's `map`, except that a missing attribute is an error unless `default` is given.
fn map(
    state: &mut State<'_, '_>,
    list: &JinjaValue,
    args: Rest<JinjaValue>,
    kwargs: Kwargs,
) -> Result<Vec<JinjaValue>, Error> {
    if let Some(path) = kwargs.get::<Option<String>>("attribute")? {
        let default = kwargs.get::<Option<JinjaValue>>("default")?;
        kwargs.assert_all_used()?;
        return items(list)?
            .enumerate()
            .map(|(index, item)| match (attribute(&item, &path, index), &default) {
                (Err(_), Some(default)) => Ok(default.clone()),
                (value, _) => value,
            })
            .collect();
    }
    let mut args = args.iter();
    let name = args.next().and_then(|name| name.as_str().map(str::to_owned));
    let name =
        name.ok_or_else(|| Error::new(ErrorKind::MissingArgument, "map needs attribute='...' or a filter's name"))?;
    let rest: Vec<JinjaValue> = args.cloned().collect();
    items(list)?
        .map(|item| {
            let mut values = vec![item];
            values.extend(rest.iter().cloned());
            state.apply_filter(&name, &values)
        })
        .collect()
}

/// The sum of numbers; anything else in the list is an error.
fn sum(list: &JinjaValue, kwargs: Kwargs) -> Result<JinjaValue, Error> {
    let values: Vec<JinjaValue> = match kwargs.get::<Option<String>>("attribute")? {
        Some(path) => pluck(list, &path)?,
        None => items(list)?.collect(),
    };
    kwargs.assert_all_used()?;
    let mut whole = Some(0_i128);
    let mut float = 0.0;
    for (index, value) in values.iter().enumerate() {
        if value.kind() != ValueKind::Number {
            let message = format!("sum: item {index} is {value}, not a number");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        whole = whole
            .filter(|_| value.is_integer())
            .zip(i128::try_from(value.clone()).ok())
            .and_then(|(sum, item)| sum.checked_add(item));
        float += f64::try_from(value.clone())?;
    }
    Ok(whole.map_or_else(|| JinjaValue::from(float), JinjaValue::from))
}

/// `approx(a, b, rel=1e-6, abs=0)`: whether two numbers are near.
fn approx(left: f64, right: f64, kwargs: Kwargs) -> Result<bool, Error> {
    let relative = kwargs.get::<Option<f64>>("rel")?.unwrap_or(1e-6);
    let absolute = kwargs.get::<Option<f64>>("abs")?.unwrap_or(0.0);
    kwargs.assert_all_used()?;
    Ok(compare::near(left, right, relative, absolute))
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
