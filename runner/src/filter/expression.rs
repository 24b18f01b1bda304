//! The meaning of a filter: the cases that it accepts, and the filter for one case.

use serde_json::Value;

use super::compare::{Comparison, Matcher};
use crate::case::Case;

/// A filter.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Every case.
    All,
    /// `suite/id` contains this text.
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
    /// A matrix value, by the name of its axis; a case without that axis does not match.
    Matrix(String, Comparison),
    /// Accepts the cases that the inner filter does not.
    Not(Box<Filter>),
    /// All of them.
    And(Vec<Filter>),
    /// Any of them.
    Or(Vec<Filter>),
}

impl Filter {
    /// The filter in which a part that `is_id` recognizes as a whole id matches only that case: `s/a`, but not
    /// `s/a-more`.
    #[must_use]
    pub fn settled(self, is_id: &impl Fn(&str) -> bool) -> Filter {
        match self {
            Filter::Substring(part) if is_id(&part) => Filter::Id(Matcher::Exact(part)),
            Filter::Or(parts) => Filter::Or(parts.into_iter().map(|part| part.settled(is_id)).collect()),
            other => other,
        }
    }

    /// Whether the filter accepts `case`.
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

    /// The filter in which a whole name of a case may be a part of one, as it is if the case has a matrix, and these parts
    /// as they are written: `case(~x)` for `case(x)`. Names with wildcards, and what is negated, stay.
    pub fn loosened(&self) -> (Filter, Vec<String>) {
        let several = |parts: &[Filter]| {
            let (filters, written): (Vec<Filter>, Vec<Vec<String>>) = parts.iter().map(Filter::loosened).unzip();
            (filters, written.concat())
        };
        let part = |name: &str| Matcher::Part(name.to_owned());
        match self {
            Filter::Case(Matcher::Glob(name)) if is_plain(name) => {
                (Filter::Case(part(name)), vec![format!("case(~{name})")])
            }
            Filter::Id(Matcher::Glob(name)) if is_plain(name) => (Filter::Id(part(name)), vec![format!("id(~{name})")]),
            Filter::And(parts) => {
                let (filters, written) = several(parts);
                (Filter::And(filters), written)
            }
            Filter::Or(parts) => {
                let (filters, written) = several(parts);
                (Filter::Or(filters), written)
            }
            other => (other.clone(), Vec::new()),
        }
    }

    /// The axes that the filter names, including repetitions.
    pub fn axes(&self) -> Vec<&str> {
        match self {
            Filter::Matrix(axis, _) => vec![axis],
            Filter::Not(inner) => inner.axes(),
            Filter::And(parts) | Filter::Or(parts) => parts.iter().flat_map(Filter::axes).collect(),
            _ => Vec::new(),
        }
    }
}

/// Whether a name has no wildcards, and no signs that need quotes.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains(|sign: char| sign.is_whitespace() || "*?()&|!\"'\\".contains(sign))
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

/// The shortest filter that accepts only the case with this full id: the id itself if it is one word, without spaces or
/// expression signs.
pub fn one(full_id: &str) -> String {
    let plain = !full_id.contains(|sign: char| sign.is_whitespace() || "()&|!\"'".contains(sign));
    if plain { full_id.to_owned() } else { exactly(full_id) }
}
