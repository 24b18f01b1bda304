//! Layouts of the structures that libcuda and libcudart share, for 64-bit Linux.

use std::ffi::{c_int, c_uint, c_void};

/// `dim3`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim3 {
    pub(crate) x: c_uint,
    pub(crate) y: c_uint,
    pub(crate) z: c_uint,
}

impl From<Dim3> for [u32; 3] {
    fn from(dimensions: Dim3) -> Self {
        [dimensions.x, dimensions.y, dimensions.z]
    }
}

/// `cudaMemLocation`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemLocation {
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

/// `cudaMemAccessDesc`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessDescription {
    pub(crate) location: MemLocation,
    pub(crate) flags: c_uint,
}

/// `cudaMemPoolProps`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolProperties {
    pub(crate) allocation_type: c_uint,
    pub(crate) handle_types: c_uint,
    pub(crate) location: MemLocation,
    pub(crate) security_attributes: *const c_void,
    pub(crate) max_size: usize,
    pub(crate) usage: u16,
    pub(crate) reserved: [u8; 54],
}

impl PoolProperties {
    /// Pinned memory of a device.
    pub(crate) fn pinned(device: u32) -> Self {
        Self {
            allocation_type: 1,
            handle_types: 0,
            location: MemLocation { kind: 1, id: device as c_int },
            security_attributes: std::ptr::null(),
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        }
    }
}

const _: () = {
    assert!(size_of::<Dim3>() == 12 && size_of::<PoolProperties>() == 88 && size_of::<AccessDescription>() == 12);
};
