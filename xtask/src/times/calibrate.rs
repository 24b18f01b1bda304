//! Finds the model's parameters from the published tables, one parameter at a time, and how well they travel.

use timing::physics::Physics;

use super::published::Case;
use super::sizes::{CLASSES, class};

/// Parameters that keep their values.
const SET: [&str; 4] = ["network_step", "tree_ll", "sockets_most", "staged_rate"];
/// Rounds over all parameters.
const ROUNDS: usize = 8;
/// Parts of the tables of which each is left out once.
const PARTS: usize = 5;

/// Calibrates with all tables; prints the parameters.
pub(super) fn run(cases: &[Case]) {
    let healthy: Vec<&Case> = cases.iter().filter(|case| case.status == "healthy").collect();
    for (name, value) in fit(&healthy).parameters() {
        println!("    {name} = {};", rounded(*value));
    }
}

/// Absolute errors by class of size, of tables that a calibration with the others has not seen: each fifth is left out once.
pub(super) fn left_out(cases: &[Case]) -> [Vec<f64>; CLASSES.len()] {
    let healthy: Vec<&Case> = cases.iter().filter(|case| case.status == "healthy").collect();
    let mut errors: [Vec<f64>; CLASSES.len()] = Default::default();
    for part in 0..PARTS {
        let (tests, lessons): (Vec<_>, Vec<_>) =
            healthy.iter().copied().enumerate().partition(|(index, _)| index % PARTS == part);
        let physics = fit(&lessons.iter().map(|(_, case)| *case).collect::<Vec<_>>());
        for (bytes, error) in tests.iter().flat_map(|(_, case)| case.errors(&physics)) {
            errors[class(bytes)].push(error.abs());
        }
    }
    errors
}

/// Three digits.
fn rounded(value: f64) -> f64 {
    let scale = 10f64.powf(2.0 - value.abs().max(1e-9).log10().floor());
    (value * scale).round() / scale
}

fn fit(cases: &[&Case]) -> Physics {
    let mut best = Physics::default();
    let mut steps = vec![0.2; best.parameters().len()];
    let mut least = score(cases, &best);
    for _ in 0..ROUNDS {
        for (index, step) in steps.iter_mut().enumerate() {
            if SET.contains(&best.parameters()[index].0) {
                continue;
            }
            let moved = [1.0 + *step, 1.0 / (1.0 + *step)].into_iter().find_map(|factor| {
                let mut tried = best.clone();
                *tried.parameters()[index].1 *= factor;
                let score = score(cases, &tried);
                (score < least - 1e-7).then_some((tried, score))
            });
            match moved {
                Some((tried, score)) => (best, least) = (tried, score),
                None => *step *= 0.6,
            }
        }
    }
    best
}

/// Mean over tables of the mean error of their rows: the logarithm, at most 1, and twice from 1 MiB on.
fn score(cases: &[&Case], physics: &Physics) -> f64 {
    let mut sum = 0.0;
    let mut weights = 0.0;
    for case in cases {
        let errors = case.errors(physics);
        let total: f64 = errors
            .iter()
            .map(|(bytes, error)| {
                (1.0 + error).max(1e-9).ln().abs().min(1.0) * if *bytes >= 1 << 20 { 2.0 } else { 1.0 }
            })
            .sum();
        let weight = (errors.len() as f64).sqrt();
        sum += weight * total / errors.len().max(1) as f64;
        weights += weight;
    }
    sum / weights
}
