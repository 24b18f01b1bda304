//! Arrays: only the real device can hold them, so they are booked and otherwise forwarded.

use std::ffi::c_uint;

use crate::backing::Backing;
use crate::book::{self, Kind};
use crate::context::current;
use crate::guard::{exports, put, take};
use crate::policy;
use crate::real::call;
use crate::trouble::CudaResult;

/// `CUDA_ARRAY_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy)]
struct Description {
    width: usize,
    height: usize,
    format: c_uint,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy)]
struct Description3D {
    width: usize,
    height: usize,
    depth: usize,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

const _: () = assert!(size_of::<Description>() == 24 && size_of::<Description3D>() == 40);

/// Bytes per channel (`CUarray_format`); multi-channel and compressed formats count as one byte.
fn channel(format: c_uint) -> usize {
    match format {
        0x02 | 0x09 | 0x10 | 0xc3 | 0xc9 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 1,
    }
}

impl Description3D {
    fn bytes(&self, level: u32) -> u64 {
        let extent = |length: usize| (length >> level.min(63)).max(1) as u64;
        let element = (channel(self.format) * (self.channels as usize).max(1)) as u64;
        // The depth counts layers, and every level has all of them.
        let depth = if self.flags & 1 == 1 { self.depth.max(1) as u64 } else { extent(self.depth) };
        extent(self.width).saturating_mul(extent(self.height)).saturating_mul(depth).saturating_mul(element)
    }
}

exports! {
    fn cuArrayCreate_v2(out: *mut usize, from: *const Description) = |out, from| {
        // SAFETY: promised by the caller.
        let Description { width, height, format, channels } = unsafe { take(from) }?;
        let bytes = Description3D { width, height, depth: 0, format, channels, flags: 0 }.bytes(0);
        let real = |made| call!(cuArrayCreate_v2(made => *mut usize, from => *const Description));
        // SAFETY: promised by the caller.
        unsafe { make(out, bytes, &real) }
    };
    fn cuArray3DCreate_v2(out: *mut usize, from: *const Description3D) = |out, from| {
        // SAFETY: promised by the caller.
        let bytes = unsafe { take(from) }?.bytes(0);
        let real = |made| call!(cuArray3DCreate_v2(made => *mut usize, from => *const Description3D));
        // SAFETY: promised by the caller.
        unsafe { make(out, bytes, &real) }
    };
    fn cuMipmappedArrayCreate(out: *mut usize, from: *const Description3D, levels: c_uint) = |out, from, levels| {
        // SAFETY: promised by the caller.
        let description = unsafe { take(from) }?;
        let bytes = (0..levels.min(64)).map(|level| description.bytes(level)).fold(0, u64::saturating_add);
        let real = |made| call!(cuMipmappedArrayCreate(made => *mut usize, from => *const Description3D, levels => c_uint));
        // SAFETY: promised by the caller.
        unsafe { make(out, bytes, &real) }
    };
    fn cuArrayDestroy(handle: usize) = |handle| {
        book::give_back(Kind::Array, handle, || call!(cuArrayDestroy(handle => usize)))
    };
    fn cuMipmappedArrayDestroy(handle: usize) = |handle| {
        book::give_back(Kind::Array, handle, || call!(cuMipmappedArrayDestroy(handle => usize)))
    };
}

/// # Safety
/// `out` is null or may be written.
unsafe fn make(out: *mut usize, bytes: u64, real: &dyn Fn(*mut usize) -> CudaResult) -> CudaResult {
    if out.is_null() {
        return real(out);
    }
    let handle = || {
        let mut handle = 0;
        real(&raw mut handle).map(|()| (handle, Backing::Real))
    };
    let handle = policy::allocate_as(current()?, Kind::Array, (bytes, bytes), handle)?;
    // SAFETY: promised by the caller.
    unsafe { put(out, handle) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_takes_its_elements_and_a_pyramid_its_levels() {
        let plain = Description3D { width: 64, height: 32, depth: 0, format: 0x20, channels: 4, flags: 0 };
        assert_eq!(plain.bytes(0), 64 * 32 * 16);
        assert_eq!((plain.bytes(1), plain.bytes(6)), (32 * 16 * 16, 16));
        let layered = Description3D { depth: 6, flags: 1, ..plain };
        assert_eq!(layered.bytes(1), 32 * 16 * 6 * 16);
    }
}
