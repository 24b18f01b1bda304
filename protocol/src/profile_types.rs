/// A GPU model as its data sheet and NVIDIA's tables describe it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuProfile {
    /// Short name used in cluster files, `a100`.
    pub id: String,
    /// Name as `nvidia-smi` and `cudaGetDeviceProperties` report it, "NVIDIA A100-SXM4-80GB".
    pub name: String,
    /// `maxwell`, `pascal`, `volta`, `turing`, `ampere`, `ada`, `hopper` or `blackwell`.
    pub architecture: Architecture,
    /// Compute capability, "8.0".
    pub compute_capability: String,
    /// Where the numbers come from.
    pub status: ProfileStatus,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Device memory.
    pub memory: MemoryProfile,
    /// Clocks, MHz.
    pub clocks: ClockProfile,
    /// Per-SM and per-block limits (CUDA C Programming Guide, "Technical Specifications per Compute Capability").
    pub limits: LimitProfile,
    /// Power, mW.
    pub power: PowerProfile,
    /// Host interface.
    pub pcie: PcieProfile,
    /// GPU-to-GPU links, if the model has them.
    pub nvlink: Option<NvlinkProfile>,
    /// Datatypes that its tensor or CUDA cores compute in: fp64 fp32 tf32 fp16 bf16 fp8 fp4 int8 int4.
    pub supported_types: Vec<String>,
    /// The machine's driver, `13.0` or `580.95.05:13.0` (see `driver::Driver`); by default the newest known.
    #[serde(default)]
    pub driver: Option<String>,
}

/// GPU generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are NVIDIA's")]
pub enum Architecture {
    Maxwell,
    Pascal,
    Volta,
    Turing,
    Ampere,
    Ada,
    Hopper,
    Blackwell,
}

/// Where a profile's numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileStatus {
    /// Data sheets and NVIDIA's tables.
    Reference,
    /// Read from a real card.
    Measured,
    /// No such card exists: made up for tests.
    Synthetic,
}

/// Device memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryProfile {
    /// Capacity, bytes.
    pub bytes: u64,
    /// True if CPU and GPU share it (Jetson, GB10).
    pub unified: bool,
    /// Interface width, bits.
    pub bus_width_bits: u32,
    /// L2 cache, bytes.
    pub l2_bytes: u64,
}

/// Clocks, MHz.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockProfile {
    /// Highest SM clock (boost).
    pub sm_mhz: u32,
    /// Memory clock as CUDA reports it (half the effective rate for DDR types).
    pub memory_mhz: u32,
}

/// Limits that follow from the compute capability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitProfile {
    /// Shared memory per SM, bytes.
    pub shared_memory_per_sm: u32,
    /// Shared memory per block without opt-in, bytes.
    pub shared_memory_per_block: u32,
    /// Shared memory per block with opt-in, bytes.
    pub shared_memory_per_block_optin: u32,
    /// 32-bit registers per SM.
    pub registers_per_sm: u32,
    /// 32-bit registers per block.
    pub registers_per_block: u32,
    /// Resident threads per SM.
    pub max_threads_per_sm: u32,
    /// Resident blocks per SM.
    pub max_blocks_per_sm: u32,
}

/// Power, mW.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerProfile {
    /// Default limit (TDP).
    pub limit_mw: u32,
    /// Highest limit that may be set.
    pub max_limit_mw: u32,
}

/// Host interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PcieProfile {
    /// PCI Express generation.
    pub generation: u32,
    /// Lanes.
    pub lanes: u32,
    /// PCI device id (vendor 0x10de is implied), 0 if unknown.
    pub device_id: u32,
}

/// GPU-to-GPU links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvlinkProfile {
    /// NVLink generation.
    pub generation: u32,
    /// Number of links.
    pub links: u32,
    /// Bandwidth of one link in one direction, GB/s.
    pub gigabytes_per_second_per_link: f64,
}
