//! How long a choice of NCCL's takes: launch, latency of its steps, bytes over the narrowest link, fill of the pipeline.
//!
//! [`Physics`] has the parameters. Each has a meaning and a unit; their values were found by `cargo xtask times --calibrate`
//! from the published tables in `benches/published`, which docs/time.md lists with the error of each, but for those that say they are
//! set.

use protocol::datatype::Operation;

use crate::machine::{Generation, Machine, Shape, Transport};
use crate::nccl::constants::{Constants, NEWEST, constants};
use crate::nccl::settings::Settings;
use crate::nccl::tuner::{self, Algorithm, Choice, Protocol};
use crate::nccl::{self, blocks, channels};

/// Who starts the operation, and therefore what starting costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A C program for each GPU, as `nccl-tests` under mpirun.
    ProcessPerGpu,
    /// One process that starts it on each of its GPUs in turn, as `nccl-tests -g 8`.
    OneProcess,
    /// PyTorch, a process for each GPU.
    PyTorch,
    /// XLA, one process with a thread for each GPU.
    Xla,
}

/// What an operation's time consists of, most of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Launch and steps.
    Latency,
    /// The NVLinks of a GPU.
    NvLink,
    /// A GPU's PCIe slot.
    Pcie,
    /// The NICs of a node.
    Network,
}

impl Limit {
    /// In a sentence: "limited by NVLink".
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::NvLink => "NVLink",
            Self::Pcie => "PCIe",
            Self::Network => "network",
        }
    }
}

/// A modeled time and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Time from the start of the call to the end on the last rank, us.
    pub us: f64,
    /// NCCL's choice. A transfer has the ring's names, since it has no choice.
    pub choice: Choice,
    /// The largest part of the time.
    pub limit: Limit,
    /// What it takes of a GPU that other work runs on.
    pub uses: Uses,
}

/// What an operation uses of each of its GPUs while it runs, which is what work beside it cannot have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Uses {
    /// Blocks of its kernel: one for each channel, which fills an SM.
    pub blocks: u32,
    /// Bytes of the GPU's memory that it reads and writes.
    pub memory_bytes: f64,
    /// The share of its time that the GPU's NVLinks are busy, or its PCIe slot without them.
    pub inside: f64,
    /// The share of its time that the node's NICs are busy.
    pub between: f64,
}

macro_rules! physics {
    ($($(#[$doc:meta])* $name:ident = $value:expr;)*) => {
        /// The parameters of the model.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Physics {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl Default for Physics {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }

        impl Physics {
            /// Every parameter with its name, for a calibration.
            pub fn parameters(&mut self) -> Vec<(&'static str, &mut f64)> {
                vec![$((stringify!($name), &mut self.$name),)*]
            }
        }
    };
}

physics! {
    /// Start of an operation by a process of its own, us, beyond NCCL's base latency.
    launch_process = 2.95;
    /// Start on each further GPU of one process, us.
    launch_each = 2.93;
    /// Dispatch of an operation by PyTorch, us.
    launch_pytorch = 16.6;
    /// Dispatch by XLA, us.
    launch_xla = 9.01;
    /// Part of a link that a ring's LL carries as data.
    ring_ll = 0.371;
    /// Part that a ring's LL128 carries.
    ring_ll128 = 0.917;
    /// Part that a ring's Simple carries.
    ring_simple = 0.98;
    /// Part of a link that a tree's LL carries as data. Set, not calibrated: the tables say 0.02, by which a larger message would
    /// be faster than a small one.
    tree_ll = 0.05;
    /// Part that a tree's LL128 carries.
    tree_ll128 = 0.714;
    /// Part that a tree's Simple carries.
    tree_simple = 0.87;
    /// What NVLS reaches of the rate in NCCL's table.
    nvls = 0.973;
    /// What NVLSTree of two nodes reaches of the NICs.
    nvls_tree_network = 1.05;
    /// What NVLSTree of more nodes reaches of them.
    nvls_trees_network = 0.97;
    /// Fill of a ring's pipeline in slices.
    ring_fill = 1.98;
    /// Fill of a tree's pipeline: part of a chunk per level.
    tree_fill = 1.15;
    /// Fill of NVLS's pipeline per GPU, us.
    nvls_fill = 14.1;
    /// Bytes per GPU at which NVLS's pipeline is half full.
    nvls_half = 4.61e6;
    /// The same fill with trees between nodes, as a factor.
    nvls_tree_fill = 1.56;
    /// Step of a ring over NVLink, as a factor of NCCL's.
    ring_step = 1.55;
    /// Step of a tree over NVLink, as a factor of NCCL's.
    tree_step = 0.866;
    /// Step over PCIe, as a factor of NCCL's.
    pcie_step = 1.14;
    /// Step over the network, as a factor of NCCL's. Set: with it 8 bytes over InfiniBand are right on 2 and on 4 nodes.
    network_step = 1.0;
    /// What a V100's links carry, as a factor of NCCL's count.
    volta_links = 1.2;
    /// What a PCIe slot carries, as a factor of NCCL's count.
    pcie_rate = 1.08;
    /// Part of its NVLinks that a ring of two GPUs uses.
    pair = 0.666;
    /// Part of a link that send and receive use.
    transfer = 0.816;
    /// Start of send and receive, us.
    launch_transfer = 27.0;
    /// Part of its NICs that gIB reaches.
    gib_rate = 0.88;
    /// Part of its NICs that the first EFA reaches.
    efa1_rate = 0.981;
    /// Part of its NICs that TCPX reaches.
    tcpx_rate = 0.974;
    /// Part of its NICs that TCP sockets reach. Set: no healthy table has sockets.
    sockets_rate = 0.85;
    /// What a node sends over TCP sockets at most, GB/s: the CPUs copy it (`gh200x4-2n-slingshot-bad`, 5.4).
    sockets_most = 5.4;
    /// Part of their rate that NICs reach through the host's memory, without GPUDirect RDMA
    /// (`h100x8-2n-bad-c`).
    staged_rate = 0.12;
    /// Latency that the first EFA adds to a hop, us.
    efa1_hop = 22.0;
    /// The second EFA.
    efa2_hop = 32.9;
    /// The third EFA.
    efa3_hop = 75.5;
    /// TCPX.
    tcpx_hop = 403.0;
    /// TCPXO.
    tcpxo_hop = 56.6;
    /// Slingshot.
    slingshot_hop = 0.197;
    /// RoCE and gIB.
    roce_hop = 7.94;
    /// InfiniBand.
    infiniband_hop = 0.472;
    /// TCP sockets. Set, likewise.
    sockets_hop = 30.0;
}

/// The largest slice of a ring: half of a chunk of half of a buffer of 4 MiB.
const SLICE_BYTES: f64 = (1 << 20) as f64;
/// The largest chunk of a tree.
const TREE_CHUNK_BYTES: f64 = (512 << 10) as f64;

/// The modeled time of `operation` over `bytes`, counted as nccl-tests counts them (all-gather: what a rank receives;
/// reduce-scatter and all-to-all: what it sends), by all ranks of `machine`. `None` if the settings leave NCCL no algorithm, or
/// for an operation that moves no bytes.
pub fn estimate(
    machine: &Machine,
    settings: &Settings,
    physics: &Physics,
    operation: Operation,
    bytes: u64,
    launch: Launch,
) -> Option<Estimate> {
    let constants = constants(settings.minor.unwrap_or(NEWEST));
    let newest = nccl::constants::constants(NEWEST);
    let run = Run { machine, physics, constants: &constants, newest: &newest, operation, bytes: bytes as f64 };
    let started = match launch {
        Launch::ProcessPerGpu => physics.launch_process,
        Launch::OneProcess => physics.launch_each * f64::from(machine.gpus_per_node - 1),
        Launch::PyTorch => physics.launch_pytorch,
        Launch::Xla => physics.launch_xla,
    };
    let (choice, cost) = match operation {
        Operation::AllToAll | Operation::Send | Operation::Recv | Operation::Gather | Operation::Scatter => {
            let choice = Choice {
                algorithm: Algorithm::Ring,
                protocol: Protocol::Simple,
                channels: 1,
                latency_us: 0.0,
                gbytes: 0.0,
            };
            (choice, run.transfer())
        }
        Operation::AllReduce
        | Operation::AllGather
        | Operation::ReduceScatter
        | Operation::Broadcast
        | Operation::Reduce => {
            let table = tuner::table(machine, settings, operation);
            let choice = tuner::choose(&table, machine, operation, bytes)?;
            (choice, run.collective(&choice))
        }
        _ => return None,
    };
    let latency = started + cost.latency;
    let limit = if latency > cost.transfer { Limit::Latency } else { cost.link };
    let us = latency + cost.transfer;
    let channels = if cost.is_transfer { channels::ring(machine, &constants).count } else { choice.channels };
    let uses = run.uses(&cost, us, blocks::of_kernel(channels, &choice, machine, settings, bytes));
    Some(Estimate { us, choice, limit, uses })
}

/// Parts of a time, us.
struct Cost {
    latency: f64,
    transfer: f64,
    link: Limit,
    /// Whether it is send and receive, which choose nothing.
    is_transfer: bool,
}

struct Run<'a> {
    machine: &'a Machine,
    physics: &'a Physics,
    /// Of the version that chooses.
    constants: &'a Constants,
    /// Of the version whose figures are nearest to the hardware's.
    newest: &'a Constants,
    operation: Operation,
    bytes: f64,
}

impl Run<'_> {
    fn ranks(&self) -> f64 {
        f64::from(self.machine.ranks())
    }

    fn log_nodes(&self) -> f64 {
        f64::from(self.machine.nodes.max(1).ilog2())
    }

    /// What one GPU sends to the others of its node, GB/s.
    fn inside(&self) -> (f64, Limit) {
        let machine = self.machine;
        if machine.shape == Shape::None {
            return (machine.pcie_gbytes * self.physics.pcie_rate, Limit::Pcie);
        }
        let volta = machine.capability == 70 && machine.shape == Shape::Direct;
        (machine.nvlink_gbytes() * if volta { self.physics.volta_links } else { 1.0 }, Limit::NvLink)
    }

    /// What the NICs of a node send, GB/s; without end on one node.
    fn between(&self) -> f64 {
        if self.machine.nodes == 1 {
            return f64::INFINITY;
        }
        let reached = match self.machine.transport {
            Transport::Gib => self.physics.gib_rate,
            Transport::Efa1 => self.physics.efa1_rate,
            Transport::Tcpx => self.physics.tcpx_rate,
            Transport::Sockets => self.physics.sockets_rate,
            _ => 1.0,
        };
        let staged = if self.machine.gpudirect { 1.0 } else { self.physics.staged_rate };
        let most = if self.machine.transport == Transport::Sockets { self.physics.sockets_most } else { f64::INFINITY };
        (self.machine.network_gbytes() * reached * staged).min(most)
    }

    /// What the transport adds to a hop between nodes, us.
    fn hop(&self, protocol: Protocol) -> f64 {
        let physics = self.physics;
        let once = match self.machine.transport {
            Transport::InfiniBand => physics.infiniband_hop,
            Transport::Roce | Transport::Gib => physics.roce_hop,
            Transport::Efa1 => physics.efa1_hop,
            Transport::Efa2 => physics.efa2_hop,
            Transport::Efa3 => physics.efa3_hop,
            Transport::Tcpx => physics.tcpx_hop,
            Transport::Tcpxo => physics.tcpxo_hop,
            Transport::Slingshot => physics.slingshot_hop,
            Transport::Sockets => physics.sockets_hop,
        };
        // Simple sends the flag after the data.
        if protocol == Protocol::Simple { 2.0 * once } else { once }
    }

    fn network_step(&self, column: usize, protocol: Protocol) -> f64 {
        self.constants.network[column][protocol as usize] * self.physics.network_step + self.hop(protocol)
    }

    fn inside_step(&self, column: usize, protocol: Protocol) -> f64 {
        if self.machine.shape == Shape::None {
            return self.constants.pcie[column][protocol as usize] * self.physics.pcie_step;
        }
        let factor = if column == 0 { self.physics.tree_step } else { self.physics.ring_step };
        self.constants.nvlink[column][protocol as usize] * factor
    }

    /// LL's cap of a node, which is what its small stores reach.
    fn ll_cap(&self) -> f64 {
        self.constants.ll[self.machine.generation() as usize][0]
    }

    /// What it takes of a GPU. Each byte that a rank passes on is read and written once, and where it is summed up, the rank's own is
    /// read, too.
    fn uses(&self, cost: &Cost, us: f64, blocks: u32) -> Uses {
        let ranks = self.ranks();
        let passed = self.bytes * (ranks - 1.0) / ranks;
        let memory_bytes = match self.operation {
            Operation::AllReduce => 5.0 * passed,
            Operation::ReduceScatter | Operation::Reduce => 3.0 * passed,
            _ => 2.0 * passed,
        };
        let busy = cost.transfer / us;
        let (inside, between) = (self.inside().0, self.between());
        let (inside, between) = match cost.link {
            // The same bytes go over both.
            Limit::Network => (busy * (between / inside).min(1.0), busy),
            _ => (busy, if between.is_finite() { busy * (inside / between).min(1.0) } else { 0.0 }),
        };
        Uses { blocks, memory_bytes, inside, between }
    }

    fn collective(&self, choice: &Choice) -> Cost {
        match choice.algorithm {
            Algorithm::Ring => self.ring(choice),
            Algorithm::Tree => self.tree(choice),
            Algorithm::Nvls | Algorithm::NvlsTree => self.nvls(choice),
        }
    }

    fn ring(&self, choice: &Choice) -> Cost {
        let protocol = choice.protocol;
        let (steps, hops) = tuner::steps(self.operation, self.machine);
        let latency = self.constants.base[1][protocol as usize]
            + (steps - hops) * self.inside_step(1, protocol)
            + hops * self.network_step(1, protocol);
        let (inside, kind) = self.inside();
        let between = self.between();
        let mut rate = inside.min(between);
        if self.machine.ranks() == 2 && self.machine.shape != Shape::None {
            rate *= self.physics.pair;
        }
        let carried = match protocol {
            Protocol::Ll => (rate * self.physics.ring_ll).min(self.ll_cap()),
            Protocol::Ll128 => rate * self.physics.ring_ll128,
            Protocol::Simple => rate * self.physics.ring_simple,
        };
        let channels = f64::from(choice.channels);
        let fill = if protocol == Protocol::Simple {
            let slice = SLICE_BYTES.min(self.bytes / (channels * self.ranks()) / 2.0);
            self.physics.ring_fill * slice * channels / (1000.0 * rate) * self.ranks().min(8.0) / 8.0
        } else {
            0.0
        };
        let transfer = self.bytes * steps / self.ranks() / (1000.0 * carried) + fill;
        Cost { latency, transfer, link: if between < inside { Limit::Network } else { kind }, is_transfer: false }
    }

    fn tree(&self, choice: &Choice) -> Cost {
        let protocol = choice.protocol;
        let levels = f64::from(self.machine.gpus_per_node - 1);
        let latency = self.constants.base[0][protocol as usize]
            + 2.0 * (levels * self.inside_step(0, protocol) + self.log_nodes() * self.network_step(0, protocol));
        let (inside, kind) = self.inside();
        // Both trees go up and down the same chain of links; each has half of the data.
        let inside = inside / 2.0;
        let between = self.trees_between();
        let rate = inside.min(between);
        let carried = match protocol {
            Protocol::Ll => (rate * self.physics.tree_ll).min(self.ll_cap() / 2.0),
            Protocol::Ll128 => rate * self.physics.tree_ll128,
            Protocol::Simple => rate * self.physics.tree_simple,
        };
        let channels = f64::from(choice.channels);
        let fill = if protocol == Protocol::Simple {
            let chunk = TREE_CHUNK_BYTES.min(self.bytes / channels / 8.0);
            self.physics.tree_fill * 2.0 * (levels + self.log_nodes()) * chunk * channels / (1000.0 * rate)
        } else {
            0.0
        };
        let transfer = self.bytes / (1000.0 * carried) + fill;
        Cost { latency, transfer, link: if between < inside { Limit::Network } else { kind }, is_transfer: false }
    }

    /// Bytes of an all-reduce over its time, as far as the NICs go: with two nodes each sends its data once, with more a
    /// node is a leaf of one tree and has two children in the other.
    fn trees_between(&self) -> f64 {
        if self.machine.nodes > 2 { self.between() / 2.0 } else { self.between() }
    }

    fn nvls(&self, choice: &Choice) -> Cost {
        let physics = self.physics;
        let ranks = self.ranks();
        let local = f64::from(self.machine.gpus_per_node);
        let inside = self.nvls_inside() * physics.nvls;
        let tree = choice.algorithm == Algorithm::NvlsTree;
        let (rate, link, latency) = if tree {
            let pair = self.machine.nodes == 2;
            let between =
                self.trees_between() * if pair { physics.nvls_tree_network } else { physics.nvls_trees_network };
            let link = if between < inside { Limit::Network } else { Limit::NvLink };
            let step = self.constants.nvls_tree_network + self.hop(Protocol::Simple);
            (inside.min(between), link, self.constants.nvls + 2.0 * self.log_nodes() * step)
        } else if self.operation == Operation::AllReduce {
            (inside, Limit::NvLink, self.constants.nvls)
        } else {
            // One half of an all-reduce, over a link that carries one direction of it.
            let (steps, _) = tuner::steps(self.operation, self.machine);
            (
                self.inside().0 * self.constants.nvls_efficiency[self.row()] * ranks / steps,
                Limit::NvLink,
                self.constants.nvls,
            )
        };
        let fill = physics.nvls_fill * local * self.bytes / (self.bytes + physics.nvls_half * local);
        let fill = fill * if tree { physics.nvls_tree_fill } else { 1.0 };
        Cost { latency, transfer: self.bytes / (1000.0 * rate) + fill, link, is_transfer: false }
    }

    fn row(&self) -> usize {
        self.machine.generation() as usize
    }

    /// Bytes of an all-reduce over its time that the switch reaches inside a node, GB/s. Every head costs each GPU one part more
    /// than it has peers, whatever rates the search of a version tries.
    fn nvls_inside(&self) -> f64 {
        let heads = f64::from(channels::nvls_heads(self.machine));
        let efficiency = self.newest.nvls_efficiency[self.row().max(Generation::Hopper as usize)];
        let rate = self.machine.nvlink_gbytes() / (heads + 1.0);
        // The tuner counts a bus: an all-reduce moves 2 (n - 1) / n of its bytes over it.
        rate * efficiency * (heads - 1.0) * self.ranks() / (self.ranks() - 1.0)
    }

    /// Send and receive between pairs; all-to-all is one such pair for each two ranks.
    fn transfer(&self) -> Cost {
        let physics = self.physics;
        let ranks = self.ranks();
        let local = f64::from(self.machine.gpus_per_node);
        let all = self.operation == Operation::AllToAll;
        let (inside, kind) = self.inside();
        let inside = inside * physics.transfer;
        let share = if all { (ranks - 1.0) / ranks } else { 1.0 };
        let within = self.bytes * share / (1000.0 * inside);
        if self.machine.nodes == 1 {
            return Cost { latency: physics.launch_transfer, transfer: within, link: kind, is_transfer: true };
        }
        let out = if all { (ranks - local) / ranks } else { 1.0 };
        let between = self.bytes * out / (1000.0 * self.between() / local);
        let latency = physics.launch_transfer + self.network_step(1, Protocol::Simple);
        let link = if between > within { Limit::Network } else { kind };
        Cost { latency, transfer: between.max(within), link, is_transfer: true }
    }
}
