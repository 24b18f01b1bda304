//! What connects the nodes of a case that are apart: its links, and when they are cut.

use std::time::Duration;

use crate::source::SourceLocation;

/// The coordinator's end, in suites and in sentences.
pub const COORDINATOR: &str = "coordinator";
/// Most nodes: their addresses and the coordinator's differ in the last byte.
pub const MOST_NODES: usize = 253;

/// The network of a case whose nodes are apart. Its ends are the nodes, by index, and behind them the coordinator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Every link between two nodes that `links` does not name.
    pub link: Link,
    /// Links with values of their own, by their ends, the lower first.
    pub links: Vec<([usize; 2], Link)>,
    /// From which it is drawn which packets are lost.
    pub seed: u64,
    /// What is cut while the case runs.
    pub cuts: Vec<Cut>,
}

/// One link, the same in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// How long a packet takes.
    pub delay: Duration,
    /// The part of packets that is lost, from 0 to 1.
    pub loss: f64,
    /// Gbit/s, above 0; without limit where it is none.
    pub gbps: Option<f64>,
}

/// Links that let nothing through from some moment on.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Which.
    pub what: Severed,
    /// Whose stdout is watched: a global rank.
    pub watch: u32,
    /// Matches a line of that stdout.
    pub output: regex::bytes::Regex,
    /// For how long; to the end where it is none.
    pub lasts: Option<Duration>,
    /// Connections over it are reset at both ends, as by a firewall; else nothing is answered.
    pub resets: bool,
    /// Where it is written.
    pub place: SourceLocation,
}

/// What a [`Cut`] cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severed {
    /// The link between two ends, the lower first.
    Link([usize; 2]),
    /// All links of a node, also that to the coordinator.
    Node(usize),
}

impl PartialEq for Cut {
    fn eq(&self, other: &Cut) -> bool {
        (self.what, self.watch, self.output.as_str(), self.lasts, self.resets)
            == (other.what, other.watch, other.output.as_str(), other.lasts, other.resets)
    }
}

impl Network {
    /// The link between two ends. That to the coordinator, which is number `nodes`, is perfect unless it is named.
    pub fn between(&self, one: usize, other: usize, nodes: usize) -> Link {
        let ends = [one.min(other), one.max(other)];
        let named = self.links.iter().find(|(of, _)| *of == ends).map(|(_, link)| *link);
        named.unwrap_or(if ends[1] == nodes { Link::default() } else { self.link })
    }
}
