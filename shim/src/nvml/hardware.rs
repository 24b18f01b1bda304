//! Hardware properties of a GPU, from its profile: cores, bus, clocks, power limits, modes.

use std::ffi::{c_int, c_uint};

use super::device::Handle;
use super::error::{NvmlError, NvmlResult};
use crate::device::state::health;
use abi::argument::Out;
use protocol::gpu::Gpu;

/// FP32 lanes of one SM (CUDA C++ Programming Guide, "Arithmetic Instructions").
fn cores_per_sm(capability: &str) -> Option<u32> {
    match capability {
        "5.0" | "5.2" | "5.3" | "6.1" | "6.2" | "8.6" | "8.7" | "8.9" | "9.0" => Some(128),
        "6.0" | "7.0" | "7.2" | "7.5" | "8.0" => Some(64),
        newer if newer.starts_with("10.") || newer.starts_with("11.") || newer.starts_with("12.") => Some(128),
        _ => None,
    }
}

pub(crate) fn core_count(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let profile = &device.gpu()?.profile;
    let cores = cores_per_sm(&profile.compute_capability).ok_or(NvmlError::NOT_SUPPORTED)?;
    Ok(out.set(profile.sm_count * cores)?)
}

/// Every GPU is on its own board, whose id is its position.
pub(crate) fn board_id(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let (domain, bus) = device.gpu()?.pci();
    Ok(out.set(domain << 16 | bus << 8)?)
}

pub(crate) fn same_board(device: Handle, other: Handle, out: Out<c_int>) -> NvmlResult {
    Ok(out.set(c_int::from(device.index()? == other.index()?))?)
}

pub(crate) fn memory_bus_width(device: Handle, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(device.gpu()?.profile.memory.bus_width_bits)?)
}

pub(crate) fn pcie_generation(device: Handle, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(device.gpu()?.profile.pcie.generation)?)
}

pub(crate) fn pcie_width(device: Handle, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(device.gpu()?.profile.pcie.lanes)?)
}

/// `NVML_PCIE_LINK_MAX_SPEED_*`, numbered like the generations.
pub(crate) fn pcie_max_speed(device: Handle, out: Out<c_uint>) -> NvmlResult {
    pcie_generation(device, out)
}

/// The link's current generation: the highest, unless the case slowed it down.
pub(crate) fn current_pcie_generation(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    Ok(out.set(generation_now(gpu))?)
}

fn generation_now(gpu: &Gpu) -> u32 {
    health::condition(gpu).pcie_generation.unwrap_or(gpu.profile.pcie.generation)
}

/// As [`current_pcie_generation`].
pub(crate) fn current_pcie_width(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    Ok(out.set(health::condition(gpu).pcie_width.unwrap_or(gpu.profile.pcie.lanes))?)
}

/// Megabits per second of one lane.
pub(crate) fn pcie_speed(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let generation = generation_now(device.gpu()?);
    let speeds = [2500, 5000, 8000, 16000, 32000, 64000];
    let index = generation.checked_sub(1).ok_or(NvmlError::NOT_SUPPORTED)?;
    Ok(out.set(*speeds.get(index as usize).ok_or(NvmlError::NOT_SUPPORTED)?)?)
}

/// The checksums are right, on boards, which have an infoROM; modules that are a part of a system have none.
pub(crate) fn validate_inforom(device: Handle) -> NvmlResult {
    if device.gpu()?.profile.memory.unified { Err(NvmlError::NOT_SUPPORTED) } else { Ok(()) }
}

/// Highest clock, MHz; `NVML_CLOCK_*` is 0 graphics, 1 SM, 2 memory, 3 video.
pub(crate) fn max_clock(device: Handle, which: c_int, out: Out<c_uint>) -> NvmlResult {
    let clocks = &device.gpu()?.profile.clocks;
    Ok(out.set(match which {
        0 | 1 => clocks.sm_mhz,
        2 => clocks.memory_mhz,
        3 => return Err(NvmlError::NOT_SUPPORTED),
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    })?)
}

/// The power limit in force, which is never changed.
pub(crate) fn power_limit(device: Handle, out: Out<c_uint>) -> NvmlResult {
    match device.gpu()?.profile.power.limit_mw {
        0 => Err(NvmlError::NOT_SUPPORTED),
        limit => Ok(out.set(limit)?),
    }
}

/// `NVML_COMPUTEMODE_DEFAULT`: several processes may use the GPU.
pub(crate) fn compute_mode(device: Handle, out: Out<c_int>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

/// `NVML_GPU_VIRTUALIZATION_MODE_NONE`.
pub(crate) fn virtualization_mode(device: Handle, out: Out<c_int>) -> NvmlResult {
    compute_mode(device, out)
}

/// MIG is off, now and after a reset, if the model supports it at all.
pub(crate) fn mig_mode(device: Handle, current: Out<c_uint>, pending: Out<c_uint>) -> NvmlResult {
    if !matches!(device.gpu()?.profile.compute_capability.as_str(), "8.0" | "9.0" | "10.0" | "10.3") {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    current.required()?;
    pending.set(0)?;
    Ok(current.set(0)?)
}

pub(crate) fn is_mig_handle(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

/// No monitor is attached.
pub(crate) fn no_display(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

/// The N of `/dev/nvidiaN`, if it had one.
pub(crate) fn minor_number(device: Handle, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(device.gpu()?.local)?)
}

/// `NVML_BUS_TYPE_PCIE`.
pub(crate) fn bus_type(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(2)?)
}

#[cfg(test)]
mod tests {
    use super::cores_per_sm;

    #[test]
    fn core_counts_are_those_of_the_data_sheets() {
        // A100 6912, H100 SXM 16896, V100 5120, T4 2560, RTX 4090 16384, P100 3584: SMs x cores of the white papers.
        for (capability, sms, cores) in [
            ("8.0", 108, 6912),
            ("9.0", 132, 16896),
            ("7.0", 80, 5120),
            ("7.5", 40, 2560),
            ("8.9", 128, 16384),
            ("6.0", 56, 3584),
        ] {
            assert_eq!(cores_per_sm(capability).unwrap() * sms, cores);
        }
    }

    #[test]
    fn every_built_in_profile_has_a_core_count() {
        for profile in protocol::profile::all() {
            assert!(cores_per_sm(&profile.compute_capability).is_some(), "{}", profile.compute_capability);
        }
    }
}
