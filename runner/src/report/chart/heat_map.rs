//! Heat map of the bytes that each node sent to each other node.

use std::collections::BTreeMap;

use protocol::report::{ClusterReport, LinkTotals};

use crate::report::chart::svg::{Anchor, Svg, shortened};
use crate::report::words;

/// Maximum number of nodes: more do not fit a page.
const MOST_NODES: usize = 64;
/// Up to this many nodes, the cells contain numbers.
const NUMBERED: usize = 16;
/// Legend entries per row.
const KEYS: usize = 3;
const KEY_WIDTH: f64 = 86.0;
/// Steps of the color scale.
const SHADES: usize = 6;

/// The map; empty if no link saw traffic.
pub fn draw(report: &ClusterReport, id: &str) -> Option<String> {
    let nodes = nodes(report);
    let cells: BTreeMap<(usize, usize), &LinkTotals> = report
        .links
        .iter()
        .filter_map(|link| {
            let place = |name: &String| nodes.iter().position(|node| *node == name);
            Some(((place(&link.src)?, place(&link.dst)?), link))
        })
        .collect();
    let least = cells.values().map(|link| link.bytes).min()?;
    let most = cells.values().map(|link| link.bytes).max()?;
    let numbered = nodes.len() <= NUMBERED;
    let cell = if numbered { 38.0 } else { 13.0 };
    let labels: Vec<String> = nodes.iter().map(|node| shortened(node, 12)).collect();
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or_default() as f64 * 6.6;
    let (left, top) = (widest + 10.0, widest * 0.71 + 34.0);
    let side = nodes.len() as f64 * cell;
    let legend = legend(least, most);
    let mut svg = Svg::new(
        (left + side + widest * 0.71 + 8.0).max(KEYS as f64 * KEY_WIDTH + 8.0),
        top + side + 20.0 + 18.0 * legend.len().div_ceil(KEYS) as f64,
    );
    svg.text("tick", (2.0, 12.0), Anchor::Start, "rows send, columns receive");
    for (index, label) in labels.iter().enumerate() {
        let middle = (index as f64 + 0.5) * cell;
        svg.text("tick", (left - 6.0, top + middle + 4.0), Anchor::End, label);
        svg.slanted("tick", (left + middle + 2.0, top - 6.0), label);
    }
    for (row, src) in nodes.iter().enumerate() {
        for (column, dst) in nodes.iter().enumerate() {
            let (x, y) = (left + column as f64 * cell, top + row as f64 * cell);
            let size = (cell - 2.0, cell - 2.0);
            let Some(link) = cells.get(&(row, column)) else {
                svg.rect("none", (x, y), size, &format!("{src} to {dst}: nothing"));
                continue;
            };
            let shade = shade(link.bytes, least, most);
            let tip = format!(
                "{src} to {dst}: {} in {}, {} modeled",
                words::bytes(link.bytes),
                words::counted(usize::try_from(link.operations).unwrap_or(usize::MAX), "operation"),
                words::time(link.estimated_time_us_total)
            );
            svg.rect(&format!("q{shade}"), (x, y), size, &tip);
            if numbered {
                let place = (x + cell / 2.0 - 1.0, y + cell / 2.0 + 3.0);
                svg.text(&format!("in t{shade}"), place, Anchor::Middle, &compact(link.bytes));
            }
        }
    }
    for (index, (shade, text)) in legend.iter().enumerate() {
        let (x, y) = (4.0 + (index % KEYS) as f64 * KEY_WIDTH, top + side + 12.0 + (index / KEYS) as f64 * 18.0);
        svg.rect(&format!("q{shade}"), (x, y), (12.0, 12.0), "");
        svg.text("tick", (x + 16.0, y + 10.0), Anchor::Start, text);
    }
    let total: u64 = report.links.iter().map(|link| link.bytes).sum();
    let busiest = cells.values().max_by_key(|link| link.bytes)?;
    let description = format!(
        "{} over {} of {} nodes; most from {} to {}: {}.",
        words::bytes(total),
        words::counted(cells.len(), "link"),
        nodes.len(),
        busiest.src,
        busiest.dst,
        words::bytes(busiest.bytes)
    );
    Some(svg.finish(id, "Traffic from node to node", &description))
}

/// The nodes in the order of their ranks, then others that links name.
fn nodes(report: &ClusterReport) -> Vec<&String> {
    let of_ranks = report.ranks.iter().filter_map(|rank| rank.node.as_ref());
    let of_links = report.links.iter().flat_map(|link| [&link.src, &link.dst]);
    let mut nodes: Vec<&String> = Vec::new();
    for node in of_ranks.chain(of_links) {
        if !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    // In a test, a cluster of thousands has few nodes with traffic; those are shown.
    if nodes.len() > MOST_NODES {
        nodes.retain(|node| report.links.iter().any(|link| link.src == **node || link.dst == **node));
        nodes.truncate(MOST_NODES);
    }
    nodes
}

/// 1 to [`SHADES`], evenly spaced on a logarithmic scale.
fn shade(bytes: u64, least: u64, most: u64) -> usize {
    let (value, low, high) = ((bytes.max(1) as f64).ln(), (least.max(1) as f64).ln(), (most.max(1) as f64).ln());
    if high - low < 1e-9 {
        return SHADES;
    }
    1 + (((value - low) / (high - low) * SHADES as f64) as usize).min(SHADES - 1)
}

fn legend(least: u64, most: u64) -> Vec<(usize, String)> {
    if shade(least, least, most) == SHADES {
        return vec![(SHADES, words::bytes(most))];
    }
    let (low, high) = ((least.max(1) as f64).ln(), (most.max(1) as f64).ln());
    let upper = |shade: usize| (low + (high - low) * shade as f64 / SHADES as f64).exp().round() as u64;
    (1..=SHADES).map(|shade| (shade, format!("≤ {}", words::bytes(upper(shade))))).collect()
}

/// At most four characters: `512`, `4.0K`, `120M`.
fn compact(bytes: u64) -> String {
    let text = words::bytes(bytes);
    match text.split_once(' ') {
        Some((number, "B")) => number.to_owned(),
        Some((number, unit)) => format!("{number}{}", unit.trim_end_matches("iB")),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::cluster::tests::report;

    #[test]
    fn shades_cover_the_range() {
        assert_eq!([1, 10, 1_000_000].map(|bytes| shade(bytes, 1, 1_000_000)), [1, 2, 6]);
        assert_eq!(shade(5, 5, 5), SHADES);
    }

    #[test]
    fn every_pair_of_nodes_has_a_cell() {
        let mut report = report();
        let text = draw(&report, "h").unwrap();
        assert_eq!(text.matches("<rect").count(), 4 + legend(38_864, 38_864).len(), "{text}");
        assert!(text.contains("<title>node0 to node1: "), "{text}");
        report.links.clear();
        assert_eq!(draw(&report, "h"), None);
    }
}
