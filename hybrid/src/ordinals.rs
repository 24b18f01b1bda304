//! Functions that the virtual devices answer themselves: `cuInit`, `cuDeviceGet` and the properties of a device.

use std::ffi::{c_char, c_int};

use protocol::gpu_attribute;

use crate::guard::{exports, put};
use crate::real::call;
use crate::trouble::{CudaResult, INVALID_DEVICE, INVALID_VALUE};
use crate::{device, report};

exports! {
    fn cuInit(flags: u32) = init;
    fn cuDeviceGetCount(out: *mut c_int) = count;
    fn cuDeviceGet(out: *mut c_int, ordinal: c_int) = get;
    fn cuDeviceGetName(out: *mut c_char, length: c_int, ordinal: c_int) = name;
    fn cuDeviceGetUuid(out: *mut [u8; 16], ordinal: c_int) = uuid;
    fn cuDeviceGetUuid_v2(out: *mut [u8; 16], ordinal: c_int) = uuid;
    fn cuDeviceTotalMem_v2(out: *mut usize, ordinal: c_int) = total_memory;
    fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, ordinal: c_int) = capability;
    fn cuDeviceGetAttribute(out: *mut c_int, number: c_int, ordinal: c_int) = attribute;
    fn cuDeviceGetByPCIBusId(out: *mut c_int, address: *const c_char) = by_pci_address;
}

unsafe fn init(flags: u32) -> CudaResult {
    device::init(flags)?;
    report::used();
    Ok(())
}

unsafe fn count(out: *mut c_int) -> CudaResult {
    // SAFETY: promised by the caller.
    unsafe { put(out, device::machine()?.devices.len() as c_int) }
}

unsafe fn get(out: *mut c_int, ordinal: c_int) -> CudaResult {
    // SAFETY: promised by the caller.
    unsafe { put(out, device::get(ordinal)?.ordinal) }
}

unsafe fn name(out: *mut c_char, length: c_int, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    let room = usize::try_from(length).ok().filter(|room| *room > 0 && !out.is_null()).ok_or(INVALID_VALUE)?;
    let name = device.gpu.profile.name.as_bytes();
    let kept = name.len().min(room - 1);
    // SAFETY: `out` has `length` bytes, promised by the caller.
    unsafe {
        out.copy_from_nonoverlapping(name.as_ptr().cast(), kept);
        out.add(kept).write(0);
    }
    Ok(())
}

unsafe fn uuid(out: *mut [u8; 16], ordinal: c_int) -> CudaResult {
    // SAFETY: promised by the caller.
    unsafe { put(out, device::get(ordinal)?.gpu.uuid()) }
}

unsafe fn total_memory(out: *mut usize, ordinal: c_int) -> CudaResult {
    // SAFETY: promised by the caller.
    unsafe { put(out, device::get(ordinal)?.total as usize) }
}

unsafe fn capability(major: *mut c_int, minor: *mut c_int, ordinal: c_int) -> CudaResult {
    let capability = device::get(ordinal)?.gpu.capability();
    // SAFETY: promised by the caller.
    unsafe {
        put(major, capability.0)?;
        put(minor, capability.1)
    }
}

/// Attributes of the model come from the profile; those of the driver, the system and the GPU's place come from the real device.
unsafe fn attribute(out: *mut c_int, number: c_int, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    call!(cuDeviceGetAttribute(out => *mut c_int, number => c_int, device.real => c_int))?;
    match gpu_attribute::of_model(device.gpu, number) {
        // SAFETY: promised by the caller.
        Some(value) => unsafe { put(out, value) },
        None => Ok(()),
    }
}

unsafe fn by_pci_address(out: *mut c_int, address: *const c_char) -> CudaResult {
    let mut real: c_int = 0;
    if out.is_null() || address.is_null() {
        return Err(INVALID_VALUE);
    }
    call!(cuDeviceGetByPCIBusId(&raw mut real => *mut c_int, address => *const c_char))?;
    let device = device::first_of(real).map_err(|_| INVALID_DEVICE)?;
    // SAFETY: promised by the caller.
    unsafe { put(out, device.ordinal) }
}
