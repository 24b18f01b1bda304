//! Arrays: only the real device can hold them, so they are booked and otherwise forwarded.

use std::ffi::c_uint;

use abi::argument::{In, Out};
use abi::cuda::CudaResult;

use crate::backing::Backing;
use crate::book::{self, Kind};
use crate::context::current;
use crate::guard::exports;
use crate::policy;
use crate::real::call;

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

/// Bits of a texel, by its format (`CUarray_format`) and its channels.
fn texel(format: c_uint, channels: c_uint) -> u64 {
    let each = u64::from(channels.max(1));
    match format {
        // Numbers, one for each channel: integers, floats, normalized integers.
        0x01 | 0x08 | 0xc0..=0xc2 | 0xc6..=0xc8 => 8 * each,
        0x02 | 0x09 | 0x10 | 0xc3..=0xc5 | 0xc9..=0xcb => 16 * each,
        0x03 | 0x0a | 0x20 => 32 * each,
        // Compressed blocks: 8 bytes for BC1 and BC4, 16 for the others.
        0x91 | 0x92 | 0x97 | 0x98 => 4,
        0x93..=0x96 | 0x99..=0x9e => 8,
        // Video, all planes: a sample of brightness, and a half (4:2:0), one (4:2:2) or two (4:4:4) of color.
        0x53 | 0x59 | 0xb0 => 12,
        0x54 | 0x5a | 0x9f | 0xa1 => 24,
        0x51 | 0x55 | 0x5b | 0xa2 | 0xa5 => 16,
        0x56 | 0x5c | 0xa3 | 0xa4 | 0xa6 | 0xa7 => 32,
        0x57 | 0x5d | 0xb2 => 24,
        0x58 | 0x5e | 0xb3 => 48,
        // Packed, four channels.
        0x50 | 0x52 | 0xa8 | 0xa9 => 32,
        0xb1 => 64,
        _ => 8 * each,
    }
}

impl Description3D {
    fn bytes(&self, level: u32) -> u64 {
        let extent = |length: usize| (length >> level.min(63)).max(1) as u64;
        // Compressed texels come in blocks of 4 x 4.
        let is_compressed = (0x91..=0x9e).contains(&self.format);
        let side = |length: usize| if is_compressed { extent(length).next_multiple_of(4) } else { extent(length) };
        // The depth counts layers, and every level has all of them.
        let depth = if self.flags & 1 == 1 { self.depth.max(1) as u64 } else { extent(self.depth) };
        let texels = side(self.width).saturating_mul(side(self.height)).saturating_mul(depth);
        texels.saturating_mul(texel(self.format, self.channels)).div_ceil(8)
    }
}

exports! {
    fn cuArrayCreate_v2(out: *mut usize, from: *const Description) = |out, from| {
        let Description { width, height, format, channels } = In(from).get()?;
        let bytes = Description3D { width, height, depth: 0, format, channels, flags: 0 }.bytes(0);
        let real = |made| call!(cuArrayCreate_v2(made => *mut usize, from => *const Description));
        // SAFETY: promised by the caller.
        unsafe { make(out, bytes, &real) }
    };
    fn cuArray3DCreate_v2(out: *mut usize, from: *const Description3D) = |out, from| {
        let bytes = In(from).get()?.bytes(0);
        let real = |made| call!(cuArray3DCreate_v2(made => *mut usize, from => *const Description3D));
        // SAFETY: promised by the caller.
        unsafe { make(out, bytes, &real) }
    };
    fn cuMipmappedArrayCreate(out: *mut usize, from: *const Description3D, levels: c_uint) = |out, from, levels| {
        let description = In(from).get()?;
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
    Ok(Out(out).set(handle)?)
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

    #[test]
    fn a_texel_takes_what_its_format_says() {
        let of =
            |format, channels| Description3D { width: 64, height: 30, depth: 0, format, channels, flags: 0 }.bytes(0);
        // CUDA Driver API, `CUarray_format`: bits and channels are in the names.
        for (format, channels, bytes) in [
            (0xc2, 4, 4), // UNORM_INT8X4
            (0xc3, 1, 2), // UNORM_INT16X1
            (0xc4, 2, 4), // UNORM_INT16X2
            (0xc5, 4, 8), // UNORM_INT16X4
            (0xca, 2, 4), // SNORM_INT16X2
            (0xcb, 4, 8), // SNORM_INT16X4
            (0x10, 2, 4), // HALF
            (0xa8, 4, 4), // AYUV
            (0x50, 4, 4), // UNORM_INT_101010_2
        ] {
            assert_eq!(of(format, channels), 64 * 30 * bytes, "{format:#x}");
        }
        // 16 x 8 blocks of BC1 and BC7; brightness and a quarter of both colors in NV12.
        assert_eq!((of(0x91, 4), of(0x9d, 4), of(0xb0, 3)), (16 * 8 * 8, 16 * 8 * 16, 64 * 30 * 3 / 2));
    }
}
