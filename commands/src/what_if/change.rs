//! What differs in the other cluster: its file or machine, single values, and the number of ranks.

use std::path::Path;
use std::str::FromStr;

use protocol::ids::Rank;
use protocol::plan::{ClusterPlan, MachinePlan, NodePlan};
use protocol::{profile, suggest};
use runner::execute::launch::settings;
use timing::machine::{self, Transport};

use super::Trouble;

/// The most ranks of a replay.
const MOST_RANKS: u32 = 4096;

/// A value of the cluster.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Which, as in [`PATHS`].
    pub(super) path: String,
    pub(super) value: String,
}

/// Several values of one.
#[derive(Clone, Debug)]
pub struct Sweep {
    pub(super) path: String,
    pub(super) values: Vec<String>,
}

/// How many data-parallel ranks there are.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub(super) ranks: u32,
}

/// What can be set. The last one is the network of model v1, which modeled times do not have: it is taken as the rate of a NIC.
const PATHS: [&str; 8] = [
    "gpu",
    "machine.preset",
    "machine.nvlinks",
    "machine.nics",
    "machine.nic_gbps",
    "machine.transport",
    "machine.gpudirect",
    "fabric.inter_node.bandwidth_gbps",
];

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, value) = text.split_once('=').ok_or("write PATH=VALUE, such as machine.nic_gbps=200")?;
        Ok(Self { path: known(path)?, value: value.to_owned() })
    }
}

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (path, values) = text.split_once('=').ok_or("write PATH=V1,V2, such as machine.nics=1,2,4")?;
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        match values.iter().any(String::is_empty) {
            true => Err(format!("`{path}`: a value is empty")),
            false => Ok(Self { path: known(path)?, values }),
        }
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("dp=").ok_or("write dp=N; only data-parallel jobs can be scaled")?;
        let ranks = number.parse().ok().filter(|ranks| (1..=MOST_RANKS).contains(ranks));
        Ok(Self { ranks: ranks.ok_or_else(|| format!("dp={number}: write a whole number from 1 to {MOST_RANKS}"))? })
    }
}

fn known(path: &str) -> Result<String, String> {
    if PATHS.contains(&path) {
        return Ok(path.to_owned());
    }
    let hint = match suggest::nearest(path, PATHS) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", PATHS.join(", ")),
    };
    Err(format!("`{path}` is nothing that modeled times depend on; {hint}"))
}

impl Setting {
    /// Sets it; returns what was assumed.
    ///
    /// # Errors
    /// The path, its value, and what it may be.
    pub(super) fn apply(&self, plan: &mut ClusterPlan) -> Result<impl Iterator<Item = String> + use<>, String> {
        let Self { path, value } = self;
        let bad = |expected: &str| format!("{path}={value}: expected {expected}");
        let whole = |least: u32| {
            let number = value.parse().ok().filter(|number| (least..=1024).contains(number));
            number.ok_or_else(|| bad(&format!("a whole number from {least} to 1024")))
        };
        let rate = || {
            let number = value.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
            number.ok_or_else(|| bad("Gbit/s above 0"))
        };
        let one_of = |names: Vec<&str>| match suggest::nearest(value, names.iter().copied()) {
            Some(near) => bad(&format!("one of {}; did you mean `{near}`?", names.join(", "))),
            None => bad(&format!("one of {}", names.join(", "))),
        };
        let mut assumed = None;
        if path == "gpu" {
            let known: Vec<&str> = profile::all().iter().map(|profile| profile.id.as_str()).collect();
            if plan.profile(value).is_none() {
                return Err(one_of(known));
            }
            plan.nodes.iter_mut().flat_map(|node| &mut node.gpus).for_each(|gpu| gpu.clone_from(value));
            return Ok(assumed.into_iter());
        }
        let machine: &mut MachinePlan = plan.machine.get_or_insert_default();
        match path.as_str() {
            "machine.preset" => {
                if machine::preset(value).is_none() {
                    return Err(one_of(machine::presets().collect()));
                }
                machine.preset = Some(value.clone());
            }
            "machine.nvlinks" => machine.nvlinks = Some(whole(0)?),
            "machine.nics" => machine.nics = Some(whole(1)?),
            "machine.nic_gbps" => machine.nic_gbps = Some(rate()?),
            "machine.transport" => {
                if Transport::by_name(value).is_none() {
                    return Err(one_of(Transport::ALL.iter().map(|transport| transport.name()).collect()));
                }
                machine.transport = Some(value.clone());
            }
            "machine.gpudirect" => machine.gpudirect = Some(value.parse().map_err(|_| bad("true or false"))?),
            _ => {
                let rate = rate()?;
                machine.nic_gbps = Some(rate);
                plan.inter_node.bandwidth_gbps = rate;
                assumed =
                    Some("fabric.inter_node.bandwidth_gbps is the rate of each NIC (machine.nic_gbps)".to_owned());
            }
        }
        Ok(assumed.into_iter())
    }
}

/// The cluster of a file, or that of the run with other machines.
pub(super) fn cluster(named: &str, was: &ClusterPlan) -> Result<ClusterPlan, Trouble> {
    let Some(machine) = machine::preset(named) else {
        if !Path::new(named).exists()
            && let Some(near) = suggest::nearest(named, machine::presets())
        {
            return Err(Trouble::usage(format!("--cluster {named}: no such file; did you mean the machine `{near}`?")));
        }
        return settings::read_cluster(Path::new(named)).map_err(Trouble::usage);
    };
    let mut plan = was.clone();
    if let Some(node) = plan.nodes.iter().find(|node| node.gpus.len() > machine.gpus_per_node as usize) {
        return Err(Trouble::usage(format!(
            "--cluster {named}: it has {} GPUs, and node `{}` of the run has {}",
            machine.gpus_per_node,
            node.id,
            node.gpus.len()
        )));
    }
    if let Some(gpu) = machine::gpu(named) {
        plan.nodes.iter_mut().flat_map(|node| &mut node.gpus).for_each(|id| gpu.clone_into(id));
    }
    plan.machine = Some(Box::new(MachinePlan { preset: Some(named.to_owned()), ..MachinePlan::default() }));
    Ok(plan)
}

impl Scale {
    /// How often the job is there.
    pub(super) fn replicas(self, world: u32) -> Result<u32, String> {
        match self.ranks.is_multiple_of(world) {
            true => Ok(self.ranks / world),
            false => Err(format!("--scale dp={}: not a multiple of the {world} ranks that ran", self.ranks)),
        }
    }
}

/// Adds nodes like the last one until there are so many GPUs.
pub(super) fn grow(plan: &mut ClusterPlan, ranks: u32) {
    let Some(last) = plan.nodes.last().cloned() else { return };
    let mut next = plan.world_size();
    while next < ranks {
        let id = format!("{}+{}", last.id, plan.nodes.len());
        let count = last.gpus.len() as u32;
        plan.nodes.push(NodePlan { id, ranks: (next..next + count).map(Rank).collect(), ..last.clone() });
        next += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> ClusterPlan {
        let none =
            settings::DeviceArguments { profile: Some("h100".into()), device_count: Some("2".into()), devices: None };
        none.single_node().unwrap()
    }

    fn set(text: &str) -> Result<(ClusterPlan, Vec<String>), String> {
        let mut plan = plan();
        let notes = text.parse::<Setting>()?.apply(&mut plan)?.collect();
        Ok((plan, notes))
    }

    #[test]
    fn a_value_is_where_modeled_times_look() {
        for (text, is_set) in [
            ("machine.nic_gbps=200", (|machine| machine.nic_gbps == Some(200.0)) as fn(&MachinePlan) -> bool),
            ("machine.nics=4", |machine| machine.nics == Some(4)),
            ("machine.nvlinks=0", |machine| machine.nvlinks == Some(0)),
            ("machine.preset=dgx-b200", |machine| machine.preset.as_deref() == Some("dgx-b200")),
            ("machine.transport=roce", |machine| machine.transport.as_deref() == Some("roce")),
            ("machine.gpudirect=false", |machine| machine.gpudirect == Some(false)),
        ] {
            let (plan, notes) = set(text).unwrap();
            assert!(plan.machine.as_deref().is_some_and(is_set), "{text}");
            assert_eq!(notes, [""; 0]);
        }
        assert_eq!(set("gpu=b200").unwrap().0.nodes[0].gpus, ["b200", "b200"]);
        let (plan, notes) = set("fabric.inter_node.bandwidth_gbps=100").unwrap();
        assert_eq!(plan.machine.unwrap().nic_gbps, Some(100.0));
        assert_eq!(notes, ["fabric.inter_node.bandwidth_gbps is the rate of each NIC (machine.nic_gbps)"]);
    }

    #[test]
    fn a_mistake_names_the_path_and_what_is_near() {
        for (text, said) in [
            (
                "machine.nic_gbp=1",
                "`machine.nic_gbp` is nothing that modeled times depend on; did you mean `machine.nic_gbps`?",
            ),
            ("machine.nics", "write PATH=VALUE, such as machine.nic_gbps=200"),
            ("machine.nics=0", "machine.nics=0: expected a whole number from 1 to 1024"),
            ("machine.nic_gbps=fast", "machine.nic_gbps=fast: expected Gbit/s above 0"),
            ("machine.gpudirect=2", "machine.gpudirect=2: expected true or false"),
        ] {
            assert_eq!(set(text).unwrap_err(), said);
        }
        assert!(set("gpu=h1000").unwrap_err().ends_with("did you mean `h100`?"));
        assert!(set("machine.preset=dgx-h10").unwrap_err().ends_with("did you mean `dgx-h100`?"));
        assert_eq!("machine.nics=1,,2".parse::<Sweep>().unwrap_err(), "`machine.nics`: a value is empty");
        assert_eq!("dp=5000".parse::<Scale>().unwrap_err(), "dp=5000: write a whole number from 1 to 4096");
        assert_eq!("tp=8".parse::<Scale>().unwrap_err(), "write dp=N; only data-parallel jobs can be scaled");
        assert_eq!(
            Scale { ranks: 10 }.replicas(4).unwrap_err(),
            "--scale dp=10: not a multiple of the 4 ranks that ran"
        );
    }

    #[test]
    fn a_cluster_grows_by_nodes_like_its_last() {
        let mut plan = plan();
        grow(&mut plan, 7);
        assert_eq!((plan.nodes.len(), plan.world_size()), (4, 8));
        let ranks: Vec<u32> = plan.nodes.iter().flat_map(|node| &node.ranks).map(|rank| rank.0).collect();
        assert_eq!(ranks, (0..8).collect::<Vec<_>>());
    }
}
