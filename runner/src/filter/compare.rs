//! How a filter compares names and matrix values.

use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

/// How a name is compared.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// The whole name; `*` and `?` as in globs.
    Glob(String),
    /// The whole name.
    Exact(String),
    /// Anywhere in the name.
    Part(String),
    /// `/regex/`, anywhere in the name.
    Regex(Regex),
}

/// How a value is compared.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// `=`: as numbers if both are numbers, else as text.
    Is(Matcher),
    /// `!=`.
    IsNot(Matcher),
    /// `<`, `<=`, `>`, `>=`: never true for a value that is not a number.
    Number(Bound, f64),
}

/// The side of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Matcher {
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Matcher::Glob(pattern) => crate::check::gap::glob(pattern, name),
            Matcher::Exact(exact) => exact == name,
            Matcher::Part(part) => name.contains(part.as_str()),
            Matcher::Regex(regex) => regex.is_match(name),
        }
    }

    fn matches_value(&self, value: &Value) -> bool {
        if let (Matcher::Glob(text) | Matcher::Exact(text), Some(number)) = (self, value.as_f64())
            && let Ok(wanted) = text.parse::<f64>()
        {
            return number == wanted;
        }
        match value {
            Value::String(text) => self.matches(text),
            other => self.matches(&other.to_string()),
        }
    }
}

impl Comparison {
    pub(super) fn holds(&self, value: &Value) -> bool {
        match self {
            Comparison::Is(matcher) => matcher.matches_value(value),
            Comparison::IsNot(matcher) => !matcher.matches_value(value),
            Comparison::Number(bound, limit) => {
                // `"1024"` in quotes is text in YAML, but still means the number here.
                let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
                number.and_then(|number| number.partial_cmp(limit)).is_some_and(|order| match bound {
                    Bound::Below => order == Ordering::Less,
                    Bound::AtMost => order != Ordering::Greater,
                    Bound::Above => order == Ordering::Greater,
                    Bound::AtLeast => order != Ordering::Less,
                })
            }
        }
    }
}
