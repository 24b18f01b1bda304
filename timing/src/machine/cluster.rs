//! The machine of a cluster file: a preset by name or by the GPU, and what the file says differs.

use protocol::plan::ClusterPlan;
use protocol::profile::GpuProfile;

use super::presets::of_gpu;
use super::{Machine, Shape, Transport, preset};

/// The machine of a cluster, whose nodes must have equal numbers of GPUs.
///
/// # Errors
/// What the model cannot describe.
pub fn of_cluster(cluster: &ClusterPlan) -> Result<Machine, String> {
    let first = cluster.nodes.first().ok_or("the cluster has no node")?;
    if let Some(other) = cluster.nodes.iter().find(|node| node.ranks.len() != first.ranks.len()) {
        return Err(format!(
            "modeled times need equal nodes: `{}` has {} GPUs, `{}` has {}",
            first.id,
            first.ranks.len(),
            other.id,
            other.ranks.len()
        ));
    }
    Ok(of_node(cluster)?.taking(cluster.nodes.len() as u32, first.ranks.len() as u32))
}

/// One node of a cluster, whatever takes part. Where GPUs differ, that of the lowest compute capability counts, as in NCCL's
/// tables.
///
/// # Errors
/// A preset or a profile that is not known.
pub fn of_node(cluster: &ClusterPlan) -> Result<Machine, String> {
    let gpus = cluster.nodes.iter().flat_map(|node| &node.gpus).filter_map(|id| cluster.profile(id));
    let profile = gpus.min_by_key(|profile| capability(profile)).ok_or("the cluster has no GPU")?;
    let said = cluster.machine.as_deref().cloned().unwrap_or_default();
    let mut machine = match said.preset.as_deref() {
        Some(name) => preset(name).ok_or_else(|| format!("`{name}` is no machine that the time model knows"))?,
        None => by_gpu(profile)?,
    };
    machine.capability = capability(profile);
    if let Some(links) = said.nvlinks {
        machine.links = links;
        if links == 0 {
            machine.shape = Shape::None;
        }
    }
    machine.nics = said.nics.unwrap_or(machine.nics);
    machine.nic_gbps = said.nic_gbps.unwrap_or(machine.nic_gbps);
    machine.gpudirect = said.gpudirect.unwrap_or(machine.gpudirect);
    if let Some(transport) = said.transport.as_deref().and_then(Transport::by_name) {
        machine.transport = transport;
    }
    Ok(machine)
}

fn capability(profile: &GpuProfile) -> u32 {
    profile
        .compute_capability
        .split('.')
        .filter_map(|part| part.parse::<u32>().ok())
        .fold(0, |sum, part| sum * 10 + part)
}

/// The machine that a GPU is usually found in.
fn by_gpu(profile: &GpuProfile) -> Result<Machine, String> {
    let name = of_gpu(&profile.id);
    let mut machine = preset(name).ok_or_else(|| format!("`{name}` is no preset"))?;
    if name == "pcie-box" {
        machine.pcie_gbytes = match profile.pcie.generation {
            0..=3 => 12.0,
            4 => 24.0,
            _ => 48.0,
        };
    }
    Ok(machine)
}

/// Whether times of this GPU were ever compared with measurements.
pub(crate) fn is_calibrated(capability: u32) -> bool {
    matches!(capability, 70 | 75 | 80 | 89 | 90 | 100 | 120)
}
