//! NCCL's tuner: a latency and a rate for each pair of algorithm and protocol, and the pair that it expects to be fastest.
//!
//! Source: NVIDIA/nccl, `src/graph/tuning.cc` (formulas in own words). Its time is a means to choose; see [`crate::physics`].

use protocol::datatype::Operation;

use crate::machine::{Generation, Machine, Shape, Transport};
use crate::nccl::channels::{self, Channels};
use crate::nccl::constants::{Constants, NEWEST, TREE_CORRECTION, constants};
use crate::nccl::settings::Settings;

/// How ranks are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Two trees that share the data.
    Tree,
    /// Rings.
    Ring,
    /// Reduction and multicast in the NVSwitch.
    Nvls,
    /// The same in each node, with trees between them.
    NvlsTree,
}

impl Algorithm {
    /// As NCCL writes them.
    pub const NAMES: [&str; 7] = ["Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"];

    /// As NCCL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tree => "Tree",
            Self::Ring => "Ring",
            Self::Nvls => "NVLS",
            Self::NvlsTree => "NVLSTree",
        }
    }
}

/// How data and flags travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// 4 bytes of data with 4 bytes of flag.
    Ll,
    /// 120 bytes of data with 8 bytes of flag.
    Ll128,
    /// Data, then a flag.
    Simple,
}

impl Protocol {
    /// As NCCL writes them.
    pub const NAMES: [&str; 3] = ["LL", "LL128", "Simple"];
    /// All, in the order of NCCL's tables.
    pub const ALL: [Self; 3] = [Self::Ll, Self::Ll128, Self::Simple];

    /// As NCCL writes it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// One pair of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// How ranks are joined.
    pub algorithm: Algorithm,
    /// How data travels.
    pub protocol: Protocol,
    /// Channels that carry it.
    pub channels: u32,
    /// Latency in NCCL's table, us.
    pub latency_us: f64,
    /// Rate in NCCL's table: bytes of the operation over its time, GB/s.
    pub gbytes: f64,
}

/// The table of a communicator of all ranks of `machine`: every pair that NCCL would consider for `operation`.
pub fn table(machine: &Machine, settings: &Settings, operation: Operation) -> Vec<Choice> {
    let constants = constants(settings.minor.unwrap_or(NEWEST));
    let tuner = Tuner { machine, settings, constants: &constants, operation };
    let mut choices = tuner.rings_and_trees();
    choices.extend(tuner.nvls());
    choices.retain(|choice| settings.allows_algorithm(operation, choice.algorithm));
    choices
}

/// The pair that NCCL picks for `bytes`; `None` if its settings leave none.
pub fn choose(table: &[Choice], machine: &Machine, operation: Operation, bytes: u64) -> Option<Choice> {
    let time = |choice: &Choice| {
        let mut gbytes = choice.gbytes;
        let mut latency = choice.latency_us;
        let all_reduce = operation == Operation::AllReduce;
        let index = (bytes.max(64) / 64).ilog2() as usize;
        if choice.algorithm == Algorithm::Tree
            && all_reduce
            && let Some(factor) = TREE_CORRECTION[choice.protocol as usize].get(index)
        {
            gbytes *= factor;
        }
        let share = bytes / u64::from((choice.channels * machine.ranks()).max(1));
        let plateau = choice.algorithm == Algorithm::Ring && choice.protocol == Protocol::Simple && machine.nodes > 1;
        if plateau && all_reduce && share >= 64 {
            latency *= if machine.capability >= 80 { 1.4 } else { 1.9 };
        }
        latency + bytes as f64 / (1000.0 * gbytes)
    };
    table.iter().min_by(|a, b| time(a).total_cmp(&time(b))).copied()
}

struct Tuner<'a> {
    machine: &'a Machine,
    settings: &'a Settings,
    constants: &'a Constants,
    operation: Operation,
}

impl Tuner<'_> {
    /// Column of the tables by nodes.
    fn column(&self) -> usize {
        self.machine.nodes.clamp(1, 3) as usize - 1
    }

    fn row(&self) -> usize {
        self.machine.generation() as usize
    }

    fn log_nodes(&self) -> f64 {
        f64::from(self.machine.nodes.max(1).ilog2())
    }

    /// Steps of a ring: (all, of which over the network).
    fn steps(&self) -> (f64, f64) {
        steps(self.operation, self.machine)
    }

    fn rings_and_trees(&self) -> Vec<Choice> {
        let ring = channels::ring(self.machine, self.constants);
        let tree = channels::tree(self.machine, self.constants);
        let mut choices = Vec::new();
        for protocol in Protocol::ALL.into_iter().filter(|protocol| self.is_on(*protocol)) {
            choices.push(self.ring(&ring, protocol));
            if self.operation == Operation::AllReduce {
                choices.push(self.tree(&tree, protocol));
            }
        }
        for choice in &mut choices {
            let most = self.settings.max_channels.unwrap_or(u32::MAX).max(1);
            choice.channels = choice.channels.max(self.settings.min_channels.unwrap_or(1)).min(most);
        }
        choices
    }

    fn is_on(&self, protocol: Protocol) -> bool {
        let machine = self.machine;
        let on = match (protocol, machine.nodes > 1) {
            (Protocol::Simple, _) => true,
            // Plugins whose writes may arrive out of order carry Simple alone.
            (_, true) if matches!(machine.transport, Transport::Efa1 | Transport::Tcpx) => false,
            (Protocol::Ll, _) => true,
            (Protocol::Ll128, between) => {
                let ordered = !matches!(machine.transport, Transport::Slingshot | Transport::Sockets);
                machine.shape != Shape::None && machine.capability >= 70 && (!between || ordered)
            }
        };
        on && self.settings.allows_protocol(self.operation, protocol)
    }

    fn per_channel(&self, channels: &Channels) -> f64 {
        if self.machine.nodes <= 2 { channels.intra } else { channels.inter }
    }

    /// Cap of LL. Over nodes NCCL takes the row by the CPU's vendor, not by the GPU.
    fn ll_cap(&self) -> f64 {
        let row = match (self.machine.nodes, self.machine.amd) {
            (1, _) => self.row(),
            (_, true) => Generation::Ampere as usize,
            (_, false) => Generation::Volta as usize,
        };
        self.constants.ll[row][self.column()]
    }

    /// Latency of a step over the network, us.
    fn network(&self, column: usize, protocol: Protocol) -> f64 {
        let column = if self.machine.gpus_per_node == 1 { 0 } else { column };
        let plugin = plugin_latency(self.machine.transport);
        let once_more = if protocol == Protocol::Simple { plugin } else { 0.0 };
        self.constants.network[column][protocol as usize] + plugin + once_more
    }

    fn inside(&self, column: usize, protocol: Protocol) -> f64 {
        let table = if self.machine.shape == Shape::None { &self.constants.pcie } else { &self.constants.nvlink };
        table[column][protocol as usize]
    }

    /// What posting an operation to the network costs, us.
    fn posting(&self, protocol: Protocol) -> f64 {
        if self.machine.nodes == 1 || !self.constants.posting {
            return 0.0;
        }
        let once = if self.machine.amd { 2.0 } else { 1.0 };
        if protocol == Protocol::Simple { 3.0 * once } else { once }
    }

    fn ring(&self, channels: &Channels, protocol: Protocol) -> Choice {
        let bus = f64::from(channels.count) * self.per_channel(channels);
        let rate = match protocol {
            Protocol::Ll => self.ll_cap().min(bus * self.constants.ring_ll),
            Protocol::Ll128 => {
                (0.92 * bus).min(f64::from(channels.count) * self.constants.ring_ll128[self.row()][self.column()])
            }
            Protocol::Simple => bus,
        };
        let (steps, over_network) = self.steps();
        let ranks = f64::from(self.machine.ranks());
        let latency = match self.operation {
            Operation::Broadcast | Operation::Reduce => self.pipeline(protocol),
            _ => {
                let step = self.inside(1, protocol).max(self.posting(protocol));
                (steps - over_network) * step + over_network * self.network(1, protocol)
            }
        };
        Choice {
            algorithm: Algorithm::Ring,
            protocol,
            channels: channels.count,
            latency_us: self.constants.base[1][protocol as usize] + latency,
            gbytes: rate * ranks / steps.max(1.0),
        }
    }

    /// What NCCL takes for the latency of a broadcast or reduce, us: one step if all rings have the same order, which those of a switch,
    /// a bus and a network have, else one for each rank, which for Simple is a tree's.
    fn pipeline(&self, protocol: Protocol) -> f64 {
        let machine = self.machine;
        let step = |column: usize| match machine.nodes {
            1 => self.inside(column, protocol),
            _ => self.constants.network[column][protocol as usize],
        };
        if machine.shape != Shape::Direct {
            return step(1);
        }
        f64::from(machine.ranks()) * step(if protocol == Protocol::Simple { 0 } else { 1 })
    }

    fn tree(&self, channels: &Channels, protocol: Protocol) -> Choice {
        let count = f64::from(channels.count);
        let (row, column) = (self.row(), self.column());
        let bus = count * self.per_channel(channels);
        // A node of one GPU has no chain that could be balanced.
        let plain = if self.machine.gpus_per_node == 1 { 0.85 } else { 1.0 };
        let mut rate = plain * (0.92 * bus).min(count * self.constants.tree[row][column]);
        match protocol {
            Protocol::Ll => rate = (rate / 3.8).min(self.ll_cap()),
            Protocol::Ll128 => {
                rate *= if self.machine.nodes == 1 { 7.0 / 9.0 } else { 120.0 / 128.0 };
                rate = rate.min(count * self.constants.tree_ll128[row][column]);
            }
            Protocol::Simple => {}
        }
        let inside = f64::from(self.machine.gpus_per_node - 1) * self.inside(0, protocol);
        Choice {
            algorithm: Algorithm::Tree,
            protocol,
            channels: channels.count,
            latency_us: self.constants.base[0][protocol as usize]
                + 2.0 * (inside + self.log_nodes() * self.network(0, protocol)),
            gbytes: rate / 2.0,
        }
    }

    /// NVLS on one node, NVLSTree on several.
    fn nvls(&self) -> Option<Choice> {
        let all_reduce = self.operation == Operation::AllReduce;
        let gathers = matches!(self.operation, Operation::AllGather | Operation::ReduceScatter);
        let one_node = self.machine.nodes == 1;
        let possible = all_reduce || (gathers && one_node && self.constants.nvls_gathers);
        let channels = channels::nvls(self.machine, self.constants)?;
        if !possible || channels.count < 2 || !self.settings.allows_protocol(self.operation, Protocol::Simple) {
            return None;
        }
        let (row, column) = (self.row(), self.column());
        let heads = f64::from(channels.count);
        let local = f64::from(self.machine.gpus_per_node);
        let efficiency = self.constants.nvls_efficiency[row];
        // Since 2.28 a rate of the bus, which becomes bytes of the operation over its time; older rules give that directly.
        let gbytes = match self.constants.nvls_tree {
            Some(caps) => {
                let share = if all_reduce { 2.0 } else { (local - 1.0) / local };
                let intra = channels.intra * efficiency * (heads - 1.0) / heads * share;
                let inter = channels.inter * if self.machine.nodes <= 2 { 2.0 } else { 1.0 };
                let bus = if one_node { intra } else { intra.min(inter).min(caps[row][column]) };
                let (steps, _) = self.steps();
                bus * heads * f64::from(self.machine.ranks()) / steps.max(1.0)
            }
            None if one_node => channels.intra * efficiency * heads,
            None => {
                let inter = if self.machine.nodes > 2 { channels.inter / 2.0 } else { channels.inter };
                channels.intra.min(inter) * efficiency * heads
            }
        };
        let plugin = 2.0 * plugin_latency(self.machine.transport);
        let trees = 2.0 * self.log_nodes() * (self.constants.nvls_tree_network + plugin);
        Some(Choice {
            algorithm: if one_node { Algorithm::Nvls } else { Algorithm::NvlsTree },
            protocol: Protocol::Simple,
            channels: channels.count,
            latency_us: self.constants.nvls + if one_node { 0.0 } else { trees },
            gbytes,
        })
    }
}

/// Steps of a ring for an operation: (all, of which over the network).
pub(crate) fn steps(operation: Operation, machine: &Machine) -> (f64, f64) {
    let ranks = f64::from(machine.ranks());
    let hops = f64::from(machine.nodes.saturating_sub(1));
    match operation {
        Operation::AllReduce => (2.0 * (ranks - 1.0), 2.0 * hops),
        Operation::AllGather | Operation::ReduceScatter => (ranks - 1.0, hops),
        _ => (ranks, hops),
    }
}

/// What a plugin reports to NCCL as its latency, us (aws-ofi-nccl: 75 for p4d and p5, 35 for p5en and p6).
fn plugin_latency(transport: Transport) -> f64 {
    match transport {
        Transport::Efa1 | Transport::Efa2 => 75.0,
        Transport::Efa3 => 35.0,
        _ => 0.0,
    }
}
