//! Comparisons of report values. As parsed they may contain expressions over captures; a check evaluates those first.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;

use regex::Regex;
use serde_json::Value;

use crate::check::capture::{Captures, Operand};
use crate::check::tolerance::{self, Tolerance};
use crate::expression::compare;

/// One comparison.
#[derive(Clone, Debug)]
pub enum Operator<O = Value> {
    /// Equal; floats bit by bit.
    Eq(O),
    /// A list with the same items, in any order.
    EqUnordered(O),
    /// Not equal.
    Ne(O),
    /// Less.
    Lt(O),
    /// Less or equal.
    Le(O),
    /// Greater.
    Gt(O),
    /// Greater or equal.
    Ge(O),
    /// Between the first and the second, inclusive.
    Between(O, O),
    /// Within a tolerance.
    Near {
        /// The wanted number, or list of numbers.
        value: O,
        /// How near.
        tolerance: Tolerance,
    },
    /// Equal to one of them.
    In(Vec<O>),
    /// A text with this part, or a list with this item.
    Contains(O),
    /// A text that this expression matches somewhere.
    Matches(Regex),
    /// A value of this type.
    Type(Type),
    /// Length of a list, mapping or text (in characters).
    Len(u64),
    /// A list in which nothing appears twice.
    Unique,
    /// A list in this order.
    Sorted(Direction),
}

/// A type of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// A list.
    List,
    /// A mapping.
    Mapping,
    /// Null.
    Null,
}

impl Type {
    /// All, as suites name them.
    pub const ALL: [(&'static str, Type); 7] = [
        ("integer", Type::Integer),
        ("number", Type::Number),
        ("text", Type::Text),
        ("boolean", Type::Boolean),
        ("list", Type::List),
        ("mapping", Type::Mapping),
        ("null", Type::Null),
    ];

    fn is(self, value: &Value) -> bool {
        match self {
            Type::Integer => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            Type::Number => value.is_number(),
            Type::Text => value.is_string(),
            Type::Boolean => value.is_boolean(),
            Type::List => value.is_array(),
            Type::Mapping => value.is_object(),
            Type::Null => value.is_null(),
        }
    }

    fn name(self) -> &'static str {
        Type::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// An order of a list; equal neighbors are fine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// None is less than the one before.
    Ascending,
    /// None is greater than the one before.
    Descending,
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operator::Eq(value) => write!(f, "== {value}"),
            Operator::EqUnordered(value) => write!(f, "== {value} in any order"),
            Operator::Ne(value) => write!(f, "!= {value}"),
            Operator::Lt(value) => write!(f, "< {value}"),
            Operator::Le(value) => write!(f, "<= {value}"),
            Operator::Gt(value) => write!(f, "> {value}"),
            Operator::Ge(value) => write!(f, ">= {value}"),
            Operator::Between(low, high) => write!(f, "between {low} and {high}"),
            Operator::Near { value, tolerance } => {
                write!(f, "near {value} (rel {:e}, abs {:e})", tolerance.relative, tolerance.absolute)
            }
            Operator::In(values) => write!(f, "in {}", Value::Array(values.clone())),
            Operator::Contains(value) => write!(f, "contains {value}"),
            Operator::Matches(regex) => write!(f, "matches /{regex}/"),
            Operator::Type(kind) => write!(f, "is of type {}", kind.name()),
            Operator::Len(length) => write!(f, "has length {length}"),
            Operator::Unique => f.write_str("holds nothing twice"),
            Operator::Sorted(Direction::Ascending) => f.write_str("is ascending"),
            Operator::Sorted(Direction::Descending) => f.write_str("is descending"),
        }
    }
}

impl Operator<Operand> {
    /// The operator with every expression evaluated.
    ///
    /// # Errors
    /// A capture that never matched, or a wrong expression, in words.
    pub fn resolve(&self, captures: &Captures) -> Result<Operator, String> {
        let value = |operand: &Operand| operand.value(captures);
        Ok(match self {
            Operator::Eq(operand) => Operator::Eq(value(operand)?),
            Operator::EqUnordered(operand) => Operator::EqUnordered(value(operand)?),
            Operator::Ne(operand) => Operator::Ne(value(operand)?),
            Operator::Lt(operand) => Operator::Lt(value(operand)?),
            Operator::Le(operand) => Operator::Le(value(operand)?),
            Operator::Gt(operand) => Operator::Gt(value(operand)?),
            Operator::Ge(operand) => Operator::Ge(value(operand)?),
            Operator::Between(low, high) => Operator::Between(value(low)?, value(high)?),
            Operator::Near { value: operand, tolerance } => {
                Operator::Near { value: value(operand)?, tolerance: *tolerance }
            }
            Operator::In(operands) => Operator::In(operands.iter().map(value).collect::<Result<_, _>>()?),
            Operator::Contains(operand) => Operator::Contains(value(operand)?),
            Operator::Matches(regex) => Operator::Matches(regex.clone()),
            Operator::Type(kind) => Operator::Type(*kind),
            Operator::Len(length) => Operator::Len(*length),
            Operator::Unique => Operator::Unique,
            Operator::Sorted(direction) => Operator::Sorted(*direction),
        })
    }
}

impl Operator {
    /// Whether it applies to a list: if several values are selected, it applies to the list of them.
    pub fn is_of_list(&self) -> bool {
        matches!(self, Operator::EqUnordered(_) | Operator::Len(_) | Operator::Unique | Operator::Sorted(_))
    }

    /// Whether `value` satisfies it. A value of a type it does not apply to never does.
    pub fn holds(&self, value: &Value) -> bool {
        let ordered = |other: &Value, accept: fn(Ordering) -> bool| compare::order(value, other).is_some_and(accept);
        match self {
            Operator::Eq(other) => compare::equal(value, other),
            Operator::EqUnordered(other) => match (value, other) {
                (Value::Array(items), Value::Array(wanted)) => unmatched(items, wanted).is_empty(),
                _ => false,
            },
            Operator::Ne(other) => !compare::equal(value, other),
            Operator::Lt(other) => ordered(other, Ordering::is_lt),
            Operator::Le(other) => ordered(other, Ordering::is_le),
            Operator::Gt(other) => ordered(other, Ordering::is_gt),
            Operator::Ge(other) => ordered(other, Ordering::is_ge),
            Operator::Between(low, high) => ordered(low, Ordering::is_ge) && ordered(high, Ordering::is_le),
            Operator::Near { value: other, tolerance } => tolerance.holds(value, other),
            Operator::In(others) => others.iter().any(|other| compare::equal(value, other)),
            Operator::Contains(part) => match (value, part) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                (Value::Array(items), part) => items.iter().any(|item| compare::equal(item, part)),
                _ => false,
            },
            Operator::Matches(regex) => value.as_str().is_some_and(|text| regex.is_match(text)),
            Operator::Type(kind) => kind.is(value),
            Operator::Len(length) => length_of(value) == Some(*length),
            Operator::Unique => value.as_array().is_some_and(|items| repeated(items).is_none()),
            Operator::Sorted(direction) => value.as_array().is_some_and(|items| unsorted(items, *direction).is_none()),
        }
    }

    /// What is wrong with `value`, in addition to showing the value itself; may be empty.
    pub fn difference(&self, value: &Value) -> String {
        match (self, value) {
            (Operator::Near { value: wanted, tolerance }, value) => tolerance.difference(value, wanted),
            (Operator::Unique, Value::Array(items)) => {
                repeated(items).map(|item| format!("{item} appears twice")).unwrap_or_default()
            }
            (Operator::Sorted(direction), Value::Array(items)) => unsorted(items, *direction)
                .map(|index| format!("item {index} is {} after {}", items[index], items[index - 1]))
                .unwrap_or_default(),
            (Operator::EqUnordered(Value::Array(wanted)), Value::Array(items)) => unmatched(items, wanted),
            (Operator::Unique | Operator::Sorted(_) | Operator::EqUnordered(_), _) => "it is not a list".to_owned(),
            (Operator::Lt(other) | Operator::Le(other) | Operator::Gt(other) | Operator::Ge(other), value)
                if value.is_number() && tolerance::number(other).is_none() =>
            {
                format!("{other} is not a number")
            }
            _ => String::new(),
        }
    }
}

/// The length of a list, mapping or text (in characters).
pub fn length_of(value: &Value) -> Option<u64> {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        Value::String(text) => text.chars().count(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    Some(length as u64)
}

fn repeated(items: &[Value]) -> Option<&Value> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().find(|item| !seen.insert(compare::key(item)))
}

/// The first item that is out of order with its predecessor or cannot be compared with it.
fn unsorted(items: &[Value], direction: Direction) -> Option<usize> {
    let wrong = match direction {
        Direction::Ascending => Ordering::Less,
        Direction::Descending => Ordering::Greater,
    };
    (1..items.len()).find(|index| compare::order(&items[*index], &items[index - 1]).is_none_or(|order| order == wrong))
}

/// Items that are in only one of two lists, counting duplicates.
fn unmatched(items: &[Value], wanted: &[Value]) -> String {
    let mut left: HashMap<String, usize> = HashMap::with_capacity(wanted.len());
    for item in items {
        *left.entry(compare::key(item)).or_default() += 1;
    }
    let mut take = |item: &Value| match left.get_mut(&compare::key(item)) {
        Some(count) if *count > 0 => {
            *count -= 1;
            true
        }
        _ => false,
    };
    // Among equal items, the first ones are matched; the last ones are missing or unwanted.
    let missing: Vec<&Value> = wanted.iter().filter(|item| !take(item)).collect();
    let mut extra: Vec<&Value> = items.iter().rev().filter(|item| take(item)).collect();
    extra.reverse();
    let list = |items: &[&Value]| items.iter().take(4).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    [("missing", missing), ("not wanted", extra)]
        .into_iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(what, items)| format!("{what}: {}", list(&items)))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use serde_json::json;

    fn near(value: f64) -> Operator {
        Operator::Near { value: json!(value), tolerance: Tolerance { relative: 1e-3, ..Tolerance::default() } }
    }

    #[test]
    fn operators_of_a_number() {
        let number = json!(4);
        for (operator, expected) in [
            (Operator::Eq(json!(4.0)), true),
            (Operator::Ne(json!(4)), false),
            (Operator::Lt(json!(5)), true),
            (Operator::Le(json!(4)), true),
            (Operator::Gt(json!(4)), false),
            (Operator::Ge(json!("4")), false),
            (Operator::Between(json!(4), json!(5)), true),
            (Operator::Between(json!(1), json!(3.5)), false),
            (Operator::In(vec![json!(1), json!(4)]), true),
            (near(4.0004), true),
            (near(4.1), false),
            (Operator::Contains(json!(4)), false),
            (Operator::Len(1), false),
            (Operator::Type(Type::Integer), true),
            (Operator::Type(Type::Text), false),
            (Operator::Unique, false),
            (Operator::Sorted(Direction::Ascending), false),
        ] {
            assert_eq!(operator.holds(&number), expected, "{operator}");
        }
    }

    #[test]
    fn operators_of_texts_and_lists() {
        let list = json!([3, 1, 2]);
        for (operator, value, expected) in [
            (Operator::Contains(json!("ev")), &json!("dev"), true),
            (Operator::Contains(json!({"a": 1})), &json!([{"a": 1}]), true),
            (Operator::Matches(Regex::new("^d.v$").unwrap()), &json!("dev"), true),
            (Operator::Len(2), &json!({"a": 1, "b": 2}), true),
            (Operator::EqUnordered(json!([1, 2, 3.0])), &list, true),
            (Operator::EqUnordered(json!([1, 2, 2])), &list, false),
            (Operator::Eq(json!([1, 2, 3])), &list, false),
            (Operator::Unique, &list, true),
            (Operator::Unique, &json!([1, 2, 1.0]), false),
            (Operator::Sorted(Direction::Ascending), &list, false),
            (Operator::Sorted(Direction::Ascending), &json!([1, 1, 2]), true),
            (Operator::Sorted(Direction::Descending), &json!(["b", "a"]), true),
            (Operator::Sorted(Direction::Ascending), &json!([1, "a"]), false),
            (Operator::Type(Type::List), &list, true),
            (Operator::Type(Type::Null), &json!(null), true),
        ] {
            assert_eq!(operator.holds(value), expected, "{operator} {value}");
        }
        let unordered = Operator::EqUnordered(json!([1, 2, 2]));
        assert_eq!(unordered.difference(&list), "missing: 2; not wanted: 3");
        assert_eq!(Operator::Sorted(Direction::Ascending).difference(&list), "item 1 is 1 after 3");
        assert_eq!(Operator::Unique.difference(&json!([1, 2, 1])), "1 appears twice");
    }
    /// Comparing all pairs would take minutes.
    #[test]
    fn long_lists_are_compared_in_one_pass() {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let numbers: Vec<u32> = (0..150_000).collect();
            let mut turned = numbers.clone();
            turned.reverse();
            let list = json!(numbers);
            let unordered = Operator::EqUnordered(json!(turned));
            let other = Operator::EqUnordered(json!([&turned[1..], &[7]].concat()));
            let _ = sender.send((
                [Operator::Unique.holds(&list), unordered.holds(&list), other.holds(&list)],
                other.difference(&list),
            ));
        });
        let (holds, difference) = receiver.recv_timeout(Duration::from_secs(60)).expect("an answer within a minute");
        assert_eq!(holds, [true, true, false]);
        assert_eq!(difference, "missing: 7; not wanted: 149999");
    }
}
