//! The network of a case whose nodes run in separate namespaces: its links, and when they are cut.

use std::time::Duration;

use crate::source::SourceLocation;

/// Name of the coordinator's end of a link, in suites and in messages.
pub const COORDINATOR: &str = "coordinator";
/// Maximum number of nodes: their addresses and the coordinator's differ only in the last byte.
pub const MOST_NODES: usize = 253;

/// The network of a case whose nodes run in separate namespaces. Its ends are the nodes, by index, followed by the
/// coordinator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Every link between two nodes that `links` does not name.
    pub link: Link,
    /// Links with their own values, keyed by their ends, lower index first.
    pub links: Vec<([usize; 2], Link)>,
    /// Seed for choosing which packets are lost.
    pub seed: u64,
    /// What is cut while the case runs.
    pub cuts: Vec<Cut>,
}

/// One link, the same in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// How long a packet takes.
    pub delay: Duration,
    /// The fraction of packets that is lost, from 0 to 1.
    pub loss: f64,
    /// Gbit/s, above 0; unlimited if `None`.
    pub gbps: Option<f64>,
}

/// Links that carry nothing from some moment on.
#[derive(Clone, Debug)]
pub struct Cut {
    /// The links.
    pub what: Severed,
    /// The global rank whose stdout is watched.
    pub watch: u32,
    /// Matched against each line of that stdout.
    pub output: regex::bytes::Regex,
    /// How long the cut lasts; until the end of the case if `None`.
    pub lasts: Option<Duration>,
    /// Connections over it are reset at both ends, as by a firewall; else nothing is answered.
    pub resets: bool,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// What a [`Cut`] cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severed {
    /// The link between two ends, the lower first.
    Link([usize; 2]),
    /// All links of a node, including the one to the coordinator.
    Node(usize),
}

impl PartialEq for Cut {
    fn eq(&self, other: &Cut) -> bool {
        (self.what, self.watch, self.output.as_str(), self.lasts, self.resets)
            == (other.what, other.watch, other.output.as_str(), other.lasts, other.resets)
    }
}

impl Network {
    /// The link between two ends. The coordinator is end number `nodes`; its links are perfect unless named.
    pub fn between(&self, one: usize, other: usize, nodes: usize) -> Link {
        let ends = [one.min(other), one.max(other)];
        let named = self.links.iter().find(|(of, _)| *of == ends).map(|(_, link)| *link);
        named.unwrap_or(if ends[1] == nodes { Link::default() } else { self.link })
    }
}
