//! GPU performance monitoring (GPM): two samples of counters, and the difference between them. Available on Hopper and later, on
//! boards for data centers and workstations.

use std::ffi::{CStr, c_uint};
use std::sync::Arc;

use abi::argument::Out;
use abi::handle::Handles;
use dataplane::lock::Mutex;
use protocol::profile::{Architecture, GpuProfile};

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::header::{GpmMetric, GpmMetrics, Versioned};
use super::model::Market;
use super::system::gpus;
use crate::device::state::energy::Work;
use crate::device::state::{meter, neighbors};

/// `NVML_GPM_METRICS_GET_VERSION` and `NVML_GPM_SUPPORT_VERSION`: unlike other versions, without the size.
const VERSION: c_uint = 1;
/// `NVML_GPM_METRIC_MAX` of CUDA 13.5; older headers have a shorter array.
const METRICS: c_uint = 477;

/// The counters of a GPU at a time (us).
#[derive(Clone, Copy, Debug)]
struct Counters {
    gpu: usize,
    at: u64,
    work: Work,
}

/// `nvmlGpmSample_t`: empty until taken.
#[derive(Default)]
struct GpmSample {
    counters: Mutex<Option<Counters>>,
}

static SAMPLES: Handles<GpmSample> = Handles::new(21);

/// "For Hopper or newer fully supported devices".
fn has_it(profile: &GpuProfile) -> bool {
    matches!(profile.architecture, Architecture::Hopper | Architecture::Blackwell)
        && matches!(Market::from_profile(profile), Market::DataCenter | Market::Workstation)
}

fn require(device: Handle) -> NvmlResult {
    if has_it(&device.gpu()?.profile) { Ok(()) } else { Err(NvmlError::NOT_SUPPORTED) }
}

#[doc(alias = "nvmlGpmQueryDeviceSupport")]
pub(crate) fn support(device: Handle, out: Out<Versioned>) -> NvmlResult {
    let value = u32::from(has_it(&device.gpu()?.profile));
    let version = out.get()?.version;
    if version != VERSION {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(Versioned { version, value })?)
}

pub(crate) fn allocate(out: Out<usize>) -> NvmlResult {
    gpus()?;
    out.required()?;
    Ok(out.set(SAMPLES.insert(Arc::new(GpmSample::default())))?)
}

pub(crate) fn free(sample: usize) -> NvmlResult {
    gpus()?;
    SAMPLES.remove(sample).map(drop).ok_or(NvmlError::INVALID_ARGUMENT)
}

#[doc(alias = "nvmlGpmSampleGet")]
pub(crate) fn take(device: Handle, sample: usize) -> NvmlResult {
    require(device)?;
    let sample = SAMPLES.get(sample).ok_or(NvmlError::INVALID_ARGUMENT)?;
    let at = meter::now();
    let work = neighbors::work(device.gpu()?, at).ok_or(NvmlError::NOT_SUPPORTED)?;
    *sample.counters.lock() = Some(Counters { gpu: device.index()?, at, work });
    Ok(())
}

/// No GPU is split into instances.
pub(crate) fn take_of_instance(device: Handle, _instance: c_uint, sample: usize) -> NvmlResult {
    device.gpu()?;
    SAMPLES.get(sample).ok_or(NvmlError::INVALID_ARGUMENT)?;
    Err(NvmlError::NOT_SUPPORTED)
}

/// Off, as always unless an administrator turns it on.
pub(crate) fn streaming(device: Handle, out: Out<c_uint>) -> NvmlResult {
    require(device)?;
    Ok(out.set(0)?)
}

pub(crate) fn set_streaming(device: Handle, state: c_uint) -> NvmlResult {
    require(device)?;
    Err(if state > 1 { NvmlError::INVALID_ARGUMENT } else { NvmlError::NO_PERMISSION })
}

/// The work between two samples of one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    microseconds: u64,
    work: Work,
}

impl Interval {
    /// `INVALID_ARGUMENT` unless both are of one GPU and the second is later.
    fn between(first: Counters, second: Counters) -> NvmlResult<Self> {
        if first.gpu != second.gpu || second.at <= first.at {
            return Err(NvmlError::INVALID_ARGUMENT);
        }
        let work = Work {
            active: second.work.active.saturating_sub(first.work.active),
            received: second.work.received.saturating_sub(first.work.received),
            sent: second.work.sent.saturating_sub(first.work.sent),
        };
        Ok(Self { microseconds: second.at - first.at, work })
    }

    /// Percentage of the time during which kernels ran.
    fn busy(self) -> f64 {
        (self.work.active as f64 * 100.0 / self.microseconds as f64).min(100.0)
    }

    fn mebibytes_per_second(self, bytes: u64) -> f64 {
        bytes as f64 / f64::from(1 << 20) / (self.microseconds as f64 / 1e6)
    }
}

const PERCENT: &CStr = c"%";
const RATE: &CStr = c"MiB/s";

/// Short name, long name, unit and value of a metric. `None` for metrics that depend on instructions (occupancy, pipes,
/// caches) or links, for which there are no counters here.
fn metric(id: c_uint, interval: Interval) -> Option<([&'static CStr; 3], f64)> {
    let Work { received, sent, .. } = interval.work;
    Some(match id {
        1 => ([c"GRACT", c"Graphics Engine Activity", PERCENT], interval.busy()),
        // Kernels are taken to fill the GPU, and to use its memory half of the time (docs/monitors.md).
        2 => ([c"SMUTL", c"SM Activity", PERCENT], interval.busy()),
        10 => ([c"DRAMUTL", c"DRAM Activity", PERCENT], interval.busy() / 2.0),
        20 => ([c"PCITX", c"PCIe Transmit", RATE], interval.mebibytes_per_second(sent)),
        21 => ([c"PCIRX", c"PCIe Receive", RATE], interval.mebibytes_per_second(received)),
        30..=37 => ([c"NVDEC", c"NVDEC Utilization", PERCENT], 0.0),
        40..=47 => ([c"NVJPG", c"NVJPG Utilization", PERCENT], 0.0),
        50..=51 => ([c"NVOFA", c"NVOFA Utilization", PERCENT], 0.0),
        166..=169 => ([c"NVENC", c"NVENC Utilization", PERCENT], 0.0),
        _ => return None,
    })
}

fn answer(id: c_uint, interval: Interval) -> GpmMetric {
    let failed = |error: NvmlError| GpmMetric { id, status: error.into(), value: 0.0, texts: [std::ptr::null(); 3] };
    if id == 0 || id >= METRICS {
        return failed(NvmlError::INVALID_ARGUMENT);
    }
    metric(id, interval).map_or_else(
        || failed(NvmlError::NOT_SUPPORTED),
        |(texts, value)| GpmMetric { id, status: 0, value, texts: texts.map(CStr::as_ptr) },
    )
}

fn counters(sample: usize) -> NvmlResult<Counters> {
    let sample = SAMPLES.get(sample).ok_or(NvmlError::INVALID_ARGUMENT)?;
    let counters = *sample.counters.lock();
    counters.ok_or(NvmlError::INVALID_ARGUMENT)
}

#[doc(alias = "nvmlGpmMetricsGet")]
pub(crate) fn metrics(out: Out<GpmMetrics>) -> NvmlResult {
    gpus()?;
    let asked = out.get()?;
    if asked.version != VERSION {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    if asked.count == 0 || asked.count > METRICS {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    let [first, second] = asked.samples;
    let interval = Interval::between(counters(first)?, counters(second)?)?;
    let list = out.0.wrapping_byte_add(std::mem::offset_of!(GpmMetrics, metrics)).cast::<GpmMetric>();
    for index in 0..asked.count as usize {
        let entry = Out(list.wrapping_add(index));
        entry.set(answer(entry.get()?.id, interval))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters_at(at: u64, active: u64, received: u64, sent: u64) -> Counters {
        Counters { gpu: 0, at, work: Work { active, received, sent } }
    }

    #[test]
    fn half_a_second_with_kernels_for_a_fifth_of_it() {
        let interval = Interval::between(
            counters_at(1_000_000, 7, 10, 0),
            counters_at(1_500_000, 100_007, 10 + (8 << 20), 1 << 20),
        )
        .unwrap();
        let values: Vec<_> =
            [1, 2, 10, 20, 21, 35].map(|id| answer(id, interval)).iter().map(|m| (m.status, m.value)).collect();
        assert_eq!(values, [(0, 20.0), (0, 20.0), (0, 10.0), (0, 2.0), (0, 16.0), (0, 0.0)]);
        let statuses = [0, 3, 5, 60, METRICS].map(|id| answer(id, interval).status);
        assert_eq!(statuses, [2, 3, 3, 3, 2]);
    }

    #[test]
    fn several_processes_are_busy_no_longer_than_the_time() {
        assert_eq!(Interval::between(counters_at(0, 0, 0, 0), counters_at(10, 20, 0, 0)).unwrap().busy(), 100.0);
    }

    #[test]
    fn samples_are_of_one_gpu_and_in_order() {
        let other = Counters { gpu: 1, ..counters_at(20, 0, 0, 0) };
        assert_eq!(Interval::between(counters_at(10, 0, 0, 0), other), Err(NvmlError::INVALID_ARGUMENT));
        assert_eq!(
            Interval::between(counters_at(10, 0, 0, 0), counters_at(10, 0, 0, 0)),
            Err(NvmlError::INVALID_ARGUMENT)
        );
    }

    #[test]
    fn hopper_and_later_have_it_on_boards_for_data_centers_and_workstations() {
        let has = |id| has_it(protocol::profile::builtin(id).unwrap());
        assert_eq!(["a100", "l40s", "h100", "b200", "rtx4090"].map(has), [false, false, true, true, false]);
    }
}
