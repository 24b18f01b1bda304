//! Which GPUs this machine has according to the environment (`FTEST_CLUSTER`, or `FAKEGPU_PROFILES` and the like), and which of
//! them CUDA shows (`CUDA_VISIBLE_DEVICES`).

use crate::env::{self, BadValue, Variable};
use crate::gpu::Gpu;
use crate::ids::Rank;
use crate::launcher::Launcher;
use crate::plan::ClusterPlan;
use crate::profile::{self, GpuProfile};

/// The value of a variable, if it has one.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

fn given(lookup: Lookup<'_>, variable: &Variable) -> Option<String> {
    lookup(variable.name).filter(|value| !value.is_empty())
}

/// The cluster that ftest or fgpu set, if one is set.
///
/// # Errors
/// It cannot be read.
pub fn cluster(lookup: Lookup<'_>) -> Result<Option<ClusterPlan>, BadValue> {
    given(lookup, &env::CLUSTER).map(|value| plan(&value)).transpose()
}

/// The GPUs of this machine: those of `cluster`, or else those that the variables list.
///
/// # Errors
/// The variable whose value names no GPU.
pub fn gpus(cluster: Option<&ClusterPlan>, lookup: Lookup<'_>) -> Result<Vec<Gpu>, BadValue> {
    let given = |variable: &Variable| given(lookup, variable);
    match cluster {
        Some(cluster) => cluster_gpus(cluster, lookup),
        None => listed_gpus(given(&env::PROFILES), given(&env::PROFILE), given(&env::DEVICE_COUNT)),
    }
}

fn plan(value: &str) -> Result<ClusterPlan, BadValue> {
    serde_json::from_str(value).map_err(|error| BadValue {
        expected: format!("the JSON that ftest and fgpu make ({error})"),
        ..env::CLUSTER.bad(&value.chars().take(60).collect::<String>())
    })
}

/// The GPUs of the node that ftest names; or else of the node on which the variables of torchrun or srun place this rank, which
/// may use only some of the node's GPUs; or else every GPU of the cluster in rank order.
fn cluster_gpus(cluster: &ClusterPlan, lookup: Lookup<'_>) -> Result<Vec<Gpu>, BadValue> {
    let variable = &env::NODE;
    let named = match lookup(variable.name).filter(|value| !value.is_empty()) {
        Some(value) => Some(variable.integer(&value, 0, cluster.nodes.len().saturating_sub(1) as u64)? as usize),
        None => None,
    };
    let launcher = Launcher::read_or_task(lookup);
    let mine = match (launcher.rank, launcher.local_rank, launcher.local_world_size) {
        _ if named.is_some() => named,
        (Some(rank), Some(local), Some(size)) => cluster.nodes.iter().position(|node| {
            let mut own = node.ranks.clone();
            own.sort_unstable();
            own.get(local as usize) == Some(&rank) && size as usize <= own.len()
        }),
        _ => None,
    };
    let mut gpus = Vec::new();
    for (index, node) in cluster.nodes.iter().enumerate() {
        if mine.is_some_and(|mine| mine != index) {
            continue;
        }
        for (local, (rank, id)) in node.ranks.iter().zip(&node.gpus).enumerate() {
            let profile = cluster
                .profile(id)
                .ok_or_else(|| BadValue { expected: profile::unknown(id), ..env::CLUSTER.bad(&cluster.name) })?;
            gpus.push(Gpu { profile: profile.clone(), rank: *rank, node: index as u32, local: local as u32 });
        }
    }
    gpus.sort_by_key(|gpu| gpu.rank);
    Ok(gpus)
}

fn listed_gpus(profiles: Option<String>, profile: Option<String>, count: Option<String>) -> Result<Vec<Gpu>, BadValue> {
    let known = |variable: &Variable, value: &str, id: &str| {
        profile::builtin(id.trim())
            .ok_or_else(|| BadValue { expected: profile::unknown(id.trim()), ..variable.bad(value) })
    };
    let mut list = Vec::new();
    if let Some(value) = profiles {
        for entry in value.split(',') {
            let (id, times) = match entry.split_once(':') {
                Some((id, times)) => (id, times.trim().parse().ok().filter(|times| (1..=1024).contains(times))),
                None => (entry, Some(1usize)),
            };
            let times = times.ok_or_else(|| env::PROFILES.bad(&value))?;
            let profile = known(&env::PROFILES, &value, id)?;
            list.extend(std::iter::repeat_n(profile, times));
        }
    } else {
        let id = profile.as_deref().unwrap_or("a100");
        let count = count.map_or(Ok(8), |value| env::DEVICE_COUNT.integer(&value, 1, 1024))?;
        list = vec![known(&env::PROFILE, id, id)?; count as usize];
    }
    let gpu = |(index, profile): (usize, &GpuProfile)| Gpu {
        profile: profile.clone(),
        rank: Rank(index as u32),
        node: 0,
        local: index as u32,
    };
    Ok(list.into_iter().enumerate().map(gpu).collect())
}

/// Indices into `gpus` of the devices that are shown. NVIDIA's rule (CUDA C++ Programming Guide, "CUDA Environment Variables"):
/// indices or UUIDs (a unique prefix is enough); the list ends before its first invalid entry; a repeated device makes
/// the whole list empty; an empty value hides all.
pub fn choose(gpus: &[Gpu], mask: Option<&str>) -> Vec<usize> {
    let Some(mask) = mask else { return (0..gpus.len()).collect() };
    let mut chosen: Vec<usize> = Vec::new();
    for entry in mask.split(',').map(str::trim) {
        let found = if entry.starts_with("GPU-") {
            let mut matching = (0..gpus.len()).filter(|index| gpus[*index].uuid_text().starts_with(entry));
            matching.next().filter(|_| matching.next().is_none())
        } else {
            leading_number(entry).filter(|index| *index < gpus.len())
        };
        let Some(index) = found else { break };
        if chosen.contains(&index) {
            return Vec::new();
        }
        chosen.push(index);
    }
    chosen
}

/// The driver reads entries as `strtol` does: "1x" is 1.
fn leading_number(entry: &str) -> Option<usize> {
    let digits = entry.bytes().take_while(u8::is_ascii_digit).count();
    entry[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_reads_as_nvidias() {
        let profile = profile::builtin("a100").unwrap();
        let gpus: Vec<Gpu> =
            (0..4).map(|n| Gpu { profile: profile.clone(), rank: Rank(n), node: 0, local: n }).collect();
        let second = gpus[1].uuid_text();
        for (mask, shown) in [
            (None, vec![0, 1, 2, 3]),
            (Some(""), vec![]),
            (Some("-1"), vec![]),
            (Some("2,0"), vec![2, 0]),
            (Some(" 3 , 1 "), vec![3, 1]),
            (Some("1,7,2"), vec![1]),
            (Some("0,-1,1"), vec![0]),
            (Some("1,1"), vec![]),
            (Some(&second), vec![1]),
            (Some(&second[..20]), vec![1]),
            (Some("GPU-"), vec![]),
            (Some("none"), vec![]),
        ] {
            assert_eq!(choose(&gpus, mask), shown, "{mask:?}");
        }
    }
}
