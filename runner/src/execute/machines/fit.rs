//! Which nodes of a case run on other machines, and which cases cannot.

use crate::case::{Case, Launch};

/// How many nodes of `case` besides the first have processes that ftest starts: with machines, node N runs on machine N.
pub fn nodes_elsewhere(case: &Case) -> u32 {
    match (&case.launch, &case.cluster) {
        (Launch::Argv { ranks: Some(size), .. }, Some(cluster)) => {
            let used = |node: &protocol::plan::NodePlan| node.ranks.iter().any(|rank| rank.0 < *size);
            cluster.nodes.iter().rposition(used).map_or(0, |node| node as u32)
        }
        (Launch::Torchrun { nnodes, .. }, _) => nnodes.saturating_sub(1),
        (Launch::Argv { .. } | Launch::Srun(_), _) => 0,
    }
}

/// Why `case` cannot run on ftest's machine and `machines` others, and what to do; `None` if it can.
pub fn misfit(case: &Case, machines: u32) -> Option<String> {
    let nodes = nodes_elsewhere(case);
    let why = if nodes == 0 {
        return None;
    } else if nodes > machines {
        format!("it starts processes on {} nodes, and with --machines {machines} there are {}", nodes + 1, machines + 1)
    } else if case.network.is_some() {
        "`network` simulates the links between its nodes, and with --machines they are real".to_owned()
    } else if case.deterministic.is_some() {
        "`deterministic` compares files, and with --machines those of a node stay on its machine".to_owned()
    } else if case.holds_under.is_some() {
        "`holds_under` changes what its nodes run, and with --machines a node stays on its machine".to_owned()
    } else {
        return None;
    };
    Some(format!("{}: case {}: {why}; deselect it, or run it without --machines", case.place, case.full_id()))
}

#[cfg(test)]
mod tests {
    use protocol::ids::Rank;
    use protocol::plan::{ClusterPlan, FabricPlan, NodePlan};

    use super::*;
    use crate::case::relation::Relations;
    use crate::check::compared::Compared;
    use crate::check::repeat::Deterministic;
    use crate::source::SourceLocation;

    fn case(launch: Launch) -> Case {
        let fabric = FabricPlan { kind: "nvlink".into(), bandwidth_gbps: 1.0, latency_us: 0.0, oversubscription: 1.0 };
        let node = |index: u32| NodePlan {
            id: format!("node{index}"),
            host: String::new(),
            ranks: vec![Rank(2 * index), Rank(2 * index + 1)],
            gpus: vec!["a100".into(); 2],
        };
        let cluster = ClusterPlan {
            name: "c".into(),
            default_backend: "nccl".into(),
            nodes: (0..3).map(node).collect(),
            intra_node: fabric.clone(),
            inter_node: fabric,
            custom_profiles: Default::default(),
            machine: None,
        };
        Case { launch, cluster: Some(cluster), ..Case::default() }
    }

    fn ranks(ranks: Option<u32>) -> Case {
        case(Launch::Argv { argv: vec!["p".into()], ranks })
    }

    #[test]
    fn only_nodes_with_processes_need_a_machine() {
        assert_eq!([Some(6), Some(4), Some(2), None].map(|size| nodes_elsewhere(&ranks(size))), [2, 1, 0, 0]);
        let torchrun = |nnodes| Launch::Torchrun {
            nproc_per_node: 2,
            nnodes,
            script: "s.py".into(),
            args: Vec::new(),
            max_restarts: 0,
        };
        assert_eq!([3, 1].map(|nnodes| nodes_elsewhere(&case(torchrun(nnodes)))), [2, 0]);
    }

    #[test]
    fn what_cannot_work_says_why() {
        assert_eq!(misfit(&ranks(Some(6)), 2), None);
        let few = misfit(&ranks(Some(6)), 1).unwrap();
        assert!(few.contains("on 3 nodes, and with --machines 1 there are 2; deselect it"), "{few}");
        let twice = Case { deterministic: Some(Deterministic::default()), ..ranks(Some(6)) };
        assert!(misfit(&twice, 2).unwrap().contains("`deterministic` compares files"));
        let (numbers, tolerance) = (Some(regex::bytes::Regex::new("(?P<loss>.*)").unwrap()), None);
        let compared = Compared { numbers, files: None, rank: None, tolerance, place: SourceLocation::default() };
        let related = Relations { relations: Vec::new(), compared: Some(compared), tensors: None, steps: None };
        let related = Case { holds_under: Some(related), ..ranks(Some(6)) };
        assert!(misfit(&related, 2).unwrap().contains("`holds_under` changes"));
        let here = Case { deterministic: Some(Deterministic::default()), ..ranks(Some(2)) };
        assert_eq!(misfit(&here, 0), None);
    }
}
