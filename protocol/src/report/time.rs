//! What the GPUs did on the modeled clock (`clock: modeled`), by step of the program. All times are modeled: nothing is measured.

use serde::{Deserialize, Serialize};

use crate::ids::Rank;

report! {
    /// The steps of all ranks. Shares are from 0 to 1, over all ranks and all steps but the first of each; absent without such a step,
    /// so that a check of them fails.
    RunTime {
        /// Whether times on all of these models of GPU were compared with measurements; else they are outside of what was calibrated.
        is_calibrated: bool,
        /// The length of a step: the median of each rank's steps after its first, of the rank where that is longest, us.
        #[serde(skip_serializing_if = "Option::is_none")]
        step_us: Option<f64>,
        /// The rank whose steps take longest, not counting when it only waited for other ranks.
        #[serde(skip_serializing_if = "Option::is_none")]
        slowest_rank: Option<Rank>,
        /// When anything ran on the GPU.
        #[serde(skip_serializing_if = "Option::is_none")]
        busy_share: Option<f64>,
        /// When collectives ran and nothing else did.
        #[serde(skip_serializing_if = "Option::is_none")]
        exposed_share: Option<f64>,
        /// The part of the collectives' time in which kernels or copies ran, too; absent without a collective.
        #[serde(skip_serializing_if = "Option::is_none")]
        overlap_share: Option<f64>,
        /// When the GPU had nothing to do because the host had not submitted it yet.
        #[serde(skip_serializing_if = "Option::is_none")]
        launch_bound_share: Option<f64>,
        /// When the GPU only waited for other ranks in a collective.
        #[serde(skip_serializing_if = "Option::is_none")]
        collective_wait_share: Option<f64>,
        /// The steps of each rank and device, by rank and then device; empty if no step was marked.
        steps: Vec<DeviceSteps>,
    }

    /// The steps of one device of a process.
    DeviceSteps {
        /// Its global rank, where the launcher said it.
        rank: Option<Rank>,
        /// The device's ordinal in its process.
        device: u32,
        /// What marked the steps.
        marked_by: StepMark,
        /// How many.
        count: u64,
        /// More, which are not counted: the process had recorded as many pieces of work as it keeps.
        #[serde(default)]
        dropped: u64,
        /// The first one, which also has what the program does before it.
        first: StepTime,
        /// The last one.
        last: StepTime,
        /// Of the steps after the first, the one with the median duration (the shorter of two); absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        median: Option<StepTime>,
        /// The shortest of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shortest: Option<StepTime>,
        /// The longest of them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        longest: Option<StepTime>,
        /// The sums over them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<StepTime>,
        /// What the end of step 2 waited for, back to its beginning: the longest segments, the longest first. Empty if it is not
        /// known without a doubt, as in a process with several devices.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        critical_path: Vec<PathSegment>,
        /// The collectives of step 2 that were exposed longest, the longest first. Empty if not all that ran in it is known.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        exposed: Vec<ExposedCollective>,
    }

    /// Collectives with one size and line that ran while nothing else did, added up.
    ExposedCollective {
        /// Which: `all_gather`.
        operation: String,
        /// Bytes of one, as nccl-tests count them.
        bytes: u64,
        /// The name of the file whose line submitted it, without directories, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// The line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        /// How many.
        count: u64,
        /// How long they ran and nothing else did.
        time_ns: u64,
    }

    /// Segments of a critical path with one name and line, added up.
    PathSegment {
        /// What took the time.
        kind: PathKind,
        /// The kernel or operation; for the host, the wait and the gap, the one that came after; empty if nothing did.
        name: String,
        /// The name of the file whose line submitted it, without directories, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// The line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
        /// Of a wait, the global rank that was ready last.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awaited: Option<Rank>,
        /// How many.
        count: u64,
        /// How long.
        time_ns: u64,
        /// The part of the step, 0 to 1.
        share: f64,
    }

    /// What ran in one step of a device.
    StepSample {
        /// Which step, from 1.
        step: u64,
        /// When it began.
        begin_ns: u64,
        /// When it ended.
        end_ns: u64,
        /// Whether all that ran in it is listed: the list has room for 4096 pieces of a process.
        is_whole: bool,
        /// What ran, by beginning.
        pieces: Vec<SamplePiece>,
    }

    /// A kernel, copy or collective.
    SamplePiece {
        /// Its name.
        name: String,
        /// What it is.
        kind: PathKind,
        /// Its stream: a number in the order in which streams of the sample had work.
        stream: u64,
        /// When it began.
        begin_ns: u64,
        /// When it ended.
        end_ns: u64,
        /// Bytes of a copy; of a collective, as nccl-tests count them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The name of the file whose line submitted it, without directories, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        /// The line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    }

    /// From when to when a step of a device lasted.
    StepWindow {
        /// When it began.
        begin_ns: u64,
        /// When it ended.
        end_ns: u64,
    }

    /// One step of a device. It ends when the host has come to its mark and all that was submitted before has ended.
    StepTime {
        /// Which, from 1; 0 for a sum.
        step: u64,
        /// From the end of the step before, or from the beginning of an NVTX range, to its end.
        duration_ns: u64,
        /// When anything ran.
        busy_ns: u64,
        /// When kernels, copies or memsets ran.
        computing_ns: u64,
        /// When collectives ran.
        communication_ns: u64,
        /// When collectives ran and nothing else did.
        exposed_communication_ns: u64,
        /// When nothing ran, and a collective waited for other ranks.
        collective_wait_ns: u64,
        /// When nothing ran or waited because the host had not submitted what came next.
        launch_bound_ns: u64,
        /// When the host waited for the device.
        host_wait_ns: u64,
        /// The part of `communication_ns` that was not exposed, 0 to 1; absent without communication.
        #[serde(skip_serializing_if = "Option::is_none")]
        overlap_share: Option<f64>,
        /// `launch_bound_ns` by `duration_ns`; absent for an empty step.
        #[serde(skip_serializing_if = "Option::is_none")]
        launch_bound_share: Option<f64>,
    }
}

words! {
    /// What a part of a step was.
    PathKind {
        /// A kernel.
        Compute = "compute",
        /// A copy or memset.
        Copy = "copy",
        /// A collective, or sends and receives.
        Collective = "collective",
        /// A collective was ready, and other ranks were not.
        Wait = "wait",
        /// The host had not submitted it.
        Host = "host",
        /// From the end of a kernel to the beginning of the next one.
        Gap = "gap",
    }

    /// What marks the end of a step.
    StepMark {
        /// `step()` of torch.profiler.
        Profiler = "profiler",
        /// NVTX ranges named `step`.
        Nvtx = "nvtx",
        /// Steps of the first optimizer of PyTorch that made one.
        Optimizer = "optimizer",
    }
}
