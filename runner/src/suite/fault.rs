//! `faults`: what goes wrong in a case on purpose, when, and for which ranks.

use std::time::Duration;

use model::node::{Node, Value};
use protocol::fault::{Action, Fault, Link, Side, Trigger};
use protocol::ids::Rank;
use protocol::plan::ClusterPlan;
use protocol::report::FaultKind;

use crate::case;
use crate::suite::language::keys;
use crate::suite::moment::Moment;
use crate::suite::rank::read_rank;
use crate::suite::reader::{Mapping, Reader, did_you_mean, sound};

/// The kinds of faults, in the order of the documentation.
const KINDS: [FaultKind; 8] = [
    FaultKind::Kill,
    FaultKind::Stop,
    FaultKind::Delay,
    FaultKind::NcclError,
    FaultKind::Corrupt,
    FaultKind::Drop,
    FaultKind::SlowLink,
    FaultKind::CutLink,
];

/// How a fault with a value is written.
fn example(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Delay => "{ delay: 200ms }",
        FaultKind::SlowLink => "{ slow_link: { between: [node0, node1], delay: 5ms } }",
        FaultKind::CutLink => "{ cut_link: { between: [node0, node1] } }",
        other => other.name(),
    }
}

fn takes_value(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::Delay | FaultKind::SlowLink | FaultKind::CutLink)
}

/// The faults of a case on `cluster`, if it has one with a coordinator. In a launch without ranks, a rank is a GPU of the
/// cluster, because one process may have several.
pub(super) fn read(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
    cluster: Option<&ClusterPlan>,
) -> Vec<case::Fault> {
    let Some(cluster) = cluster else { return Vec::new() };
    let world = world.or(Some(cluster.world_size()));
    let items = reader.list("faults", node).unwrap_or_default();
    let read = |(item, number)| {
        let (at, action) = read_fault(reader, item, world, cluster)?;
        let place = reader.place(&item.span);
        Some(case::Fault { fault: Fault { number, origin: place.to_string(), at, action }, place })
    };
    items.iter().zip(1..).filter_map(read).collect()
}

fn read_fault(
    reader: &Reader<'_>,
    node: &Node,
    world: Option<u32>,
    cluster: &ClusterPlan,
) -> Option<(Trigger, Action)> {
    let fault = reader.section(&keys::FAULT, node)?;
    let what = fault.required("do", "do: kill");
    let at = fault.get("at");
    fault.finish();
    let what = what?;
    let kind = read_kind(reader, what);
    let action = kind.and_then(|(kind, value)| read_action(reader, kind, value, cluster));
    let kind = kind?.0;
    let trigger = match (kind, at) {
        (FaultKind::SlowLink | FaultKind::CutLink, at) => read_link_time(reader, kind, at),
        (_, Some(at)) => read_trigger(reader, kind, at, world),
        (_, None) => {
            let help = "add `at: { rank: 1, collective: all_reduce, seq: 1 }`";
            reader.mistake(&node.span, format!("`{}` does not say when", kind.name()), help);
            None
        }
    };
    Some((trigger?, action?))
}

/// `kill`, or `{delay: 200ms}`: the kind and its value.
fn read_kind<'n>(reader: &Reader<'_>, node: &'n Node) -> Option<(FaultKind, Option<&'n Node>)> {
    let (word, span, value) = match &node.value {
        Value::Map(entries) => match &entries[..] {
            [entry] => (entry.key.clone(), &entry.key_span, Some(&entry.node)),
            _ => {
                reader.mistake(&node.span, "a fault does one thing", "write one item of `faults` for each");
                return None;
            }
        },
        _ => (reader.string("do", node)?, &node.span, None),
    };
    let Some(kind) = KINDS.into_iter().find(|kind| kind.name() == word) else {
        reader.mistake(span, format!("unknown fault `{word}`"), did_you_mean(&word, KINDS.map(FaultKind::name)));
        return None;
    };
    if takes_value(kind) != value.is_some() {
        let takes = if takes_value(kind) { "needs a value" } else { "takes no value" };
        reader.mistake(span, format!("`{word}` {takes}"), format!("write `do: {}`", example(kind)));
        return None;
    }
    Some((kind, value))
}

fn read_action(reader: &Reader<'_>, kind: FaultKind, value: Option<&Node>, cluster: &ClusterPlan) -> Option<Action> {
    Some(match (kind, value) {
        (FaultKind::Delay, Some(value)) => Action::Delay(reader.duration("delay", value)?),
        (FaultKind::SlowLink, Some(value)) => {
            let slow = reader.section(&keys::SLOW_LINK, value)?;
            let link = read_link(reader, &slow, cluster);
            let delay = slow.get("delay").map(|node| reader.duration("delay", node));
            let gbps = slow.get("gbps").map(|node| read_bandwidth(reader, node));
            slow.finish();
            if delay.is_none() && gbps.is_none() {
                reader.mistake(&value.span, "`slow_link` slows nothing", "add `delay: 5ms` or `gbps: 1`");
                return None;
            }
            Action::SlowLink { link: link?, delay: delay.unwrap_or(Some(Duration::ZERO))?, gbps: sound(gbps)? }
        }
        (FaultKind::CutLink, Some(value)) => {
            let cut = reader.section(&keys::CUT_LINK, value)?;
            let link = read_link(reader, &cut, cluster);
            cut.finish();
            Action::CutLink { link: link? }
        }
        (FaultKind::Kill, _) => Action::Kill,
        (FaultKind::Stop, _) => Action::Stop,
        (FaultKind::NcclError, _) => Action::NcclError,
        (FaultKind::Corrupt, _) => Action::Corrupt,
        (FaultKind::Drop, _) => Action::Drop,
        // Reported when the kind was read; GPU events are not in `faults`.
        (FaultKind::Delay | FaultKind::SlowLink | FaultKind::CutLink, None) | (FaultKind::Gpu, _) => return None,
    })
}

/// A bandwidth above 0, Gbit/s.
fn read_bandwidth(reader: &Reader<'_>, node: &Node) -> Option<f64> {
    let gbps = reader.number("gbps", node)?;
    if gbps <= 0.0 {
        reader.mistake(
            &node.span,
            format!("`gbps` is {gbps}"),
            "write a number above 0; `cut_link` lets nothing through",
        );
        return None;
    }
    Some(gbps)
}

fn read_link(reader: &Reader<'_>, mapping: &Mapping<'_, '_>, cluster: &ClusterPlan) -> Option<Link> {
    let node = mapping.required("between", "between: [node0, node1]")?;
    let names = reader.texts("between", node)?;
    let [one, other] = &names[..] else {
        reader.mistake(&node.span, "a link is between two nodes", "write `between: [node0, node1]`");
        return None;
    };
    if one == other {
        reader.mistake(&node.span, "a link is between two nodes", format!("`{one}` is listed twice"));
        return None;
    }
    let items = reader.list("between", node)?;
    let side = |(name, item): (&String, &Node)| {
        let found = cluster.nodes.iter().find(|node| node.id == *name);
        if found.is_none() {
            let known: Vec<&str> = cluster.nodes.iter().map(|node| node.id.as_str()).collect();
            reader.mistake(&item.span, format!("unknown node `{name}`"), did_you_mean(name, known));
        }
        found.map(|node| Side { node: node.id.clone(), ranks: node.ranks.clone() })
    };
    let (one, other) = (side((one, &items[0])), side((other, &items[1])));
    Some(Link([one?, other?]))
}

/// When a link fails: from the start, or `{after: 1s}`.
fn read_link_time(reader: &Reader<'_>, kind: FaultKind, at: Option<&Node>) -> Option<Trigger> {
    let Some(node) = at else { return Some(Trigger::After { rank: None, elapsed: Duration::ZERO }) };
    let at = reader.section(&keys::AT, node)?;
    for key in ["rank", "collective", "seq", "communicator"] {
        if let Some(entry) = at.entry(key) {
            let help = "a link fails for all ranks: leave `at` out or write `at: { after: 1s }`";
            reader.mistake(&entry.key_span, format!("`{}` has no `{key}`", kind.name()), help);
            return None;
        }
    }
    let elapsed = at.required("after", "after: 1s").and_then(|node| reader.duration("after", node));
    at.finish();
    Some(Trigger::After { rank: None, elapsed: elapsed? })
}

/// `{rank: 1, collective: all_reduce, seq: 3}` or `{rank: 1, after: 2s}`.
fn read_trigger(reader: &Reader<'_>, kind: FaultKind, node: &Node, world: Option<u32>) -> Option<Trigger> {
    let at = reader.section(&keys::AT, node)?;
    let rank = at.required("rank", "rank: 1").and_then(|node| read_rank(reader, node, world));
    let after = at.entry("after");
    let moment = Moment::read(reader, node, at, kind.name(), "add `collective: all_reduce` or `after: 2s`")?;
    if let (Moment::After(_), Some(after), false) = (&moment, after, matches!(kind, FaultKind::Kill | FaultKind::Stop))
    {
        let help = "write `at: { rank: 1, collective: all_reduce, seq: 1 }`";
        reader.mistake(&after.key_span, format!("`{}` happens at a collective", kind.name()), help);
        return None;
    }
    Some(moment.trigger_for(Rank(rank?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::language::{Section, Shape};
    use crate::suite::moment;
    use protocol::datatype::Operation;

    fn words(section: &Section, key: &str) -> Vec<&'static str> {
        let shape = &section.key(key).unwrap().shape;
        let words = match shape {
            Shape::Either(choices) => &choices[0],
            shape => shape,
        };
        let Shape::Choice(words) = words else { panic!("{shape:?}") };
        words.to_vec()
    }

    #[test]
    fn the_tables_have_every_kind_and_collective() {
        let (with, without): (Vec<FaultKind>, Vec<FaultKind>) = KINDS.into_iter().partition(|kind| takes_value(*kind));
        assert_eq!(words(&keys::FAULT, "do"), without.iter().map(|kind| kind.name()).collect::<Vec<_>>());
        let actions: Vec<&str> = keys::FAULT_ACTION.keys().map(|key| key.name).collect();
        assert_eq!(actions, with.iter().map(|kind| kind.name()).collect::<Vec<_>>());
        let operations: Vec<&str> = moment::operations().into_iter().map(Operation::name).collect();
        assert_eq!(words(&keys::AT, "collective"), operations);
    }
}
