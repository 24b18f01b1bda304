//! A case with one change of `holds_under`.

use protocol::plan::ClusterPlan;

use super::Launch;
use super::definition::Case;
use super::relation::Relation;
use super::srun::Program;
use crate::check::Expectations;

/// `case` as `relation` changes it. What the suite expects of output and reports is about the case itself; how processes end,
/// findings, gaps and leaks are about the variant, too.
pub fn variant(case: &Case, relation: &Relation) -> Case {
    let own = &case.expect;
    let expect = Expectations {
        exit: own.exit.clone(),
        findings: own.findings.clone(),
        gaps: own.gaps.clone(),
        leaks: own.leaks,
        ..Expectations::default()
    };
    let unchanged = case.clone();
    let mut variant = Case { expect, deterministic: None, is_compared: false, holds_under: None, ..unchanged };
    if let Some(launch) = relation.ranks.and_then(|ranks| with_ranks(&case.launch, ranks, case.cluster.as_ref())) {
        variant.launch = launch;
    }
    arguments(&mut variant.launch).extend(relation.args.iter().cloned());
    for (name, value) in &relation.env {
        variant.env_unset.retain(|unset| unset != name);
        match value {
            Some(value) => drop(variant.env.insert(name.clone(), value.clone())),
            None => {
                variant.env.remove(name);
                variant.env_unset.push(name.clone());
            }
        }
    }
    if let (Some(profile), Some(cluster)) = (&relation.gpu, &mut variant.cluster) {
        cluster.nodes.iter_mut().flat_map(|node| &mut node.gpus).for_each(|gpu| gpu.clone_from(profile));
    }
    variant
}

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

/// The arguments of the program that a launch starts.
fn arguments(launch: &mut Launch) -> &mut Vec<String> {
    match launch {
        Launch::Argv { argv, .. } => argv,
        Launch::Torchrun { args, .. } => args,
        Launch::Srun(srun) => match &mut srun.program {
            Program::Rank { argv } => argv,
            Program::Torchrun { args, .. } => args,
        },
    }
}

#[cfg(test)]
mod tests {
    use protocol::ids::Rank;
    use protocol::plan::{FabricPlan, NodePlan};

    use super::*;

    fn cluster() -> ClusterPlan {
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
        }
    }

    fn torchrun(nproc_per_node: u32, nnodes: u32) -> Launch {
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
    fn a_variant_has_the_changes_of_its_relation_only() {
        let env =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let case = Case {
            launch: torchrun(2, 2),
            cluster: Some(cluster()),
            env: env(&[("A", "1"), ("B", "2")]),
            env_unset: vec!["C".to_owned()],
            ..Case::default()
        };
        let relation = Relation {
            ranks: Some(1),
            gpu: Some("h100".to_owned()),
            args: vec!["--tp".to_owned()],
            env: [("A", None), ("C", Some("3"))].map(|(name, value)| (name.into(), value.map(str::to_owned))).into(),
            ..Relation::default()
        };
        let variant = variant(&case, &relation);
        let Launch::Torchrun { nproc_per_node, nnodes, args, .. } = &variant.launch else { panic!("another launch") };
        assert_eq!((*nproc_per_node, *nnodes, args.join(" ").as_str()), (1, 1, "a --tp"));
        assert_eq!((variant.env, variant.env_unset), (env(&[("B", "2"), ("C", "3")]), vec!["A".to_owned()]));
        assert!(variant.cluster.unwrap().gpus().iter().all(|(_, profile)| *profile == "h100"));
    }
}
