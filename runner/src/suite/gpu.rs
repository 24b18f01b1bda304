//! `gpu`: health events of a case's GPUs, and when they occur.

use std::time::Duration;

use model::node::{Entry, Node, Value};
use protocol::fault::{Action, Fault, Trigger};
use protocol::gpu_event::{EccErrors, GpuEvent, GpuHealth, LOST, Repairs, Throttle, board};
use protocol::ids::Rank;
use protocol::market;
use protocol::plan::ClusterPlan;
use protocol::profile::GpuProfile;

use crate::case;
use crate::suite::language::gpu as keys;
use crate::suite::moment::Moment;
use crate::suite::reader::{Mapping, Reader, did_you_mean};

/// One GPU of the cluster, as events name it.
struct Place<'c> {
    name: String,
    node: u32,
    local: u32,
    rank: Rank,
    profile: &'c GpuProfile,
}

/// Adds the events of `gpu` to the faults of a case on `cluster`, if it has one with a coordinator.
pub(super) fn read(reader: &Reader<'_>, entry: &Entry, cluster: Option<&ClusterPlan>, faults: &mut Vec<case::Fault>) {
    let Some(cluster) = cluster else { return };
    let Some(gpus) = reader.mapping("`gpu`", &entry.node) else { return };
    let mut slot = 0;
    for entry in gpus.entries() {
        let Some(place) = read_place(reader, entry, cluster) else { continue };
        let items = match &entry.node.value {
            Value::List(items) => &items[..],
            _ => std::slice::from_ref(&entry.node),
        };
        for item in items {
            let Some((at, health)) = read_event(reader, item, &place) else { continue };
            if slot as usize >= board::SLOTS {
                let message = format!("more than {} events of GPUs", board::SLOTS);
                reader.mistake(&item.span, message, "split the case: no GPU fails that often");
                return;
            }
            let event = GpuEvent { gpu: place.name.clone(), node: place.node, local: place.local, slot, health };
            let (number, at_suite) = (faults.len() as u32 + 1, reader.place(&item.span));
            let fault = Fault { number, origin: at_suite.to_string(), at, action: Action::Gpu(event) };
            faults.push(case::Fault { fault, place: at_suite });
            slot += 1;
        }
    }
}

/// `node0/3`.
fn read_place<'c>(reader: &Reader<'_>, entry: &Entry, cluster: &'c ClusterPlan) -> Option<Place<'c>> {
    let name = &entry.key;
    let Some((id, index)) = name.rsplit_once('/') else {
        let help = format!("write the node and the GPU's index on it: `{}/0`", cluster.nodes.first()?.id);
        reader.mistake(&entry.key_span, format!("`{name}` names no GPU"), help);
        return None;
    };
    let Some(node) = cluster.nodes.iter().position(|node| node.id == id) else {
        let known: Vec<&str> = cluster.nodes.iter().map(|node| node.id.as_str()).collect();
        reader.mistake(&entry.key_span, format!("unknown node `{id}`"), did_you_mean(id, known));
        return None;
    };
    let gpus = &cluster.nodes[node].gpus;
    let Some(local) = index.parse::<usize>().ok().filter(|index| *index < gpus.len()) else {
        let help = match gpus.len() {
            1 => format!("it has one: `{id}/0`"),
            count => format!("it has {count}: `{id}/0` to `{id}/{}`", count - 1),
        };
        reader.mistake(&entry.key_span, format!("`{id}` has no GPU `{index}`"), help);
        return None;
    };
    let (rank, profile) = (cluster.nodes[node].ranks[local], cluster.profile(&gpus[local])?);
    Some(Place { name: name.clone(), node: node as u32, local: local as u32, rank, profile })
}

fn read_event(reader: &Reader<'_>, node: &Node, place: &Place<'_>) -> Option<(Trigger, GpuHealth)> {
    let event = reader.section(&keys::EVENT, node)?;
    let before = reader.count();
    let at = match event.get("at") {
        Some(at) => read_time(reader, at, place.rank),
        None => Some(Trigger::After { rank: Some(place.rank), elapsed: Duration::ZERO }),
    };
    let mut health = GpuHealth::default();
    let lost = event.get("lost").and_then(|node| reader.boolean("lost", node));
    health.xid = event.get("xid").and_then(|node| reader.integer("xid", node, 1, 999));
    health.ecc = event.get("ecc").and_then(|node| read_ecc(reader, node, place));
    health.remapped_rows = event.get("remapped_rows").and_then(|node| read_rows(reader, node, place));
    health.retired_pages = event.get("retired_pages").and_then(|node| read_pages(reader, node, place));
    if let Some(node) = event.get("throttle") {
        let words = Throttle::ALL.map(|(word, _)| word);
        health.throttle = reader.choice("throttle", node, &words).map(|index| Throttle::ALL[index].1);
    }
    let pcie = &place.profile.pcie;
    if let Some(node) = event.get("pcie_gen") {
        health.pcie_generation = reader.integer("pcie_gen", node, 1, 7);
        let is_more = health.pcie_generation.is_some_and(|generation| generation > pcie.generation);
        check_pcie(reader, node, is_more, "pcie_gen", place, pcie.generation);
    }
    if let Some(node) = event.get("pcie_width") {
        health.pcie_width = reader.integer("pcie_width", node, 1, 32);
        if health.pcie_width.is_some_and(|width| !width.is_power_of_two()) {
            reader.mistake(&node.span, "no PCIe link has that many lanes", "write 1, 2, 4, 8, 16 or 32");
        }
        let is_more = health.pcie_width.is_some_and(|width| width > pcie.lanes);
        check_pcie(reader, node, is_more, "pcie_width", place, pcie.lanes);
    }
    if let (Some(false), Some(LOST), Some(entry)) = (lost, health.xid, event.entry("lost")) {
        let help = format!("Xid {LOST} is \"GPU has fallen off the bus\": leave `lost` out");
        reader.mistake(&entry.key_span, format!("`lost: false` with `xid: {LOST}`"), help);
    }
    if let (Some(true), Some(xid), Some(entry)) = (lost, health.xid.filter(|xid| *xid != LOST), event.entry("xid")) {
        let help = format!("a lost GPU is Xid {LOST}; write `xid: {xid}` as an event of its own before it");
        reader.mistake(&entry.key_span, format!("`lost: true` with `xid: {xid}`"), help);
    }
    health.lost = lost == Some(true) || health.xid == Some(LOST);
    if health.lost {
        health.xid = Some(LOST);
    }
    event.finish();
    if reader.count() == before && health == GpuHealth::default() {
        let help = "say what changes: `{ xid: 79 }`, `{ ecc: { uncorrected: 1 } }`, `{ throttle: thermal }`";
        reader.mistake(&node.span, "an event of `gpu` without any change", help);
    }
    (reader.count() == before).then_some((at?, health))
}

fn check_pcie(reader: &Reader<'_>, node: &Node, is_more: bool, key: &str, place: &Place<'_>, most: u32) {
    if is_more {
        let (name, id) = (&place.name, &place.profile.id);
        reader.mistake(&node.span, format!("`{key}` is more than {name} has"), format!("`{id}` has {most}"));
    }
}

/// `{after: 2s}`, or a collective of the GPU's own rank.
fn read_time(reader: &Reader<'_>, node: &Node, rank: Rank) -> Option<Trigger> {
    let at = reader.section(&keys::AT, node)?;
    let help = "add `collective: all_reduce` or `after: 2s`, or leave `at` out for the start";
    Moment::read(reader, node, at, "at", help).map(|moment| moment.trigger_for(rank))
}

fn read_ecc(reader: &Reader<'_>, node: &Node, place: &Place<'_>) -> Option<EccErrors> {
    let ecc = reader.section(&keys::ECC, node)?;
    let count = |key| ecc.get(key).and_then(|node| reader.integer(key, node, 0, 1_000_000_000)).unwrap_or(0);
    let errors = EccErrors {
        corrected: count("corrected"),
        uncorrected: count("uncorrected"),
        earlier_corrected: count("earlier_corrected"),
        earlier_uncorrected: count("earlier_uncorrected"),
    };
    ecc.finish();
    let id = &place.profile.id;
    if market::ecc(place.profile) != Some(true) {
        let help = "error correction is on for data center models: `a100`, `h100`, `t4`";
        reader.mistake(&node.span, format!("`{id}` does not count memory errors"), help);
    } else if errors == EccErrors::default() {
        reader.mistake(&node.span, "`ecc` without an error", "write `ecc: { corrected: 12 }`");
    }
    Some(errors)
}

fn read_rows(reader: &Reader<'_>, node: &Node, place: &Place<'_>) -> Option<Repairs> {
    let rows = reader.section(&keys::REMAPPED_ROWS, node)?;
    let mut repairs = read_repairs(reader, &rows);
    let failed = rows.get("failed").and_then(|node| reader.boolean("failed", node));
    rows.finish();
    repairs.failed = failed.unwrap_or(false);
    if !market::remaps_rows(place.profile) {
        let help = "data center and workstation models remap rows from Ampere on; earlier ones have `retired_pages`";
        reader.mistake(&node.span, format!("`{}` remaps no rows", place.profile.id), help);
    }
    Some(repairs)
}

fn read_pages(reader: &Reader<'_>, node: &Node, place: &Place<'_>) -> Option<Repairs> {
    let pages = reader.section(&keys::RETIRED_PAGES, node)?;
    let repairs = read_repairs(reader, &pages);
    pages.finish();
    if !market::retires_pages(place.profile) {
        let help = "data center and workstation models before Ampere retire pages; later ones have `remapped_rows`";
        reader.mistake(&node.span, format!("`{}` retires no pages", place.profile.id), help);
    }
    Some(repairs)
}

fn read_repairs(reader: &Reader<'_>, mapping: &Mapping<'_, '_>) -> Repairs {
    let count = |key| mapping.get(key).and_then(|node| reader.integer(key, node, 0, 512)).unwrap_or(0);
    let pending = mapping.get("pending").and_then(|node| reader.boolean("pending", node)).unwrap_or(false);
    Repairs { corrected: count("corrected"), uncorrected: count("uncorrected"), pending, failed: false }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::suite;

    fn suite(gpu: &str) -> String {
        let cluster = "{nodes: 2, gpus_per_node: 2, profile: h100}";
        format!(
            "ftest: 1\nsuite: s\ncases:\n- id: one\n  cluster: {cluster}\n  launch: {{argv: [x], ranks: 4}}\n  \
             faults: [{{at: {{rank: 1, after: 1s}}, do: kill}}]\n  gpu:\n    {gpu}\n"
        )
    }

    fn faults(gpu: &str) -> Vec<String> {
        let suite = suite::parse(Path::new("s.yaml"), &suite(gpu), Path::new("/"));
        let suite = suite.unwrap_or_else(|error| panic!("{error}"));
        suite.cases[0].faults.iter().map(|fault| format!("{}: {}", fault.place, fault.fault)).collect()
    }

    #[test]
    fn events_follow_the_faults() {
        assert_eq!(
            faults("node1/1: [{xid: 79}, {at: {collective: all_reduce, seq: 3}, ecc: {corrected: 4, uncorrected: 1}}]")
                [1..],
            [
                "s.yaml:9:15: `gpu` node1/1 (xid 79, lost)",
                "s.yaml:9:26: `gpu` node1/1 (ecc 4 corrected and 1 uncorrected) at rank 3, collective 3 (all_reduce)",
            ]
        );
        assert_eq!(
            faults("node0/1: {at: {after: 2s}, lost: true}")[1..],
            ["s.yaml:9:14: `gpu` node0/1 (xid 79, lost) after 2s"]
        );
    }

    #[test]
    fn the_example_of_the_documentation_without_a_loss() {
        let event = "node0/1: {ecc: {corrected: 1}, xid: 63, throttle: thermal, pcie_gen: 3, pcie_width: 8}";
        assert_eq!(
            faults(event)[1..],
            [
                "s.yaml:9:14: `gpu` node0/1 (xid 63, ecc 1 corrected and 0 uncorrected, throttle thermal, pcie_gen 3, pcie_width 8)"
            ]
        );
    }

    #[test]
    fn mistakes_say_where_what_and_what_next() {
        for (gpu, place, message, help) in [
            ("gpu3: {xid: 79}", "9:5", "`gpu3` names no GPU", "`node0/0`"),
            ("nod0/1: {xid: 79}", "9:5", "unknown node `nod0`", "did you mean `node0`?"),
            ("node0/2: {xid: 79}", "9:5", "`node0` has no GPU `2`", "`node0/0` to `node0/1`"),
            ("node0/x: {xid: 79}", "9:5", "`node0` has no GPU `x`", "it has 2"),
            ("node0/1: {}", "9:14", "without any change", "say what changes"),
            ("node0/1: {xid: 0}", "9:20", "`xid`", "1"),
            ("node0/1: {xid: 79, lost: false}", "9:24", "`lost: false` with `xid: 79`", "fallen off the bus"),
            ("node0/1: {xid: 48, lost: true}", "9:15", "`lost: true` with `xid: 48`", "an event of its own"),
            ("node0/1: {pcie_gen: 6}", "9:25", "more than node0/1 has", "`h100` has 5"),
            ("node0/1: {pcie_width: 12}", "9:27", "that many lanes", "8, 16"),
            ("node0/1: {throttle: hot}", "9:25", "hot", "thermal"),
            ("node0/1: {ecc: {}}", "9:20", "`ecc` without an error", "corrected"),
            ("node0/1: {retired_pages: {corrected: 1}}", "9:30", "`h100` retires no pages", "remapped_rows"),
            ("node0/1: {at: {}, xid: 1}", "9:19", "does not say when", "leave `at` out"),
            ("node0/1: {at: {after: 1s, seq: 2}, xid: 1}", "9:31", "`seq` without a `collective`", "belongs to"),
            ("node0/1: {at: {after: 1s, collective: send}, xid: 1}", "9:20", "both", "keep one"),
            ("node0/1: {at: {rank: 1, after: 1s}, xid: 1}", "9:20", "rank", ""),
            ("node0/1: {temperature: 99}", "9:15", "temperature", ""),
        ] {
            let error = suite::parse(Path::new("s.yaml"), &suite(gpu), Path::new("/")).unwrap_err().to_string();
            assert!(
                error.contains(&format!("s.yaml:{place}")) && error.contains(message) && error.contains(help),
                "{gpu}: {error}"
            );
        }
    }

    #[test]
    fn a_board_without_error_correction_counts_none() {
        let text = suite("node0/1: {ecc: {corrected: 1}}").replace("h100", "rtx4090");
        let error = suite::parse(Path::new("s.yaml"), &text, Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("`rtx4090` does not count memory errors"), "{error}");
        let text = suite("node0/1: {xid: 1}").replace("  cluster: {", "  coordinator: false\n  cluster: {");
        let error = suite::parse(Path::new("s.yaml"), &text, Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("`gpu` without a coordinator"), "{error}");
    }
}
