//! A case with one change of `holds_under`.

use protocol::ids::Rank;
use protocol::schedule::Schedule;

use super::Launch;
use super::definition::Case;
use super::disturbance::{Kill, KillTarget};
use super::layout::laid_out;
use super::relation::{Relation, Restart};
use super::srun::Program;
use crate::check::exit::{ExitExpectation, ExitWant};
use crate::check::{Expectations, Leaks};

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
    lay_out(&mut variant, relation);
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
    if let Some(schedule) = relation.schedule {
        // `--schedule` may have given the case the same.
        let is_same = case.schedule == Some(schedule);
        variant.schedule = Some(Schedule { seed: schedule.seed.wrapping_add(u32::from(is_same)), ..schedule });
    }
    if relation.reverses_ranks {
        reverse_ranks(&mut variant);
    }
    variant.starts_reversed = relation.reverses_starts;
    variant.has_other_clock = relation.changes_clock;
    variant
}

/// Gives `variant` the launch and the nodes of its relation.
fn lay_out(variant: &mut Case, relation: &Relation) {
    if let Some((launch, warm)) = &relation.launch {
        (variant.launch, variant.warm) = (launch.clone(), warm.clone());
    }
    let laid_out = laid_out(&variant.launch, relation.ranks, relation.nodes, variant.cluster.as_ref());
    // The suite is refused before. Nothing is started, rather than what the case starts.
    (variant.launch, variant.cluster) = laid_out.unwrap_or_else(|| (Launch::default(), variant.cluster.take()));
}

/// The part of `variant` that ends with the line that `restart` waits for: then every process is killed.
pub fn until_killed(variant: &Case, relation: &Relation, restart: &Restart) -> Case {
    let of_launch = variant.torchruns().map_or(1, |(_, nodes)| nodes);
    let nodes = variant.cluster.as_ref().map_or(of_launch, |cluster| cluster.nodes.len() as u32);
    let kill = |node| Kill {
        target: KillTarget::Node(node),
        signal: libc::SIGKILL,
        watch: restart.rank,
        output: restart.after.clone(),
        place: relation.place.clone(),
    };
    let any = Some((ExitWant::Any, relation.place.clone()));
    let exit = ExitExpectation { all: any, ..ExitExpectation::default() };
    let expect = Expectations { exit, leaks: Leaks::Allowed, ..variant.expect.clone() };
    Case { kill: (0..nodes).map(kill).collect(), expect, ..variant.clone() }
}

/// What is started in the directory of the part that was killed.
pub fn resumed(variant: &Case, restart: &Restart) -> Case {
    let laid_out = laid_out(&variant.launch, restart.reshard, None, variant.cluster.as_ref());
    Case { launch: laid_out.map(|(launch, _)| launch).unwrap_or_default(), ..variant.clone() }
}

/// The last nodes get the first ranks, and CUDA shows the GPUs of a node in the reverse order.
fn reverse_ranks(case: &mut Case) {
    let is_launch_of_ranks = case.world_size().is_some();
    let Some(cluster) = &mut case.cluster else { return };
    // A process that is no rank of a launch sees the GPUs of all nodes.
    let of_node = cluster.nodes.iter().map(|node| node.gpus.len()).min().unwrap_or_default();
    let shown = if is_launch_of_ranks { of_node } else { cluster.world_size() as usize };
    match &case.launch {
        // Each torchrun has the same number of ranks, whatever its node has.
        Launch::Torchrun { nnodes, .. } if cluster.nodes.iter().any(|node| node.ranks.len() != of_node) => {
            let used = (*nnodes as usize).min(cluster.nodes.len());
            for (first, last) in (0..used).zip((0..used).rev()).take(used / 2) {
                if cluster.nodes[first].ranks.len() == cluster.nodes[last].ranks.len() {
                    let of_first = std::mem::take(&mut cluster.nodes[first].ranks);
                    cluster.nodes[first].ranks = std::mem::replace(&mut cluster.nodes[last].ranks, of_first);
                }
            }
        }
        _ => {
            let places = cluster.nodes.iter_mut().rev().flat_map(|node| &mut node.ranks);
            (0..).zip(places).for_each(|(rank, place)| *place = Rank(rank));
        }
    }
    let name = "CUDA_VISIBLE_DEVICES";
    let reversed: Vec<String> = match case.env.get(name) {
        Some(own) => own.split(',').rev().map(str::to_owned).collect(),
        None => (0..shown).rev().map(|index| index.to_string()).collect(),
    };
    case.env_unset.retain(|unset| unset != name);
    case.env.insert(name.to_owned(), reversed.join(","));
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
    use super::*;
    use crate::case::layout::tests::{cluster, torchrun};

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
    #[test]
    fn in_another_rank_order_every_rank_has_another_gpu() {
        let relation = Relation { reverses_ranks: true, ..Relation::default() };
        let ranks = |variant: &Case| -> Vec<Vec<u32>> {
            let nodes = &variant.cluster.as_ref().unwrap().nodes;
            nodes.iter().map(|node| node.ranks.iter().map(|rank| rank.0).collect()).collect()
        };
        let case = Case { launch: torchrun(2, 3), cluster: Some(cluster()), ..Case::default() };
        let reversed = variant(&case, &relation);
        assert_eq!(ranks(&reversed), [[4, 5], [2, 3], [0, 1]]);
        assert_eq!(reversed.env["CUDA_VISIBLE_DEVICES"], "1,0");
        let env = [("CUDA_VISIBLE_DEVICES".to_owned(), "0,3,2".to_owned())].into();
        assert_eq!(variant(&Case { env, ..case.clone() }, &relation).env["CUDA_VISIBLE_DEVICES"], "2,3,0");
        let plain = Launch::Argv { argv: vec!["x".into()], ranks: None };
        let shown = variant(&Case { launch: plain, ..case }, &relation).env;
        assert_eq!(shown["CUDA_VISIBLE_DEVICES"], "5,4,3,2,1,0");
    }

    #[test]
    fn another_schedule_is_never_the_one_of_the_case() {
        let delays = |seed| Schedule { seed, jitter: Schedule::JITTER };
        let relation = Relation { schedule: Some(delays(1)), ..Relation::default() };
        for (own, expected) in [(None, 1), (Some(1), 2), (Some(7), 1)] {
            let case = Case { schedule: own.map(delays), ..Case::default() };
            assert_eq!(variant(&case, &relation).schedule, Some(delays(expected)));
        }
    }
}
