//! Model v2 on the machines of the cluster file: the time of a group for `ncclGroupSimulateEnd`, and what NCCL would choose for the
//! lines of `NCCL_DEBUG_SUBSYS=TUNING`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use dataplane::process::Process;
use protocol::datatype::Operation;
use protocol::ids::Rank;
use protocol::plan::ClusterPlan;
use protocol::route;
use timing::machine::{self, Machine};
use timing::nccl::tuner::{self, Choice};
use timing::nccl::{blocks, printed};
use timing::physics::{Estimate, Physics, Uses};
use timing::{Launch, Settings};

use super::communicator::{Communicator, process};
use super::error::NcclResult;
use super::info;
use crate::settings;

/// The time of `operations` one after the other, us, with what they use, or why there is none. Sends of one group to one node are one
/// transfer.
pub(crate) fn group<'a>(
    operations: impl Iterator<Item = (&'a Communicator, &'a Call)>,
) -> NcclResult<Result<(f64, Uses), String>> {
    let process = process()?;
    let Some(plan) = plan(&process) else { return Ok(Err("estimated time without a cluster".to_owned())) };
    let (machine, settings) = match described(plan) {
        Ok(described) => described,
        Err(why) => return Ok(Err(format!("estimated time: {why}"))),
    };
    let physics = Physics::default();
    let mut total = Total::default();
    // Bytes of transfers inside a node and between nodes.
    let mut transfers = [0u64; 2];
    for (communicator, call) in operations {
        let ranks = communicator.ranks()?;
        let nodes = nodes(&process, plan, &ranks);
        let bytes = route::request_bytes(call.operation, ranks.size(), call.count, call.datatype.size() as u64);
        match (call.operation, call.peer) {
            (Operation::Send | Operation::PutSignal, Some(peer)) if peer != ranks.rank() => {
                let node = |rank: u32| nodes.get(rank as usize).copied().flatten();
                transfers[usize::from(node(peer) != node(ranks.rank()))] += bytes;
            }
            // A transfer is counted by its sender.
            (_, Some(_)) => {}
            (operation, None) if bytes > 0 && ranks.size() > 1 => {
                let Some(machine) = taking_part(machine, &nodes) else {
                    return Ok(Err("estimated time of a communicator with unequal nodes".to_owned()));
                };
                match timing::estimate(&machine, settings, &physics, operation, bytes, Launch::ProcessPerGpu) {
                    Some(estimate) => total.add(&estimate),
                    None => return Ok(Err(format!("estimated time of {operation}: NCCL_ALGO leaves no algorithm"))),
                }
            }
            _ => {}
        }
    }
    for (between, bytes) in transfers.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
        let machine = machine.clone().taking(1 + between as u32, if between == 1 { 1 } else { 2 });
        let answer = timing::estimate(&machine, settings, &physics, Operation::Send, bytes, Launch::ProcessPerGpu);
        answer.iter().for_each(|estimate| total.add(estimate));
    }
    Ok(Ok(total.finish()))
}

/// A sum of operations. While it is added up, shares of links are times.
#[derive(Default)]
struct Total {
    us: f64,
    uses: Uses,
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

    fn finish(mut self) -> (f64, Uses) {
        if self.us > 0.0 {
            self.uses.inside /= self.us;
            self.uses.between /= self.us;
        }
        (self.us, self.uses)
    }
}

/// NCCL's table for a communicator, as it logs it; `None` where the model knows no machine.
pub(crate) fn table(ranks: &Ranks) -> Option<Vec<String>> {
    let (machine, settings) = used_by(ranks)?;
    Some(printed::lines(&machine, settings))
}

/// The machine as far as the members of a communicator use it, and NCCL's variables.
fn used_by(ranks: &Ranks) -> Option<(Machine, &'static Settings)> {
    let process = process().ok()?;
    let plan = plan(&process)?;
    let (machine, settings) = described(plan).as_ref().ok()?;
    Some((taking_part(machine, &nodes(&process, plan, ranks))?, settings))
}

/// What NCCL would choose for a collective: its bytes, the pair, and how many channels run; `None` for anything else, and where the
/// model knows no machine.
pub(crate) fn choice(communicator: &Communicator, call: &Call) -> Option<(u64, Choice, u32)> {
    let ranks = communicator.ranks().ok()?;
    let (machine, settings) = used_by(&ranks)?;
    let bytes = route::request_bytes(call.operation, ranks.size(), call.count, call.datatype.size() as u64);
    let chooses = matches!(
        call.operation,
        Operation::AllReduce
            | Operation::AllGather
            | Operation::ReduceScatter
            | Operation::Broadcast
            | Operation::Reduce
    );
    if !chooses || ranks.size() < 2 {
        return None;
    }
    let table = tuner::table(&machine, settings, call.operation);
    let choice = tuner::choose(&table, &machine, call.operation, bytes)?;
    let channels = blocks::of_kernel(choice.channels, &choice, &machine, settings, bytes);
    Some((bytes, choice, channels))
}

/// The cluster: that of the coordinator, which a rank alone has none of.
fn plan(process: &Process) -> Option<&ClusterPlan> {
    let own = || settings::get().ok()?.cluster.as_ref().filter(|_| process.is_alone());
    process.cluster().or_else(own)
}

/// The node of each member. For a rank alone, all nodes are like the first one, however many its job has.
fn nodes(process: &Process, plan: &ClusterPlan, ranks: &Ranks) -> Vec<Option<usize>> {
    let per_node = plan.nodes.first().map_or(1, |node| node.gpus.len()).max(1);
    let node = |rank: Rank| match process.is_alone() {
        true => Some(rank.0 as usize / per_node),
        false => plan.node_of(rank).map(|(index, _)| index),
    };
    ranks.members().iter().map(|member| node(member.global_rank)).collect()
}

/// The machine of the cluster file and NCCL's variables, which NCCL reads once.
fn described(plan: &ClusterPlan) -> &'static Result<(Machine, Settings), String> {
    static DESCRIBED: OnceLock<Result<(Machine, Settings), String>> = OnceLock::new();
    DESCRIBED.get_or_init(|| {
        let settings = settings()?;
        Ok((settings.used(machine::of_node(plan)?), settings))
    })
}

/// NCCL's variables, and the version that this library says it is.
fn settings() -> Result<Settings, String> {
    let variables: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("NCCL_"))
        .collect();
    let settings = Settings::read(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    let minor = info::version_number() as u32 / 100 % 100;
    Ok(settings.with_version(Some(minor)))
}

/// The machine as far as the members of a communicator use it; `None` if its nodes have different numbers of them.
fn taking_part(machine: &Machine, nodes: &[Option<usize>]) -> Option<Machine> {
    let mut members: BTreeMap<usize, u32> = BTreeMap::new();
    for node in nodes {
        *members.entry((*node)?).or_default() += 1;
    }
    let first = *members.values().next()?;
    members.values().all(|count| *count == first).then(|| machine.clone().taking(members.len() as u32, first))
}
