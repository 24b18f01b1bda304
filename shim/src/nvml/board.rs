//! The identity and settings of a board: serial number, versions, modes. Nobody is an administrator on a simulated
//! machine, so nothing can be set.

use std::ffi::{c_char, c_int, c_uint};

use super::device::{self, Handle};
use super::error::{NvmlError, NvmlResult};
use super::header::{self, Bar1Memory, ConfidentialState, DriverBranch, Memory, PciInfo, PciInfoExt, Pdi, Versioned};
use super::model::{self, Market};
use super::system::{self, gpus, put};
use abi::argument::{Out, Text};
use protocol::gpu::Gpu;

/// Thirteen digits, derived from the UUID; consumer boards have none.
fn serial_of(gpu: &Gpu) -> NvmlResult<String> {
    match Market::from_profile(&gpu.profile) {
        Market::DataCenter | Market::Workstation => {
            let uuid = gpu.uuid();
            let number = uuid[8..].iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
            Ok(format!("1{:012}", number % 1_000_000_000_000))
        }
        Market::Consumer | Market::Integrated => Err(NvmlError::NOT_SUPPORTED),
    }
}

pub(crate) fn serial(device: Handle, buffer: *mut c_char, length: c_uint) -> NvmlResult {
    put(buffer, length, &serial_of(device.gpu()?)?)
}

pub(crate) fn by_serial(serial: Text, out: Out<Handle>) -> NvmlResult {
    let serial = serial.get()?;
    device::find(out, |gpu| serial_of(gpu).is_ok_and(|own| own == serial))
}

pub(crate) fn vbios(device: Handle, buffer: *mut c_char, length: c_uint) -> NvmlResult {
    put(buffer, length, &model::vbios(&device.gpu()?.profile))
}

/// The firmware comes with the driver. The buffer has `NVML_GSP_FIRMWARE_VERSION_BUF_SIZE` bytes.
pub(crate) fn firmware_version(device: Handle, buffer: *mut c_char) -> NvmlResult {
    if !model::has_gsp(&device.gpu()?.profile) {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    put(buffer, 0x40, system::driver()?)
}

/// On, and on by default.
pub(crate) fn firmware_mode(device: Handle, current: Out<c_uint>, default: Out<c_uint>) -> NvmlResult {
    let has_it = u32::from(model::has_gsp(&device.gpu()?.profile));
    default.required()?;
    current.set(has_it)?;
    Ok(default.set(has_it)?)
}

/// The position on the baseboard, which boards with NVLink have.
pub(crate) fn module_id(device: Handle, out: Out<c_uint>) -> NvmlResult {
    let gpu = device.gpu()?;
    gpu.profile.nvlink.as_ref().ok_or(NvmlError::NOT_SUPPORTED)?;
    Ok(out.set(gpu.local + 1)?)
}

/// A number that identifies the chip.
pub(crate) fn pdi(device: Handle, out: Out<Pdi>) -> NvmlResult {
    let uuid = device.gpu()?.uuid();
    let version = out.get()?.version;
    if version != header::version::<Pdi>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    let value = uuid[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(out.set(Pdi { version, value })?)
}

/// A 3D controller (PCI class 03, subclass 02) or, with a connector for a display, a VGA controller.
pub(crate) fn pci_info(device: Handle, out: Out<PciInfoExt>) -> NvmlResult {
    let version = out.get()?.version;
    if version != header::version::<PciInfoExt>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    let PciInfo { domain, bus, pci_device_id, pci_subsystem_id, bus_id, .. } = device::pci(device.gpu()?);
    let sub_class = if Market::from_profile(&device.gpu()?.profile) == Market::DataCenter { 2 } else { 0 };
    let base_class = 3;
    Ok(out.set(PciInfoExt {
        version,
        domain,
        bus,
        device: 0,
        pci_device_id,
        pci_subsystem_id,
        base_class,
        sub_class,
        bus_id,
    })?)
}

/// BAR1 memory; the driver uses 1 MiB of it.
pub(crate) fn bar1(device: Handle, out: Out<Bar1Memory>) -> NvmlResult {
    let (total, used) = (model::bar1_bytes(&device.gpu()?.profile), 1 << 20);
    Ok(out.set(Bar1Memory { total, free: total - used, used })?)
}

/// The driver stays loaded.
pub(crate) fn persistence(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(1)?)
}

/// Applications may not set clocks (0) or auto boost (1).
pub(crate) fn restriction(device: Handle, which: c_int, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    if !(0..=1).contains(&which) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    Ok(out.set(1)?)
}

/// Off: accounting, draining, and capabilities that have a bit.
pub(crate) fn off(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(0)?)
}

/// As [`off`], in a structure with a version.
pub(crate) fn off_versioned(device: Handle, out: Out<Versioned>) -> NvmlResult {
    device.gpu()?;
    let version = out.get()?.version;
    if version != header::version::<Versioned>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(Versioned { version, value: 0 })?)
}

/// As [`off`], for a PCI address.
pub(crate) fn not_draining(address: Out<PciInfo>, out: Out<c_uint>) -> NvmlResult {
    gpus()?;
    let asked = address.get()?;
    if !gpus()?.iter().any(|gpu| gpu.pci() == (asked.domain, asked.bus)) {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    Ok(out.set(0)?)
}

/// How many processes would be recorded.
pub(crate) fn accounting_buffer(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(4000)?)
}

/// Because accounting is off, none is recorded.
pub(crate) fn accounted(device: Handle, count: Out<c_uint>, _pids: *mut c_uint) -> NvmlResult {
    device.gpu()?;
    Ok(count.set(0)?)
}

/// No part of the machine is confidential.
pub(crate) fn confidential(out: Out<ConfidentialState>) -> NvmlResult {
    gpus()?;
    Ok(out.set(ConfidentialState { environment: 0, feature: 0, developer_tools: 0 })?)
}

/// Memory reserved for confidential computing: none.
pub(crate) fn protected_memory(device: Handle, out: Out<Memory>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(Memory { total: 0, free: 0, used: 0 })?)
}

/// Cards that connect S-class units: none.
pub(crate) fn no_cards(count: Out<c_uint>, _entries: usize) -> NvmlResult {
    gpus()?;
    Ok(count.set(0)?)
}

/// "r615_00", the branch of 615.71.
pub(crate) fn branch(out: Out<DriverBranch>, length: c_uint) -> NvmlResult {
    gpus()?;
    let version = out.get()?.version;
    if version != header::version::<DriverBranch>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    let name = format!("r{}_00", system::driver()?.split('.').next().unwrap_or_default());
    if (length as usize) <= name.len() {
        return Err(NvmlError::INSUFFICIENT_SIZE);
    }
    Ok(out.set(DriverBranch { version, branch: device::letters(&name) })?)
}

/// A setting: "the user doesn't have permission to perform this operation".
pub(crate) fn denied(device: Handle) -> NvmlResult {
    device.gpu()?;
    Err(NvmlError::NO_PERMISSION)
}

/// As [`denied`], for a GPU given by its PCI address.
pub(crate) fn denied_by_address(_address: Out<PciInfo>) -> NvmlResult {
    gpus()?;
    Err(NvmlError::NO_PERMISSION)
}
