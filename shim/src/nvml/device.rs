//! Device handles, and the ways to find a device. The same GPU always has the same handle.

use std::ffi::{c_char, c_int, c_uint};

use abi::argument::{Out, Text};
use protocol::profile::Architecture;

use super::error::{NvmlError, NvmlResult};
use super::header::{self, PciInfo, PciInfoV1};
use super::system::{gpus, put};
use crate::device::state::health;
use protocol::gpu::Gpu;

/// Distance between handles, and their mark: no handle is a valid address or a handle of another library.
const STEP: usize = 1 << 8;
const MARK: usize = 0x50 << 44;

/// An `nvmlDevice_t`: the GPU's index, with a mark.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(usize);

impl Handle {
    /// The handle of the GPU with this index.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(MARK + (index + 1) * STEP)
    }

    /// As C has it.
    pub(crate) fn value(self) -> usize {
        self.0
    }

    /// Its index.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for a value that is not a handle.
    pub(crate) fn index(self) -> NvmlResult<usize> {
        let count = gpus()?.len();
        let offset = self.0.checked_sub(MARK + STEP).ok_or(NvmlError::INVALID_ARGUMENT)?;
        if offset % STEP == 0 && offset / STEP < count { Ok(offset / STEP) } else { Err(NvmlError::INVALID_ARGUMENT) }
    }

    /// Its GPU.
    ///
    /// # Errors
    /// As [`Handle::index`]; `GPU_IS_LOST` for one that "has fallen off the bus or is otherwise inaccessible".
    pub(crate) fn gpu(self) -> NvmlResult<&'static Gpu> {
        reachable(self.remembered()?)
    }

    /// Its GPU, even if it is lost: for what the driver already knew about it.
    ///
    /// # Errors
    /// As [`Handle::index`].
    pub(crate) fn remembered(self) -> NvmlResult<&'static Gpu> {
        Ok(&gpus()?[self.index()?])
    }
}

fn reachable(gpu: &'static Gpu) -> NvmlResult<&'static Gpu> {
    if health::condition(gpu).is_lost { Err(NvmlError::GPU_IS_LOST) } else { Ok(gpu) }
}

pub(crate) fn count(count: Out<c_uint>) -> NvmlResult {
    Ok(count.set(gpus()?.len() as c_uint)?)
}

/// The handle is also returned for a lost GPU, so that a monitor can tell which one it is ([`pci_info`]).
pub(crate) fn by_index(index: c_uint, out: Out<Handle>) -> NvmlResult {
    let index = index as usize;
    if index >= gpus()?.len() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    out.set(Handle::from_index(index))?;
    reachable(&gpus()?[index]).map(drop)
}

/// The first GPU for which `is_it` holds.
///
/// # Errors
/// `NOT_FOUND` if there is none, `GPU_IS_LOST`.
pub(crate) fn find(out: Out<Handle>, is_it: impl Fn(&Gpu) -> bool) -> NvmlResult {
    let index = gpus()?.iter().position(is_it).ok_or(NvmlError::NOT_FOUND)?;
    out.set(Handle::from_index(index))?;
    reachable(&gpus()?[index]).map(drop)
}

pub(crate) fn by_uuid(uuid: Text, out: Out<Handle>) -> NvmlResult {
    let uuid = uuid.get()?;
    find(out, |gpu| gpu.uuid_text() == uuid)
}

pub(crate) fn by_uuid_struct(uuid: Out<header::Uuid>, out: Out<Handle>) -> NvmlResult {
    let uuid = uuid.get()?;
    if uuid.version != header::version::<header::Uuid>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    match uuid.kind {
        1 => find(out, |gpu| uuid.value.split(|byte| *byte == 0).next() == Some(gpu.uuid_text().as_bytes())),
        2 => find(out, |gpu| uuid.value[..16] == gpu.uuid()),
        _ => Err(NvmlError::INVALID_ARGUMENT),
    }
}

/// By PCI address, with a domain of four or eight digits or none, as NVML accepts it.
pub(crate) fn by_pci_bus_id(address: Text, out: Out<Handle>) -> NvmlResult {
    let wanted = parse_pci(&address.get()?).ok_or(NvmlError::INVALID_ARGUMENT)?;
    find(out, |gpu| gpu.pci() == wanted)
}

/// (domain, bus) of `[domain:]bus:device[.function]`, where device and function are 0 for every GPU.
fn parse_pci(address: &str) -> Option<(u32, u32)> {
    let hex = |text: &str| u32::from_str_radix(text, 16).ok();
    let mut parts = address.trim().rsplit(':');
    let (device, bus, domain) = (parts.next()?, parts.next()?, parts.next());
    let (device, function) = device.split_once('.').unwrap_or((device, "0"));
    if parts.next().is_some() || hex(device)? != 0 || hex(function)? != 0 {
        return None;
    }
    Some((domain.map_or(Some(0), hex)?, hex(bus)?))
}

pub(crate) fn index(device: Handle, out: Out<c_uint>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(device.index()? as c_uint)?)
}

pub(crate) fn name(device: Handle, buffer: *mut c_char, length: c_uint) -> NvmlResult {
    put(buffer, length, &device.gpu()?.profile.name)
}

pub(crate) fn uuid(device: Handle, buffer: *mut c_char, length: c_uint) -> NvmlResult {
    put(buffer, length, &device.gpu()?.uuid_text())
}

/// `NVML_BRAND_*`, derived from the driver's name for the model.
pub(crate) fn brand(device: Handle, out: Out<c_int>) -> NvmlResult {
    let name = &device.gpu()?.profile.name;
    let known = [
        ("GeForce RTX", 15),
        ("GeForce", 5),
        ("TITAN RTX", 16),
        ("TITAN", 6),
        ("Quadro RTX", 12),
        ("Quadro", 1),
        ("RTX", 13),
        ("Tesla", 2),
    ];
    Ok(out.set(known.iter().find(|(word, _)| name.contains(word)).map_or(14, |(_, brand)| *brand))?)
}

/// `NVML_DEVICE_ARCH_*`.
pub(crate) fn architecture(device: Handle, out: Out<c_uint>) -> NvmlResult {
    Ok(out.set(match device.gpu()?.profile.architecture {
        Architecture::Maxwell => 3,
        Architecture::Pascal => 4,
        Architecture::Volta => 5,
        Architecture::Turing => 6,
        Architecture::Ampere => 7,
        Architecture::Ada => 8,
        Architecture::Hopper => 9,
        Architecture::Blackwell => 10,
    })?)
}

pub(crate) fn compute_capability(device: Handle, major: Out<c_int>, minor: Out<c_int>) -> NvmlResult {
    let (first, second) = device.gpu()?.profile.compute_capability.split_once('.').unwrap_or(("0", "0"));
    let number = |text: &str| text.parse::<c_int>().map_err(|_| NvmlError::NOT_SUPPORTED);
    major.required()?;
    minor.set(number(second)?)?;
    Ok(major.set(number(first)?)?)
}

/// A text in a field of a structure, truncated if necessary.
pub(crate) fn letters<const N: usize>(text: &str) -> [c_char; N] {
    let mut letters = [0; N];
    for (letter, byte) in letters.iter_mut().zip(text.bytes()).take(N - 1) {
        *letter = byte as c_char;
    }
    letters
}

/// NVIDIA's vendor id, in the lower half of a PCI device id.
const VENDOR: c_uint = 0x10de;

/// The PCI address of a GPU, and its model's ids.
pub(crate) fn pci(gpu: &Gpu) -> PciInfo {
    let (domain, bus) = gpu.pci();
    place(domain, bus, gpu.profile.pcie.device_id << 16 | VENDOR)
}

/// A device at an address, whose device number is 0.
pub(crate) fn place(domain: u32, bus: u32, pci_device_id: c_uint) -> PciInfo {
    PciInfo {
        legacy_bus_id: letters(&format!("{domain:04X}:{bus:02X}:00.0")),
        domain,
        bus,
        device: 0,
        pci_device_id,
        pci_subsystem_id: 0,
        bus_id: letters(&format!("{domain:08X}:{bus:02X}:00.0")),
    }
}

/// Where the driver found the GPU; works even for a lost one.
pub(crate) fn pci_info(device: Handle, out: Out<PciInfo>) -> NvmlResult {
    Ok(out.set(pci(device.remembered()?))?)
}

pub(crate) fn pci_info_v1(device: Handle, out: Out<PciInfoV1>) -> NvmlResult {
    let PciInfo { legacy_bus_id, domain, bus, device, pci_device_id, pci_subsystem_id, .. } = pci(device.gpu()?);
    Ok(out.set(PciInfoV1 {
        bus_id: legacy_bus_id,
        domain,
        bus,
        device,
        pci_device_id,
        pci_subsystem_id,
        reserved: [0; 4],
    })?)
}

#[cfg(test)]
mod tests {
    use super::parse_pci;

    #[test]
    fn a_pci_address_may_leave_out_domain_and_function() {
        for (text, address) in [
            ("00000000:01:00.0", Some((0, 1))),
            ("0008:80:00.0", Some((8, 128))),
            ("0A:00.0", Some((0, 10))),
            ("0a:00", Some((0, 10))),
            ("0000:01:00.1", None),
            ("0000:01:01.0", None),
            ("1:2:3:4", None),
            ("", None),
            ("GPU-0", None),
        ] {
            assert_eq!(parse_pci(text), address, "{text}");
        }
    }
}
