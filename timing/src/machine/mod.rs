//! A machine as the time model sees it: the links of a node and the network between nodes; [`presets()`] by name, or that of a
//! cluster file.

mod cluster;
mod presets;

pub use cluster::{of_cluster, of_node};
pub use presets::{gpu, preset, presets};

/// Generation of a GPU as NCCL's tables have it, from its compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Before 8.0.
    Volta,
    /// 8.x.
    Ampere,
    /// 9.x.
    Hopper,
    /// 10.0 and later.
    Blackwell,
}

/// How the GPUs of one node are connected by NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Not at all: PCIe carries everything.
    None,
    /// Links from GPU to GPU, as in a DGX-1 or on a bridge.
    Direct,
    /// An NVSwitch that cannot multicast (A100 and before).
    Switch,
    /// An NVSwitch that reduces and multicasts (NVLink SHARP, H100 and later).
    MulticastSwitch,
}

/// What carries bytes between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// InfiniBand verbs.
    InfiniBand,
    /// RoCE through NCCL's own verbs transport.
    Roce,
    /// Google's gIB plugin over RoCE.
    Gib,
    /// AWS's EFA through aws-ofi-nccl; first generation (p3dn, p4d).
    Efa1,
    /// Second generation (p5).
    Efa2,
    /// Third generation and later (p5en, p6).
    Efa3,
    /// GPUDirect-TCPX (a3-highgpu).
    Tcpx,
    /// GPUDirect-TCPXO (a3-megagpu).
    Tcpxo,
    /// Slingshot 11 through aws-ofi-nccl.
    Slingshot,
    /// Plain TCP sockets.
    Sockets,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::InfiniBand,
        Self::Roce,
        Self::Gib,
        Self::Efa1,
        Self::Efa2,
        Self::Efa3,
        Self::Tcpx,
        Self::Tcpxo,
        Self::Slingshot,
        Self::Sockets,
    ];

    /// The word of cluster files.
    pub fn name(self) -> &'static str {
        match self {
            Self::InfiniBand => "infiniband",
            Self::Roce => "roce",
            Self::Gib => "gib",
            Self::Efa1 => "efa1",
            Self::Efa2 => "efa2",
            Self::Efa3 => "efa3",
            Self::Tcpx => "tcpx",
            Self::Tcpxo => "tcpxo",
            Self::Slingshot => "slingshot",
            Self::Sockets => "sockets",
        }
    }

    /// The transport with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name() == name)
    }
}

/// A cluster of equal nodes, as far as times depend on it. Rates are in GB/s (10^9 bytes), per direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name of the preset, or of what was described.
    pub name: String,
    /// Compute capability times 10: 80, 90, 100.
    pub capability: u32,
    /// Nodes that take part.
    pub nodes: u32,
    /// GPUs of each node that take part.
    pub gpus_per_node: u32,
    /// How NVLink connects them.
    pub shape: Shape,
    /// NVLinks of each GPU.
    pub links: u32,
    /// GB/s of one NVLink as NCCL counts it (`topo.h`): V100 and A100 20, H100 20.6, B200 40.1.
    pub link_gbytes: f64,
    /// GB/s of a GPU's PCIe slot as NCCL counts it: generation 3 x16 12, 4 24, 5 48.
    pub pcie_gbytes: f64,
    /// NICs of each node.
    pub nics: u32,
    /// Gbit/s of one NIC.
    pub nic_gbps: f64,
    /// What carries bytes between nodes.
    pub transport: Transport,
    /// Whether a NIC reads and writes the GPU's memory itself (GPUDirect RDMA).
    pub gpudirect: bool,
    /// Whether the CPUs are AMD's, which NCCL's constants tell apart.
    pub amd: bool,
}

impl Machine {
    /// The same machine with another number of nodes and of GPUs in each.
    #[must_use]
    pub fn taking(mut self, nodes: u32, gpus_per_node: u32) -> Self {
        self.nodes = nodes;
        self.gpus_per_node = gpus_per_node;
        self
    }

    /// Ranks, one per GPU.
    pub fn ranks(&self) -> u32 {
        self.nodes * self.gpus_per_node
    }

    /// Whether the model was compared with measurements on this generation of GPU.
    pub fn is_calibrated(&self) -> bool {
        cluster::is_calibrated(self.capability)
    }

    /// Row of NCCL's tables.
    pub fn generation(&self) -> Generation {
        match self.capability {
            0..80 => Generation::Volta,
            80..90 => Generation::Ampere,
            90..100 => Generation::Hopper,
            _ => Generation::Blackwell,
        }
    }

    /// NVLinks of one GPU; 0 where PCIe carries everything.
    pub fn nvlinks(&self) -> u32 {
        if self.shape == Shape::None { 0 } else { self.links }
    }

    /// NVLink of one GPU, GB/s as NCCL counts it; 0 without.
    pub fn nvlink_gbytes(&self) -> f64 {
        f64::from(self.nvlinks()) * self.link_gbytes
    }

    /// What all NICs of one node carry, GB/s at line rate.
    pub fn network_gbytes(&self) -> f64 {
        f64::from(self.nics) * self.nic_gbps / 8.0
    }

    /// Whether the NVLinks of more GPUs than a node holds meet in one switch (GB200 NVL72).
    pub fn is_rack(&self) -> bool {
        self.shape == Shape::MulticastSwitch && self.gpus_per_node > 16
    }
}
