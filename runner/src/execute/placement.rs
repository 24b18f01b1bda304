//! The place of a rank on the cluster, and the variables by which a process knows it.

use std::net::Ipv4Addr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::launch::environment::Environment;
use super::network::port::{INTERFACE, Namespace};
use super::network::{self, Network};
use super::process_tree::cookie::Cookie;

/// What all processes of a case share.
#[derive(Debug)]
pub struct Shared<'a> {
    /// Their environment before anything of their own.
    pub environment: Environment,
    /// The case's mark.
    pub cookie: &'a Cookie,
    /// A directory for torchrun's logs.
    pub scratch: &'a Path,
    /// `ftest`, which tasks of srun start.
    pub ftest: &'a Path,
    /// The interpreter that runs torchrun.
    pub python: Option<&'a Path>,
    /// A port that the case reserves.
    pub port: u16,
    /// What connects the nodes where they are apart.
    pub network: Option<&'a Network>,
}

impl Shared<'_> {
    /// Where the first rank is reached.
    pub(super) fn master(&self) -> Ipv4Addr {
        self.network.map_or(Ipv4Addr::LOCALHOST, |_| network::address(0))
    }

    /// Where the processes of `node` are.
    pub(super) fn namespace(&self, node: u32) -> Option<Namespace> {
        self.network?.node(node as usize).cloned()
    }

    /// What a process of `node` must know of its place where nodes are apart.
    pub(super) fn place(&self, environment: &mut Environment, node: u32) {
        if self.network.is_some() {
            environment.set(protocol::env::NODE.name, node.to_string());
            // They look for the address of the machine's name, which is none of this network.
            for library in ["GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"] {
                environment.set(library, INTERFACE);
            }
        }
    }
}

/// The place of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Placement {
    /// The node.
    pub(super) node: u32,
    /// Nodes that have ranks.
    pub(super) nodes: u32,
    /// The rank's number on its node.
    pub(super) local_rank: u32,
    /// Ranks on its node.
    pub(super) local_size: u32,
}

/// The mark of the processes of one node.
pub fn node_cookie(cookie: &Cookie, node: u32) -> Cookie {
    cookie.part(format_args!("node{node}"))
}

/// The variables by which a rank of `size` knows its place; rank 0 listens on `port` of this machine.
pub(super) fn variables(rank: u32, size: u32, placement: Placement, port: u16) -> [(&'static str, String); 9] {
    [
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_RANK", placement.local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", placement.local_size.to_string()),
        ("GROUP_RANK", placement.node.to_string()),
        ("GROUP_WORLD_SIZE", placement.nodes.to_string()),
        ("NODE_RANK", placement.node.to_string()),
        ("MASTER_PORT", port.to_string()),
        ("MASTER_ADDR", "127.0.0.1".to_owned()),
    ]
}
