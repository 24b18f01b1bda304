//! The error of every published table as Markdown.

use protocol::datatype::Operation;
use timing::physics::Physics;

use super::published::Case;

/// Classes of sizes, and the bytes below which each ends.
pub(super) const CLASSES: [(&str, u64); 4] =
    [("< 64 KiB", 1 << 16), ("64 KiB-1 MiB", 1 << 20), ("1-64 MiB", 64 << 20), (">= 64 MiB", u64::MAX)];

/// Index of the class of a size.
pub(super) fn class(bytes: u64) -> usize {
    CLASSES.iter().position(|(_, end)| bytes < *end).unwrap_or(CLASSES.len() - 1)
}

/// The value below which a part of the values lie; NaN if there are none. Sorts them.
pub(super) fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() {
        return f64::NAN;
    }
    let place = (values.len() - 1) as f64 * part;
    let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

/// One line per table, and one for all healthy ones.
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
    let cells: Vec<String> =
        healthy
            .iter_mut()
            .map(|errors| {
                if errors.is_empty() { String::new() } else { format!("**{:.1} %**", 100.0 * percentile(errors, 0.5)) }
            })
            .collect();
    text.push_str(&format!("| **all healthy rows, median of the absolute error** | | | | {} |\n", cells.join(" | ")));
    text
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
