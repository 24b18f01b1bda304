//! Attributes of kernels, whose images we do not read.

use std::ffi::{c_int, c_uint};

use crate::boundary::gap;
use crate::boundary::library::Library;
use crate::device::error::{CudaError, CudaResult};
use crate::device::kernel::Kernel;
use crate::device::{Device, attribute};

/// The answer for a kernel whose image we do not read: a middling register count and no static shared memory.
pub(crate) const ASSUMED_REGISTERS: c_int = 32;

/// The attributes of a kernel as far as they follow from the device. Registers and static memory are assumed: a gap.
pub(crate) fn assumed(kernel: &Kernel, library: Library, call: &'static str) -> CudaResult {
    let detail =
        format!("{}: assumes {ASSUMED_REGISTERS} registers, no static memory", kernel.name().to_string_lossy());
    Ok(gap::tolerate(library, call, &detail)?)
}

/// One attribute, as `cuFuncGetAttribute` and `cuKernelGetAttribute` number them.
pub(crate) fn one_attribute(device: &Device, kernel: &Kernel, number: c_uint, call: &'static str) -> CudaResult<c_int> {
    assumed(kernel, Library::CudaDriver, call)?;
    let (major, minor) = attribute::capability(device);
    Ok(match number {
        0 => 1024,
        1..=3 | 7 | 10..=15 => 0,
        4 => ASSUMED_REGISTERS,
        5 | 6 => major * 10 + minor,
        8 => device.gpu.profile.limits.shared_memory_per_block as c_int,
        9 => -1,
        _ => return Err(CudaError::INVALID_VALUE),
    })
}

/// Setting an attribute changes nothing that is computed; a value that the device could not keep is refused.
pub(crate) fn check_attribute(device: &Device, number: c_uint, value: c_int) -> CudaResult {
    let limit = device.gpu.profile.limits.shared_memory_per_block_optin as c_int;
    let fits = match number {
        8 => (0..=limit).contains(&value),
        9 => (-1..=100).contains(&value),
        10..=15 => value >= 0,
        _ => false,
    };
    if fits { Ok(()) } else { Err(CudaError::INVALID_VALUE) }
}
