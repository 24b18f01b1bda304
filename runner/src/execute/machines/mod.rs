//! Machines that join a run (`ftest agent`), so that the nodes of a case run on different machines: node 0 on that of ftest, node N
//! on machine N. An agent starts the processes that ftest asks it for, passes on what they write and how they end, and ends them
//! when the case is over or ftest is gone.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::process_tree::Event;

pub mod agent;
mod connection;
mod elsewhere;
mod fit;
mod gate;
mod machine;
mod message;

pub(super) use elsewhere::{Elsewhere, StartError, node_of};
pub use fit::{misfit, nodes_elsewhere};
pub use gate::Gate;
use machine::Machine;
pub(super) use message::Holders;

/// The shortest token, bytes: whoever reaches an address at which ftest listens can try tokens without asking it.
pub const SHORTEST_TOKEN: usize = 16;

/// The machines of a run besides that of ftest.
#[derive(Debug)]
pub struct Machines {
    /// The address of this machine that the others reach.
    address: IpAddr,
    machines: Vec<Arc<Machine>>,
    cases: AtomicU64,
}

impl Machines {
    fn new(address: IpAddr, machines: Vec<Machine>) -> Machines {
        Machines { address, machines: machines.into_iter().map(Arc::new).collect(), cases: AtomicU64::new(0) }
    }

    /// The address of this machine that the others reach.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// The part of a case that runs on its nodes from the second to the last, of which these are the names. Its events go to
    /// `events`.
    ///
    /// # Errors
    /// A machine is lost or missing: one sentence.
    pub(super) fn open(&self, nodes: &[String], events: &UnboundedSender<Event>) -> Result<Elsewhere, String> {
        let case = self.cases.fetch_add(1, Ordering::Relaxed);
        let mut elsewhere = Elsewhere::new(case);
        for (node, name) in (1..).zip(nodes) {
            let machine = self.machines.iter().find(|machine| machine.number == node);
            let machine = machine.ok_or_else(|| format!("no machine has joined for {name}"))?;
            let answers = machine.open(case, name, events)?;
            elsewhere.add(node, name, Arc::clone(machine), answers);
        }
        Ok(elsewhere)
    }

    /// Tells all of them that the run has ended.
    pub async fn dismiss(&self) {
        for machine in &self.machines {
            machine.dismiss().await;
        }
    }
}
