//! The numbers of a run and of its variant by step, to be drawn.

use serde::{Deserialize, Serialize};

use crate::check::numbers::Difference;
use crate::observation::Number;

/// How many names are drawn.
const MOST_NAMES: usize = 4;
/// How many points a line has.
const MOST_POINTS: usize = 400;
/// A larger one is not drawn, so that every distance is a number.
const LARGEST: f64 = 1e300;

/// One number of two runs, step by step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Curve {
    /// Its name in `compared`.
    pub name: String,
    /// Step and value in the run as it is.
    pub first: Vec<(f64, f64)>,
    /// The same under the relation.
    pub second: Vec<(f64, f64)>,
}

/// Those that differ, in the order of their first differences. A name with less than two steps is no curve.
pub(super) fn differing(first: &[Number], second: &[Number], differences: &[Difference<'_>]) -> Vec<Curve> {
    let mut names: Vec<&str> = Vec::new();
    for difference in differences {
        let (Difference::Value(number, _) | Difference::OnlyFirst(number) | Difference::OnlySecond(number)) =
            difference;
        if !names.contains(&number.key.name.as_str()) {
            names.push(&number.key.name);
        }
    }
    let curve = |name: &str| Curve { name: name.to_owned(), first: points(first, name), second: points(second, name) };
    let is_long = |curve: &Curve| curve.first.len().max(curve.second.len()) > 1;
    names.into_iter().map(curve).filter(is_long).take(MOST_NAMES).collect()
}

/// Where several ranks print a step, the first of them. Without steps, the numbers are counted.
fn points(numbers: &[Number], name: &str) -> Vec<(f64, f64)> {
    let named: Vec<&Number> = numbers.iter().filter(|number| number.key.name == name).collect();
    let has_steps = named.iter().any(|number| number.key.step.is_some());
    let shown = named.into_iter().filter(|number| !has_steps || number.key.earlier == 0);
    let all: Vec<(f64, f64)> = shown
        .enumerate()
        .filter_map(|(index, number)| {
            let step = number.key.step.as_ref().map_or(Some(index as f64), |step| step.parse().ok())?;
            Some((step, number.text.parse().ok()?))
        })
        .filter(|(step, value): &(f64, f64)| step.abs() < LARGEST && value.abs() < LARGEST)
        .collect();
    let every = all.len().div_ceil(MOST_POINTS).max(1);
    let last = all.len().saturating_sub(1);
    let kept = all.into_iter().enumerate().filter(|(index, _)| index % every == 0 || *index == last);
    kept.map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::numbers::{self, Reading};

    fn read(numbers: &[(&str, Option<&str>, &str)]) -> Vec<Number> {
        let mut reading = Reading::default();
        for (name, step, text) in numbers {
            reading.add(name, step.map(str::to_owned), (*text).to_owned(), String::new());
        }
        reading.finish()
    }

    #[test]
    fn what_differs_is_drawn_by_step() {
        let first = read(&[
            ("loss", Some("1"), "0.5"),
            ("norm", Some("1"), "2"),
            ("loss", Some("1"), "0.75"),
            ("loss", Some("3"), "nan"),
            ("loss", Some("4"), "0.25"),
        ]);
        let second = read(&[("norm", Some("1"), "2"), ("loss", Some("1"), "0.5"), ("loss", Some("4"), "1")]);
        let differences = numbers::differences(&first, &second, 0.0);
        let expected =
            Curve { name: "loss".into(), first: vec![(1.0, 0.5), (4.0, 0.25)], second: vec![(1.0, 0.5), (4.0, 1.0)] };
        assert_eq!(differing(&first, &second, &differences), [expected]);
    }

    #[test]
    fn a_long_line_keeps_its_ends() {
        let texts: Vec<String> = (0..1001).map(|value| value.to_string()).collect();
        let long = read(&texts.iter().map(|text| ("loss", None, text.as_str())).collect::<Vec<_>>());
        let drawn = points(&long, "loss");
        assert!(drawn.len() <= MOST_POINTS + 1, "{}", drawn.len());
        assert_eq!((drawn[0], *drawn.last().unwrap()), ((0.0, 0.0), (1000.0, 1000.0)));
    }
}
