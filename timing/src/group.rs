//! The time of the NCCL operations that one rank starts together: one after the other, but sends to one node are one transfer.

use std::collections::BTreeMap;

use protocol::datatype::Operation;
use protocol::operations::GroupPart;
use protocol::route;

use crate::Settings;
use crate::machine::Machine;
use crate::nccl::tuner::{self, Choice};
use crate::nccl::{blocks, printed};
use crate::physics::{Estimate, Launch, Physics, Uses, estimate};

/// The operations of a group on a machine.
#[derive(Debug)]
pub struct Group<'a> {
    machine: &'a Machine,
    settings: &'a Settings,
    physics: Physics,
    total: Total,
    /// Bytes of transfers inside a node and between nodes.
    transfers: [u64; 2],
}

/// A sum of operations. While it is added up, shares of links are times.
#[derive(Debug, Default)]
struct Total {
    us: f64,
    uses: Uses,
}

impl<'a> Group<'a> {
    /// An empty one. `machine` is one node as [`crate::machine::of_node`] has it.
    pub fn new(machine: &'a Machine, settings: &'a Settings) -> Self {
        Self { machine, settings, physics: Physics::default(), total: Total::default(), transfers: [0; 2] }
    }

    /// Adds an operation of the rank with this position in a communicator, whose members are on these nodes.
    ///
    /// # Errors
    /// Why it has no time: a part of a sentence.
    pub fn add(&mut self, nodes: &[Option<usize>], rank: u32, part: &GroupPart) -> Result<(), String> {
        let size = nodes.len() as u32;
        let bytes = route::request_bytes(part.operation, size, part.count, part.datatype.size() as u64);
        match (part.operation, part.peer) {
            (Operation::Send | Operation::PutSignal, Some(peer)) if peer != rank => {
                let node = |rank: u32| nodes.get(rank as usize).copied().flatten();
                self.transfers[usize::from(node(peer) != node(rank))] += bytes;
            }
            // A transfer is counted by its sender.
            (_, Some(_)) => {}
            (operation, None) if bytes > 0 && size > 1 => {
                let machine = taking_part(self.machine, nodes).ok_or("a communicator with unequal nodes")?;
                let answer = estimate(&machine, self.settings, &self.physics, operation, bytes, Launch::ProcessPerGpu);
                let answer = answer.ok_or_else(|| format!("{operation}: NCCL_ALGO leaves no algorithm"))?;
                self.total.add(&answer);
            }
            _ => {}
        }
        Ok(())
    }

    /// How long it takes, us, and what it uses meanwhile.
    pub fn finish(mut self) -> (f64, Uses) {
        for (between, bytes) in self.transfers.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
            let machine = self.machine.clone().taking(1 + between as u32, if between == 1 { 1 } else { 2 });
            let launch = Launch::ProcessPerGpu;
            let answer = estimate(&machine, self.settings, &self.physics, Operation::Send, bytes, launch);
            answer.iter().for_each(|estimate| self.total.add(estimate));
        }
        let Total { us, mut uses } = self.total;
        if us > 0.0 {
            uses.inside /= us;
            uses.between /= us;
        }
        (us, uses)
    }
}

impl Total {
    fn add(&mut self, estimate: &Estimate) {
        let Estimate { us, uses, .. } = estimate;
        self.us += us;
        self.uses.blocks = self.uses.blocks.max(uses.blocks);
        self.uses.memory_bytes += uses.memory_bytes;
        self.uses.inside += uses.inside * us;
        self.uses.between += uses.between * us;
    }
}

/// NCCL's table for ranks on these nodes, as it logs it; `None` for nodes with different numbers of them.
pub fn table(machine: &Machine, settings: &Settings, nodes: &[Option<usize>]) -> Option<Vec<String>> {
    Some(printed::lines(&taking_part(machine, nodes)?, settings))
}

/// What NCCL would choose for a collective among ranks on these nodes: its bytes, the pair, and how many channels run; `None` for
/// anything else, and for nodes with different numbers of them.
pub fn choice(
    machine: &Machine,
    settings: &Settings,
    nodes: &[Option<usize>],
    part: &GroupPart,
) -> Option<(u64, Choice, u32)> {
    let machine = taking_part(machine, nodes)?;
    let operation = part.operation;
    let bytes = route::request_bytes(operation, nodes.len() as u32, part.count, part.datatype.size() as u64);
    let chooses = matches!(
        operation,
        Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Broadcast
            | Operation::Reduce
    );
    if !chooses || nodes.len() < 2 {
        return None;
    }
    let table = tuner::table(&machine, settings, operation);
    let choice = tuner::choose(&table, &machine, operation, bytes)?;
    let channels = blocks::of_kernel(choice.channels, &choice, &machine, settings, bytes);
    Some((bytes, choice, channels))
}

/// The machine as far as ranks on these nodes use it; `None` if the nodes have different numbers of them.
fn taking_part(machine: &Machine, nodes: &[Option<usize>]) -> Option<Machine> {
    let mut members: BTreeMap<usize, u32> = BTreeMap::new();
    for node in nodes {
        *members.entry((*node)?).or_default() += 1;
    }
    let first = *members.values().next()?;
    members.values().all(|count| *count == first).then(|| machine.clone().taking(members.len() as u32, first))
}
