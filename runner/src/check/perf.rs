//! Performance: compares numbers from reports with a reference, within named bounds. Measurements are kept even if they are
//! in bounds.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json_path::JsonPath;

use crate::check::capture::{Captures, Later, Operand};
use crate::check::output::OutputCheck;
use crate::check::report::ReportKind;
use crate::check::{Failure, FailureKind, tolerance};
use crate::observation::{Execution, Observation};
use crate::source::SourceLocation;

/// One number to watch.
#[derive(Clone, Debug)]
pub struct PerfCheck {
    /// Its name in reports.
    pub name: String,
    /// Where it comes from.
    pub metric: Metric,
    /// Unit, for people.
    pub unit: Option<String>,
    /// What is usual.
    pub reference: Option<Operand>,
    /// Outside these bounds the case fails.
    pub fails: Bounds,
    /// Outside these bounds a note is added.
    pub warns: Bounds,
    /// The reason given in the suite.
    pub because: Option<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// Where a number comes from.
#[derive(Clone, Debug)]
pub enum Metric {
    /// The one number that a path selects in a report.
    Path(ReportKind, JsonPath),
    /// An expression over captures.
    Captured(Later),
}

/// A range; a missing side is open.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Least.
    pub lower: Option<Bound>,
    /// Most.
    pub upper: Option<Bound>,
}

/// One end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A number, in the metric's unit.
    Number(f64),
    /// Percent relative to the reference: -10 is 10 % below it.
    Percent(f64),
}

/// The result of one [`PerfCheck`]: kept in the outcome, for reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// The check's name.
    pub name: String,
    /// The number, where there is one.
    pub value: Option<f64>,
    /// Unit, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// What is usual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
    /// Below this the case fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<f64>,
    /// Above this the case fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<f64>,
    /// Below this a note is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_lower: Option<f64>,
    /// Above this a note is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_upper: Option<f64>,
    /// The result against the bounds.
    pub verdict: PerfVerdict,
}

/// How a number compares with the bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PerfVerdict {
    /// Within all of them.
    #[default]
    Ok,
    /// Outside of the bounds for a note.
    Warning,
    /// Outside the bounds for a failure, or not a number.
    Failed,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Number(number) => write!(f, "{number}"),
            Bound::Percent(percent) => write!(f, "{percent:+}%"),
        }
    }
}

impl Bound {
    /// The bound as a number.
    ///
    /// # Errors
    /// A message if it is a percentage and the reference is missing or 0.
    pub fn resolve(self, reference: Option<f64>) -> Result<f64, String> {
        match (self, reference) {
            (Bound::Number(number), _) => Ok(number),
            // Every percentage of 0 is 0: the bound would accept only one number, or be skipped.
            (Bound::Percent(_), Some(0.0)) => Err(format!("`{self}` of the reference 0 is not a bound")),
            (Bound::Percent(percent), Some(reference)) => Ok(reference + reference.abs() * percent / 100.0),
            (Bound::Percent(_), None) => Err(format!("`{self}` without a `reference`")),
        }
    }
}

impl Metric {
    /// The bounds as messages name them.
    fn describe(&self) -> String {
        match self {
            Metric::Path(_, path) => path.to_string(),
            Metric::Captured(later) => later.text.clone(),
        }
    }

    fn value(&self, observation: &Observation, captures: &Captures) -> Result<f64, String> {
        let value = match self {
            Metric::Captured(later) => later.value(captures)?,
            Metric::Path(of, path) => {
                let document = of.document(observation).ok_or_else(|| format!("there is no {}", of.name()))?;
                let found = path.query(&document).all();
                match found.as_slice() {
                    [one] => serde_json::Value::clone(one),
                    [] => return Err(format!("{path} selects nothing")),
                    many => return Err(format!("{path} selects {} values, not one", many.len())),
                }
            }
        };
        tolerance::number(&value).filter(|number| number.is_finite()).ok_or_else(|| format!("{value} is not a number"))
    }
}

impl PerfCheck {
    /// The measurement, and what is wrong with it.
    pub fn check(&self, observation: &Observation, captures: &Captures) -> (Measured, Option<Failure>) {
        let mut measured = Measured { name: self.name.clone(), unit: self.unit.clone(), ..Measured::default() };
        let wrong = self.measure(observation, captures, &mut measured).err();
        if wrong.is_some() {
            measured.verdict = PerfVerdict::Failed;
        }
        let failure = wrong.map(|got| Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Perf,
            expected: {
                let metric = self.metric.describe();
                let name = if self.name == metric { String::new() } else { format!("{}: ", self.name) };
                format!("{name}{metric} {}", measured.wanted())
            },
            got,
            next: self.because.clone().unwrap_or_default(),
        });
        (measured, failure)
    }

    /// Fills `measured`.
    fn measure(&self, observation: &Observation, captures: &Captures, measured: &mut Measured) -> Result<(), String> {
        if let Some(reference) = &self.reference {
            let value = reference.value(captures)?;
            let number = tolerance::number(&value).filter(|number| number.is_finite());
            measured.reference = Some(number.ok_or_else(|| format!("the reference {value} is not a number"))?);
        }
        let bound = |bound: Option<Bound>| bound.map(|bound| bound.resolve(measured.reference)).transpose();
        let resolved =
            [bound(self.fails.lower)?, bound(self.fails.upper)?, bound(self.warns.lower)?, bound(self.warns.upper)?];
        [measured.lower, measured.upper, measured.warn_lower, measured.warn_upper] = resolved;
        let value = self.metric.value(observation, captures)?;
        measured.value = Some(value);
        if outside(value, measured.lower, measured.upper) {
            return Err(measured.shown());
        }
        if outside(value, measured.warn_lower, measured.warn_upper) {
            measured.verdict = PerfVerdict::Warning;
        }
        Ok(())
    }
}

fn outside(value: f64, lower: Option<f64>, upper: Option<f64>) -> bool {
    lower.is_some_and(|lower| value < lower) || upper.is_some_and(|upper| value > upper)
}

impl Measured {
    fn unit(&self) -> String {
        self.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default()
    }

    /// `is at least 43.2 GB/s`.
    fn wanted(&self) -> String {
        let range = range(self.lower, self.upper);
        range.map_or_else(|| "is measured".to_owned(), |range| format!("is {range}{}", self.unit()))
    }

    /// `41 GB/s, 14.6 % below the reference 48`.
    pub fn shown(&self) -> String {
        let Some(value) = self.value else { return "not measured".to_owned() };
        let mut text = format!("{}{}", rounded(value), self.unit());
        if let Some(reference) = self.reference {
            let off = value - reference;
            let side = if off < 0.0 { "below" } else { "above" };
            if reference != 0.0 && off != 0.0 {
                let percent = (off / reference).abs() * 100.0;
                text.push_str(&format!(", {percent:.1} % {side} the reference {reference}"));
            } else {
                text.push_str(&format!(", the reference is {reference}"));
            }
        }
        text
    }

    /// The note if the number is outside the `warns` bounds.
    pub fn note(&self) -> Option<String> {
        let range = range(self.warn_lower, self.warn_upper).filter(|_| self.verdict == PerfVerdict::Warning)?;
        Some(format!("perf: {} is {}; usual is {range}{}", self.name, self.shown(), self.unit()))
    }
}

fn range(lower: Option<f64>, upper: Option<f64>) -> Option<String> {
    match (lower.map(rounded), upper.map(rounded)) {
        (Some(lower), Some(upper)) => Some(format!("from {lower} to {upper}")),
        (Some(lower), None) => Some(format!("at least {lower}")),
        (None, Some(upper)) => Some(format!("at most {upper}")),
        (None, None) => None,
    }
}

/// Rounded to hide binary floating-point noise.
pub(crate) fn rounded(number: f64) -> String {
    format!("{number:.12e}").parse::<f64>().unwrap_or(number).to_string()
}

/// The measurements of `observation`; empty if the case did not run to its end.
pub fn measure(perf: &[PerfCheck], output: &[OutputCheck], observation: &Observation) -> Vec<Measured> {
    let execution = &observation.execution;
    let ran_on = !matches!(execution, Execution::Skipped(_)) && !execution.is_interrupted();
    if perf.is_empty() || !ran_on || execution.infra_error().is_some() {
        return Vec::new();
    }
    let captures = Captures::collect(output, observation);
    perf.iter().map(|check| check.check(observation, &captures).0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const OPEN: Bounds = Bounds { lower: None, upper: None };

    fn check(reference: Option<f64>, fails: Bounds, warns: Bounds) -> PerfCheck {
        PerfCheck {
            name: "bandwidth".into(),
            metric: Metric::Path(ReportKind::Cluster, JsonPath::parse("$.bw").unwrap()),
            unit: Some("GB/s".into()),
            reference: reference.map(|reference| Operand::Value(json!(reference))),
            fails,
            warns,
            because: None,
            place: SourceLocation::default(),
        }
    }

    fn measured(check: &PerfCheck, report: serde_json::Value) -> (Measured, Option<Failure>) {
        check.check(&Observation { cluster_report: Some(report), ..Observation::default() }, &Captures::default())
    }

    fn lower(bound: Bound) -> Bounds {
        Bounds { lower: Some(bound), upper: None }
    }

    #[test]
    fn bounds_are_parts_of_the_reference_or_numbers() {
        let check = check(Some(48.0), lower(Bound::Percent(-10.0)), lower(Bound::Percent(-5.0)));
        let (fine, failure) = measured(&check, json!({"bw": 47.0}));
        assert_eq!((fine.verdict, fine.lower, failure), (PerfVerdict::Ok, Some(43.2), None));
        let (slow, failure) = measured(&check, json!({"bw": 45}));
        assert_eq!((slow.verdict, failure), (PerfVerdict::Warning, None));
        let note = "perf: bandwidth is 45 GB/s, 6.2 % below the reference 48; usual is at least 45.6 GB/s";
        assert_eq!(slow.note().unwrap(), note);
        let (bad, failure) = measured(&check, json!({"bw": 41.0}));
        let failure = failure.unwrap();
        assert_eq!(bad.verdict, PerfVerdict::Failed);
        assert_eq!(failure.expected, "bandwidth: $.bw is at least 43.2 GB/s");
        assert_eq!(failure.got, "41 GB/s, 14.6 % below the reference 48");
    }

    #[test]
    fn a_negative_reference_has_its_lower_bound_below() {
        let around = Bounds { lower: Some(Bound::Percent(-10.0)), upper: Some(Bound::Percent(10.0)) };
        let (result, _) = measured(&check(Some(-100.0), around, OPEN), json!({"bw": -105.0}));
        assert_eq!((result.verdict, result.lower, result.upper), (PerfVerdict::Ok, Some(-110.0), Some(-90.0)));
    }

    #[test]
    fn a_reference_of_0_checks_all_the_same() {
        let most = check(Some(0.0), Bounds { lower: None, upper: Some(Bound::Number(0.5)) }, OPEN);
        assert_eq!(measured(&most, json!({"bw": 0.4})).0.verdict, PerfVerdict::Ok);
        assert_eq!(measured(&most, json!({"bw": 0.6})).0.verdict, PerfVerdict::Failed);
        let part = check(Some(0.0), lower(Bound::Percent(-10.0)), OPEN);
        let (result, failure) = measured(&part, json!({"bw": 1}));
        assert_eq!(result.verdict, PerfVerdict::Failed);
        assert!(failure.unwrap().got.contains("not a bound"));
    }

    #[test]
    fn what_is_not_there_is_a_failure() {
        let check = check(None, lower(Bound::Number(1.0)), OPEN);
        let (result, failure) = measured(&check, json!({}));
        assert_eq!((result.value, result.verdict), (None, PerfVerdict::Failed));
        assert_eq!(failure.unwrap().got, "$.bw selects nothing");
        assert_eq!(measured(&check, json!({"bw": "nan"})).0.verdict, PerfVerdict::Failed);
    }
}
