//! The channels that NCCL's search finds on a machine: how many, and the rate of each inside a node and between nodes.
//!
//! Source: NVIDIA/nccl, `src/graph/search.cc` and `connect.cc`. A search over equal nodes has a short answer: rates are tried
//! downwards, and the largest product of channels and rate wins.

use crate::machine::{Generation, Machine, Shape, Transport};
use crate::nccl::constants::{Constants, SPEEDS_AMPERE, SPEEDS_BLACKWELL};

/// Equal channels. Rates are in GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Channels {
    /// How many there are.
    pub count: u32,
    /// Rate of one inside a node.
    pub intra: f64,
    /// Rate of one between nodes; that inside a node if there is one node.
    pub inter: f64,
}

/// The most heads of NVLS, and the channels between racks.
const NICS_OF_A_RACK: u32 = 16;
/// Rate from which a channel is worth splitting in two.
const SPLIT_FROM_GBYTES: f64 = 25.0;
/// What is usable of a 400 Gbit/s NIC behind PCIe generation 5, GB/s.
const NDR_GBYTES: f64 = 48.0;

/// Channels of rings.
pub fn ring(machine: &Machine, constants: &Constants) -> Channels {
    if machine.nodes > 1 {
        return between_nodes(machine);
    }
    if machine.shape == Shape::None {
        return Channels { count: 2, intra: machine.pcie_gbytes / 2.0, inter: machine.pcie_gbytes / 2.0 };
    }
    let total = machine.nvlink_gbytes();
    let (mut count, mut rate) = (0.0, 0.0);
    for speed in speeds(machine, constants) {
        // The search ends at half of what it has.
        if *speed < rate / 2.0 {
            break;
        }
        let fit = (total / speed + 1e-6).floor();
        if fit * speed > count * rate + 1e-6 {
            (count, rate) = (fit, *speed);
        }
    }
    let (count, rate) = split(machine, count.max(1.0) as u32, if rate > 0.0 { rate } else { total });
    Channels { count, intra: rate, inter: rate }
}

/// Channels of trees: those of the rings, faster inside the nodes of a pair where NVLink allows it.
pub fn tree(machine: &Machine, constants: &Constants) -> Channels {
    let mut channels = ring(machine, constants);
    if machine.nodes == 2 && machine.gpus_per_node == 1 {
        channels.intra = 2.0 * channels.inter;
    } else if machine.nodes == 2 && machine.shape != Shape::None {
        // A tree's chain loads a link less than a ring does, so that more fits.
        const CHAIN: f64 = 1.2;
        channels.intra = (2.0 * channels.inter).min(CHAIN * machine.nvlink_gbytes() / f64::from(channels.count));
    }
    channels
}

/// Channels of NVLS, one per head; `None` where the machine or the version has none.
pub fn nvls(machine: &Machine, constants: &Constants) -> Option<Channels> {
    let possible = machine.shape == Shape::MulticastSwitch
        && machine.gpus_per_node > 1
        && constants.nvls_efficiency[machine.generation() as usize] > 0.0;
    if !possible {
        return None;
    }
    let heads = nvls_heads(machine);
    // A head of rate r costs every GPU of the node one part more than it has peers.
    let rate = machine.nvlink_gbytes() / f64::from(heads + 1);
    let intra = speeds(machine, constants).iter().copied().find(|speed| *speed <= rate + 0.01)?;
    let inter = if machine.nodes > 1 {
        let rings = between_nodes(machine);
        rings.inter * f64::from(rings.count) / f64::from(heads)
    } else {
        intra
    };
    Some(Channels { count: heads, intra, inter })
}

/// GPUs at which data enters and leaves the switch.
pub fn nvls_heads(machine: &Machine) -> u32 {
    machine.gpus_per_node.min(NICS_OF_A_RACK)
}

fn between_nodes(machine: &Machine) -> Channels {
    let nic = nic_gbytes(machine);
    let equal = |count: u32, rate: f64| Channels { count, intra: rate, inter: rate };
    if machine.is_rack() {
        return equal(NICS_OF_A_RACK, NDR_GBYTES);
    }
    if machine.shape == Shape::None {
        let rate = (nic * f64::from(machine.nics)).min(machine.pcie_gbytes);
        return equal(2, rate / 2.0);
    }
    let per_gpu = machine.nics / machine.gpus_per_node.max(1);
    // Several NICs of one GPU are one device of the network, up to what its slot carries.
    if per_gpu > 2 {
        return equal(machine.gpus_per_node, (nic * f64::from(per_gpu)).min(NDR_GBYTES));
    }
    let (count, rate) = split(machine, machine.nics.max(1), nic);
    equal(count, rate)
}

fn nic_gbytes(machine: &Machine) -> f64 {
    let line = machine.nic_gbps / 8.0;
    match machine.transport {
        Transport::Sockets => line,
        _ if line >= 50.0 => NDR_GBYTES,
        _ => 0.96 * line,
    }
}

/// Two channels of half the rate, where one is fast.
fn split(machine: &Machine, count: u32, rate: f64) -> (u32, f64) {
    let enough = machine.capability > 80 && rate < 50.0 && count > 4;
    if rate >= SPLIT_FROM_GBYTES && !enough { (2 * count, rate / 2.0) } else { (count, rate) }
}

fn speeds<'a>(machine: &Machine, constants: &'a Constants) -> &'a [f64] {
    match machine.generation() {
        Generation::Volta | Generation::Ampere => SPEEDS_AMPERE,
        Generation::Hopper => constants.speeds_hopper,
        Generation::Blackwell => SPEEDS_BLACKWELL,
    }
}
