//! Timeline of each rank's operations: waits as thin bars, the rest of an operation as full bars.

use std::collections::BTreeMap;

use protocol::report::ClusterReport;

use crate::report::chart::svg::{Anchor, Svg, shortened, ticks};
use crate::report::cluster::{Span, look, message_bytes};
use crate::report::words;

/// Maximum number of ranks: more do not fit a page.
const MOST_RANKS: usize = 64;
/// Maximum number of lanes: further concurrent operations of a rank share the last one.
const MOST_LANES: usize = 4;
const WIDTH: f64 = 900.0;
const LANE: f64 = 18.0;
/// A narrower bar merges with one that follows immediately.
const NARROW: f64 = 2.0;

/// Bars that are drawn as one.
struct Block<'r> {
    first: &'r Span,
    began_us: f64,
    met_us: f64,
    ended_us: f64,
    operations: BTreeMap<&'r str, usize>,
}

/// The timeline; empty if no times are known.
pub fn draw(report: &ClusterReport, spans: &[Span], id: &str) -> Option<String> {
    let end = spans.iter().map(|span| span.ended_us).fold(0.0, f64::max).max(1.0);
    let mut ranks: BTreeMap<u32, Vec<&Span>> = BTreeMap::new();
    for span in spans {
        ranks.entry(span.rank).or_default().push(span);
    }
    let all = ranks.len();
    let shown: Vec<(u32, Vec<&Span>)> = ranks.into_iter().take(MOST_RANKS).collect();
    if shown.is_empty() {
        return None;
    }
    let names: Vec<String> = shown.iter().map(|(rank, _)| name(report, *rank)).collect();
    let left = names.iter().map(|name| name.chars().count()).max().unwrap_or_default() as f64 * 7.6 + 8.0;
    let scale = (WIDTH - left - 12.0) / end;
    let lanes: Vec<usize> = shown
        .iter()
        .map(|(_, spans)| spans.iter().map(|span| span.lane + 1).max().unwrap_or(1).min(MOST_LANES))
        .collect();
    let bottom = 8.0 + lanes.iter().map(|lanes| *lanes as f64 * LANE + 6.0).sum::<f64>();
    let waits = report
        .hang
        .iter()
        .flat_map(|hang| &hang.waits)
        .filter(|wait| shown.iter().any(|(rank, _)| *rank == wait.rank.0));
    let waits: BTreeMap<u32, &str> = waits.map(|wait| (wait.rank.0, wait.operation.as_str())).collect();
    let mut svg = Svg::new(WIDTH, bottom + 24.0);
    for tick in ticks(end, 6) {
        let x = left + tick * scale;
        svg.line("grid", (x, 4.0), (x, bottom));
        let (anchor, x) = if tick == 0.0 { (Anchor::Start, x) } else { (Anchor::Middle, x.min(WIDTH - 20.0)) };
        svg.text("tick", (x, bottom + 16.0), anchor, &if tick == 0.0 { "0".to_owned() } else { words::time(tick) });
    }
    let mut top = 8.0;
    for (((rank, spans), name), lanes) in shown.iter().zip(&names).zip(&lanes) {
        svg.text("label", (left - 8.0, top + 13.0), Anchor::End, name);
        for lane in 0..*lanes {
            let of_lane = spans.iter().filter(|span| span.lane.min(MOST_LANES - 1) == lane);
            for block in blocks(report, of_lane.copied(), scale) {
                bar(&mut svg, report, &block, (left, top + lane as f64 * LANE), scale);
            }
        }
        if let Some(operation) = waits.get(rank) {
            let tip = format!("rank {rank} still waits: {operation}");
            svg.rect("stuck", (WIDTH - 11.0, top + 1.0), (10.0, LANE - 3.0), &tip);
            svg.text("in t6", (WIDTH - 6.0, top + 13.0), Anchor::Middle, "!");
        }
        top += *lanes as f64 * LANE + 6.0;
    }
    let mut description = format!(
        "{} of {} within {}.",
        words::counted(report.operation_timeline.entries.len(), "operation"),
        words::counted(all, "rank"),
        words::time(end)
    );
    if all > shown.len() {
        description.push_str(&format!(" The first {} ranks are shown.", shown.len()));
    }
    for (rank, operation) in &waits {
        description.push_str(&format!(" Rank {rank} still waits: {operation}."));
    }
    Some(svg.finish(id, "Operations of each rank over time", &description))
}

fn name(report: &ClusterReport, rank: u32) -> String {
    let node = report.ranks.iter().find(|totals| totals.rank.0 == rank).and_then(|totals| totals.node.as_ref());
    match node {
        Some(node) => format!("{rank} · {}", shortened(node, 12)),
        None => format!("rank {rank}"),
    }
}

fn blocks<'r>(report: &'r ClusterReport, spans: impl Iterator<Item = &'r Span>, scale: f64) -> Vec<Block<'r>> {
    let mut blocks: Vec<Block<'r>> = Vec::new();
    for span in spans {
        let operation = report.operation_timeline.entries[span.entry].operation.as_str();
        let small = (span.ended_us - span.began_us) * scale < NARROW;
        if let Some(last) = blocks.last_mut() {
            let near = (span.began_us - last.ended_us) * scale < 1.0;
            let both_small = small && (last.ended_us - last.began_us) * scale < NARROW;
            let many = last.operations.values().sum::<usize>() > 1;
            // Lanes beyond the last share it, and may overlap there.
            if (near && (both_small || many && small)) || span.began_us < last.ended_us {
                last.ended_us = last.ended_us.max(span.ended_us);
                *last.operations.entry(operation).or_default() += 1;
                continue;
            }
        }
        blocks.push(Block {
            first: span,
            began_us: span.began_us,
            met_us: span.met_us,
            ended_us: span.ended_us,
            operations: BTreeMap::from([(operation, 1)]),
        });
    }
    blocks
}

fn bar(svg: &mut Svg, report: &ClusterReport, block: &Block<'_>, (left, top): (f64, f64), scale: f64) {
    let count: usize = block.operations.values().sum();
    let span = block.first;
    let most = block.operations.iter().max_by_key(|(_, count)| **count).map_or("", |(operation, _)| operation);
    let (short, class) = look(most);
    let x = |us: f64| left + us * scale;
    if count > 1 {
        let kinds: Vec<String> = block.operations.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let tip = format!(
            "rank {}: {count} operations within {} at {}: {}",
            span.rank,
            words::time(block.ended_us - block.began_us),
            words::time(block.began_us),
            kinds.join(", ")
        );
        let width = ((block.ended_us - block.began_us) * scale).max(1.0);
        svg.rect(class, (x(block.began_us), top + 1.0), (width, LANE - 4.0), &tip);
        return;
    }
    let entry = &report.operation_timeline.entries[span.entry];
    let tip = format!(
        "rank {}: {} {} of communicator {}, {} at {}: waited {}, then {}",
        span.rank,
        entry.operation,
        entry.seqno,
        entry.comm_id,
        words::bytes(message_bytes(entry)),
        words::time(span.began_us),
        words::time(span.met_us - span.began_us),
        words::time(span.ended_us - span.met_us)
    );
    let wait = (block.met_us - block.began_us) * scale;
    if wait >= 0.5 {
        svg.rect("wait", (x(block.began_us), top + LANE / 2.0 - 3.0), (wait, 4.0), &tip);
    }
    let width = ((block.ended_us - block.met_us) * scale).max(1.0);
    svg.rect(class, (x(block.met_us), top + 1.0), (width, LANE - 4.0), &tip);
    if width > 7.0 * short.len() as f64 + 4.0 {
        svg.text(&format!("in {class}"), (x(block.met_us) + width / 2.0, top + 12.0), Anchor::Middle, short);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::cluster::spans;
    use crate::report::cluster::tests::{add, report};

    #[test]
    fn a_wait_is_a_bar_of_its_own() {
        let mut report = report();
        add(&mut report, "all_reduce", 64, &[(0, 0.0, 100.0), (1, 60.0, 100.0)]);
        let text = draw(&report, &spans(&report), "t").unwrap();
        assert_eq!((text.matches(r#"class="wait""#).count(), text.matches(r#"<rect class="k1""#).count()), (1, 2));
        assert!(
            text.contains("rank 0: all_reduce 1 of communicator 1, 32 B at 0.0 us: waited 60 us, then 40 us"),
            "{text}"
        );
    }

    #[test]
    fn bars_that_are_too_narrow_merge() {
        let mut report = report();
        for index in 0..4000 {
            let at = f64::from(index) * 10.0;
            add(&mut report, "all_reduce", 8, &[(0, at, at + 8.0), (1, at, at + 8.0)]);
        }
        let text = draw(&report, &spans(&report), "t").unwrap();
        assert!(text.matches("<rect").count() < 1000 && text.contains("operations within"), "{}", text.len());
    }

    #[test]
    fn without_times_there_is_no_timeline() {
        assert_eq!(draw(&report(), &[], "t"), None);
    }
}
