//! Chart of the payload moved over time.

use protocol::report::ClusterReport;

use crate::report::chart::svg::{Anchor, Svg, ticks};
use crate::report::cluster::Span;
use crate::report::words;

const SLICES: usize = 72;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 62.0;
const WIDTH: f64 = 240.0;

/// Payload per second of all ranks together; empty if no operation with a payload has known times.
pub fn draw(report: &ClusterReport, spans: &[Span], id: &str) -> Option<String> {
    let end = spans.iter().map(|span| span.ended_us).fold(0.0, f64::max).max(1.0);
    let width = end / SLICES as f64;
    // From the moment all ranks were present until the last one was done.
    let mut moves: Vec<Option<(f64, f64)>> = vec![None; report.operation_timeline.entries.len()];
    for span in spans {
        let (from, to) = moves[span.entry].get_or_insert((span.met_us, span.ended_us));
        (*from, *to) = (from.min(span.met_us), to.max(span.ended_us));
    }
    let mut slices = [0.0; SLICES];
    let mut total = 0u64;
    for (entry, moved) in report.operation_timeline.entries.iter().zip(moves) {
        let Some((from, to)) = moved.filter(|_| entry.logical_payload_bytes > 0) else { continue };
        total = total.saturating_add(entry.logical_payload_bytes);
        spread(&mut slices, width, (from, to), entry.logical_payload_bytes as f64);
    }
    let most = slices.iter().copied().fold(0.0, f64::max) / (width / 1e6);
    if total == 0 || most <= 0.0 {
        return None;
    }
    let (top, bottom) = (12.0, 12.0 + HEIGHT);
    let (across, up) = (WIDTH / SLICES as f64, HEIGHT / most);
    let mut svg = Svg::new(LEFT + WIDTH + 26.0, bottom + 26.0);
    // Steps that are round numbers in the displayed unit.
    let unit = 1024f64.powf((most.log2() / 10.0).floor().max(0.0));
    for tick in ticks(most / unit, 5).into_iter().map(|tick| tick * unit) {
        let y = bottom - tick * up;
        svg.line("grid", (LEFT, y), (LEFT + WIDTH, y));
        svg.text("tick", (LEFT - 5.0, y + 4.0), Anchor::End, &rate(tick));
    }
    for tick in ticks(end, 3) {
        let x = LEFT + tick / end * WIDTH;
        svg.line("grid", (x, bottom), (x, bottom + 4.0));
        svg.text(
            "tick",
            (x, bottom + 17.0),
            Anchor::Middle,
            &if tick == 0.0 { "0".to_owned() } else { words::time(tick) },
        );
    }
    let mut points = vec![(LEFT, bottom)];
    for (index, bytes) in slices.iter().enumerate() {
        let y = bottom - bytes / (width / 1e6) * up;
        points.extend([(LEFT + index as f64 * across, y), (LEFT + (index + 1) as f64 * across, y)]);
    }
    points.push((LEFT + WIDTH, bottom));
    svg.path("area", &points);
    for (index, bytes) in slices.iter().enumerate().filter(|(_, bytes)| **bytes > 0.0) {
        let tip = format!("{} at {}", rate(bytes / (width / 1e6)), words::time(index as f64 * width));
        svg.rect("hit", (LEFT + index as f64 * across, top), (across, HEIGHT), &tip);
    }
    let description = format!(
        "{} of payload within {}; at most {} over {}.",
        words::bytes(total),
        words::time(end),
        rate(most),
        words::time(width)
    );
    Some(svg.finish(id, "Bandwidth over time", &description))
}

fn rate(bytes_per_second: f64) -> String {
    if bytes_per_second == 0.0 {
        "0".to_owned()
    } else {
        format!("{}/s", words::bytes(bytes_per_second.round() as u64))
    }
}

/// Adds `bytes` to the slices between `from` and `to`, evenly.
fn spread(slices: &mut [f64], width: f64, (from, to): (f64, f64), bytes: f64) {
    let last = slices.len() - 1;
    let slice = |at: f64| ((at / width) as usize).min(last);
    if to - from < 1e-6 {
        slices[slice(from)] += bytes;
        return;
    }
    for (index, sum) in slices.iter_mut().enumerate().take(slice(to) + 1).skip(slice(from)) {
        let (begin, end) = (index as f64 * width, (index + 1) as f64 * width);
        let end = if index == last { end.max(to) } else { end };
        *sum += bytes * (to.min(end) - from.max(begin)).max(0.0) / (to - from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::cluster::spans;
    use crate::report::cluster::tests::{add, report};

    #[test]
    fn no_byte_is_lost() {
        for (from, to) in [(0.0, 10.0), (3.3, 3.4), (2.0, 2.0), (9.99, 10.0), (0.0, 1e-9), (10.0, 10.0)] {
            let mut slices = [0.0; 10];
            spread(&mut slices, 1.0, (from, to), 64.0);
            let sum: f64 = slices.iter().sum();
            assert!((sum - 64.0).abs() < 1e-6, "{from} to {to}: {sum}");
        }
    }

    #[test]
    fn the_peak_is_labeled() {
        let mut report = report();
        add(&mut report, "all_reduce", 1 << 20, &[(0, 0.0, 1e6), (1, 0.0, 1e6)]);
        let text = draw(&report, &spans(&report), "b").unwrap();
        assert!(text.contains("1.0 MiB of payload within 1.0 s; at most 1.0 MiB/s over 14 ms."), "{text}");
        report.operation_timeline.entries[0].logical_payload_bytes = 0;
        assert_eq!(draw(&report, &spans(&report), "b"), None);
    }
}
