//! Checks of report values: an RFC 9535 path and operators. A path that selects nothing fails, unless the check asks for nothing.

use std::borrow::Cow;

use serde_json::Value;
use serde_json_path::JsonPath;

use crate::check::capture::{Captures, Operand};
use crate::check::operator::{Operator, length_of};
use crate::check::{Failure, FailureKind};
use crate::expression::compare;
use crate::observation::Observation;
use crate::source::SourceLocation;

/// Maximum number of wrong values shown per check.
const SHOWN: usize = 4;

/// One check of one report.
#[derive(Clone, Debug)]
pub struct ReportCheck {
    /// Which report.
    pub of: ReportKind,
    /// Only the device report of this rank.
    pub rank: Option<u32>,
    /// The path of the values in the report.
    pub path: JsonPath,
    /// Apply to the one selected value. List operators also apply to the list of several selected values.
    pub operators: Vec<Operator<Operand>>,
    /// Apply to each selected value.
    pub all: Vec<Operator<Operand>>,
    /// Must hold for at least one selected value.
    pub any: Vec<Operator<Operand>>,
    /// Must hold for no selected value.
    pub none: Vec<Operator<Operand>>,
    /// Must hold for this many selected values.
    pub count: Option<Count>,
    /// True: something is selected. False: nothing is.
    pub exists: Option<bool>,
    /// If it fails, the checks after it are skipped.
    pub fatal: bool,
    /// The reason given in the suite.
    pub because: Option<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
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

/// How many of the selected values satisfy something.
#[derive(Clone, Debug)]
pub struct Count {
    /// Which values count; all if empty.
    pub of: Vec<Operator<Operand>>,
    /// Least.
    pub min: Option<u64>,
    /// Most.
    pub max: Option<u64>,
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
    /// The quantifier as messages name it.
    pub fn name(self) -> &'static str {
        match self {
            ReportKind::Cluster => "cluster report",
            ReportKind::Device => "device reports",
        }
    }

    /// The document that paths are applied to.
    pub fn document(self, observation: &Observation) -> Option<Cow<'_, Value>> {
        match self {
            ReportKind::Cluster => observation.cluster_report.as_ref().map(Cow::Borrowed),
            ReportKind::Device => Some(Cow::Owned(Value::Array(observation.device_reports.clone()))),
        }
    }
}

impl ReportCheck {
    /// The failures; empty if the check holds.
    pub fn check(&self, observation: &Observation, captures: &Captures) -> Vec<Failure> {
        let document = match self.rank {
            Some(rank) => observation.device_report(rank).map(Cow::Borrowed),
            None => self.of.document(observation),
        };
        let Some(document) = document else {
            let (name, got, next) = match self.rank {
                Some(_) => ("device report", "there is none", "a rank has one if it used a device and ran to its end"),
                None => {
                    let next = "a case has one if it has a cluster and its coordinator ran";
                    (self.of.name(), "there is no cluster report", next)
                }
            };
            return vec![self.failure(format!("{name} {}", written(&self.path)), got, next)];
        };
        let selected = self.path.query_located(&document).all();
        let values: Vec<Located<'_>> =
            selected.iter().map(|node| (dotted(&node.location().to_string()), node.node())).collect();
        let mut failures = Vec::new();
        match self.exists {
            Some(false) => {
                if let Some((place, value)) = values.first() {
                    let got = format!("{place} = {}", shorten(value));
                    failures.push(self.failure(format!("{} selects nothing", written(&self.path)), &got, ""));
                }
                return failures;
            }
            Some(true) if values.is_empty() => {
                return vec![self.failure(
                    format!("{} exists", written(&self.path)),
                    "nothing",
                    &self.nearest_prefix(&document),
                )];
            }
            Some(true) | None => {}
        }
        let resolve = |operators: &[Operator<Operand>]| -> Result<Vec<Operator>, String> {
            operators.iter().map(|operator| operator.resolve(captures)).collect()
        };
        let count = self.count.as_ref().map_or(Ok(Vec::new()), |count| resolve(&count.of));
        let resolved = (resolve(&self.operators), resolve(&self.all), resolve(&self.any), resolve(&self.none), count);
        let (operators, all, any, none, counted) = match resolved {
            (Ok(operators), Ok(all), Ok(any), Ok(none), Ok(counted)) => (operators, all, any, none, counted),
            (Err(error), ..)
            | (_, Err(error), ..)
            | (_, _, Err(error), ..)
            | (_, _, _, Err(error), _)
            | (.., Err(error)) => {
                return vec![self.failure(format!("{} can be checked", written(&self.path)), &error, "")];
            }
        };
        if values.is_empty() {
            // An empty result satisfies everything, so it is accepted only if nothing was asked for.
            let empty = Value::Array(Vec::new());
            let of_nothing = |operator: &Operator| operator.is_of_list() && operator.holds(&empty);
            let wants_none = operators.iter().any(|operator| matches!(operator, Operator::Len(0)))
                && !is_singular(&written(&self.path));
            let counts_none = self.count.as_ref().is_some_and(|count| count.accepts(0));
            let something =
                !any.is_empty() || !operators.iter().all(of_nothing) || self.count.is_some() && !counts_none;
            let asked = something || !(operators.is_empty() && all.is_empty() && none.is_empty());
            if asked && (something || !(wants_none || counts_none)) {
                let next = self.nearest_prefix(&document);
                failures.push(self.failure(format!("{} selects something", written(&self.path)), "nothing", &next));
            }
            return failures;
        }
        self.check_plain(&operators, &values, &mut failures);
        for operator in &all {
            self.check_all(operator, &values, &mut failures);
        }
        let satisfies = |operators: &[Operator], value: &Value| operators.iter().all(|operator| operator.holds(value));
        if !any.is_empty() && !values.iter().any(|(_, value)| satisfies(&any, value)) {
            failures.push(self.failure(
                format!("a value of {} {}", written(&self.path), joined(&any)),
                &some(&values),
                "",
            ));
        }
        if !none.is_empty() {
            let found: Vec<&Located<'_>> = values.iter().filter(|(_, value)| satisfies(&none, value)).collect();
            if !found.is_empty() {
                let got = listed(&found, values.len());
                failures.push(self.failure(format!("no value of {} {}", written(&self.path), joined(&none)), &got, ""));
            }
        }
        if let Some(count) = &self.count {
            let found = values.iter().filter(|(_, value)| satisfies(&counted, value)).count() as u64;
            if !count.accepts(found) {
                let wanted = format!("{} of {} {}", count.describe(), written(&self.path), joined(&counted));
                let got = format!("{found} of {}: {}", values.len(), some(&values));
                failures.push(self.failure(wanted.trim_end().to_owned(), &got, ""));
            }
        }
        failures
    }

    /// The operators without a quantifier.
    fn check_plain(&self, operators: &[Operator], values: &[Located<'_>], failures: &mut Vec<Failure>) {
        let path = written(&self.path);
        let mut single = Vec::new();
        for operator in operators {
            if operator.is_of_list() && !is_singular(&path) {
                let list = Value::Array(values.iter().map(|(_, value)| Value::clone(value)).collect());
                self.check_each(&path, &list, operator, failures);
            } else if let (Operator::Contains(wanted), false) = (operator, is_singular(&path)) {
                // If there may be several values, `contains` asks for one of them.
                if !values.iter().any(|(_, value)| compare::equal(value, wanted) || operator.holds(value)) {
                    failures.push(self.failure(format!("{path} {operator}"), &some(values), ""));
                }
            } else {
                single.push(operator);
            }
        }
        let Some(first) = single.first() else { return };
        match values {
            [(place, value)] => {
                single.iter().for_each(|operator| self.check_each(place, value, operator, failures));
            }
            many => failures.push(self.failure(
                format!("{path} selects one value that is {first}"),
                &format!("{} values", many.len()),
                "write `all: {...}`, `any: {...}`, `none: {...}` or `count: {...}`",
            )),
        }
    }

    fn check_all(&self, operator: &Operator, values: &[Located<'_>], failures: &mut Vec<Failure>) {
        let wrong: Vec<&Located<'_>> = values.iter().filter(|(_, value)| !operator.holds(value)).collect();
        match wrong.as_slice() {
            [] => {}
            [(place, value)] => self.check_each(place, value, operator, failures),
            many => {
                let got = listed(many, values.len());
                failures.push(self.failure(format!("every {} {operator}", written(&self.path)), &got, ""));
            }
        }
    }

    fn check_each(&self, place: &str, value: &Value, operator: &Operator, failures: &mut Vec<Failure>) {
        if operator.holds(value) {
            return;
        }
        let got = match (operator, length_of(value)) {
            (Operator::Len(_), Some(length)) => format!("length {length}"),
            (Operator::Len(_), None) => "a value without a length".to_owned(),
            _ => match operator.difference(value) {
                difference if difference.is_empty() => shorten(value),
                difference => format!("{} ({difference})", shorten(value)),
            },
        };
        failures.push(self.failure(format!("{place} {operator}"), &got, ""));
    }

    fn failure(&self, expected: String, got: &str, next: &str) -> Failure {
        Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Report,
            expected: match self.rank {
                Some(rank) => format!("rank {rank}: {expected}"),
                None => expected,
            },
            got: got.to_owned(),
            next: self.because.clone().unwrap_or_else(|| next.to_owned()),
        }
    }

    /// "`$.ranks` exists; its keys are ...": how far the path can be followed.
    fn nearest_prefix(&self, document: &Value) -> String {
        let path = written(&self.path);
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

/// A path as text. The parser itself prints `$..name` with three dots, which does not parse.
fn written(path: &JsonPath) -> String {
    let mut quote = None;
    let mut text = String::new();
    for letter in path.to_string().chars() {
        match quote {
            Some(end) if letter == end && !text.ends_with('\\') => quote = None,
            None if matches!(letter, '\'' | '"') => quote = Some(letter),
            None if letter == '.' && text.ends_with("..") => continue,
            _ => {}
        }
        text.push(letter);
    }
    text
}

/// A selected value and where it is.
type Located<'v> = (String, &'v Value);

impl Count {
    fn accepts(&self, number: u64) -> bool {
        self.min.is_none_or(|min| number >= min) && self.max.is_none_or(|max| number <= max)
    }

    fn describe(&self) -> String {
        let plural = |number: u64| if number == 1 { "value" } else { "values" };
        match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => format!("exactly {min} {}", plural(min)),
            (Some(min), Some(max)) => format!("{min} to {max} values"),
            (Some(min), None) => format!("at least {min} {}", plural(min)),
            (None, Some(max)) => format!("at most {max} {}", plural(max)),
            (None, None) => "any number of values".to_owned(),
        }
    }
}

fn joined(operators: &[Operator]) -> String {
    operators.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// The first values on one line.
fn some(values: &[Located<'_>]) -> String {
    let first: Vec<String> = values.iter().take(2 * SHOWN).map(|(_, value)| shorten(value)).collect();
    let more = values.len().saturating_sub(2 * SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}

/// The first of `chosen`, one on a line, out of `all` values.
fn listed(chosen: &[&Located<'_>], all: usize) -> String {
    let mut lines: Vec<String> =
        chosen.iter().take(SHOWN).map(|(place, value)| format!("{place} = {}", shorten(value))).collect();
    if chosen.len() > SHOWN {
        lines.push(format!("and {} more of {all} values", chosen.len() - SHOWN));
    }
    lines.join("\n")
}

/// The leading `.name` and `['name']` parts of a path.
pub(super) fn plain_names(path: &str) -> Vec<String> {
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

/// `$['ranks'][0]` in the usual notation: `$.ranks[0]`.
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

/// A value on one line, shortened if long.
pub fn shorten(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 160 {
        return text;
    }
    let head: String = text.chars().take(150).collect();
    format!("{head} ... ({} bytes)", text.len())
}

#[cfg(test)]
mod tests;
