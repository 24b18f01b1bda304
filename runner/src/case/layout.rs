//! Launches and clusters of another size: another number of ranks, another number of nodes.

use protocol::plan::{ClusterPlan, NodePlan};

use super::Launch;

/// `launch` with this many ranks, on as few of its nodes as hold them; `None` if it cannot have that many.
pub fn with_ranks(launch: &Launch, ranks: u32, cluster: Option<&ClusterPlan>) -> Option<Launch> {
    match launch {
        Launch::Argv { argv, ranks: Some(_) } => {
            let fits = cluster.is_none_or(|cluster| ranks <= cluster.world_size());
            fits.then(|| Launch::Argv { argv: argv.clone(), ranks: Some(ranks) })
        }
        Launch::Torchrun { nnodes, script, args, max_restarts, .. } => {
            let fits = |nodes: &u32| {
                let has_room = |cluster: &ClusterPlan| {
                    let used = cluster.nodes.iter().take(*nodes as usize);
                    used.len() == *nodes as usize
                        && used.into_iter().all(|node| node.ranks.len() as u32 >= ranks / nodes)
                };
                ranks.is_multiple_of(*nodes) && cluster.is_none_or(has_room)
            };
            let nnodes = (1..=*nnodes).find(fits)?;
            let (script, args, max_restarts) = (script.clone(), args.clone(), *max_restarts);
            Some(Launch::Torchrun { nproc_per_node: ranks / nnodes, nnodes, script, args, max_restarts })
        }
        Launch::Argv { ranks: None, .. } | Launch::Srun(_) => None,
    }
}

/// `launch` on this many nodes, with `ranks` ranks or as many as it has, and the cluster whose nodes share them and all GPUs of
/// `cluster`.
///
/// # Errors
/// Why there is no such layout, as one sentence.
pub fn with_nodes(
    launch: &Launch,
    ranks: Option<u32>,
    nodes: u32,
    cluster: Option<&ClusterPlan>,
) -> Result<(Launch, Option<ClusterPlan>), String> {
    let Some(world) = ranks.or_else(|| launch.world_size()) else {
        return Err("this launch has no ranks".to_owned());
    };
    if !world.is_multiple_of(nodes) {
        return Err(format!("{nodes} nodes cannot share {world} ranks evenly"));
    }
    if let Some(gpus) = cluster.map(ClusterPlan::world_size).filter(|gpus| world > *gpus) {
        return Err(format!("the cluster has {gpus} GPUs for {world} ranks"));
    }
    let launch = match launch {
        Launch::Torchrun { script, args, max_restarts, .. } => {
            let (script, args, max_restarts) = (script.clone(), args.clone(), *max_restarts);
            Launch::Torchrun { nproc_per_node: world / nodes, nnodes: nodes, script, args, max_restarts }
        }
        Launch::Argv { argv, .. } if cluster.is_some() => Launch::Argv { argv: argv.clone(), ranks: Some(world) },
        Launch::Argv { .. } => return Err("this case has no cluster, and so no nodes".to_owned()),
        Launch::Srun(_) => return Err("srun places its ranks by its own options".to_owned()),
    };
    Ok((launch, cluster.map(|cluster| regrouped(cluster, world, nodes))))
}

/// `launch` and `cluster` with other ranks, other nodes, both or neither; `None` if there is no such layout.
pub fn laid_out(
    launch: &Launch,
    ranks: Option<u32>,
    nodes: Option<u32>,
    cluster: Option<&ClusterPlan>,
) -> Option<(Launch, Option<ClusterPlan>)> {
    match (nodes, ranks) {
        (Some(nodes), ranks) => with_nodes(launch, ranks, nodes, cluster).ok(),
        (None, Some(ranks)) => Some((with_ranks(launch, ranks, cluster)?, cluster.cloned())),
        (None, None) => Some((launch.clone(), cluster.cloned())),
    }
}

/// How many nodes of `cluster` have ranks of `launch`.
pub fn used_nodes(launch: &Launch, cluster: Option<&ClusterPlan>) -> Option<u32> {
    match (launch, cluster) {
        (Launch::Torchrun { nnodes, .. }, _) => Some(*nnodes),
        (Launch::Argv { ranks: Some(ranks), .. }, Some(cluster)) => {
            let has_one = |node: &&NodePlan| node.ranks.iter().any(|rank| rank.0 < *ranks);
            Some(cluster.nodes.iter().filter(has_one).count() as u32)
        }
        _ => None,
    }
}

/// `cluster` with the GPUs of its first `world` ranks on this many nodes, and the others behind them.
fn regrouped(cluster: &ClusterPlan, world: u32, nodes: u32) -> ClusterPlan {
    let gpus = cluster.gpus();
    let (used, free) = gpus.split_at(world as usize);
    let (nodes, per_node) = (nodes as usize, (world / nodes) as usize);
    let is_taken = |id: &str| cluster.nodes.iter().any(|node| node.id == id);
    let mut new_ids = (0..).map(|index| format!("node{index}")).filter(|id| !is_taken(id));
    let groups = used.chunks(per_node).enumerate().map(|(index, used)| {
        let own = cluster.nodes.get(index).map(|node| (node.id.clone(), node.host.clone()));
        let (id, host) = own.unwrap_or_else(|| (new_ids.next().unwrap_or_default(), String::new()));
        let free = &free[free.len() * index / nodes..free.len() * (index + 1) / nodes];
        let (ranks, gpus) = used.iter().chain(free).map(|(rank, profile)| (*rank, (*profile).to_owned())).unzip();
        NodePlan { id, host, ranks, gpus }
    });
    ClusterPlan { nodes: groups.collect(), ..cluster.clone() }
}

#[cfg(test)]
pub(super) mod tests {
    use protocol::ids::Rank;
    use protocol::plan::FabricPlan;

    use super::*;

    pub(in crate::case) fn cluster() -> ClusterPlan {
        let fabric = FabricPlan { kind: "nvlink".into(), bandwidth_gbps: 1.0, latency_us: 0.0, oversubscription: 1.0 };
        let node = |index: u32| NodePlan {
            id: format!("node{index}"),
            host: String::new(),
            ranks: vec![Rank(2 * index), Rank(2 * index + 1)],
            gpus: vec!["a100".into(); 2],
        };
        ClusterPlan {
            name: "c".into(),
            default_backend: "nccl".into(),
            nodes: (0..3).map(node).collect(),
            intra_node: fabric.clone(),
            inter_node: fabric,
            custom_profiles: Default::default(),
            machine: None,
        }
    }

    pub(in crate::case) fn torchrun(nproc_per_node: u32, nnodes: u32) -> Launch {
        let (script, args) = ("s.py".into(), vec!["a".to_owned()]);
        Launch::Torchrun { nproc_per_node, nnodes, script, args, max_restarts: 0 }
    }

    #[test]
    fn ranks_go_to_as_few_nodes_as_hold_them() {
        let cluster = cluster();
        for (ranks, expected) in [
            (1, Some((1, 1))),
            (2, Some((2, 1))),
            (3, Some((1, 3))),
            (4, Some((2, 2))),
            (6, Some((2, 3))),
            (5, None),
            (8, None),
        ] {
            let expected = expected.map(|(per_node, nodes)| torchrun(per_node, nodes));
            assert_eq!(with_ranks(&torchrun(2, 3), ranks, Some(&cluster)), expected, "{ranks}");
        }
        assert_eq!(with_ranks(&torchrun(2, 3), 8, None), Some(torchrun(8, 1)));
        let plain = |ranks| Launch::Argv { argv: vec!["x".into()], ranks };
        assert_eq!(with_ranks(&plain(Some(2)), 6, Some(&cluster)), Some(plain(Some(6))));
        assert_eq!(with_ranks(&plain(Some(2)), 7, Some(&cluster)), None);
        assert_eq!(with_ranks(&plain(None), 2, Some(&cluster)), None);
    }

    #[test]
    fn what_a_layout_lacks_is_not_made_up() {
        let cluster = cluster();
        let launch = |ranks, nodes| laid_out(&torchrun(1, 2), ranks, nodes, Some(&cluster)).map(|(launch, _)| launch);
        assert_eq!(launch(None, None), Some(torchrun(1, 2)));
        assert_eq!(launch(Some(1), None), Some(torchrun(1, 1)));
        assert_eq!(launch(None, Some(1)), Some(torchrun(2, 1)));
        assert_eq!((launch(Some(9), None), launch(None, Some(3))), (None, None));
    }

    #[test]
    fn nodes_share_the_ranks_and_the_gpus() {
        let cluster = cluster();
        let ranks_of = |launch: &Launch, ranks, nodes| -> Vec<Vec<u32>> {
            let (_, cluster) = with_nodes(launch, ranks, nodes, Some(&cluster)).unwrap();
            let nodes = cluster.unwrap().nodes;
            let ids: std::collections::BTreeSet<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
            assert!(ids.len() == nodes.len() && nodes.iter().all(|node| node.gpus.len() == node.ranks.len()));
            nodes.iter().map(|node| node.ranks.iter().map(|rank| rank.0).collect()).collect()
        };
        let plain = |ranks| Launch::Argv { argv: vec!["x".into()], ranks: Some(ranks) };
        assert_eq!(ranks_of(&torchrun(2, 3), None, 1), [[0, 1, 2, 3, 4, 5]]);
        assert_eq!(ranks_of(&torchrun(2, 2), Some(2), 2), [[0, 2, 3], [1, 4, 5]]);
        assert_eq!(ranks_of(&plain(6), None, 6), [[0], [1], [2], [3], [4], [5]]);
        assert_eq!(ranks_of(&plain(4), None, 4), [vec![0], vec![1, 4], vec![2], vec![3, 5]]);
        let refused = |launch: &Launch, ranks, nodes| with_nodes(launch, ranks, nodes, Some(&cluster)).unwrap_err();
        assert_eq!(refused(&torchrun(2, 2), None, 3), "3 nodes cannot share 4 ranks evenly");
        assert_eq!(refused(&plain(2), Some(8), 2), "the cluster has 6 GPUs for 8 ranks");
        assert_eq!(with_nodes(&torchrun(2, 3), None, 2, None), Ok((torchrun(3, 2), None)));
        assert!(with_nodes(&plain(2), None, 1, None).unwrap_err().contains("no cluster"));
        assert_eq!(used_nodes(&plain(3), Some(&cluster)), Some(2));
    }
}
