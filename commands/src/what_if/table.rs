//! The comparison as text.

use protocol::report::{PathKind, PathSegment};
use runner::report::words;

use super::figures::{Comparison, Figures};

/// A row of the comparison: its name, and the figure in us.
type Row = (&'static str, fn(&Figures) -> Option<f64>);

/// What is compared. Times of the step are those of the rank whose step is the longest.
pub(super) const ROWS: [Row; 6] = [
    ("step", |figures| Some(figures.step_us)),
    ("kernels and copies", |figures| figures.computing_us),
    ("collectives", |figures| figures.communication_us),
    ("exposed collectives", |figures| figures.exposed_communication_us),
    ("waiting for ranks", |figures| figures.collective_wait_us),
    ("waiting for the host", |figures| figures.launch_bound_us),
];

pub(super) fn text(comparison: &Comparison) -> String {
    let Comparison { changes, assumed, before, after, .. } = comparison;
    let mut lines = vec![format!(
        "modeled, not measured: {}",
        if changes.is_empty() { "the same cluster".to_owned() } else { changes.join(", ") }
    )];
    lines.extend(assumed.iter().map(|what| format!("assumed: {what}")));
    if !before.has_steps {
        lines.push("the program marks no steps: `step` is the whole run".to_owned());
    }
    for figures in after.iter().filter(|figures| !figures.is_calibrated).take(1) {
        lines.push(format!("{}: its GPUs are outside of what the model was calibrated with", figures.name));
    }
    if before.unknown_kernels > 0 {
        lines.push(format!(
            "the time of {} kernels is not known: each counts the least that it takes",
            before.unknown_kernels
        ));
    }
    lines.push(String::new());
    if let [after] = after.as_slice() {
        lines.push(format!("{:<22}{:>14}{:>14}{:>14}", "", "before", "after", "difference"));
        for (name, figure) in ROWS {
            if let (Some(was), Some(is)) = (figure(before), figure(after)) {
                lines.push(format!("{name:<22}{:>14}{:>14}{:>14}", us(was), us(is), difference(was, is)));
            }
        }
        for (name, was, is) in [
            ("sent inside nodes", before.inside_bytes, after.inside_bytes),
            ("sent between nodes", before.between_bytes, after.between_bytes),
        ] {
            let difference = difference(was as f64, is as f64);
            lines.push(format!("{name:<22}{:>14}{:>14}{difference:>14}", words::bytes(was), words::bytes(is)));
        }
        lines.push(format!("{:<22}{:>14}{:>14}", "ranks", before.ranks, after.ranks));
    } else {
        let width = after.iter().map(|figures| figures.name.len()).max().unwrap_or(0).max(6) + 2;
        lines.push(format!("{:<width$}{:>14}{:>14}{:>14}{:>14}", "", "step", "difference", "collectives", "exposed"));
        for figures in std::iter::once(before).chain(after) {
            let shown = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), us);
            lines.push(format!(
                "{:<width$}{:>14}{:>14}{:>14}{:>14}",
                figures.name,
                us(figures.step_us),
                difference(before.step_us, figures.step_us),
                shown(figures.communication_us),
                shown(figures.exposed_communication_us)
            ));
        }
    }
    for figures in std::iter::once(before).chain(after.last()) {
        if !figures.critical_path.is_empty() {
            lines.push(format!("\ncritical path of step 2, {}", figures.name));
            lines.extend(figures.critical_path.iter().map(|segment| {
                format!(
                    "{:>14} {:>5.1} %  {}",
                    us(segment.time_ns as f64 / 1e3),
                    segment.share * 100.0,
                    described(segment)
                )
            }));
        }
    }
    lines.join("\n")
}

/// `all_reduce x 3 at train.py:12`.
pub(super) fn described(segment: &PathSegment) -> String {
    let name = &segment.name;
    let what = match segment.kind {
        PathKind::Wait => format!("waits for other ranks in {name}"),
        PathKind::Host => format!("the host, before {}", if name.is_empty() { "the end" } else { name }),
        PathKind::Gap => format!("gaps before {name}"),
        PathKind::Compute | PathKind::Copy | PathKind::Collective => name.clone(),
    };
    let count = if segment.count > 1 { format!(" x {}", segment.count) } else { String::new() };
    let place = segment.file.iter().zip(segment.line).map(|(file, line)| format!(" at {file}:{line}")).next();
    format!("{what}{count}{}", place.unwrap_or_default())
}

/// With a digit more than people read elsewhere: what differs may be small.
pub(super) fn us(us: f64) -> String {
    if us >= 1e4 { format!("{:.3} ms", us / 1e3) } else { format!("{us:.1} us") }
}

pub(super) fn difference(was: f64, is: f64) -> String {
    match was {
        _ if was == is => "=".to_owned(),
        0.0 => "new".to_owned(),
        _ => format!("{:+.1} %", (is / was - 1.0) * 100.0),
    }
}
