//! Sensor values: temperature, power, clocks, fans, utilization. All of them are computed by [`model`] from the use of the GPU
//! by processes.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;
use protocol::gpu_event::Throttle;

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use super::header::{self, Temperature, ThermalSensor, ThermalSettings, Utilization, Versioned, ViolationTime};
use super::model::{self, Load, Market};
use crate::device::state::{health, meter, neighbors};
use protocol::gpu::Gpu;

/// The load of the GPU from all processes of the machine.
pub(crate) fn load(gpu: &Gpu) -> Load {
    let holders = neighbors::holders(gpu);
    let busy = holders.iter().map(|holder| holder.busy).sum::<u32>().min(100);
    Load { busy, is_used: !holders.is_empty(), throttle: health::condition(gpu).throttle() }
}

/// `value`, or NotSupported if the GPU does not have it.
fn put(out: Out<c_uint>, value: Option<u32>) -> NvmlResult {
    out.required()?;
    Ok(out.set(value.ok_or(NvmlError::NOT_SUPPORTED)?)?)
}

pub(crate) fn utilization(device: Handle, out: Out<Utilization>) -> NvmlResult {
    let load = load(device.gpu()?);
    Ok(out.set(Utilization { gpu: load.busy, memory: model::memory_busy(load) })?)
}

/// Utilization of video engines, which no program uses, and the sampling period (microseconds).
pub(crate) fn video_utilization(device: Handle, percent: Out<c_uint>, period: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    period.required()?;
    percent.set(0)?;
    Ok(period.set(1_000_000)?)
}

/// Encoder sessions: none. (sessions, frames per second, latency)
pub(crate) fn no_sessions(device: Handle, count: Out<c_uint>, rate: Out<c_uint>, latency: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    count.set(0)?;
    rate.set(0)?;
    Ok(latency.set(0)?)
}

/// The same for frame buffer capture (`nvmlFBCStats_t`).
pub(crate) fn no_captures(device: Handle, out: Out<[c_uint; 3]>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set([0; 3])?)
}

pub(crate) fn power(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    put(out, model::power_mw(&gpu.profile, load(gpu)))
}

/// Millijoules since a process of the machine first used or queried the GPU.
pub(super) fn energy_mj(gpu: &Gpu) -> NvmlResult<u64> {
    let spent = neighbors::spent(gpu).ok_or(NvmlError::NOT_SUPPORTED)?;
    model::energy_mj(&gpu.profile, spent).ok_or(NvmlError::NOT_SUPPORTED)
}

pub(crate) fn energy(device: Handle, out: Out<u64>) -> NvmlResult {
    let gpu = device.gpu()?;
    out.required()?;
    Ok(out.set(energy_mj(gpu)?)?)
}

pub(crate) fn power_limits(device: Handle, least: Out<c_uint>, most: Out<c_uint>) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    most.required()?;
    put(least, (profile.power.limit_mw > 0).then(|| model::least_limit_mw(profile)))?;
    Ok(most.set(profile.power.max_limit_mw)?)
}

/// Power management is on if there is a limit.
pub(crate) fn power_management(device: Handle, out: Out<c_uint>) -> NvmlResult {
    put(out, (device.gpu()?.profile.power.limit_mw > 0).then_some(1))
}

/// `NVML_POWER_SOURCE_AC`
pub(crate) fn power_source(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

fn current_temperature(device: Handle, sensor: c_int) -> NvmlResult<u32> {
    let gpu = device.gpu()?;
    if sensor != 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    Ok(model::temperature(load(gpu)))
}

pub(crate) fn temperature(device: Handle, sensor: c_int, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(current_temperature(device, sensor)?)?)
}

pub(crate) fn temperature_versioned(device: Handle, out: Out<Temperature>) -> NvmlResult {
    let asked = out.get()?;
    if asked.version != header::version::<Temperature>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    let temperature = current_temperature(device, asked.sensor)? as c_int;
    Ok(out.set(Temperature { temperature, ..asked })?)
}

/// Degrees below the maximum operating temperature; negative above it.
pub(crate) fn margin(device: Handle, out: Out<Versioned>) -> NvmlResult {
    let gpu = device.gpu()?;
    let version = out.get()?.version;
    if version != header::version::<Versioned>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    if !model::has_margin(&gpu.profile) {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    let left = model::OPERATING as i32 - model::temperature(load(gpu)) as i32;
    Ok(out.set(Versioned { version, value: left as u32 })?)
}

/// `NVML_TEMPERATURE_THRESHOLD_*`: shutdown, slowdown, memory, GPU; the others are for notebooks.
pub(crate) fn threshold(device: Handle, which: c_int, out: Out<c_uint>) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    let value = match which {
        0 => Some(model::SHUTDOWN),
        1 => Some(model::SLOWDOWN),
        2 => model::has_hbm(profile).then_some(model::MEMORY_OPERATING),
        3 => Some(model::OPERATING),
        4..=7 => None,
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    put(out, value)
}

/// The one sensor, of the GPU itself (`NVML_THERMAL_CONTROLLER_GPU_INTERNAL`, `NVML_THERMAL_TARGET_GPU`).
pub(crate) fn thermal_settings(device: Handle, sensor: c_uint, out: Out<ThermalSettings>) -> NvmlResult {
    // 15 is all sensors.
    if sensor != 0 && sensor != 15 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    let current = current_temperature(device, 0)? as c_int;
    let only = ThermalSensor { controller: 1, least: 0, most: model::SHUTDOWN as c_int, current, target: 1 };
    Ok(out.set(ThermalSettings { count: 1, sensors: [only, ThermalSensor::default(), ThermalSensor::default()] })?)
}

/// Percent; `fan` is the only one.
pub(crate) fn fan_speed(device: Handle, fan: c_uint, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    let speed = model::fan(&gpu.profile, load(gpu));
    if speed.is_some() && fan != 0 {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    put(out, speed)
}

/// Boards without a fan have 0.
pub(crate) fn fan_count(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    Ok(out.set(u32::from(model::fan(profile, Load::default()).is_some()))?)
}

pub(crate) fn fan_limits(device: Handle, least: Out<c_uint>, most: Out<c_uint>) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    most.required()?;
    put(least, model::fan(profile, Load::default()))?;
    Ok(most.set(100)?)
}

pub(crate) fn performance_state(device: Handle, out: Out<c_int>) -> NvmlResult {
    let gpu = device.gpu()?;
    Ok(out.set(model::performance_state(&gpu.profile, load(gpu)) as c_int)?)
}

/// The performance states of the GPU, followed by `NVML_PSTATE_UNKNOWN`.
///
/// # Safety
/// `list` has room for `bytes` bytes.
pub(crate) unsafe fn performance_states(device: Handle, list: *mut c_int, bytes: c_uint) -> NvmlResult {
    const UNKNOWN: c_int = 32;
    let profile = &device.gpu()?.profile;
    if list.is_null() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    let idle = model::performance_state(profile, Load::default()) as c_int;
    let states = if idle == 0 { vec![0] } else { vec![0, idle] };
    for slot in 0..bytes as usize / size_of::<c_int>() {
        // SAFETY: the caller vouches for so many entries.
        unsafe { list.add(slot).write_unaligned(states.get(slot).copied().unwrap_or(UNKNOWN)) };
    }
    Ok(())
}

/// Current clock, MHz. `NVML_CLOCK_*` is 0 graphics, 1 SM, 2 memory, 3 video; profiles have no data on the last.
fn clock_now(gpu: &Gpu, which: c_int) -> NvmlResult<u32> {
    match which {
        0 | 1 => Ok(model::sm_clock(&gpu.profile, load(gpu))),
        2 => Ok(model::memory_clock(&gpu.profile, load(gpu))),
        3 => Err(NvmlError::NOT_SUPPORTED),
        _ => Err(NvmlError::INVALID_ARGUMENT),
    }
}

/// MHz that applications get: the highest, if the board lets applications choose.
fn clock_of_applications(gpu: &Gpu, which: c_int) -> NvmlResult<u32> {
    match which {
        0..=2 if Market::from_profile(&gpu.profile) != Market::DataCenter => Err(NvmlError::NOT_SUPPORTED),
        0 | 1 => Ok(gpu.profile.clocks.sm_mhz),
        2 => Ok(gpu.profile.clocks.memory_mhz),
        3 => Err(NvmlError::NOT_SUPPORTED),
        _ => Err(NvmlError::INVALID_ARGUMENT),
    }
}

pub(crate) fn clock(device: Handle, which: c_int, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(clock_now(device.gpu()?, which)?)?)
}

pub(crate) fn clock_by_id(device: Handle, which: c_int, id: c_int, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    Ok(out.set(match id {
        0 => clock_now(gpu, which)?,
        1..=3 => clock_of_applications(gpu, which)?,
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    })?)
}

pub(crate) fn applications_clock(device: Handle, which: c_int, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(clock_of_applications(device.gpu()?, which)?)?)
}

/// MHz allowed in a performance state.
pub(crate) fn clocks_of_state(
    device: Handle,
    which: c_int,
    state: c_int,
    least: Out<c_uint>,
    most: Out<c_uint>,
) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    let idle = Load::default();
    let used = Load { is_used: true, ..idle };
    let lowest_state = model::performance_state(profile, idle) as c_int;
    if state != 0 && state != lowest_state {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    let highest = if state == 0 { used } else { idle };
    let (low, high) = match which {
        0 | 1 => (model::sm_clock(profile, idle), model::sm_clock(profile, highest)),
        2 => (model::memory_clock(profile, highest), model::memory_clock(profile, highest)),
        3 => return Err(NvmlError::NOT_SUPPORTED),
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    least.set(low)?;
    Ok(most.set(high)?)
}

/// Returns a list; `count` holds the capacity and receives the number.
///
/// # Safety
/// `list` has room for `count` entries.
unsafe fn list(values: &[u32], count: Out<c_uint>, list: *mut c_uint) -> NvmlResult {
    let room = count.get()? as usize;
    count.set(values.len() as c_uint)?;
    if list.is_null() || room < values.len() {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    for (index, value) in values.iter().enumerate() {
        // SAFETY: the caller vouches for `room` entries, and `index` is below it.
        unsafe { list.add(index).write_unaligned(*value) };
    }
    Ok(())
}

/// # Safety
/// As [`list`].
pub(crate) unsafe fn memory_clocks(device: Handle, count: Out<c_uint>, clocks: *mut c_uint) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    // SAFETY: passed on.
    unsafe { list(&model::memory_clocks(profile), count, clocks) }
}

/// # Safety
/// As [`list`].
pub(crate) unsafe fn graphics_clocks(
    device: Handle,
    memory: c_uint,
    count: Out<c_uint>,
    clocks: *mut c_uint,
) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    if !model::memory_clocks(profile).contains(&memory) {
        return Err(NvmlError::NOT_FOUND);
    }
    // SAFETY: passed on.
    unsafe { list(&model::sm_clocks(profile), count, clocks) }
}

/// `nvmlClocksEventReasonGpuIdle` without a context, and the reason for which the case throttles the clocks.
pub(crate) fn clock_reasons(device: Handle, out: Out<u64>) -> NvmlResult {
    Ok(out.set(model::clock_reasons(load(device.gpu()?)))?)
}

/// All reasons up to 0x100, except the one about displays.
pub(crate) fn supported_clock_reasons(device: Handle, out: Out<u64>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0xff)?)
}

/// Nanoseconds for which the current throttling has lasted, if its reason is one of `reasons`.
pub(super) fn slowed_ns(gpu: &Gpu, reasons: &[Throttle]) -> u64 {
    let since = health::condition(gpu).throttle.filter(|(throttle, _)| reasons.contains(throttle));
    since.map_or(0, |(_, at)| meter::now().saturating_sub(at) * 1000)
}

/// The throttling reasons for an `NVML_PERF_POLICY_*`: power (0), heat (1), the board's limit on power (3).
pub(super) fn reasons_of_policy(which: c_int) -> &'static [Throttle] {
    match which {
        0 => &[Throttle::PowerCap],
        1 => &[Throttle::Thermal, Throttle::SwThermal],
        3 => &[Throttle::PowerBrake],
        _ => &[],
    }
}

/// How long (ns) a reason has kept the clocks low. `NVML_PERF_POLICY_*` up to 11.
pub(crate) fn violation(device: Handle, which: c_int, out: Out<ViolationTime>) -> NvmlResult {
    let gpu = device.gpu()?;
    if !matches!(which, 0..=5 | 10 | 11) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    let violation = slowed_ns(gpu, reasons_of_policy(which));
    Ok(out.set(ViolationTime { reference: meter::now(), violation })?)
}

/// KB/s over PCIe in the last second: 0 is what the GPU sends, 1 what it receives.
pub(crate) fn pcie_throughput(device: Handle, which: c_int, out: Out<c_uint>) -> NvmlResult {
    let holders = neighbors::holders(device.gpu()?);
    let bytes: u64 = match which {
        0 => holders.iter().map(|holder| holder.traffic.1).sum(),
        1 => holders.iter().map(|holder| holder.traffic.0).sum(),
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    Ok(out.set((bytes / 1024).min(u64::from(u32::MAX)) as c_uint)?)
}
