//! The place of a rank on the cluster, and the variables that tell the process about it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::environment::Environment;
use crate::execute::network::port::{INTERFACE, Namespace};
use crate::execute::network::{self, Network};
use crate::execute::process_tree::cookie::Cookie;

/// Settings shared by all processes of a case.
#[derive(Debug)]
pub struct Shared<'a> {
    /// Their common environment, before per-process variables.
    pub environment: Environment,
    /// The variables that the case sets or removes: what it says about them is in `environment`, and wins.
    pub own: BTreeSet<String>,
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
    /// The network between the nodes if they run in separate namespaces.
    pub network: Option<&'a Network>,
    /// The address of this machine that the others reach, if nodes run on other machines.
    pub reached_at: Option<IpAddr>,
}

impl Shared<'_> {
    /// The address of the first rank.
    pub(in crate::execute) fn master(&self) -> IpAddr {
        match self.network {
            Some(_) => network::address(0).into(),
            None => self.reached_at.unwrap_or(Ipv4Addr::LOCALHOST.into()),
        }
    }

    /// The namespace of the processes of `node`.
    pub(in crate::execute) fn namespace(&self, node: u32) -> Option<Namespace> {
        self.network?.node(node as usize).cloned()
    }

    /// Sets a variable, unless the case has a value for it.
    pub(in crate::execute) fn unless_own(&self, environment: &mut Environment, name: &str, value: impl Into<OsString>) {
        if !self.own.contains(name) {
            environment.set(name, value);
        }
    }

    /// Sets what a process of `node` must know if nodes are apart: in separate namespaces, or on separate machines.
    pub(in crate::execute) fn place(&self, environment: &mut Environment, node: u32) {
        if self.network.is_some() || self.reached_at.is_some() {
            environment.set(protocol::env::NODE.name, node.to_string());
        }
        if self.network.is_some() {
            // They would look up the machine's host name, whose address is not in this network.
            for library in ["GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"] {
                self.unless_own(environment, library, INTERFACE);
            }
        }
    }
}

/// The place of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::execute) struct Placement {
    /// The node.
    pub(in crate::execute) node: u32,
    /// Number of nodes that have ranks.
    pub(in crate::execute) nodes: u32,
    /// The rank's number on its node.
    pub(in crate::execute) local_rank: u32,
    /// Ranks on its node.
    pub(in crate::execute) local_size: u32,
}

/// The mark of the processes of one node.
pub fn node_cookie(cookie: &Cookie, node: u32) -> Cookie {
    cookie.part(format_args!("node{node}"))
}

/// The variables that tell a rank of `size` its place; rank 0 listens on `port` of `master`.
pub(in crate::execute) fn variables(
    rank: u32,
    size: u32,
    placement: Placement,
    master: &str,
    port: u16,
) -> [(&'static str, String); 9] {
    [
        ("RANK", rank.to_string()),
        ("WORLD_SIZE", size.to_string()),
        ("LOCAL_RANK", placement.local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", placement.local_size.to_string()),
        ("GROUP_RANK", placement.node.to_string()),
        ("GROUP_WORLD_SIZE", placement.nodes.to_string()),
        ("NODE_RANK", placement.node.to_string()),
        ("MASTER_PORT", port.to_string()),
        ("MASTER_ADDR", master.to_owned()),
    ]
}
