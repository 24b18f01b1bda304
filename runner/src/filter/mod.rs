//! Which cases run: a part of the id, or an expression such as `tag(smoke) & world(>=4) & not matrix.dtype = bf16`.

mod parser;
pub mod shard;

use std::cmp::Ordering;
use std::fmt;

use regex::Regex;
use serde_json::Value;

use crate::case::Case;

/// What may be written, for `--help` and for mistakes.
pub const SYNTAX: &str = "\
A filter is a part of `suite/id[matrix]` (a whole one means that case alone), or an expression:
  tag(smoke)  suite(dist)  case(all-reduce*)  id(dist/all-reduce*)   by name
  world(>=4)                                                        by the number of ranks
  matrix.dtype = bf16   matrix.size >= 1024                         by a matrix value
  a & b, a and b    a | b, a or b    !a, not a    (a)    all()    none()
A name is a glob over the whole name (* and ?), =exact, ~part or /regex/; \"...\" where it holds parentheses or spaces.
Matrix values are compared with = != (glob or /regex/), < <= > >= (numbers) and ~ (part).";

/// Characters of a filter that a mistake shows.
const SHOWN: usize = 160;

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
    /// `=`: as numbers where both are, else as text.
    Is(Matcher),
    /// `!=`.
    IsNot(Matcher),
    /// `<`, `<=`, `>`, `>=`: never true of what is not a number.
    Number(Bound, f64),
}

/// Which side of a number.
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

/// A filter that cannot be read. Displayed with a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FilterError {
    filter: String,
    /// Characters before the place.
    at: usize,
    message: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Around the place: a caret under ten thousand characters cannot be found.
        let from = self.at.saturating_sub(SHOWN / 2);
        let mut text: String = self.filter.chars().skip(from).take(SHOWN).collect();
        let mut space = " ".repeat(self.at - from);
        if from > 0 {
            text.insert_str(0, "...");
            space.push_str("   ");
        }
        if self.filter.chars().nth(from + SHOWN).is_some() {
            text.push_str("...");
        }
        write!(f, "filter: {}\n  {text}\n  {space}^\n{SYNTAX}", self.message)
    }
}

impl Filter {
    /// Reads a filter. A word that is not a function is a part of the id.
    ///
    /// # Errors
    /// Where and why an expression is wrong.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        parser::parse(text)
    }

    /// What several filters accept together: a case that any of them accepts. No filter accepts all.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn united<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Filter, FilterError> {
        let mut filters = texts.into_iter().map(Filter::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(match filters.len() {
            0 => Filter::All,
            1 => filters.remove(0),
            _ => Filter::Or(filters),
        })
    }

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

impl Matcher {
    fn matches(&self, name: &str) -> bool {
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
    fn holds(&self, value: &Value) -> bool {
        match self {
            Comparison::Is(matcher) => matcher.matches_value(value),
            Comparison::IsNot(matcher) => !matcher.matches_value(value),
            Comparison::Number(bound, limit) => {
                // `"1024"` in quotes is text in YAML, and means the number here all the same.
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::suite;

    fn selected(filter: &Filter) -> Vec<String> {
        let text = "ftest: 1\nsuite: s\ndefaults: {tags: [all]}\ncases:\n\
                    - {id: one, tags: [smoke], launch: {argv: [x], ranks: 4}}\n\
                    - {id: two, matrix: {axes: {w: [2, 4], d: [bf16, fp32]}}, launch: {argv: [x]}}\n";
        let suite = suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap();
        let mut ids: Vec<String> =
            suite.cases.iter().filter(|case| filter.accepts(case)).map(|case| case.id.clone()).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn filters_by_table() {
        let w2 = ["two[d=bf16,w=2]", "two[d=fp32,w=2]"];
        let w4 = ["two[d=bf16,w=4]", "two[d=fp32,w=4]"];
        let two = ["two[d=bf16,w=2]", "two[d=bf16,w=4]", "two[d=fp32,w=2]", "two[d=fp32,w=4]"];
        for (filter, ids) in [
            ("w=4", &w4[..]),
            ("s/one", &["one"]),
            ("one or w=2 & bf16", &["one", "two[d=bf16,w=2]"]),
            ("tag(smoke)", &["one"]),
            ("tag(all) & !tag(smoke)", &two),
            ("case(/w=2/) | case(one)", &["one", w2[0], w2[1]]),
            ("suite(s) && (case(two*) || tag(none))", &two),
            ("not suite(s)", &[]),
            ("id(s/one)", &["one"]),
            ("id(s/o)", &[]),
            ("id(~s/o)", &["one"]),
            ("case(=two)", &[]),
            ("id(\"s/one\")", &["one"]),
            ("case(=\"two[d=bf16,w=2]\")", &w2[..1]),
            ("case( /(2|4)\\]$/ ) and not case(/(fp)/)", &["two[d=bf16,w=2]", "two[d=bf16,w=4]"]),
            ("world(>=4)", &["one"]),
            ("world(4)", &["one"]),
            ("world( != 4 )", &[]),
            ("not world(<4)", &["one", two[0], two[1], two[2], two[3]]),
            ("matrix.w > 2", &w4),
            ("matrix.w=2.0", &w2),
            ("matrix.w>=2 and matrix.w <4", &w2),
            ("matrix.d = bf*", &["two[d=bf16,w=2]", "two[d=bf16,w=4]"]),
            ("matrix.d != bf16 & matrix.w = /^2$/", &["two[d=fp32,w=2]"]),
            ("matrix.d ~ 32 | none()", &["two[d=fp32,w=2]", "two[d=fp32,w=4]"]),
            ("matrix.d < 4", &[]),
            ("matrix.none != 1", &[]),
            ("not matrix.d = \"bf16\" & all()", &["one", "two[d=fp32,w=2]", "two[d=fp32,w=4]"]),
        ] {
            assert_eq!(selected(&Filter::parse(filter).unwrap()), ids, "{filter}");
        }
    }

    #[test]
    fn several_filters_are_united_and_none_accepts_all() {
        assert_eq!(selected(&Filter::united(["one", "matrix.w = 2 & bf16"]).unwrap()), ["one", "two[d=bf16,w=2]"]);
        assert_eq!(selected(&Filter::united([]).unwrap()).len(), 5);
        assert_eq!(Filter::united(["one", "tag("]).unwrap_err().at, 4);
    }

    #[test]
    fn a_wrong_expression_says_where() {
        for (filter, at, message) in [
            ("tag(", 4, "expected a name"),
            ("tag(a", 5, "expected `)`"),
            ("tag(a) tag(b)", 7, "expected `and`, `or` or the end"),
            ("tag(a) &", 8, "expected a filter"),
            ("(tag(a)", 7, "expected `)`"),
            ("tag(a))", 6, "expected `and`, `or` or the end"),
            ("case(/[/)", 5, "unclosed character class"),
            ("case(/a)", 5, "the expression has no end `/`"),
            ("tags(a)", 0, "there is no `tags(...)`; did you mean `tag`?"),
            ("é & tags(a)", 4, "there is no `tags(...)`; did you mean `tag`?"),
            ("world(>=x)", 8, "expected a number"),
            ("matrix.w", 8, "expected =, !=, <, <=, >, >= or ~"),
            ("matrix.w >= big", 12, "expected a number"),
            ("matrix. = 4", 7, "expected the name of an axis"),
            ("id(\"a)", 3, "the text has no end `\"`"),
            ("all(x)", 4, "expected `)`"),
            ("", 0, "expected a filter"),
        ] {
            let error = Filter::parse(filter).unwrap_err();
            assert_eq!((error.at, error.message.as_str()), (at, message), "{filter}");
        }
        let shown = Filter::parse("é & tags(a)").unwrap_err().to_string();
        assert!(shown.starts_with("filter: there is no `tags(...)`; did you mean `tag`?\n  é & tags(a)\n      ^\n"));
    }

    #[test]
    fn a_long_filter_is_read_and_a_deep_one_refused_near_its_place() {
        for sign in ["|", "&", " or ", " and "] {
            let filter = Filter::parse(&vec!["one"; 60_000].join(sign)).unwrap();
            assert_eq!(selected(&filter.settled(&|_| false)), ["one"], "{sign}");
        }
        assert_eq!(selected(&Filter::parse(&format!("{}one{}", "(".repeat(64), ")".repeat(64))).unwrap()), ["one"]);
        for sign in ["(", "!", "not ", "!("] {
            let error = Filter::parse(&sign.repeat(50_000)).unwrap_err();
            let shown = error.to_string();
            assert!(shown.starts_with("filter: more than 64 nested parentheses and negations\n"));
            assert!(shown.lines().nth(1).is_some_and(|line| line.len() <= 170), "{shown}");
        }
    }

    #[test]
    fn the_axes_of_a_filter() {
        assert_eq!(Filter::parse("matrix.a=1 | !(matrix.b<2 & x)").unwrap().axes(), ["a", "b"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_within_it(text in "[a-z()&|!=<>~/\" .*é\\\\-]{0,24}") {
            if let Err(error) = Filter::parse(&text) {
                prop_assert!(error.at <= text.chars().count());
            }
        }

        #[test]
        fn an_exact_filter_means_its_case_alone(id in "[ -~]{1,20}") {
            let Filter::Id(matcher) = Filter::parse(&exactly(&id)).unwrap() else { panic!("{id}") };
            prop_assert!(matcher.matches(&id));
            let longer = format!("{id}x");
            prop_assert!(!matcher.matches(&longer));
        }
    }
}
