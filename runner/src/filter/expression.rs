//! What a filter means: the cases that it accepts, and the filter of one case.

use serde_json::Value;

use super::compare::{Comparison, Matcher};
use crate::case::Case;

/// A filter.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Every case.
    All,
    /// `suite/id` holds this text.
    Substring(String),
    /// One of the tags.
    Tag(Matcher),
    /// The suite's name.
    Suite(Matcher),
    /// The case's id with its matrix values.
    Case(Matcher),
    /// `suite/id` with its matrix values.
    Id(Matcher),
    /// The number of ranks; a plain process has none.
    World(Comparison),
    /// A matrix value, by the name of its axis; a case without that axis is not meant.
    Matrix(String, Comparison),
    /// None of the cases of the inner one.
    Not(Box<Filter>),
    /// All of them.
    And(Vec<Filter>),
    /// Any of them.
    Or(Vec<Filter>),
}

impl Filter {
    /// The filter where a part that `is_id` knows as a whole id means that case alone, and not `s/a-more` beside `s/a`.
    #[must_use]
    pub fn settled(self, is_id: &impl Fn(&str) -> bool) -> Filter {
        match self {
            Filter::Substring(part) if is_id(&part) => Filter::Id(Matcher::Exact(part)),
            Filter::Or(parts) => Filter::Or(parts.into_iter().map(|part| part.settled(is_id)).collect()),
            other => other,
        }
    }

    /// Whether `case` is meant.
    pub fn accepts(&self, case: &Case) -> bool {
        match self {
            Filter::All => true,
            Filter::Substring(part) => case.full_id().contains(part.as_str()),
            Filter::Tag(matcher) => case.tags.iter().any(|tag| matcher.matches(tag)),
            Filter::Suite(matcher) => matcher.matches(&case.suite),
            Filter::Case(matcher) => matcher.matches(&case.id),
            Filter::Id(matcher) => matcher.matches(&case.full_id()),
            Filter::World(comparison) => case.world_size().is_some_and(|size| comparison.holds(&Value::from(size))),
            Filter::Matrix(axis, comparison) => case.matrix.get(axis).is_some_and(|value| comparison.holds(value)),
            Filter::Not(inner) => !inner.accepts(case),
            Filter::And(parts) => parts.iter().all(|part| part.accepts(case)),
            Filter::Or(parts) => parts.iter().any(|part| part.accepts(case)),
        }
    }

    /// The axes that the filter names, each as often as it does.
    pub fn axes(&self) -> Vec<&str> {
        match self {
            Filter::Matrix(axis, _) => vec![axis],
            Filter::Not(inner) => inner.axes(),
            Filter::And(parts) | Filter::Or(parts) => parts.iter().flat_map(Filter::axes).collect(),
            _ => Vec::new(),
        }
    }
}

/// The filter that accepts exactly the case with this full id.
pub fn exactly(full_id: &str) -> String {
    let plain = !full_id.contains(['(', ')', '"', '\\', ' ']);
    if plain {
        format!("id(={full_id})")
    } else {
        format!("id(=\"{}\")", full_id.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// The shortest filter that means the case with this full id alone: the id itself where it is one word, which holds neither
/// spaces nor the signs of expressions.
pub fn one(full_id: &str) -> String {
    let plain = !full_id.contains(|sign: char| sign.is_whitespace() || "()&|!\"'".contains(sign));
    if plain { full_id.to_owned() } else { exactly(full_id) }
}
