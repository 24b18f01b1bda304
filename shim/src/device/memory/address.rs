//! What a pointer points into: device memory of this process, a mapping, another process's memory, or host memory.

use abi::cuda::{CudaError, CudaResult};

use crate::device::Device;
use crate::device::memory::{self, Kind, Location, ipc, mapping};
use crate::device::work::timeline::Place;

/// The device memory that `address` points into.
pub(crate) fn locate(address: usize) -> Option<Location> {
    match memory::in_arena(address) {
        Some(found) => found,
        None => mapping::locate(address).or_else(|| ipc::locate(address)),
    }
}

/// Whether the host may access it as well.
pub(crate) fn is_managed(address: usize) -> bool {
    locate(address).is_some_and(|location| location.kind == Kind::Managed)
}

/// What CUDA knows about a range.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Known {
    /// Memory of this device.
    Device(&'static Device),
    /// Host memory allocated or registered through CUDA.
    Host,
    /// Unknown to CUDA: pageable host memory, or no memory at all.
    Unknown,
}

impl Known {
    /// Where the memory is.
    pub(crate) fn place(self) -> Place {
        match self {
            Self::Device(device) => Place::Device(device.ordinal),
            Self::Host => Place::Pinned,
            Self::Unknown => Place::Pageable,
        }
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Device(left), Self::Device(right)) => left.ordinal == right.ordinal,
            (Self::Host, Self::Host) | (Self::Unknown, Self::Unknown) => true,
            _ => false,
        }
    }
}

/// What CUDA knows about the `length` bytes at `address`.
///
/// # Errors
/// `INVALID_VALUE` for device memory that is not allocated, or a range that leaves its allocation.
pub(crate) fn known(address: usize, length: usize) -> CudaResult<Known> {
    if let Some(location) = locate(address) {
        let mut reached = location.bytes_left;
        while reached < length {
            match locate(address + reached) {
                // Mappings of virtual memory may be one after another; neighboring allocations are two.
                Some(next) if location.kind == Kind::Mapped && next.kind == Kind::Mapped => reached += next.bytes_left,
                _ => return Err(CudaError::INVALID_VALUE),
            }
        }
        return Ok(Known::Device(location.device));
    }
    if memory::locate_host(address).is_some() {
        return Ok(Known::Host);
    }
    if memory::in_arena(address).is_some() || mapping::is_reserved(address) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(Known::Unknown)
}
