//! What expressions may use: a strict environment with our filters and functions.

use std::sync::OnceLock;

use minijinja::value::{Kwargs, Rest, Value as JinjaValue, ValueIter, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};

use crate::expression::compare;

pub(super) fn environment() -> &'static Environment<'static> {
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

/// `list | pluck('a.b')`: the given attribute of every item; an item without it is an error.
fn pluck(list: &JinjaValue, path: &str) -> Result<Vec<JinjaValue>, Error> {
    items(list)?.enumerate().map(|(index, item)| attribute(&item, path, index)).collect()
}

/// The items of a list. Jinja itself iterates over an undefined name as if it were empty.
fn items(list: &JinjaValue) -> Result<ValueIter, Error> {
    if list.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "there is no such list"));
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

/// `approx(a, b, rel=1e-6, abs=0)`: whether two numbers are close.
fn approx(left: f64, right: f64, kwargs: Kwargs) -> Result<bool, Error> {
    let relative = kwargs.get::<Option<f64>>("rel")?.unwrap_or(1e-6);
    let absolute = kwargs.get::<Option<f64>>("abs")?.unwrap_or(0.0);
    kwargs.assert_all_used()?;
    Ok(compare::near(left, right, relative, absolute))
}
