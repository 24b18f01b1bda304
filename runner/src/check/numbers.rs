//! Compares the numbers that two runs print: by name, step and occurrence, as printed or within a tolerance.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::tolerance::Tolerance;
use crate::observation::{Key, Number};

/// The numbers of a run while they are read, in the order in which it printed or wrote them.
#[derive(Debug, Default)]
pub struct Reading {
    numbers: Vec<Number>,
    count: HashMap<(String, Option<String>), usize>,
}

impl Reading {
    /// Adds the next one.
    pub fn add(&mut self, name: &str, step: Option<String>, text: String, line: String) {
        let earlier = self.count.entry((name.to_owned(), step.clone())).or_default();
        let key = Key { name: name.to_owned(), step, earlier: *earlier };
        *earlier += 1;
        self.numbers.push(Number { key, text, line });
    }

    /// All of them.
    pub fn finish(self) -> Vec<Number> {
        self.numbers
    }
}

/// The numbers of a run that was killed and started again.
#[derive(Debug, PartialEq, Eq)]
pub struct Resumed {
    /// Those of both parts; after the restart, a step counts anew.
    pub all: Vec<Number>,
    /// Those from after the restart.
    pub after: Vec<Number>,
}

/// The numbers of both parts of a run. Files of the second part may still contain numbers of the first, in the same place.
pub fn resumed(first: &[Number], second: Vec<Number>) -> Resumed {
    let of_first: HashSet<(&str, &str)> =
        first.iter().map(|number| (number.line.as_str(), number.text.as_str())).collect();
    let is_new = |number: &Number| !of_first.contains(&(number.line.as_str(), number.text.as_str()));
    let mut after = Reading::default();
    for number in second.into_iter().filter(is_new) {
        after.add(&number.key.name, number.key.step, number.text, number.line);
    }
    let after = after.finish();
    let again: HashSet<(&str, Option<&str>)> = after.iter().map(Number::moment).collect();
    let kept = first.iter().filter(|number| !again.contains(&number.moment()));
    Resumed { all: kept.chain(&after).cloned().collect(), after }
}

/// Whether `second` has every name and step of `first`.
pub fn covers(second: &[Number], first: &[Number]) -> bool {
    let there: HashSet<(&str, Option<&str>)> = second.iter().map(Number::moment).collect();
    first.iter().all(|number| there.contains(&number.moment()))
}

/// A number that the two runs do not share.
#[derive(Debug, PartialEq, Eq)]
pub enum Difference<'a> {
    /// Both print it, with different values.
    Value(&'a Number, &'a Number),
    /// Only the first run prints it.
    OnlyFirst(&'a Number),
    /// Only the second run prints it.
    OnlySecond(&'a Number),
}

/// Every difference: in the order of the first run, and then what only the second run prints.
pub fn differences<'a>(first: &'a [Number], second: &'a [Number], tolerance: f64) -> Vec<Difference<'a>> {
    let others: HashMap<&Key, &Number> = second.iter().map(|number| (&number.key, number)).collect();
    let known: HashSet<&Key> = first.iter().map(|number| &number.key).collect();
    let of_first = first.iter().filter_map(|number| match others.get(&number.key) {
        None => Some(Difference::OnlyFirst(number)),
        Some(other) => (!is_same(&number.text, &other.text, tolerance)).then_some(Difference::Value(number, other)),
    });
    let of_second = second.iter().filter(|number| !known.contains(&number.key)).map(Difference::OnlySecond);
    of_first.chain(of_second).collect()
}

/// Whether two texts are the same number. NaN is equal to NaN; what is not a number must be the same text.
fn is_same(first: &str, second: &str, tolerance: f64) -> bool {
    if first == second {
        return true;
    }
    let (Ok(left), Ok(right)) = (first.parse::<f64>(), second.parse::<f64>()) else { return false };
    if left.is_nan() && right.is_nan() {
        return true;
    }
    let tolerance = Tolerance { relative: tolerance, absolute: 0.0, nan_equal: true };
    tolerance.relative > 0.0 && left.is_finite() == right.is_finite() && tolerance.holds(&value(left), &value(right))
}

/// JSON has no infinity: reports write it as text.
fn value(number: f64) -> serde_json::Value {
    if number.is_finite() { json!(number) } else { json!(number.to_string()) }
}

/// How far two numbers are apart, relative to the larger; `None` if one of them is not finite.
pub fn distance(first: &str, second: &str) -> Option<f64> {
    let (left, right) = (first.parse::<f64>().ok()?, second.parse::<f64>().ok()?);
    let distance = (left - right).abs() / left.abs().max(right.abs());
    distance.is_finite().then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `step name value`, one per item.
    fn run(lines: &[&str]) -> Vec<Number> {
        let mut reading = Reading::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            reading.add(words[1], Some(words[0].to_owned()), words[2].to_owned(), String::new());
        }
        reading.finish()
    }

    #[test]
    fn values_by_table() {
        for (first, second, tolerance, same) in [
            ("0.5", "0.5", 0.0, true),
            ("0.5", "0.50", 0.0, false),
            ("0.5", "0.50", 1e-9, true),
            ("0.5", "0.500004", 1e-5, true),
            ("0.5", "0.50001", 1e-5, false),
            ("-0.5", "0.5", 1e-5, false),
            ("0", "1e-30", 1e-5, false),
            ("nan", "nan", 0.0, true),
            ("nan", "-NaN", 0.0, true),
            ("nan", "0.5", 1e-5, false),
            ("inf", "Infinity", 1e-5, true),
            ("inf", "-inf", 1e-5, false),
            ("inf", "1e308", 1e-5, false),
            ("a1", "a1", 0.0, true),
            ("a1", "a2", 1.0, false),
        ] {
            assert_eq!(is_same(first, second, tolerance), same, "{first} {second} {tolerance}");
            assert_eq!(is_same(second, first, tolerance), same, "{second} {first} {tolerance}");
        }
    }

    #[test]
    fn numbers_meet_by_name_step_and_occurrence() {
        let first = run(&["1 loss 0.5", "1 norm 2", "2 loss 0.25"]);
        let shuffled = run(&["1 norm 2", "1 loss 0.5", "2 loss 0.25"]);
        assert!(differences(&first, &shuffled, 0.0).is_empty());
        let later = run(&["1 loss 0.5", "1 norm 2", "3 loss 0.25"]);
        assert_eq!(
            differences(&first, &later, 0.0),
            [Difference::OnlyFirst(&first[2]), Difference::OnlySecond(&later[2])]
        );
        let twice = run(&["1 loss 0.5", "1 norm 2", "2 loss 0.25", "2 loss 0.25"]);
        assert_eq!(differences(&first, &twice, 0.0), [Difference::OnlySecond(&twice[3])]);
        assert_eq!(differences(&twice, &first, 0.0), [Difference::OnlyFirst(&twice[3])]);
        let other = run(&["1 loss 0.75", "1 norm 2", "2 loss 0.5"]);
        assert_eq!(differences(&first, &other, 0.0).len(), 2);
        assert_eq!(differences(&first, &other, 0.0)[0], Difference::Value(&first[0], &other[0]));
        assert_eq!(differences(&first, &[], 0.0).len(), 3);
    }

    #[test]
    fn after_a_restart_a_step_counts_anew() {
        let first = run(&["1 loss 0.5", "2 loss 0.25", "3 loss 0.2"]);
        let mut second = run(&["3 loss 0.125", "4 loss 0.1"]);
        second.iter_mut().for_each(|number| number.line = "after the restart".to_owned());
        let both = resumed(&first, second.clone());
        assert!(
            differences(&both.all, &run(&["1 loss 0.5", "2 loss 0.25", "3 loss 0.125", "4 loss 0.1"]), 0.0).is_empty()
        );
        assert_eq!(both.after, second);
        assert!(!covers(&both.after, &both.all) && covers(&both.all, &first));
    }

    #[test]
    fn what_a_file_still_has_is_not_new() {
        let placed = |lines: &[&str]| {
            let mut numbers = run(lines);
            (1..).zip(&mut numbers).for_each(|(line, number)| number.line = format!("log.jsonl, line {line}"));
            numbers
        };
        let first = placed(&["1 loss 0.5", "2 loss 0.25"]);
        let both = resumed(&first, placed(&["1 loss 0.5", "2 loss 0.25", "2 loss 0.75", "3 loss 0.125"]));
        assert!(differences(&both.all, &run(&["1 loss 0.5", "2 loss 0.75", "3 loss 0.125"]), 0.0).is_empty());
        let rewritten = resumed(&first, placed(&["1 loss 0.5", "2 loss 0.25"]));
        assert!(rewritten.after.is_empty() && rewritten.all == first);
    }

    #[test]
    fn a_distance_is_relative_to_the_larger_number() {
        assert_eq!(distance("1", "4"), Some(0.75));
        assert_eq!(distance("-1", "1"), Some(2.0));
        assert_eq!([distance("0", "0"), distance("nan", "1"), distance("x", "1")], [None; 3]);
    }
}
