//! NVLink, the fabric, and how far two GPUs are from each other.

use std::ffi::{c_int, c_uint};

use super::device::{Handle, place};
use super::error::{NvmlError, NvmlResult};
use super::header::{
    self, FabricInfo, FabricInfoV2, FabricInfoV4, LINK_TO_SWITCH, MAX_LINKS, PciInfo, Versioned, peer, topology,
};
use super::system::gpus;
use abi::argument::Out;
use protocol::gpu::Gpu;

use crate::settings;

/// Number of links that lead from this GPU to others of its node.
pub(super) fn links(gpu: &Gpu) -> NvmlResult<u32> {
    gpu.profile.nvlink.as_ref().ok_or(NvmlError::NOT_SUPPORTED)?;
    Ok(settings::get().map_or(0, |settings| settings.links(gpu)).min(MAX_LINKS))
}

/// The number of active links, for a link that may exist.
fn checked(device: Handle, link: c_uint) -> NvmlResult<u32> {
    let active = links(device.gpu()?)?;
    if link < MAX_LINKS { Ok(active) } else { Err(NvmlError::INVALID_ARGUMENT) }
}

pub(crate) fn state(device: Handle, link: c_uint, active: Out<c_uint>) -> NvmlResult {
    Ok(active.set(u32::from(link < checked(device, link)?))?)
}

/// `NVML_NVLINK_VERSION_*`: 2.0 is 2, 3.0 is 4, 4.0 is 6, 5.0 is 7.
pub(crate) fn version(device: Handle, link: c_uint, out: Out<c_uint>) -> NvmlResult {
    checked(device, link)?;
    Ok(out.set(version_of(device.gpu()?)?)?)
}

/// `NVML_NVLINK_CAP_*`: peer access and peer atomics (0, 2), and "this link is valid" (5); nothing for system memory or SLI.
pub(crate) fn capability(device: Handle, link: c_uint, which: c_int, out: Out<c_uint>) -> NvmlResult {
    let active = link < checked(device, link)?;
    match which {
        0 | 2 | 5 => Ok(out.set(u32::from(active))?),
        1 | 3 | 4 => Ok(out.set(0)?),
        _ => Err(NvmlError::INVALID_ARGUMENT),
    }
}

/// Links lead to switches, because every GPU of a node reaches every other at full width.
pub(crate) fn remote_type(device: Handle, link: c_uint, out: Out<c_int>) -> NvmlResult {
    if link >= checked(device, link)? {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    Ok(out.set(LINK_TO_SWITCH)?)
}

/// Switches of a node with this generation of NVLink: those of DGX-2, DGX A100, DGX H100 and DGX B200.
fn switches(generation: u32) -> u32 {
    match generation {
        ..=3 => 6,
        4 => 4,
        _ => 2,
    }
}

/// Bus of a node's first switch; GPUs use the buses below.
const SWITCH_BUS: u32 = 0xc0;

/// PCI device id of an NVSwitch (pci.ids database), with NVIDIA's vendor id.
fn switch_id(generation: u32) -> c_uint {
    let device = match generation {
        ..=2 => 0x1ac2,
        3 => 0x1af1,
        _ => 0x22a3,
    };
    device << 16 | 0x10de
}

/// The switch at the other end: links are assigned to switches round-robin.
pub(crate) fn remote_pci(device: Handle, link: c_uint, out: Out<PciInfo>) -> NvmlResult {
    let gpu = device.gpu()?;
    if link >= checked(device, link)? {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    let generation = gpu.profile.nvlink.as_ref().map_or(0, |nvlink| nvlink.generation);
    Ok(out.set(place(gpu.pci().0, SWITCH_BUS + link % switches(generation), switch_id(generation)))?)
}

/// `NVML_NVLINK_ERROR_*`: no link has any.
pub(crate) fn errors(device: Handle, link: c_uint, which: c_int, out: Out<u64>) -> NvmlResult {
    if link >= checked(device, link)? {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    if (0..=4).contains(&which) { Ok(out.set(0)?) } else { Err(NvmlError::INVALID_ARGUMENT) }
}

/// `NVML_NVLINK_VERSION_*` of a GPU with links.
pub(super) fn version_of(gpu: &Gpu) -> NvmlResult<u32> {
    match gpu.profile.nvlink.as_ref().map_or(0, |nvlink| nvlink.generation) {
        1 => Ok(1),
        2 => Ok(2),
        3 => Ok(4),
        4 => Ok(6),
        5 => Ok(7),
        _ => Err(NvmlError::NOT_SUPPORTED),
    }
}

/// No fabric manager connects GPUs of several nodes.
pub(crate) fn fabric(device: Handle, out: Out<FabricInfo>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(FabricInfo { cluster: [0; 16], status: 0, clique: 0, state: 0, padding: [0; 3] })?)
}

pub(crate) fn fabric_versioned(device: Handle, out: Out<FabricInfoV2>) -> NvmlResult {
    device.gpu()?;
    // Version 3 only appends to version 2, and its extra byte is a summary of the health mask: 0, not supported.
    let version = Out(out.0.cast::<c_uint>()).get()?;
    let tail = match version >> 24 {
        2 if version == header::version::<FabricInfoV2>(2) => None,
        3 if version & 0xff_ffff == 40 => Some(36),
        _ => return Err(NvmlError::ARGUMENT_VERSION_MISMATCH),
    };
    out.set(FabricInfoV2 { version, cluster: [0; 16], status: 0, clique: 0, state: 0, padding: [0; 3], health: 0 })?;
    if let Some(offset) = tail {
        Out(out.0.cast::<u8>().wrapping_add(offset)).set(0)?;
    }
    Ok(())
}

pub(crate) fn fabric_v4(device: Handle, out: Out<FabricInfoV4>) -> NvmlResult {
    device.gpu()?;
    Ok(out.set(FabricInfoV4 {
        cluster: [0; 16],
        status: 0,
        cliques: [[0; 2]; 64],
        clique_count: 0,
        state: 0,
        health: 0,
        health_summary: 0,
    })?)
}

/// Whether links are encrypted; they are not. Version 2 adds firmware versions, which are unknown.
pub(crate) fn encryption(device: Handle, out: Out<Versioned>) -> NvmlResult {
    links(device.gpu()?)?;
    let version = out.get()?.version;
    if version >> 24 == 2 {
        return Err(NvmlError::NOT_SUPPORTED);
    }
    if version != header::version::<Versioned>(1) {
        return Err(NvmlError::ARGUMENT_VERSION_MISMATCH);
    }
    Ok(out.set(Versioned { version, value: 0 })?)
}

/// GPUs of one node share a host; those of different nodes, which a process sees only without a launcher, do not.
fn distance(one: &Gpu, other: &Gpu) -> c_int {
    if one.rank == other.rank {
        topology::INTERNAL
    } else if one.node == other.node {
        topology::NODE
    } else {
        topology::SYSTEM
    }
}

pub(crate) fn common_ancestor(device: Handle, other: Handle, level: Out<c_int>) -> NvmlResult {
    Ok(level.set(distance(device.gpu()?, other.gpu()?))?)
}

/// The GPUs at a distance; `count` holds the capacity of `list` (0 only queries) and receives their number.
///
/// # Safety
/// `list` has room for `count` handles.
pub(crate) unsafe fn nearest(device: Handle, level: c_int, count: Out<c_uint>, list: *mut Handle) -> NvmlResult {
    let gpu = device.gpu()?;
    let room = count.get()? as usize;
    let near: Vec<Handle> = gpus()?
        .iter()
        .enumerate()
        .filter(|(_, other)| other.rank != gpu.rank && distance(gpu, other) == level)
        .map(|(index, _)| Handle::from_index(index))
        .collect();
    count.set(near.len() as c_uint)?;
    if room == 0 {
        return Ok(());
    }
    if list.is_null() {
        return Err(NvmlError::INVALID_ARGUMENT);
    }
    for (slot, handle) in near.into_iter().take(room).enumerate() {
        // SAFETY: the caller vouches for `room` handles, and `slot` is below it.
        unsafe { list.add(slot).write_unaligned(handle) };
    }
    Ok(())
}

/// `NVML_P2P_CAPS_INDEX_*`: read, write, NVLink, atomics, PCIe.
pub(crate) fn peer_status(device: Handle, other: Handle, which: c_int, status: Out<c_int>) -> NvmlResult {
    let (one, two) = (device.gpu()?, other.gpu()?);
    let nvlink = links(one).unwrap_or(0) > 0 && links(two).unwrap_or(0) > 0;
    let reachable = one.node == two.node && one.rank != two.rank;
    let can = match which {
        0 | 1 => reachable,
        2 | 3 => reachable && nvlink,
        4 => reachable && !nvlink,
        _ => return Err(NvmlError::INVALID_ARGUMENT),
    };
    Ok(status.set(if can { peer::OK } else { peer::NOT_SUPPORTED })?)
}
