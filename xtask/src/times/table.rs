//! The error of every published table as Markdown.

use protocol::datatype::Operation;
use timing::physics::Physics;

use super::calibrate;
use super::published::Case;
use super::sizes::{CLASSES, class, percentile};

/// One line per table, and two for all healthy ones.
pub(super) fn markdown(cases: &[Case]) -> String {
    let physics = Physics::default();
    let heads: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
    let mut text = format!("| table | machine | operation | NCCL | {} |\n|---|---|---|---|", heads.join(" | "));
    text.push_str(&"---|".repeat(CLASSES.len()));
    text.push('\n');
    let mut healthy: [Vec<f64>; CLASSES.len()] = Default::default();
    for case in cases {
        let mut errors: [Vec<f64>; CLASSES.len()] = Default::default();
        for (bytes, error) in case.errors(&physics) {
            errors[class(bytes)].push(error);
            if case.status == "healthy" {
                healthy[class(bytes)].push(error.abs());
            }
        }
        let cells: Vec<String> = errors.iter_mut().map(|errors| signed(errors)).collect();
        let minor = case.settings.minor.map_or_else(|| "not stated".to_owned(), |minor| format!("2.{minor}"));
        let status = if case.status == "healthy" { String::new() } else { format!(" ({})", case.status) };
        text.push_str(&format!(
            "| {}{status} | {} | {} | {minor} | {} |\n",
            linked(case),
            case.hardware,
            operation(case.operation),
            cells.join(" | ")
        ));
    }
    text.push_str(&medians("all healthy rows", &mut healthy));
    text.push_str(&medians("the same, of tables left out of the calibration", &mut calibrate::left_out(cases)));
    text
}

/// The line of the medians of absolute errors.
fn medians(what: &str, errors: &mut [Vec<f64>; CLASSES.len()]) -> String {
    let cells: Vec<String> =
        errors.iter_mut().map(|errors| format!("**{:.1} %**", 100.0 * percentile(errors, 0.5))).collect();
    format!("| **{what}, median of the absolute error** | | | | {} |\n", cells.join(" | "))
}

fn linked(case: &Case) -> String {
    // Some say in words where on a page the table is.
    match case.source.split_whitespace().next() {
        Some(address) if address.starts_with("https://") => format!("[{}]({address})", case.id),
        _ => case.id.clone(),
    }
}

fn operation(operation: Operation) -> &'static str {
    if operation == Operation::Send { "sendrecv" } else { operation.name() }
}

/// The median with its sign, in percent.
fn signed(errors: &mut [f64]) -> String {
    if errors.is_empty() { String::new() } else { format!("{:+.0} %", 100.0 * percentile(errors, 0.5)) }
}
