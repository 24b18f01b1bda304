//! `network`: the links between nodes that run in separate namespaces, and cuts of them while the case runs.

use std::time::Duration;

use model::node::Node;
use protocol::plan::ClusterPlan;

use crate::case::network::{COORDINATOR, Cut, Link, MOST_NODES, Network, Severed};
use crate::suite::language::network as keys;
use crate::suite::output_line::read_when;
use crate::suite::reader::{Mapping, Reader, did_you_mean};

/// The network of a case on `cluster`, with a coordinator, whose launch has `world` ranks.
pub(super) fn read(reader: &Reader<'_>, node: &Node, world: Option<u32>, cluster: &ClusterPlan) -> Option<Network> {
    let network = reader.section(&keys::NETWORK, node)?;
    if cluster.nodes.len() > MOST_NODES {
        let message = format!("{} nodes are more than a network can have", cluster.nodes.len());
        reader.mistake(&node.span, message, format!("use at most {MOST_NODES}"));
        return None;
    }
    let link = read_link(reader, &network, Link::default());
    let seed = network.get("seed").and_then(|node| reader.integer("seed", node, 0, u32::MAX)).unwrap_or(0);
    let links = network.get("links").and_then(|node| reader.list("links", node)).unwrap_or_default();
    let cuts = network.get("cuts").and_then(|node| reader.list("cuts", node)).unwrap_or_default();
    network.finish();
    let links = links.iter().filter_map(|item| {
        let mapping = reader.section(&keys::LINK, item)?;
        let ends = mapping.required("between", "between: [node0, node1]");
        let ends = ends.and_then(|node| read_ends(reader, node, cluster));
        let is_control = ends.is_some_and(|ends| ends[1] == cluster.nodes.len());
        let link = read_link(reader, &mapping, if is_control { Link::default() } else { link });
        mapping.finish();
        Some((ends?, link))
    });
    let cuts = cuts.iter().filter_map(|item| read_cut(reader, item, world, cluster));
    Some(Network { link, links: links.collect(), seed: u64::from(seed), cuts: cuts.collect() })
}

/// The values of one link; missing ones are taken from `of`.
fn read_link(reader: &Reader<'_>, mapping: &Mapping<'_, '_>, of: Link) -> Link {
    let mut link = of;
    if let Some(delay) = mapping.get("delay").and_then(|node| reader.duration("delay", node)) {
        link.delay = delay;
    }
    if let Some(node) = mapping.get("loss")
        && let Some(percent) = reader.number("loss", node)
    {
        if !(0.0..=100.0).contains(&percent) {
            reader.mistake(&node.span, format!("`loss` is {percent}"), "write percent, from 0 to 100");
        }
        link.loss = percent / 100.0;
    }
    if let Some(node) = mapping.get("gbps")
        && let Some(gbps) = reader.number("gbps", node)
    {
        if gbps <= 0.0 {
            let help = "write a number above 0; `cuts` lets nothing through";
            reader.mistake(&node.span, format!("`gbps` is {gbps}"), help);
        }
        link.gbps = Some(gbps);
    }
    link
}

fn read_cut(reader: &Reader<'_>, node: &Node, world: Option<u32>, cluster: &ClusterPlan) -> Option<Cut> {
    let mapping = reader.section(&keys::CUT, node)?;
    let between = mapping.get("between");
    let of = mapping.get("node");
    let when = mapping.required("when", "when: {output: REGEX}").and_then(|node| read_when(reader, node, world));
    let lasts: Option<Option<Duration>> = mapping.get("for").map(|node| reader.duration("for", node));
    let resets = mapping.get("reset").and_then(|node| reader.boolean("reset", node)).unwrap_or(false);
    mapping.finish();
    let what = match (between, of) {
        (Some(ends), None) => Severed::Link(read_ends(reader, ends, cluster)?),
        (None, Some(name)) => {
            let text = reader.string("node", name)?;
            let found = cluster.nodes.iter().position(|node| node.id == text);
            let Some(index) = found else {
                let known: Vec<&str> = cluster.nodes.iter().map(|node| node.id.as_str()).collect();
                reader.mistake(&name.span, format!("unknown node `{text}`"), did_you_mean(&text, known));
                return None;
            };
            Severed::Node(index)
        }
        _ => {
            let help = "write `between: [node0, node1]` or `node: node1`";
            reader.mistake(&node.span, "a cut is of one link or of one node", help);
            return None;
        }
    };
    let (output, watch) = when?;
    let lasts = match lasts {
        Some(lasts) => Some(lasts?),
        None => None,
    };
    Some(Cut { what, watch: watch.unwrap_or(0), output, lasts, resets, place: reader.place(&node.span) })
}

/// The numbers of two ends, the lower first.
fn read_ends(reader: &Reader<'_>, node: &Node, cluster: &ClusterPlan) -> Option<[usize; 2]> {
    let names = reader.texts("between", node)?;
    let items = reader.list("between", node)?;
    let ([one, other], [first, second]) = (&names[..], items) else {
        reader.mistake(&node.span, "a link has two ends", "write `between: [node0, node1]`");
        return None;
    };
    let end = |name: &String, item: &Node| {
        let found = cluster.nodes.iter().position(|node| node.id == *name);
        let found = found.or_else(|| (name == COORDINATOR).then_some(cluster.nodes.len()));
        if found.is_none() {
            let known = cluster.nodes.iter().map(|node| node.id.as_str()).chain([COORDINATOR]);
            let known: Vec<&str> = known.collect();
            reader.mistake(&item.span, format!("unknown end `{name}`"), did_you_mean(name, known));
        }
        found
    };
    let (one, other) = (end(one, first), end(other, second));
    let (one, other) = (one?, other?);
    if one == other {
        reader.mistake(&node.span, "a link has two ends", format!("`{}` is listed twice", names[0]));
        return None;
    }
    Some([one.min(other), one.max(other)])
}
