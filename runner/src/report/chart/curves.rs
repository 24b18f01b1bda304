//! Chart of a number of two runs, step by step.

use crate::check::compared::Curve;
use crate::report::chart::svg::{Anchor, Svg};

const HEIGHT: f64 = 150.0;
const WIDTH: f64 = 280.0;
const LEFT: f64 = 74.0;
const TOP: f64 = 12.0;

/// Both lines: that of the run as it is, and that under the relation, with dashes.
pub fn draw(curve: &Curve, id: &str) -> String {
    let (low_step, high_step) = range(curve, |point| point.0);
    let (low, high) = range(curve, |point| point.1);
    let x = |step: f64| LEFT + (step - low_step) / (high_step - low_step) * WIDTH;
    let y = |value: f64| TOP + (high - value) / (high - low) * HEIGHT;
    let mut svg = Svg::new(LEFT + WIDTH + 26.0, TOP + HEIGHT + 26.0);
    for part in [0.0, 0.5, 1.0] {
        let (value, step) = (low + (high - low) * part, low_step + (high_step - low_step) * part);
        svg.line("grid", (LEFT, y(value)), (LEFT + WIDTH, y(value)));
        svg.text("tick", (LEFT - 5.0, y(value) + 4.0), Anchor::End, &short(value));
        svg.text("tick", (x(step), TOP + HEIGHT + 17.0), Anchor::Middle, &short(step));
    }
    for (class, points) in [("run", &curve.first), ("variant", &curve.second)] {
        let points: Vec<(f64, f64)> = points.iter().map(|(step, value)| (x(*step), y(*value))).collect();
        svg.path(class, &points);
    }
    let describes = format!("{} by step, from {} to {}, in both runs", curve.name, short(low), short(high));
    svg.finish(id, &format!("{} by step", curve.name), &describes)
}

/// The least and the largest, which are never the same.
fn range(curve: &Curve, part: impl Fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let all = || curve.first.iter().chain(&curve.second).map(&part);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if low < high {
        return (low, high);
    }
    let middle = if low.is_finite() && high.is_finite() { low / 2.0 + high / 2.0 } else { 0.0 };
    let room = middle.abs().max(1.0) / 2.0;
    (middle - room, middle + room)
}

/// Four significant digits.
fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || (1e-3..1e5).contains(&size) {
        let digits = if size == 0.0 { 0 } else { (3 - size.log10().floor() as i32).max(0) as usize };
        let text = format!("{value:.digits$}");
        return if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    }
    format!("{value:.2e}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_drawn_between_the_least_and_the_largest() {
        let curve =
            Curve { name: "<loss>".into(), first: vec![(1.0, 0.5), (3.0, 0.25)], second: vec![(1.0, 0.5), (3.0, 1.5)] };
        let svg = draw(&curve, "c0");
        assert_eq!(
            (svg.matches("<path class=\"run\"").count(), svg.matches("<path class=\"variant\"").count()),
            (1, 1)
        );
        for tick in [">0.25<", ">0.875<", ">1.5<", ">1<", ">3<"] {
            assert!(svg.contains(tick), "{tick} in {svg}");
        }
        assert!(!svg.contains("<loss>"), "{svg}");
        let flat = Curve { first: vec![(1.0, 2.0), (2.0, 2.0)], ..Curve::default() };
        assert!(!draw(&flat, "c1").contains("NaN"));
    }

    #[test]
    fn a_tick_has_four_digits() {
        let texts = [0.0, 0.0123456, 1234.56, 12.0, -0.5, 1e-9, 2e7].map(short);
        assert_eq!(texts, ["0", "0.01235", "1235", "12", "-0.5", "1.00e-9", "2.00e7"]);
    }
}
