//! Checks of report values: an RFC 9535 path and operators. A path that selects nothing fails unless nothing is what was asked for.

use std::cmp::Ordering;
use std::fmt;

use regex::Regex;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::case::Place;
use crate::check::{Failure, compare};
use crate::observation::Observation;

/// Most wrong values that are shown of one check.
const SHOWN: usize = 4;

/// One check of one report.
#[derive(Clone, Debug)]
pub struct ReportCheck {
    /// Which report.
    pub of: ReportKind,
    /// What of it.
    pub path: JsonPath,
    /// Of the one selected value.
    pub operators: Vec<Operator>,
    /// Of each selected value.
    pub all: Vec<Operator>,
    /// Of at least one selected value.
    pub any: Vec<Operator>,
    /// Number of selected values, or the length of the value that a path without wildcards selects.
    pub len: Option<u64>,
    /// True: something is selected. False: nothing is.
    pub exists: Option<bool>,
    /// Why, as the suite says it.
    pub because: Option<String>,
    /// Where it is written.
    pub place: Place,
}

/// Which report a check reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportKind {
    /// The coordinator's.
    #[default]
    Cluster,
    /// A list of the device reports, one per process.
    Device,
}

/// One comparison.
#[derive(Clone, Debug)]
pub enum Operator {
    /// Equal; floats bit by bit.
    Eq(Value),
    /// Not equal.
    Ne(Value),
    /// Less.
    Lt(Value),
    /// Less or equal.
    Le(Value),
    /// Greater.
    Gt(Value),
    /// Greater or equal.
    Ge(Value),
    /// Within a tolerance.
    Near {
        /// The wanted number.
        value: f64,
        /// Relative to the larger of the two.
        relative: f64,
        /// In units of the value.
        absolute: f64,
    },
    /// Equal to one of them.
    In(Vec<Value>),
    /// A text with this part, or a list with this item.
    Contains(Value),
    /// A text that this expression matches somewhere.
    Matches(Regex),
    /// Length of a list, mapping or text (in characters).
    Len(u64),
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operator::Eq(value) => write!(f, "== {value}"),
            Operator::Ne(value) => write!(f, "!= {value}"),
            Operator::Lt(value) => write!(f, "< {value}"),
            Operator::Le(value) => write!(f, "<= {value}"),
            Operator::Gt(value) => write!(f, "> {value}"),
            Operator::Ge(value) => write!(f, ">= {value}"),
            Operator::Near { value, relative, absolute } => {
                write!(f, "near {value} (rel {relative:e}, abs {absolute:e})")
            }
            Operator::In(values) => write!(f, "in {}", Value::Array(values.clone())),
            Operator::Contains(value) => write!(f, "contains {value}"),
            Operator::Matches(regex) => write!(f, "matches /{regex}/"),
            Operator::Len(length) => write!(f, "has length {length}"),
        }
    }
}

impl Operator {
    /// Whether `value` satisfies it. A value of a type that it does not apply to never does.
    pub fn holds(&self, value: &Value) -> bool {
        let ordered = |other: &Value, accept: fn(Ordering) -> bool| compare::order(value, other).is_some_and(accept);
        match self {
            Operator::Eq(other) => compare::equal(value, other),
            Operator::Ne(other) => !compare::equal(value, other),
            Operator::Lt(other) => ordered(other, Ordering::is_lt),
            Operator::Le(other) => ordered(other, Ordering::is_le),
            Operator::Gt(other) => ordered(other, Ordering::is_gt),
            Operator::Ge(other) => ordered(other, Ordering::is_ge),
            Operator::Near { value: other, relative, absolute } => {
                value.as_f64().is_some_and(|value| compare::near(value, *other, *relative, *absolute))
            }
            Operator::In(others) => others.iter().any(|other| compare::equal(value, other)),
            Operator::Contains(part) => match (value, part) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                (Value::Array(items), part) => items.iter().any(|item| compare::equal(item, part)),
                _ => false,
            },
            Operator::Matches(regex) => value.as_str().is_some_and(|text| regex.is_match(text)),
            Operator::Len(length) => length_of(value) == Some(*length),
        }
    }
}

fn length_of(value: &Value) -> Option<u64> {
    let length = match value {
        Value::Array(items) => items.len(),
        Value::Object(entries) => entries.len(),
        Value::String(text) => text.chars().count(),
        Value::Null | Value::Bool(_) | Value::Number(_) => return None,
    };
    Some(length as u64)
}

/// Whether a path can select at most one value (a *singular query* of RFC 9535): names and indices only.
pub fn is_singular(path: &str) -> bool {
    let mut quote = None;
    let mut bracket = false;
    let mut previous = ' ';
    for character in path.chars() {
        match quote {
            Some(end) => {
                if character == end && previous != '\\' {
                    quote = None;
                }
            }
            None => match character {
                '\'' | '"' => quote = Some(character),
                '[' => bracket = true,
                ']' => bracket = false,
                '*' | '?' => return false,
                ',' | ':' if bracket => return false,
                '.' if previous == '.' => return false,
                _ => {}
            },
        }
        previous = if previous == '\\' && character == '\\' { ' ' } else { character };
    }
    true
}

impl ReportKind {
    /// For messages.
    pub fn name(self) -> &'static str {
        match self {
            ReportKind::Cluster => "cluster report",
            ReportKind::Device => "device reports",
        }
    }

    /// The document that paths are applied to.
    pub fn document(self, observation: &Observation) -> Option<Value> {
        match self {
            ReportKind::Cluster => observation.cluster_report.clone(),
            ReportKind::Device => Some(Value::Array(observation.device_reports.clone())),
        }
    }
}

impl ReportCheck {
    /// The failures; empty if the check holds.
    pub fn check(&self, observation: &Observation) -> Vec<Failure> {
        let Some(document) = self.of.document(observation) else {
            let got = "there is no cluster report";
            return vec![self.failure(
                format!("{} {}", self.of.name(), self.path),
                got,
                "a case has one if it has a cluster and its coordinator ran",
            )];
        };
        let selected = self.path.query_located(&document).all();
        let values: Vec<(String, &Value)> =
            selected.iter().map(|node| (dotted(&node.location().to_string()), node.node())).collect();
        let mut failures = Vec::new();
        match self.exists {
            Some(false) => {
                if let Some((place, value)) = values.first() {
                    failures.push(self.failure(
                        format!("{} selects nothing", self.path),
                        &format!("{place} = {}", shorten(value)),
                        "",
                    ));
                }
                return failures;
            }
            Some(true) if values.is_empty() => {
                return vec![self.failure(format!("{} exists", self.path), "nothing", &self.nearest_prefix(&document))];
            }
            Some(true) | None => {}
        }
        if let Some(want) = self.len {
            let path = self.path.to_string();
            let got = match values.as_slice() {
                [(_, value)] if is_singular(&path) => length_of(value),
                _ => Some(values.len() as u64),
            };
            if got != Some(want) || (is_singular(&path) && values.is_empty()) {
                let got = got.map_or_else(|| "a value without a length".to_owned(), |got| format!("length {got}"));
                failures.push(self.failure(format!("{path} has length {want}"), &got, ""));
            } else if want == 0 {
                return failures;
            }
        }
        let asked = !(self.operators.is_empty() && self.all.is_empty() && self.any.is_empty());
        if asked && values.is_empty() {
            let next = self.nearest_prefix(&document);
            failures.push(self.failure(format!("{} selects something", self.path), "nothing", &next));
            return failures;
        }
        // Of several values, `contains` asks for one of them; every other operator is about one value.
        let among = |operator: &&Operator| matches!(operator, Operator::Contains(_)) && values.len() > 1;
        for operator in self.operators.iter().filter(among) {
            let Operator::Contains(wanted) = operator else { continue };
            if !values.iter().any(|(_, value)| compare::equal(value, wanted) || operator.holds(value)) {
                let got: Vec<String> = values.iter().take(8).map(|(_, value)| shorten(value)).collect();
                failures.push(self.failure(format!("{} {operator}", self.path), &got.join(", "), ""));
            }
        }
        let single: Vec<&Operator> = self.operators.iter().filter(|operator| !among(operator)).collect();
        if let Some(first) = single.first() {
            match values.as_slice() {
                [(place, value)] => self.check_each(place, value, &self.operators, &mut failures),
                many => {
                    let got = format!("{} values", many.len());
                    failures.push(self.failure(
                        format!("{} selects one value that is {first}", self.path),
                        &got,
                        "write `all: {...}` or `any: {...}`",
                    ));
                }
            }
        }
        for operator in &self.all {
            let wrong: Vec<&(String, &Value)> = values.iter().filter(|(_, value)| !operator.holds(value)).collect();
            match wrong.as_slice() {
                [] => {}
                [(place, value)] => self.check_each(place, value, std::slice::from_ref(operator), &mut failures),
                many => {
                    let mut lines: Vec<String> =
                        many.iter().take(SHOWN).map(|(place, value)| format!("{place} = {}", shorten(value))).collect();
                    if many.len() > SHOWN {
                        lines.push(format!("and {} more of {} values", many.len() - SHOWN, values.len()));
                    }
                    failures.push(self.failure(format!("every {} {operator}", self.path), &lines.join("\n"), ""));
                }
            }
        }
        if !self.any.is_empty()
            && !values.iter().any(|(_, value)| self.any.iter().all(|operator| operator.holds(value)))
        {
            let wanted: Vec<String> = self.any.iter().map(Operator::to_string).collect();
            let got: Vec<String> = values.iter().take(8).map(|(_, value)| shorten(value)).collect();
            let more = if values.len() > 8 { format!(" and {} more", values.len() - 8) } else { String::new() };
            failures.push(self.failure(
                format!("a value of {} {}", self.path, wanted.join(" and ")),
                &format!("{}{more}", got.join(", ")),
                "",
            ));
        }
        failures
    }

    fn check_each(&self, place: &str, value: &Value, operators: &[Operator], failures: &mut Vec<Failure>) {
        for operator in operators.iter().filter(|operator| !operator.holds(value)) {
            let got = match operator {
                Operator::Near { value: want, .. } => {
                    let difference =
                        value.as_f64().map(|got| format!(" (off by {:e})", (got - want).abs())).unwrap_or_default();
                    format!("{}{difference}", shorten(value))
                }
                _ => shorten(value),
            };
            failures.push(self.failure(format!("{place} {operator}"), &got, ""));
        }
    }

    fn failure(&self, expected: String, got: &str, next: &str) -> Failure {
        Failure {
            place: Some(self.place.clone()),
            kind: "report",
            expected,
            got: got.to_owned(),
            next: self.because.clone().unwrap_or_else(|| next.to_owned()),
        }
    }

    /// "`$.ranks` exists; its keys are ...": how far the path can be followed.
    fn nearest_prefix(&self, document: &Value) -> String {
        let path = self.path.to_string();
        let mut current = document;
        let mut known = "$".to_owned();
        for name in plain_names(&path) {
            match current.get(&name) {
                Some(next) => {
                    known = format!("{known}.{name}");
                    current = next;
                }
                None => break,
            }
        }
        match current {
            Value::Object(entries) => {
                let keys: Vec<&str> = entries.keys().map(String::as_str).collect();
                format!("the keys of {known} are: {}", keys.join(", "))
            }
            Value::Array(items) => format!("{known} is a list of {}", items.len()),
            _ => String::new(),
        }
    }
}

/// The leading `.name` and `['name']` parts of a path.
fn plain_names(path: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = path.trim_start_matches('$');
    loop {
        if let Some(quoted) = rest.strip_prefix("['") {
            let Some(end) = quoted.find("']") else { return names };
            names.push(quoted[..end].to_owned());
            rest = &quoted[end + 2..];
        } else if let Some(dotted) = rest.strip_prefix('.') {
            let end = dotted.find(['.', '[']).unwrap_or(dotted.len());
            if end == 0 || dotted.starts_with('*') {
                return names;
            }
            names.push(dotted[..end].to_owned());
            rest = &dotted[end..];
        } else {
            return names;
        }
    }
}

/// `$['ranks'][0]` as a person writes it: `$.ranks[0]`.
fn dotted(normalized: &str) -> String {
    let mut out = String::new();
    let mut rest = normalized;
    while let Some(start) = rest.find("['") {
        out.push_str(&rest[..start]);
        let Some(end) = rest[start..].find("']") else { break };
        let name = &rest[start + 2..start + end];
        let plain =
            !name.is_empty() && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
        if plain {
            out.push('.');
            out.push_str(name);
        } else {
            out.push_str(&rest[start..start + end + 2]);
        }
        rest = &rest[start + end + 2..];
    }
    out.push_str(rest);
    out
}

/// A value on one line, cut where it is long.
pub fn shorten(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 160 {
        return text;
    }
    let head: String = text.chars().take(150).collect();
    format!("{head} ... ({} bytes)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(path: &str) -> ReportCheck {
        ReportCheck {
            of: ReportKind::Cluster,
            path: JsonPath::parse(path).unwrap(),
            operators: vec![],
            all: vec![],
            any: vec![],
            len: None,
            exists: None,
            because: None,
            place: Place::default(),
        }
    }

    fn observation() -> Observation {
        let report = json!({"world_size": 4, "ranks": [{"calls": 3, "time": 1.5}, {"calls": 5, "time": 2.5}], "none": [], "name": "dev"});
        Observation { cluster_report: Some(report), ..Observation::default() }
    }

    fn number_of_failures(change: impl FnOnce(&mut ReportCheck), path: &str) -> usize {
        let mut check = check(path);
        change(&mut check);
        check.check(&observation()).len()
    }

    #[test]
    fn operators_by_table() {
        let number = json!(4);
        for (operator, expected) in [
            (Operator::Eq(json!(4.0)), true),
            (Operator::Ne(json!(4)), false),
            (Operator::Lt(json!(5)), true),
            (Operator::Le(json!(4)), true),
            (Operator::Gt(json!(4)), false),
            (Operator::Ge(json!("4")), false),
            (Operator::In(vec![json!(1), json!(4)]), true),
            (Operator::Near { value: 4.0004, relative: 1e-3, absolute: 0.0 }, true),
            (Operator::Near { value: 4.1, relative: 1e-3, absolute: 0.0 }, false),
            (Operator::Contains(json!(4)), false),
            (Operator::Len(1), false),
        ] {
            assert_eq!(operator.holds(&number), expected, "{operator}");
        }
        assert!(Operator::Contains(json!("ev")).holds(&json!("dev")));
        assert!(Operator::Contains(json!({"a": 1})).holds(&json!([{"a": 1}])));
        assert!(Operator::Matches(Regex::new("^d.v$").unwrap()).holds(&json!("dev")));
        assert!(Operator::Len(2).holds(&json!({"a": 1, "b": 2})));
    }

    #[test]
    fn an_empty_selection_fails_unless_asked_for() {
        assert_eq!(number_of_failures(|check| check.all = vec![Operator::Ge(json!(0))], "$.ranks[*].typo"), 1);
        assert_eq!(number_of_failures(|check| check.all = vec![Operator::Ge(json!(0))], "$.none[*]"), 1);
        assert_eq!(number_of_failures(|check| check.exists = Some(false), "$.typo"), 0);
        assert_eq!(number_of_failures(|check| check.exists = Some(false), "$.name"), 1);
        assert_eq!(number_of_failures(|check| check.len = Some(0), "$.none[*]"), 0);
        assert_eq!(number_of_failures(|check| check.len = Some(0), "$.typo"), 1, "a missing list is not an empty one");
        assert_eq!(number_of_failures(|check| check.exists = Some(true), "$.typo"), 1);
    }

    #[test]
    fn one_value_or_a_quantifier() {
        assert_eq!(number_of_failures(|check| check.operators = vec![Operator::Eq(json!(3))], "$.ranks[*].calls"), 1);
        assert_eq!(number_of_failures(|check| check.any = vec![Operator::Eq(json!(5))], "$.ranks[*].calls"), 0);
        assert_eq!(number_of_failures(|check| check.all = vec![Operator::Ge(json!(4))], "$.ranks[*].calls"), 1);
        assert_eq!(
            number_of_failures(|check| check.operators = vec![Operator::Contains(json!(5))], "$.ranks[*].calls"),
            0
        );
        assert_eq!(
            number_of_failures(|check| check.operators = vec![Operator::Contains(json!(6))], "$.ranks[*].calls"),
            1
        );
        assert_eq!(number_of_failures(|check| check.len = Some(2), "$.ranks"), 0);
        assert_eq!(number_of_failures(|check| check.len = Some(2), "$.ranks[*].calls"), 0);
        assert_eq!(number_of_failures(|check| check.len = Some(3), "$.name"), 0);
    }

    #[test]
    fn failures_say_where_and_what_there_is() {
        let mut wrong = check("$.world");
        wrong.operators = vec![Operator::Eq(json!(4))];
        let failure = wrong.check(&observation()).remove(0);
        assert_eq!(failure.next, "the keys of $ are: world_size, ranks, none, name");
        let mut wrong = check("$.ranks[*].calls");
        wrong.all = vec![Operator::Ge(json!(4))];
        let failure = wrong.check(&observation()).remove(0);
        assert_eq!((failure.expected.as_str(), failure.got.as_str()), ("$.ranks[0].calls >= 4", "3"));
    }

    #[test]
    fn many_wrong_values_are_one_failure() {
        let report = json!({"ranks": [1, 2, 3, 4, 5, 6, 7]});
        let mut wrong = check("$.ranks[*]");
        wrong.all = vec![Operator::Lt(json!(2))];
        let failures = wrong.check(&Observation { cluster_report: Some(report), ..Observation::default() });
        assert_eq!(failures.len(), 1);
        assert!(failures[0].got.starts_with("$.ranks[1] = 2\n") && failures[0].got.ends_with("and 2 more of 7 values"));
    }

    #[test]
    fn singular_paths() {
        for (path, singular) in [
            ("$.a.b", true),
            ("$['a.*']", true),
            ("$.a[0]", true),
            ("$.a[*]", false),
            ("$..a", false),
            ("$.a[0,1]", false),
            ("$.a[0:2]", false),
            ("$.a[?@.b]", false),
            ("$['a:b,c']", true),
        ] {
            assert_eq!(is_singular(path), singular, "{path}");
        }
    }
}
