//! NCCL's tuning constants, one table per minor version. Written down for 2.30 and undone step by step for what is older.
//!
//! Source: NVIDIA/nccl, `src/graph/tuning.cc` at the tags of 2.12 to 2.30 (values only). Latencies are in us, rates in GB/s.

use crate::machine::Generation;

/// A value for LL, LL128 and Simple.
pub type PerProtocol = [f64; 3];

/// A rate for one node, two nodes and more.
pub type PerNodes = [f64; 3];

/// Tree and ring, in this order.
pub type TreeRing<T> = [T; 2];

/// The newest minor version of NCCL 2 whose constants are here.
pub const NEWEST: u32 = 30;

/// The oldest.
pub const OLDEST: u32 = 12;

/// What one minor version of NCCL computes with.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// Minor version: 30 stands for 2.30.
    pub minor: u32,
    /// Latency of an operation before its steps.
    pub base: TreeRing<PerProtocol>,
    /// Latency of a step over NVLink.
    pub nvlink: TreeRing<PerProtocol>,
    /// Latency of a step over PCIe.
    pub pcie: TreeRing<PerProtocol>,
    /// Latency of a step over the network.
    pub network: TreeRing<PerProtocol>,
    /// Latency of NVLS inside a node.
    pub nvls: f64,
    /// Latency of NVLSTree's step over the network.
    pub nvls_tree_network: f64,
    /// Cap of LL for the whole communicator, by generation.
    pub ll: [PerNodes; 4],
    /// Part of a ring's rate that LL has.
    pub ring_ll: f64,
    /// Cap of ring LL128 per channel.
    pub ring_ll128: [PerNodes; 4],
    /// Cap of tree LL128 per channel.
    pub tree_ll128: [PerNodes; 4],
    /// Cap of a tree per channel.
    pub tree: [PerNodes; 4],
    /// Cap of NVLSTree per channel, where the version has one.
    pub nvls_tree: Option<[PerNodes; 4]>,
    /// Part of the links that NVLS reaches, by generation; 0 is off.
    pub nvls_efficiency: [f64; 4],
    /// Whether all-gather and reduce-scatter may use NVLS.
    pub nvls_gathers: bool,
    /// Whether a step costs at least what posting to the network costs.
    pub posting: bool,
    /// Rates per channel that the search tries inside a node, on 9.0.
    pub speeds_hopper: &'static [f64],
}

/// Rates per channel that the search tries inside a node, before 9.0.
pub const SPEEDS_AMPERE: &[f64] = &[40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0];
/// The same on 10.0 and later.
pub const SPEEDS_BLACKWELL: &[f64] = &[90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 18.0];
const SPEEDS_HOPPER: &[f64] = &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0];
const SPEEDS_HOPPER_2_20: &[f64] = &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0];
const SPEEDS_HOPPER_2_18: &[f64] = &[60.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0];
const SPEEDS_HOPPER_2_16: &[f64] = &[66.0, 33.0, 24.0, 20.0, 15.0, 12.0, 6.0, 3.0];

/// The constants of 2.`minor`; of the nearest version that is known if that one is not.
pub fn constants(minor: u32) -> Constants {
    let minor = minor.clamp(OLDEST, NEWEST);
    let mut c = newest();
    let older = |than: u32| minor < than;
    let (hopper, blackwell) = (Generation::Hopper as usize, Generation::Blackwell as usize);
    if older(30)
        && let Some(caps) = &mut c.nvls_tree
    {
        caps[blackwell][2] = 43.8;
    }
    if older(29) {
        c.ring_ll128[blackwell] = [40.0, 34.6, 34.6];
    }
    if older(28) {
        c.nvls_tree = None;
        c.nvls_tree_network = 14.0;
        c.nvls_efficiency = [0.0, 0.0, 5.0 / 6.0, 5.0 / 6.0];
        for table in [&mut c.ring_ll128, &mut c.tree_ll128, &mut c.tree] {
            table[blackwell] = table[hopper].map(|rate| 2.0 * rate);
        }
    }
    if older(25) {
        for table in [&mut c.ll, &mut c.ring_ll128, &mut c.tree_ll128, &mut c.tree] {
            table[blackwell] = table[hopper];
        }
    }
    if older(23) {
        c.base[0][2] = 0.0;
        c.nvlink[0][2] = 28.0;
        c.pcie[0][2] = 28.0;
    }
    if older(21) {
        c.ring_ll = 0.25;
        c.ll[hopper] = c.ll[Generation::Ampere as usize];
        c.nvls = 23.0;
        c.speeds_hopper = SPEEDS_HOPPER_2_20;
    }
    if older(19) {
        c.nvls_gathers = false;
        c.nvlink[0][2] = 4.0;
        c.pcie[0][2] = 4.0;
        c.speeds_hopper = SPEEDS_HOPPER_2_18;
    }
    if older(18) {
        c.base = [[4.4, 4.4, 0.0], [3.6, 10.0, 8.4]];
        c.nvlink = [[0.52, 1.25, 28.0], [0.47, 1.9, 3.4]];
        c.pcie[0][2] = 28.0;
        c.network[1][2] = 9.6;
        c.nvls_efficiency = [0.0; 4];
        c.posting = false;
        c.speeds_hopper = SPEEDS_HOPPER_2_16;
        for table in [&mut c.ll, &mut c.ring_ll128, &mut c.tree_ll128, &mut c.tree] {
            table[hopper] = table[Generation::Ampere as usize];
            table[blackwell] = table[hopper];
        }
    }
    if older(16) {
        c.speeds_hopper = SPEEDS_AMPERE;
    }
    if older(14) {
        c.network[1][2] = 28.0;
    }
    c.minor = minor;
    c
}

fn newest() -> Constants {
    Constants {
        minor: NEWEST,
        base: [[6.8, 14.0, 8.4], [6.6, 14.0, 8.4]],
        nvlink: [[0.6, 1.25, 4.0], [0.6, 1.9, 3.4]],
        pcie: [[1.0, 1.9, 4.0], [1.0, 2.5, 5.7]],
        network: [[5.0, 8.5, 14.0], [2.7, 4.0, 14.0]],
        nvls: 25.0,
        nvls_tree_network: 20.9,
        ll: [[39.0, 39.0, 20.4], [87.7, 22.5, 19.0], [141.0, 45.0, 35.0], [282.0, 90.0, 70.0]],
        ring_ll: 0.5,
        ring_ll128: [[20.0; 3], [20.0; 3], [36.7; 3], [40.0; 3]],
        tree_ll128: [[20.0; 3], [20.0; 3], [36.7, 36.7, 29.0], [55.6, 31.67, 20.0]],
        tree: [[26.5, 18.5, 10.0], [24.0, 23.6, 17.8], [38.7, 41.4, 36.0], [70.0, 42.8, 24.0]],
        nvls_tree: Some([
            [26.5, 18.5, 10.0],
            [24.0, 23.6, 17.8],
            [f64::INFINITY, 57.7, 45.5],
            [f64::INFINITY, 96.0, 80.0],
        ]),
        nvls_efficiency: [0.0, 0.0, 0.85, 0.74],
        nvls_gathers: true,
        posting: true,
        speeds_hopper: SPEEDS_HOPPER,
    }
}

/// Factors by which NCCL lowers a tree's rate for an all-reduce of 64 x 2^index bytes, for LL, LL128 and Simple.
pub const TREE_CORRECTION: [[f64; 23]; 3] = [
    [1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0],
    [1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0],
    [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9],
];
