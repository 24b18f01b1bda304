//! The network of a case whose nodes run in separate namespaces: one network namespace per node and one for the coordinator,
//! connected by links with delay, loss, rate limits and cuts. One of our threads carries the packets, so the kernel does not need
//! netem, and everything disappears with this process.

pub(super) mod port;
mod reset;
mod switch;
mod wire;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::plan::ClusterPlan;

use crate::case::network::{self, COORDINATOR, Link, Severed};
use port::{Namespace, Port};
use switch::Wires;
use wire::{Count, Wire};

/// The first three bytes of every address.
const NETWORK: [u8; 3] = [10, 0, 0];

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// This machine does not allow it: the case is skipped for this reason.
    #[error(
        "nodes that are apart need network namespaces and /dev/net/tun: {what}: {source}; run as root; a container needs \
         --cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun"
    )]
    Unavailable {
        /// What was refused.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Something else.
    #[error("cannot make the network of the case: {what}: {source}")]
    System {
        /// What was refused.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The network of a case. Dropping it ends it; the namespaces disappear with the last process in them.
#[derive(Debug)]
pub struct Network {
    /// Those of the nodes, followed by the coordinator's.
    namespaces: Vec<Namespace>,
    names: Vec<String>,
    wires: Wires,
    /// Closed to stop the thread.
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    /// Whether this machine allows making one.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn possible() -> Result<(), NetworkError> {
        Port::make(address(0)).map(drop).map_err(|(what, source)| refused(what, source))
    }

    /// A network for the nodes of `cluster`, as specified by `wanted`.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn make(wanted: &network::Network, cluster: &ClusterPlan) -> Result<Network, NetworkError> {
        let nodes = cluster.nodes.len();
        let ends = nodes + 1;
        let made: Result<Vec<Port>, _> = (0..ends).map(|end| Port::make(address(end))).collect();
        let ports = made.map_err(|(what, source)| refused(what, source))?;
        let wires = (0..ends)
            .map(|from| {
                let wire = |to| Wire::new(wanted.between(from, to, nodes), seed(wanted.seed, from, to));
                (0..ends).map(wire).collect()
            })
            .collect();
        let wires: Wires = Arc::new(Mutex::new(wires));
        let (namespaces, packets) = ports.into_iter().map(|port| (port.namespace, port.packets)).unzip();
        let system = |what| move |source: io::Error| NetworkError::System { what, source };
        let (told, stop) = io::pipe().map_err(system("a pipe"))?;
        let carried = Arc::clone(&wires);
        let thread = std::thread::Builder::new()
            .name("ftest-switch".to_owned())
            .spawn(move || switch::carry(packets, &carried, &told.into()))
            .map_err(system("a thread"))?;
        let names = cluster.nodes.iter().map(|node| node.id.clone()).chain([COORDINATOR.to_owned()]).collect();
        Ok(Network { namespaces, names, wires, stop: Some(stop.into()), thread: Some(thread) })
    }

    /// The namespace of a node's processes.
    pub fn node(&self, index: usize) -> Option<&Namespace> {
        self.namespaces.get(index).filter(|_| index < self.coordinator_index())
    }

    /// The namespace of the coordinator.
    pub fn coordinator(&self) -> &Namespace {
        &self.namespaces[self.coordinator_index()]
    }

    /// Its address.
    pub fn coordinator_address(&self) -> Ipv4Addr {
        address(self.coordinator_index())
    }

    fn coordinator_index(&self) -> usize {
        self.namespaces.len() - 1
    }

    /// Lets nothing through from now on, for a time or to the end; `resets` the connections that go on. Says what was cut.
    pub fn cut(&self, what: Severed, lasts: Option<Duration>, resets: bool) -> String {
        let now = Instant::now();
        let mut wires = self.wires.lock();
        let ends = self.namespaces.len();
        let pairs: Vec<[usize; 2]> = match what {
            Severed::Link(ends) => vec![ends],
            Severed::Node(node) => (0..ends).filter(|other| *other != node).map(|other| [node, other]).collect(),
        };
        for [one, other] in pairs {
            wires[one][other].cut(now, lasts, resets);
            wires[other][one].cut(now, lasts, resets);
        }
        let of = match what {
            Severed::Link([one, other]) => self.link(one, other),
            Severed::Node(node) => format!("all links of {}", self.names[node]),
        };
        let how = if resets { ", its connections reset" } else { "" };
        match lasts {
            Some(lasts) => format!("{of} cut for {} s{how}", lasts.as_secs_f64()),
            None => format!("{of} cut{how}"),
        }
    }

    /// Whether a node and the coordinator can reach each other.
    pub fn reaches_coordinator(&self, node: usize) -> bool {
        let wires = self.wires.lock();
        let wire = wires.get(node).and_then(|wires| wires.get(self.coordinator_index()));
        wire.is_none_or(|wire| !wire.is_cut(Instant::now()))
    }

    fn link(&self, one: usize, other: usize) -> String {
        format!("the link between {} and {}", self.names[one], self.names[other])
    }

    /// The traffic of every link that dropped packets or was slowed down by the case, as sentences for a case that did not pass.
    pub fn account(&self) -> Vec<String> {
        let wires = self.wires.lock();
        let mut sentences = Vec::new();
        for one in 0..wires.len() {
            for other in one + 1..wires.len() {
                let (there, back) = (&wires[one][other], &wires[other][one]);
                if let Some(carried) = describe(&there.link, there.count.and(back.count)) {
                    sentences.push(format!("{}{carried}", self.link(one, other)));
                }
            }
        }
        sentences
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic in that thread was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// The address of an end.
pub(super) fn address(end: usize) -> Ipv4Addr {
    let [first, second, third] = NETWORK;
    Ipv4Addr::new(first, second, third, u8::try_from(end + 1).unwrap_or(u8::MAX))
}

/// Each direction of each link loses packets independently.
fn seed(seed: u64, from: usize, to: usize) -> u64 {
    seed.wrapping_mul(0x1_0000_0001) ^ ((from as u64) << 8 | to as u64)
}

fn refused(what: &'static str, source: io::Error) -> NetworkError {
    use io::ErrorKind::{InvalidInput, NotFound, PermissionDenied, Unsupported};
    // No device, no driver for it, or a system without namespaces: this machine cannot make a network.
    let lacks = [PermissionDenied, NotFound, Unsupported, InvalidInput].contains(&source.kind())
        || source.raw_os_error().is_some_and(|code| [libc::ENODEV, libc::ENXIO, libc::ENOSYS].contains(&code));
    if lacks { NetworkError::Unavailable { what, source } } else { NetworkError::System { what, source } }
}

/// " (150 ms) carried 12 packets with 3400 bytes; of others 3 lost": completes a sentence about an imperfect link.
fn describe(link: &Link, count: Count) -> Option<String> {
    let delay = (!link.delay.is_zero()).then(|| format!("{} ms", link.delay.as_secs_f64() * 1e3));
    let rate = link.gbps.map(|gbps| format!("{gbps} Gbit/s"));
    let slow: Vec<String> = [delay, rate].into_iter().flatten().collect();
    let drops = [
        (count.lost, "lost"),
        (count.overrun, "dropped for lack of room"),
        (count.cut, "dropped while the link was cut"),
    ];
    let drops = drops.into_iter().filter(|(number, _)| *number > 0).map(|(number, how)| format!("{number} {how}"));
    let drops: Vec<String> = drops.collect();
    if slow.is_empty() && drops.is_empty() {
        return None;
    }
    let slow = if slow.is_empty() { String::new() } else { format!(" ({})", slow.join(", ")) };
    let drops = if drops.is_empty() { String::new() } else { format!("; of others {}", drops.join(", ")) };
    let packets = if count.passed == 1 { "packet" } else { "packets" };
    Some(format!("{slow} carried {} {packets} with {} bytes{drops}", count.passed, count.bytes))
}

#[cfg(test)]
mod tests;
