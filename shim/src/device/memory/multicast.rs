//! Multicast objects (`cuMulticastCreate`, ...): what is bound to them, and what their addresses stand for. Nothing is mapped there:
//! `multimem` instructions and copies are made at the memory of every device of the team.

use std::ops::Range;
use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};

use super::mapping::{self, GRANULARITY, Physical, Residence};
use super::team::{Part, Team};
use crate::device::Device;

/// Makes an object of `size` bytes for as many devices, which can be exported if it `is_shareable`, and returns its handle.
///
/// # Errors
/// `INVALID_VALUE` for a size that is 0 or not a multiple of the granularity, or a number of devices that is not possible;
/// `MEMORY_ALLOCATION`.
pub(crate) fn create(devices: u32, size: usize, is_shareable: bool) -> CudaResult<usize> {
    if size == 0 || !size.is_multiple_of(GRANULARITY) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(mapping::insert_team(Team::new(devices, size)?, is_shareable))
}

/// Adds a device to the team.
///
/// # Errors
/// `INVALID_VALUE` for another handle, a device that was added before, or a complete team.
pub(crate) fn add(handle: usize, device: &Device) -> CudaResult {
    mapping::physical(handle)?.team()?.add(device)
}

/// Memory to bind.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) physical: Arc<Physical>,
    /// An offset there.
    pub(crate) at: usize,
    /// Bytes.
    pub(crate) size: usize,
}

impl Memory {
    /// As many bytes of the memory that is mapped at `address`.
    ///
    /// # Errors
    /// `INVALID_VALUE` if none is.
    pub(crate) fn mapped(address: usize, size: usize) -> CudaResult<Self> {
        let (base, _, physical, offset) = mapping::mapped(address).ok_or(CudaError::INVALID_VALUE)?;
        Ok(Self { physical, at: offset + (address - base), size })
    }
}

/// Binds memory at offset `start` of an object, once its team is complete. The memory is on `device`, if that is given.
///
/// # Errors
/// `INVALID_VALUE` for handles, devices, offsets and sizes that do not fit, and for memory that cannot be exported while the object
/// can be; `ILLEGAL_STATE` if the team stays incomplete; `MEMORY_ALLOCATION`.
pub(crate) fn bind(handle: usize, device: Option<&Device>, start: usize, memory: Memory) -> CudaResult {
    let object = mapping::physical(handle)?;
    let team = object.team()?;
    let Memory { physical, at, size } = memory;
    let Residence::Device(home) = physical.residence else { return Err(CudaError::INVALID_VALUE) };
    let is_whole = size > 0 && [start, at, size].iter().all(|number| number.is_multiple_of(GRANULARITY));
    let is_there = device.is_none_or(|device| device.ordinal == home.ordinal);
    if !is_whole || !is_there || (object.is_shareable && !physical.is_shareable) {
        return Err(CudaError::INVALID_VALUE);
    }
    team.complete()?;
    let part = physical.part(at, size)?;
    team.bind(home, start, physical, part)
}

/// Undoes [`bind`].
///
/// # Errors
/// `INVALID_VALUE` if this process bound nothing of the device there.
pub(crate) fn unbind(handle: usize, device: &Device, start: usize, size: usize) -> CudaResult {
    mapping::physical(handle)?.team()?.unbind(device, start, size)
}

/// Whether an object is mapped at `address`.
pub(crate) fn is_there(address: usize) -> bool {
    mapping::mapped(address).is_some_and(|(_, _, physical, _)| matches!(physical.residence, Residence::Team))
}

/// Addresses around `address` at which an object is mapped and has memory of every device, and where the first of them is at each.
pub(crate) fn copies(address: usize) -> Option<(Range<usize>, Vec<usize>)> {
    let (base, size, physical, offset) = mapping::mapped(address)?;
    let team = physical.team().ok()?;
    let own = |memory: &Arc<Physical>, part: &Part| mapping::address(memory, part);
    let (found, mut places) = team.copies(offset + (address - base), own)?;
    // A part of the object may be mapped.
    let start = found.start.max(offset);
    places.iter_mut().for_each(|place| *place += start - found.start);
    let first = base + (start - offset);
    Some((first..(first + (found.end - start)).min(base + size), places))
}
