//! The device report: what one process did with its simulated GPUs. Written by the shim, read by ftest.
//!
//! Everything outside [`Measured`] is a function of workload and configuration. FakeGPU's field names are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::file_access::FileAccess;
use crate::finding::FindingKind;
use crate::ids::CommunicatorId;
use crate::profile::GpuProfile;
use crate::report::{DeviceSteps, StepSample, StepWindow};
use crate::sampling::Pass;
use crate::site::CallSite;
use crate::transfer::Transfer;
use crate::upstream::Upstream;

/// Version of this layout.
pub const REPORT_VERSION: u32 = 1;

/// Suffix that makes the report's path that of a symbolic link. The link's target is a sentence about the first thing that the
/// operating system refused to the process, which is not the program's mistake. A link needs neither a descriptor nor room in a
/// file; there may be none left.
pub const REFUSED: &str = ".refused";
/// The same, for why the report could not be written. If not even a link could be made, there is an empty or
/// half-written file.
pub const UNWRITTEN: &str = ".unwritten";

/// A line of the journal (`FTEST_JOURNAL`): a gap, written the moment a process met it for the first time. Unlike a report, it
/// survives `_exit`, `exec` and SIGKILL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The process.
    pub pid: u32,
    /// Its global rank, where it has one.
    pub rank: Option<u32>,
    /// As [`GapEntry::library`].
    pub library: String,
    /// As [`GapEntry::name`].
    pub name: String,
    /// As [`GapEntry::detail`].
    pub detail: String,
}

/// A line of the journal: a finding, written the moment the process made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalFinding {
    /// The process.
    pub pid: u32,
    /// Its global rank, where it has one.
    pub rank: Option<u32>,
    /// What kind.
    pub kind: FindingKind,
    /// What happened, in one sentence that is the same in every run: no addresses, no times.
    pub sentence: String,
    /// The communicator, of findings about one that formed.
    pub comm_id: Option<CommunicatorId>,
    /// The function that was called, or `exit`.
    pub operation: String,
    /// Where a Python program called it.
    #[serde(default)]
    pub site: Option<CallSite>,
    /// Wall clock when it was made, us since 1970.
    #[serde(default)]
    pub made_at_us: Option<u64>,
}

/// A line of the journal: what the program had not released when it exited normally with 0. It is counted after all exit handlers
/// and destructors of the program have run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The process.
    pub pid: u32,
    /// Its global rank, where it has one.
    pub rank: Option<u32>,
    /// Allocations of device memory.
    pub allocations: u64,
    /// Their size as asked for, bytes.
    pub bytes: u64,
    /// Allocations of pinned host memory (`cudaMallocHost`).
    #[serde(default)]
    pub pinned: u64,
    /// Their size as asked for, bytes.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// Streams.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// NCCL communicators.
    pub communicators: u64,
}

/// Any line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum JournalLine {
    /// A gap.
    Gap(JournalEntry),
    /// A finding.
    Finding(JournalFinding),
    /// What was left.
    Left(Left),
    /// A pass over a dataset.
    Pass(Pass),
    /// One end of a send and recv.
    Transfer(Transfer),
    /// The gradient of a tensor that an all_reduce changed.
    Upstream(Upstream),
    /// An access to a file.
    File(FileAccess),
    /// A relation has changed something in a program.
    Change(Change),
}

/// A relation has changed something in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The process.
    pub changed_pid: u32,
}

/// What a device did on the modeled clock (`clock: modeled`). All times are modeled, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceTime {
    /// Whether times on this model of GPU were compared with measurements; else they are outside of what was calibrated.
    pub is_calibrated: bool,
    /// Kernels, copies, memsets and collectives.
    pub works: u64,
    /// When any of them ran.
    pub busy_ns: u64,
    /// When kernels or copies ran.
    pub computing_ns: u64,
    /// When collectives ran.
    pub communication_ns: u64,
    /// When collectives ran and nothing else did.
    pub exposed_communication_ns: u64,
    /// Kernels about which the model knows nothing but that they ran: each counts as the shortest one. Names, and how often.
    #[serde(default)]
    pub unknown: BTreeMap<String, u64>,
    /// Its steps; absent if the program marked none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<DeviceSteps>,
    /// What ran in its second step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<StepSample>,
    /// When its first 1000 steps were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_windows: Vec<StepWindow>,
}

/// One process's report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceReport {
    /// [`REPORT_VERSION`].
    pub report_version: u32,
    /// `simulate`, `hybrid` (experimental).
    pub mode: String,
    /// `allow`, `warn` or `error`.
    pub unsupported_api_policy: String,
    /// `cpu`: PyTorch's operators computed on the CPU; `skip`: nothing was computed, and the contents of the GPU's memory mean
    /// nothing; `gpu`: everything ran on real GPUs (mode `hybrid`), whose products are not counted here.
    #[serde(default)]
    pub compute: String,
    /// The host's time on the modeled clock when the process ended, ns, if that told the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_time_ns: Option<u64>,
    /// PyTorch operators that computed, and how often.
    #[serde(default)]
    pub operators: BTreeMap<String, u64>,
    /// Copies from host memory to host memory.
    pub host_io: HostIo,
    /// Totals over the devices.
    pub summary: Summary,
    /// The devices that the process saw, in its order.
    pub devices: Vec<DeviceEntry>,
    /// What the program used and ftest does not do, sorted by library, name and detail.
    pub gaps: Vec<GapEntry>,
    /// The calls of the only rank that exists (`ftest exec --as-rank`), by communicator, operation and datatype.
    #[serde(default)]
    pub alone: Vec<AloneCalls>,
    /// What the host read though nobody had computed it, when nothing computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_reads: Vec<UnknownRead>,
    /// `clamp`, `managed`, `mapped_host` or `spill_cpu` (mode `hybrid`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oom_policy: Option<String>,
    /// What was behind the allocations (mode `hybrid`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hybrid_stats: Option<HybridStats>,
    /// The real GPUs behind the devices (mode `hybrid`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backing_gpus: Vec<BackingGpu>,
    /// What differs from run to run.
    pub measured: Measured,
}

impl DeviceReport {
    /// As it is in its file.
    ///
    /// # Errors
    /// None for a report: its keys are text.
    pub fn text(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// What was behind the allocations of a process in mode `hybrid`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HybridStats {
    /// Memory of the real GPU.
    pub real_alloc: Allocations,
    /// Managed memory: the policy's, and the program's own.
    pub managed_alloc: Allocations,
    /// Pinned memory of the host, by the policy.
    pub mapped_host_alloc: Allocations,
    /// Ordinary memory of the host, by the policy.
    pub spilled_alloc: Allocations,
    /// How often the real GPU had no room and the policy had.
    pub oom_fallback_count: u64,
}

/// Allocations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allocations {
    /// How many.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A real GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BackingGpu {
    /// Its index among the real ones.
    pub index: u32,
    /// Capacity, bytes.
    pub total_memory: u64,
    /// Bytes that this process held of it at exit, as asked for.
    pub used_memory: u64,
}

/// The host read memory of a GPU that holds no number of the program, because nothing computed (`FAKEGPU_COMPUTE=skip`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnknownRead {
    /// Who read it, where, and who would have computed it.
    pub sentence: String,
    /// True: floating-point numbers; false: sizes, conditions, or not known.
    pub is_real: bool,
    /// How often.
    pub count: u64,
}

/// Operations of a rank that is looked at by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AloneCalls {
    /// The communicator, in the order in which the process made them, from 1.
    pub communicator: u64,
    /// Its rank in it.
    pub rank: u32,
    /// Ranks that it would have.
    pub size: u32,
    /// `all_reduce`, ...
    pub operation: String,
    /// `float32`, ...
    pub datatype: String,
    /// Calls.
    pub calls: u64,
    /// Bytes according to NCCL's argument `count`: what one rank gives to or gets from one other.
    pub bytes: u64,
}

/// Copies between host buffers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostIo {
    /// Calls.
    pub memcpy_calls: u64,
    /// Bytes.
    pub memcpy_bytes: u64,
}

/// Calls and bytes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tally {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.bytes += other.bytes;
    }
}

/// Calls and floating-point operations of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
    /// Calls.
    pub calls: u64,
    /// Floating-point operations.
    pub flops: u64,
}

/// Bytes moved by CUDA calls, by direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Io {
    /// Host to device.
    pub h2d: Tally,
    /// Device to host.
    pub d2h: Tally,
    /// Within one device.
    pub d2d: Tally,
    /// Sent to another device of the process.
    pub peer_tx: Tally,
    /// Received from another device of the process.
    pub peer_rx: Tally,
    /// Filled.
    pub memset: Tally,
}

impl std::ops::AddAssign for Io {
    fn add_assign(&mut self, other: Self) {
        self.h2d += other.h2d;
        self.d2h += other.d2h;
        self.d2d += other.d2d;
        self.peer_tx += other.peer_tx;
        self.peer_rx += other.peer_rx;
        self.memset += other.memset;
    }
}

/// Matrix products that were computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compute {
    /// What cuBLAS multiplied.
    pub cublas_gemm: Work,
    /// What cuBLASLt multiplied.
    pub cublaslt_matmul: Work,
}

/// Totals over the devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Devices that the process saw.
    pub device_count: u64,
    /// Allocations, as asked for.
    pub alloc: Tally,
    /// Releases.
    pub free: Tally,
    /// Copies and fills.
    pub io: Io,
    /// Products.
    pub compute: Compute,
}

impl Summary {
    /// The totals over `devices`.
    pub fn from_devices(devices: &[DeviceEntry]) -> Self {
        let mut summary = Self { device_count: devices.len() as u64, ..Self::default() };
        for device in devices {
            summary.alloc += device.alloc;
            summary.free += device.free;
            summary.io += device.io;
        }
        summary
    }
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceEntry {
    /// Its ordinal for CUDA.
    pub index: u32,
    /// "NVIDIA A100-SXM4-80GB".
    pub name: String,
    /// "GPU-...".
    pub uuid: String,
    /// What it claims to be.
    pub gpu_profile: ProfileEntry,
    /// Capacity, bytes.
    pub total_memory: u64,
    /// Most bytes held at once, as asked for.
    pub used_memory_peak: u64,
    /// Bytes held at exit.
    pub used_memory_current: u64,
    /// Allocations, as asked for.
    pub alloc: Tally,
    /// Releases.
    pub free: Tally,
    /// Allocations for which there was no memory. A program may go on: PyTorch releases its reserve and tries again.
    #[serde(default)]
    pub refused: Tally,
    /// The most bytes of pages that were in use at once: what a GPU needs in addition to the context.
    #[serde(default)]
    pub pages_peak: u64,
    /// Copies and fills.
    pub io: Io,
    /// Products.
    pub compute: Compute,
    /// Launches, none of which was executed.
    pub kernel_launches: KernelLaunches,
    /// What it did on the modeled clock, if that told the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<DeviceTime>,
}

/// The profile in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProfileEntry {
    /// `a100`.
    pub id: String,
    /// `ampere`.
    pub architecture: String,
    /// "8.0".
    pub compute_capability: String,
    /// Datatypes that it computes in.
    pub supported_types: Vec<String>,
}

impl ProfileEntry {
    /// The report's part of a profile.
    pub fn from_profile(profile: &GpuProfile) -> Self {
        Self {
            id: profile.id.clone(),
            architecture: format!("{:?}", profile.architecture).to_lowercase(),
            compute_capability: profile.compute_capability.clone(),
            supported_types: profile.supported_types.clone(),
        }
    }
}

/// Kernel launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelLaunches {
    /// All of them.
    pub total: u64,
    /// By the kernel's mangled name; above 10 000 names the rest counts as `_other_`.
    pub by_name: BTreeMap<String, u64>,
}

/// A use of something that ftest does not do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GapEntry {
    /// `libcudart`, ...
    pub library: String,
    /// The function.
    pub name: String,
    /// A kernel's name, a datatype; empty where the name is enough.
    pub detail: String,
    /// Uses.
    pub count: u64,
}

/// What differs from run to run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Process id.
    pub pid: u32,
    /// `RANK`, where the launcher set it.
    pub rank: Option<u32>,
    /// The program's file.
    pub program: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_keep_fakegpus_names() {
        let report = DeviceReport { devices: vec![DeviceEntry::default()], ..DeviceReport::default() };
        let json = serde_json::to_value(&report).unwrap();
        for path in [
            "/host_io/memcpy_bytes",
            "/summary/io/peer_tx/bytes",
            "/summary/compute/cublas_gemm/flops",
            "/devices/0/gpu_profile/supported_types",
            "/devices/0/used_memory_peak",
            "/devices/0/kernel_launches/by_name",
        ] {
            assert!(json.pointer(path).is_some(), "{path}");
        }
    }
}
