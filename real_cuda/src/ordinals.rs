//! Functions that the virtual devices answer themselves: `cuInit`, `cuDeviceGet` and the properties of a device.

use std::ffi::{CStr, c_char, c_int};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use protocol::{gpu, gpu_attribute};

use crate::guard::exports;
use crate::real::call;
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
    fn cuDeviceGetPCIBusId(out: *mut c_char, length: c_int, ordinal: c_int) = pci_address;
    fn cuDeviceGetByPCIBusId(out: *mut c_int, address: *const c_char) = by_pci_address;
}

unsafe fn init(flags: u32) -> CudaResult {
    device::init(flags)?;
    report::used();
    Ok(())
}

unsafe fn count(out: *mut c_int) -> CudaResult {
    Ok(Out(out).set(device::machine()?.devices.len() as c_int)?)
}

unsafe fn get(out: *mut c_int, ordinal: c_int) -> CudaResult {
    Ok(Out(out).set(device::get(ordinal)?.ordinal)?)
}

unsafe fn name(out: *mut c_char, length: c_int, ordinal: c_int) -> CudaResult {
    // SAFETY: promised by the caller.
    unsafe { put_text(out, length, &device::get(ordinal)?.gpu.profile.name, 1) }
}

/// Writes as much of a text as there is room for; fewer than `least` bytes are an error.
unsafe fn put_text(out: *mut c_char, length: c_int, text: &str, least: usize) -> CudaResult {
    let room =
        usize::try_from(length).ok().filter(|room| *room >= least && !out.is_null()).ok_or(CudaError::INVALID_VALUE)?;
    let kept = text.len().min(room - 1);
    // SAFETY: `out` has `length` bytes, promised by the caller.
    unsafe {
        out.copy_from_nonoverlapping(text.as_ptr().cast(), kept);
        out.add(kept).write(0);
    }
    Ok(())
}

unsafe fn uuid(out: *mut [u8; 16], ordinal: c_int) -> CudaResult {
    Ok(Out(out).set(device::get(ordinal)?.gpu.uuid())?)
}

unsafe fn total_memory(out: *mut usize, ordinal: c_int) -> CudaResult {
    Ok(Out(out).set(device::get(ordinal)?.total as usize)?)
}

unsafe fn capability(major: *mut c_int, minor: *mut c_int, ordinal: c_int) -> CudaResult {
    let capability = device::get(ordinal)?.gpu.capability();
    Out(major).set(capability.0)?;
    Ok(Out(minor).set(capability.1)?)
}

/// Attributes of the model and the address come from the profile and the place; those of the driver and the system come from the
/// real device.
unsafe fn attribute(out: *mut c_int, number: c_int, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    call!(cuDeviceGetAttribute(out => *mut c_int, number => c_int, device.real => c_int))?;
    let own = match number {
        // `CU_DEVICE_ATTRIBUTE_PCI_BUS_ID`, `_PCI_DEVICE_ID`, `_PCI_DOMAIN_ID`
        33 => Some(device.gpu.pci().1 as c_int),
        34 => Some(0),
        50 => Some(device.gpu.pci().0 as c_int),
        number => gpu_attribute::of_model(device.gpu, number),
    };
    own.map_or(Ok(()), |value| Ok(Out(out).set(value)?))
}

unsafe fn pci_address(out: *mut c_char, length: c_int, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    let text = device.gpu.pci_text();
    // SAFETY: promised by the caller.
    unsafe { put_text(out, length, &text, text.len() + 1) }
}

unsafe fn by_pci_address(out: *mut c_int, address: *const c_char) -> CudaResult {
    if out.is_null() || address.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: a C string, promised by the caller.
    let address = unsafe { CStr::from_ptr(address) }.to_str().map_err(|_| CudaError::INVALID_VALUE)?;
    let place = gpu::parse_pci(address).ok_or(CudaError::INVALID_VALUE)?;
    let found = device::machine()?.devices.iter().find(|device| (device.gpu.pci(), 0) == place);
    Ok(Out(out).set(found.ok_or(CudaError::INVALID_DEVICE)?.ordinal)?)
}
