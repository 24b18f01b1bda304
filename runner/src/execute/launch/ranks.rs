//! Turns a case into programs and variables: which processes a launch needs, and where on the cluster each runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::Path;

use protocol::plan::ClusterPlan;
use rustix::process::Signal;

use super::environment::Environment;
use super::placement::{Placement, Shared, node_cookie, variables};
use super::torchrun::Torchrun;
use crate::case::srun::Program;
use crate::case::{Case, Launch};
use crate::check::output::{OutputWant, Stream};
use crate::execute::process_tree::cookie::Cookie;
use crate::execute::process_tree::inherit::UmaskOf;
use crate::execute::process_tree::show::Streams;
use crate::execute::process_tree::{ProcessPlan, Texts};
use crate::execute::srun;
use crate::observation::Role;

/// A launch that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// More ranks than the cluster has GPUs.
    #[error("the launch has {ranks} ranks and the cluster only {gpus} GPUs")]
    TooFewGpus {
        /// The number of ranks of the launch.
        ranks: u32,
        /// The number of GPUs of the cluster.
        gpus: u32,
    },
    /// torchrun is a Python program, but there is no Python.
    #[error("torchrun needs a Python environment and the case has none")]
    NoPython,
}

/// The processes of `case`, in the order in which they are started.
///
/// # Errors
/// [`PlacementError`].
pub fn plan(case: &Case, shared: &Shared<'_>) -> Result<Vec<ProcessPlan>, PlacementError> {
    match &case.launch {
        Launch::Argv { argv, ranks } => {
            let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
            let planned = |role, environment, node| ProcessPlan {
                role,
                argv: argv.clone(),
                environment,
                directory: case.cwd.clone(),
                lifeline: false,
                at_our_death: Some(Signal::KILL),
                streams: Streams::default(),
                umask: UmaskOf::Case,
                network: shared.namespace(node),
                texts: texts(case),
            };
            let Some(size) = *ranks else {
                let mut environment = shared.environment.clone();
                environment.set(protocol::env::COOKIE.name, shared.cookie.part("node0").to_string());
                shared.place(&mut environment, 0);
                return Ok(vec![planned(Role::Launcher(0), environment, 0)]);
            };
            let placements = placements(case.cluster.as_ref(), size)?;
            Ok(placements
                .into_iter()
                .enumerate()
                .map(|(rank, placement)| {
                    let environment = placed_environment(shared, rank as u32, size, placement);
                    planned(Role::Rank(rank as u32), environment, placement.node)
                })
                .collect())
        }
        Launch::Torchrun { nproc_per_node, nnodes, script, args, max_restarts } => {
            let python = shared.python.ok_or(PlacementError::NoPython)?;
            if let Some(cluster) = &case.cluster {
                let (ranks, gpus) = (nproc_per_node * nnodes, cluster.world_size());
                if ranks > gpus {
                    return Err(PlacementError::TooFewGpus { ranks, gpus });
                }
            }
            let torchrun = Torchrun {
                python,
                nproc_per_node: *nproc_per_node,
                nnodes: *nnodes,
                script,
                arguments: args,
                max_restarts: *max_restarts,
                master: Some(shared.master()),
                port: shared.port,
                logs: shared.scratch,
                tee: case.watches_output(),
            };
            Ok((0..*nnodes)
                .map(|node| {
                    let mut environment = shared.environment.clone();
                    environment.set(protocol::env::COOKIE.name, node_cookie(shared.cookie, node).to_string());
                    shared.place(&mut environment, node);
                    ProcessPlan {
                        role: Role::Launcher(node),
                        argv: torchrun.argv(Some(node)),
                        environment,
                        directory: case.cwd.clone(),
                        lifeline: false,
                        // torchrun's workers are not our children: torchrun ends them.
                        at_our_death: Some(Signal::TERM),
                        streams: Streams::default(),
                        umask: UmaskOf::Case,
                        network: shared.namespace(node),
                        texts: texts(case),
                    }
                })
                .collect())
        }
        Launch::Srun(srun) => {
            let placements = case.cluster.as_ref().map(|cluster| placements(Some(cluster), srun.world_size()));
            let order = srun::Order::new(case, srun, shared, placements.transpose()?);
            let words = match &srun.program {
                Program::Rank { argv } => argv.iter().map(OsString::from).collect(),
                Program::Torchrun { nproc_per_node, script, args, max_restarts } => Torchrun {
                    python: shared.python.ok_or(PlacementError::NoPython)?,
                    nproc_per_node: *nproc_per_node,
                    nnodes: srun.nodes,
                    script,
                    arguments: args,
                    max_restarts: *max_restarts,
                    // The tasks learn from Slurm where the first of them runs.
                    master: (!srun::is_apart(case)).then_some(Ipv4Addr::LOCALHOST.into()),
                    port: shared.port,
                    logs: shared.scratch,
                    tee: !case.kill.is_empty(),
                }
                .argv(None),
            };
            let mut environment = shared.environment.clone();
            environment.set(protocol::env::COOKIE.name, shared.cookie.to_string());
            order.announce(&mut environment);
            Ok(vec![ProcessPlan {
                role: Role::Srun,
                argv: srun::argv(case, srun, shared, words),
                environment,
                directory: case.cwd.clone(),
                lifeline: false,
                // srun cancels the step, and the allocation if srun owns it.
                at_our_death: Some(Signal::TERM),
                streams: Streams::default(),
                umask: UmaskOf::Case,
                // Slurm places them on its own machines.
                network: None,
                texts: Texts::default(),
            }])
        }
    }
}

/// The texts that the checks of `case` look for.
pub(in crate::execute) fn texts(case: &Case) -> Texts {
    let mut texts = Texts::default();
    for check in &case.expect.output {
        let of_stream = match check.stream {
            Stream::Stdout => &mut texts.stdout,
            Stream::Stderr => &mut texts.stderr,
        };
        if let OutputWant::Contains(text) | OutputWant::Absent(text) = &check.want {
            of_stream.insert(text.clone());
        }
    }
    texts
}

/// The environment of each of `size` ranks on `cluster`, based on their shared settings.
///
/// # Errors
/// [`PlacementError::TooFewGpus`].
pub fn environments(
    environment: &Environment,
    cookie: &Cookie,
    cluster: &ClusterPlan,
    size: u32,
) -> Result<Vec<Environment>, PlacementError> {
    let shared = Shared {
        environment: environment.clone(),
        own: BTreeSet::new(),
        cookie,
        scratch: Path::new(""),
        ftest: Path::new(""),
        python: None,
        port: 0,
        network: None,
        reached_at: None,
    };
    let placements = placements(Some(cluster), size)?;
    Ok((0..size).zip(placements).map(|(rank, placement)| placed_environment(&shared, rank, size, placement)).collect())
}

fn placed_environment(shared: &Shared<'_>, rank: u32, size: u32, placement: Placement) -> Environment {
    let mut environment = shared.environment.clone();
    for (name, value) in variables(rank, size, placement, &shared.master().to_string(), shared.port) {
        shared.unless_own(&mut environment, name, value);
    }
    shared.place(&mut environment, placement.node);
    environment.set(protocol::env::COOKIE.name, node_cookie(shared.cookie, placement.node).to_string());
    environment
}

/// The placements of ranks `0..size`, by rank.
fn placements(cluster: Option<&ClusterPlan>, size: u32) -> Result<Vec<Placement>, PlacementError> {
    let Some(cluster) = cluster else {
        return Ok((0..size).map(|rank| Placement { node: 0, nodes: 1, local_rank: rank, local_size: size }).collect());
    };
    if size > cluster.world_size() {
        return Err(PlacementError::TooFewGpus { ranks: size, gpus: cluster.world_size() });
    }
    let used: Vec<Vec<u32>> = cluster
        .nodes
        .iter()
        .map(|node| node.ranks.iter().map(|rank| rank.0).filter(|rank| *rank < size).collect())
        .collect();
    let nodes = used.iter().filter(|ranks| !ranks.is_empty()).count() as u32;
    let mut placements = vec![Placement { node: 0, nodes, local_rank: 0, local_size: 0 }; size as usize];
    for (node, ranks) in used.iter().enumerate() {
        for (local_rank, rank) in ranks.iter().enumerate() {
            placements[*rank as usize] =
                Placement { node: node as u32, nodes, local_rank: local_rank as u32, local_size: ranks.len() as u32 };
        }
    }
    Ok(placements)
}

#[cfg(test)]
mod tests {
    use protocol::ids::Rank;
    use protocol::plan::{FabricPlan, NodePlan};

    use super::*;

    fn cluster(nodes: &[&[u32]]) -> ClusterPlan {
        let fabric = FabricPlan { kind: "nvlink".into(), bandwidth_gbps: 1.0, latency_us: 0.0, oversubscription: 1.0 };
        ClusterPlan {
            name: "c".into(),
            default_backend: "nccl".into(),
            nodes: nodes
                .iter()
                .enumerate()
                .map(|(index, ranks)| NodePlan {
                    id: format!("node{index}"),
                    host: "127.0.0.1".into(),
                    ranks: ranks.iter().copied().map(Rank).collect(),
                    gpus: vec!["a100".into(); ranks.len()],
                })
                .collect(),
            intra_node: fabric.clone(),
            inter_node: fabric,
            custom_profiles: Default::default(),
            machine: None,
        }
    }

    #[test]
    fn ranks_sit_on_the_node_that_lists_them() {
        let placements = placements(Some(&cluster(&[&[0, 3], &[1, 2]])), 4).unwrap();
        let placed: Vec<_> =
            placements.iter().map(|placement| (placement.node, placement.local_rank, placement.local_size)).collect();
        assert_eq!(placed, [(0, 0, 2), (1, 0, 2), (1, 1, 2), (0, 1, 2)]);
        assert!(placements.iter().all(|placement| placement.nodes == 2));
    }

    #[test]
    fn fewer_ranks_than_gpus_use_the_first_and_more_are_refused() {
        let two = cluster(&[&[0, 1], &[2, 3]]);
        let placements_of_two = placements(Some(&two), 2).unwrap();
        assert!(
            placements_of_two
                .iter()
                .all(|placement| (placement.node, placement.nodes, placement.local_size) == (0, 1, 2))
        );
        assert_eq!(placements(Some(&two), 5), Err(PlacementError::TooFewGpus { ranks: 5, gpus: 4 }));
    }
}
