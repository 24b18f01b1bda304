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
    let Comparison { before, after, .. } = comparison;
    let mut lines = vec![format!("modeled, not measured: {}", title(comparison))];
    lines.extend(notes(comparison));
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

/// What differs.
pub(super) fn title(comparison: &Comparison) -> String {
    let changes = &comparison.changes;
    if changes.is_empty() { "the same cluster".to_owned() } else { changes.join(", ") }
}

/// What was assumed, and what the figures lack.
pub(super) fn notes(comparison: &Comparison) -> Vec<String> {
    let Comparison { assumed, before, after, .. } = comparison;
    let mut notes: Vec<String> = assumed.iter().map(|what| format!("assumed: {what}")).collect();
    if !before.has_steps {
        notes.push("the program marks no steps: `step` is the whole run".to_owned());
    }
    for figures in std::iter::once(before).chain(after) {
        let name = &figures.name;
        if !figures.is_calibrated {
            notes.push(format!("{name}: its GPUs are outside of what the model was calibrated with"));
        }
        if figures.unknown_kernels > 0 {
            let count = figures.unknown_kernels;
            notes
                .push(format!("{name}: the time of {count} kernels is not known; each counts the least that it takes"));
        }
    }
    notes
}

/// `all_reduce x 3 at train.py:12`.
pub(super) fn described(segment: &PathSegment) -> String {
    let name = &segment.name;
    let what = match segment.kind {
        PathKind::Wait => match segment.awaited {
            Some(rank) => format!("waits for rank {rank} in {name}"),
            None => format!("waits for other ranks in {name}"),
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(name: &str, unknown_kernels: u64, is_calibrated: bool) -> Figures {
        Figures {
            name: name.to_owned(),
            ranks: 2,
            step_us: 10.0,
            has_steps: true,
            computing_us: None,
            communication_us: None,
            exposed_communication_us: None,
            collective_wait_us: None,
            launch_bound_us: None,
            inside_bytes: 0,
            between_bytes: 0,
            unknown_kernels,
            is_calibrated,
            critical_path: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// A cluster of unequal nodes has no times of collectives, though the run's own cluster had.
    #[test]
    fn what_is_not_known_of_the_other_cluster_is_said_in_text_and_page() {
        let comparison = Comparison {
            version: 1,
            changes: vec!["gpu = t4".to_owned()],
            assumed: vec!["more nodes".to_owned()],
            before: figures("before", 0, true),
            after: vec![figures("after", 3, false)],
        };
        let expected = [
            "assumed: more nodes",
            "after: its GPUs are outside of what the model was calibrated with",
            "after: the time of 3 kernels is not known; each counts the least that it takes",
        ];
        assert_eq!(notes(&comparison), expected);
        let (text, page) = (text(&comparison), super::super::page::html(&comparison));
        assert!(expected.iter().all(|note| text.contains(note) && page.contains(note)), "{text}\n{page}");
    }
}
