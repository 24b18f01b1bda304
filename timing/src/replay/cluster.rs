//! The cluster of a replay: which rank has which GPU, on which node, and what groups of NCCL take there.

use std::collections::HashMap;

use protocol::datatype::Operation;
use protocol::ids::Rank;
use protocol::operations::{GroupPart, OperationLog};
use protocol::plan::ClusterPlan;

use super::Refused;
use crate::Settings;
use crate::group::Group;
use crate::machine::{self, Machine};
use crate::physics::Uses;
use crate::work::Gpu;

/// The cluster.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    pub(super) plan: &'a ClusterPlan,
    /// The cluster that the logs are of.
    was: &'a ClusterPlan,
    /// By rank: the node, and the id of the profile.
    places: HashMap<u32, (usize, &'a str)>,
    was_places: HashMap<u32, (usize, &'a str)>,
    /// For ranks that ran alone: the GPUs of each node.
    alone: Option<usize>,
    machine: Option<(Machine, Settings)>,
    /// Ranks of the job that the logs are of.
    world: u32,
    replicas: u32,
}

impl<'a> Cluster<'a> {
    pub(super) fn new(logs: &'a [OperationLog], plan: &'a ClusterPlan, replicas: u32) -> Result<Self, Refused> {
        let first = &logs[0];
        let alone = first.is_alone.then(|| plan.nodes.first().map_or(1, |node| node.gpus.len()).max(1));
        let variables = first.nccl_variables.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let settings = Settings::read(variables)
            .map(|settings| settings.with_version((first.nccl_minor > 0).then_some(first.nccl_minor)));
        let machine = machine::of_node(plan).and_then(|machine| {
            let settings = settings?;
            Ok((settings.used(machine), settings))
        });
        let world = world_size(logs);
        let cluster = Self {
            plan,
            was: &first.cluster,
            places: places(plan),
            was_places: places(&first.cluster),
            alone,
            machine: machine.ok(),
            world,
            replicas,
        };
        let needed = world * replicas;
        if alone.is_none() && plan.world_size() < needed {
            return Err(Refused(format!(
                "cluster {} has {} GPUs, and the job has {needed} ranks",
                plan.name,
                plan.world_size()
            )));
        }
        if replicas > 1 {
            cluster.check_replicas(logs)?;
        }
        Ok(cluster)
    }

    /// Only a job whose communicators have all its ranks, or one, is known to be data-parallel.
    fn check_replicas(&self, logs: &[OperationLog]) -> Result<(), Refused> {
        for log in logs {
            for group in &log.groups {
                let communicator = &log.communicators[group.communicator as usize];
                let size = communicator.ranks.len();
                if size != 1 && size != self.world as usize {
                    return Err(Refused(format!(
                        "a communicator of rank {} has {size} of {} ranks: which of its operations a larger job would \
                         have is not known; only jobs whose communicators have all ranks can be scaled",
                        log.rank, self.world
                    )));
                }
                let moves = |part: &&GroupPart| {
                    part.peer.is_some()
                        || matches!(part.operation, Operation::AllToAll | Operation::Gather | Operation::Scatter)
                };
                if let Some(part) = group.parts.iter().find(moves).filter(|_| size > 1) {
                    return Err(Refused(format!(
                        "rank {} has {}: what a larger job would exchange is not known",
                        log.rank, part.operation
                    )));
                }
            }
        }
        if self.alone.is_some() {
            return Err(Refused("the ranks ran alone; set the size of the job where they run (`--of`)".to_owned()));
        }
        Ok(())
    }

    /// Whether a communicator spans all replicas.
    pub(super) fn grows(&self, size: usize) -> bool {
        self.replicas > 1 && size == self.world as usize
    }

    /// The global rank in this cluster of a rank of a log.
    pub(super) fn rank(&self, rank: Rank, replica: u32) -> u32 {
        rank.0 + replica * self.world
    }

    /// The global ranks of the members of a communicator.
    pub(super) fn members(&self, ranks: &[Rank], replica: u32) -> Vec<u32> {
        let replicas = if self.grows(ranks.len()) { 0..self.replicas } else { replica..replica + 1 };
        replicas.flat_map(|replica| ranks.iter().map(move |rank| self.rank(*rank, replica))).collect()
    }

    /// An operation of a communicator that had `size` members.
    pub(super) fn part(&self, part: &GroupPart, size: usize) -> GroupPart {
        let divided = matches!(part.operation, Operation::AllGather | Operation::ReduceScatter) && self.grows(size);
        let count = if divided { part.count.div_ceil(u64::from(self.replicas)) } else { part.count };
        GroupPart { count, ..*part }
    }

    /// The node of a rank.
    pub(super) fn node(&self, rank: u32) -> Option<usize> {
        match self.alone {
            Some(per_node) => Some(rank as usize / per_node),
            None => self.places.get(&rank).map(|(node, _)| *node),
        }
    }

    /// The GPU of a device of a process, and its NVLinks in one direction, GB/s. Where the rank has the GPU that it had, the device is the
    /// one that the log names.
    pub(super) fn gpu(&self, log: &OperationLog, device: usize, replica: u32) -> Result<(Gpu, f64), Refused> {
        let logged = &log.devices[device];
        let rank = self.rank(log.rank, replica);
        let id = |places: &HashMap<u32, (usize, &'a str)>, plan: &'a ClusterPlan, rank: u32| {
            let of_rank = places.get(&rank).map(|(_, id)| *id);
            of_rank.or_else(|| plan.nodes.first()?.gpus.first().map(String::as_str))
        };
        let (is, was) = (id(&self.places, self.plan, rank), id(&self.was_places, self.was, log.rank.0));
        let (id, plan) =
            if is == was { (logged.profile.as_str(), self.was) } else { (is.unwrap_or_default(), self.plan) };
        let profile = plan.profile(id).ok_or_else(|| Refused(format!("rank {rank}: no GPU profile `{id}`")))?;
        let is_same = self.plan.machine == self.was.machine && self.plan.intra_node == self.was.intra_node;
        let nvlink_gbytes = if is == was && is_same {
            logged.nvlink_gbytes
        } else {
            let links = self.machine.as_ref().map_or(0, |(machine, _)| machine.nvlinks());
            f64::from(links) * profile.nvlink.as_ref().map_or(0.0, |nvlink| nvlink.gigabytes_per_second_per_link)
        };
        Ok((Gpu::from_profile(profile), nvlink_gbytes))
    }

    /// What operations take that the rank at a position of a communicator starts together; `None` where the model does not know.
    pub(super) fn group(&self, nodes: &[Option<usize>], rank: u32, parts: &[GroupPart]) -> Option<(f64, Uses)> {
        let (machine, settings) = self.machine.as_ref()?;
        let mut group = Group::new(machine, settings);
        parts.iter().try_for_each(|part| group.add(nodes, rank, part)).ok()?;
        Some(group.finish())
    }
}

/// How many ranks the job of these logs has, as far as they tell.
pub fn world_size(logs: &[OperationLog]) -> u32 {
    let members = logs.iter().flat_map(|log| log.communicators.iter().flat_map(|one| &one.ranks));
    members.chain(logs.iter().map(|log| &log.rank)).map(|rank| rank.0 + 1).max().unwrap_or(1)
}

fn places(plan: &ClusterPlan) -> HashMap<u32, (usize, &str)> {
    let mut places = HashMap::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        for (rank, gpu) in node.ranks.iter().zip(&node.gpus) {
            places.insert(rank.0, (index, gpu.as_str()));
        }
    }
    places
}
