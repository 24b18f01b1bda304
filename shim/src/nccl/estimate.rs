//! Model v2 on the machines of the cluster file: the time of a group for `ncclGroupSimulateEnd`, and what NCCL would choose for the
//! lines of `NCCL_DEBUG_SUBSYS=TUNING`.

use std::sync::OnceLock;

use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use dataplane::process::Process;
use protocol::ids::Rank;
use protocol::operations::GroupPart;
use protocol::plan::ClusterPlan;
use timing::Settings;
use timing::group::Group;
use timing::machine::{self, Machine};
use timing::nccl::tuner::Choice;
use timing::physics::Uses;

use super::communicator::{Communicator, process};
use super::error::NcclResult;
use super::info;
use crate::report::operations::{self, Placed};
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
    let mut group = Group::new(machine, settings);
    for (communicator, call) in operations {
        let ranks = communicator.ranks()?;
        if let Err(why) = group.add(&nodes(&process, plan, &ranks), ranks.rank(), &part(call)) {
            return Ok(Err(format!("estimated time of {why}")));
        }
    }
    Ok(Ok(group.finish()))
}

/// A call as the time model sees it.
pub(super) fn part(call: &Call) -> GroupPart {
    GroupPart { operation: call.operation, datatype: call.datatype, count: call.count, peer: call.peer }
}

/// NCCL's table for a communicator, as it logs it; `None` where the model knows no machine.
pub(crate) fn table(ranks: &Ranks) -> Option<Vec<String>> {
    let process = process().ok()?;
    let plan = plan(&process)?;
    let (machine, settings) = described(plan).as_ref().ok()?;
    timing::group::table(machine, settings, &nodes(&process, plan, ranks))
}

/// What NCCL would choose for a collective: its bytes, the pair, and how many channels run; `None` for anything else, and where the
/// model knows no machine.
pub(crate) fn choice(communicator: &Communicator, call: &Call) -> Option<(u64, Choice, u32)> {
    let process = process().ok()?;
    let plan = plan(&process)?;
    let ranks = communicator.ranks().ok()?;
    let (machine, settings) = described(plan).as_ref().ok()?;
    timing::group::choice(machine, settings, &nodes(&process, plan, &ranks), &part(call))
}

/// Says once in the log of operations where they ran.
pub(super) fn place_operations() {
    operations::place(|| {
        let process = process().ok()?;
        let minor = version_minor();
        Some(Placed {
            cluster: plan(&process)?.clone(),
            nccl_variables: variables().collect(),
            nccl_minor: minor,
            is_alone: process.is_alone(),
        })
    });
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
    let variables: Vec<(String, String)> = variables().collect();
    let settings = Settings::read(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    Ok(settings.with_version(Some(version_minor())))
}

fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("NCCL_"))
}

fn version_minor() -> u32 {
    info::version_number() as u32 / 100 % 100
}
