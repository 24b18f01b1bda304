//! Histogram of message sizes.

use std::collections::BTreeMap;

use protocol::report::{ClusterReport, OperationKind};

use crate::report::chart::svg::{Anchor, Svg, ticks};
use crate::report::cluster::{look, message_bytes};
use crate::report::words;

const HEIGHT: f64 = 150.0;
const LEFT: f64 = 34.0;

/// Operations by the bytes that each rank contributed, in powers of two; empty if no operation had a payload.
pub fn draw(report: &ClusterReport, id: &str) -> Option<String> {
    let mut buckets: BTreeMap<u32, BTreeMap<(&str, &str), usize>> = BTreeMap::new();
    for entry in &report.operation_timeline.entries {
        let bytes = message_bytes(entry);
        if entry.kind == OperationKind::Barrier || bytes == 0 {
            continue;
        }
        let (_, class) = look(&entry.operation);
        *buckets.entry(bytes.ilog2()).or_default().entry((class, &entry.operation)).or_default() += 1;
    }
    let (low, high) = (*buckets.keys().next()?, *buckets.keys().next_back()?);
    let count = |bucket: u32| buckets.get(&bucket).map_or(0, |kinds| kinds.values().sum::<usize>());
    let most = (low..=high).map(count).max()?;
    let steps = (high - low + 1) as f64;
    let width = (256.0 / steps).clamp(12.0, 128.0);
    let scale = HEIGHT / most as f64;
    let top = 18.0;
    let mut svg = Svg::new((LEFT + steps * width + 38.0).max(240.0), top + HEIGHT + 40.0);
    for tick in ticks(most as f64, 4).into_iter().filter(|tick| tick.fract() == 0.0) {
        let y = top + HEIGHT - tick * scale;
        svg.line("grid", (LEFT, y), (LEFT + steps * width, y));
        svg.text("tick", (LEFT - 5.0, y + 4.0), Anchor::End, &format!("{tick}"));
    }
    // Labels such as `512 KiB` need space.
    let every = (52.0 / width).ceil() as u32;
    for bucket in low..=high {
        let x = LEFT + f64::from(bucket - low) * width;
        if (bucket - low) % every == 0 {
            svg.text("tick", (x + 1.0, top + HEIGHT + 15.0), Anchor::Start, &words::bytes(1 << bucket));
        }
        let mut y = top + HEIGHT;
        for ((class, operation), count) in buckets.get(&bucket).into_iter().flatten() {
            let height = *count as f64 * scale;
            y -= height;
            let tip = format!(
                "{count} {operation} of {} to less than {}",
                words::bytes(1 << bucket),
                words::bytes((1u64 << bucket).saturating_mul(2))
            );
            svg.rect(class, (x + 1.0, y), (width - 2.0, height), &tip);
        }
        let total = count(bucket);
        if total > 0 && width >= 24.0 {
            svg.text("tick", (x + width / 2.0, y - 4.0), Anchor::Middle, &total.to_string());
        }
    }
    svg.text("tick", (LEFT, top + HEIGHT + 32.0), Anchor::Start, "bytes per rank and operation");
    let peak = (low..=high).max_by_key(|bucket| count(*bucket))?;
    let description = format!(
        "{} with a payload, from {} up; most often {} to less than {}.",
        words::counted((low..=high).map(count).sum(), "operation"),
        words::bytes(1 << low),
        words::bytes(1 << peak),
        words::bytes((1u64 << peak).saturating_mul(2))
    );
    Some(svg.finish(id, "Sizes of messages", &description))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::cluster::tests::{add, report};

    #[test]
    fn sizes_fall_into_powers_of_two() {
        let mut report = report();
        let times = [(0, 0.0, 1.0), (1, 0.0, 1.0)];
        add(&mut report, "all_reduce", 2 * 1024, &times);
        add(&mut report, "all_reduce", 2 * 2047, &times);
        add(&mut report, "broadcast", 2 * 4096, &times);
        add(&mut report, "barrier", 0, &times);
        let text = draw(&report, "s").unwrap();
        assert!(
            text.contains("2 all_reduce of 1.0 KiB to less than 2.0 KiB") && text.contains("1 broadcast of 4.0 KiB"),
            "{text}"
        );
    }

    #[test]
    fn largest_and_no_sizes() {
        let mut report = report();
        assert_eq!(draw(&report, "s"), None);
        add(&mut report, "send_recv", u64::MAX, &[(0, 0.0, 1.0), (1, 0.0, 1.0)]);
        assert!(draw(&report, "s").is_some());
    }
}
