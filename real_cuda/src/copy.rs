//! Copies are the real library's. If one side is host memory that replaces device memory, the real library is told that it is
//! host memory.

use abi::argument::In;
use abi::cuda::{CudaError, CudaResult};

use crate::backing::{self, Backing};
use crate::book;
use crate::guard::exports;
use crate::real::{call, real};
use crate::traffic::{self, Way};

/// Whether the `bytes` at `address` are host memory that replaces device memory.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` beyond the end of such an allocation.
pub(crate) fn is_spilled(address: usize, bytes: usize) -> CudaResult<bool> {
    if !backing::any_spilled() {
        return Ok(false);
    }
    match book::find(address) {
        Some((base, held)) if matches!(held.backing, Backing::Spilled(_)) => {
            let left = base + held.bytes as usize - address;
            if bytes > left { Err(CudaError::INVALID_VALUE) } else { Ok(true) }
        }
        _ => Ok(false),
    }
}

/// Copies between two addresses: with the function of that name, or with the one that finds out what each address is.
macro_rules! copies {
    ($(fn $name:ident($($stream:ident)?) = $way:expr, $general:ident;)*) => {
        exports! {$(
            fn $name(to: usize, from: usize, bytes: usize $(, $stream: usize)?) = |to, from, bytes $(, $stream)?| {
                let spilled = is_spilled(to, bytes)? | is_spilled(from, bytes)?;
                let real = if spilled {
                    real!($general(usize, usize, usize $(, copies!(@type $stream))?))
                } else {
                    real!($name(usize, usize, usize $(, copies!(@type $stream))?))
                };
                // SAFETY: the caller's promises are the real library's.
                abi::cuda::check(unsafe { real?(to, from, bytes $(, $stream)?) })?;
                let way: fn(usize, usize) -> Way = $way;
                traffic::count(way(to, from), bytes);
                Ok(())
            };
        )*}
    };
    (@type $stream:ident) => { usize };
}

copies! {
    fn cuMemcpy() = Way::ByAddress, cuMemcpy;
    fn cuMemcpy_ptds() = Way::ByAddress, cuMemcpy_ptds;
    fn cuMemcpyAsync(stream) = Way::ByAddress, cuMemcpyAsync;
    fn cuMemcpyAsync_ptsz(stream) = Way::ByAddress, cuMemcpyAsync_ptsz;
    fn cuMemcpyHtoD_v2() = |_, _| Way::In, cuMemcpy;
    fn cuMemcpyHtoD_v2_ptds() = |_, _| Way::In, cuMemcpy_ptds;
    fn cuMemcpyHtoDAsync_v2(stream) = |_, _| Way::In, cuMemcpyAsync;
    fn cuMemcpyHtoDAsync_v2_ptsz(stream) = |_, _| Way::In, cuMemcpyAsync_ptsz;
    fn cuMemcpyDtoH_v2() = |_, _| Way::Out, cuMemcpy;
    fn cuMemcpyDtoH_v2_ptds() = |_, _| Way::Out, cuMemcpy_ptds;
    fn cuMemcpyDtoHAsync_v2(stream) = |_, _| Way::Out, cuMemcpyAsync;
    fn cuMemcpyDtoHAsync_v2_ptsz(stream) = |_, _| Way::Out, cuMemcpyAsync_ptsz;
    fn cuMemcpyDtoD_v2() = |_, _| Way::Within, cuMemcpy;
    fn cuMemcpyDtoD_v2_ptds() = |_, _| Way::Within, cuMemcpy_ptds;
    fn cuMemcpyDtoDAsync_v2(stream) = |_, _| Way::Within, cuMemcpyAsync;
    fn cuMemcpyDtoDAsync_v2_ptsz(stream) = |_, _| Way::Within, cuMemcpyAsync_ptsz;
}

/// Copies between contexts.
macro_rules! peers {
    ($(fn $name:ident($($stream:ident)?) = $general:ident;)*) => {
        exports! {$(
            fn $name(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize $(, $stream: usize)?) = |to, to_context, from, from_context, bytes $(, $stream)?| {
                if is_spilled(to, bytes)? | is_spilled(from, bytes)? {
                    call!($general(to => usize, from => usize, bytes => usize $(, $stream => usize)?))?;
                } else {
                    call!($name(to => usize, to_context => usize, from => usize, from_context => usize, bytes => usize $(, $stream => usize)?))?;
                }
                traffic::count(Way::Within, bytes);
                Ok(())
            };
        )*}
    };
}

peers! {
    fn cuMemcpyPeer() = cuMemcpy;
    fn cuMemcpyPeer_ptds() = cuMemcpy_ptds;
    fn cuMemcpyPeerAsync(stream) = cuMemcpyAsync;
    fn cuMemcpyPeerAsync_ptsz(stream) = cuMemcpyAsync_ptsz;
}

/// `CUDA_MEMCPY2D` in words of 8 bytes.
type Flat = [usize; 16];
/// `CUDA_MEMCPY3D`
type Deep = [usize; 25];

/// Where in a description the two sides are (the kind of memory; the host and device addresses follow), and the sizes.
struct Layout {
    to: usize,
    from: usize,
    sizes: std::ops::Range<usize>,
}

const FLAT: Layout = Layout { to: 9, from: 2, sizes: 14..16 };
const DEEP: Layout = Layout { to: 15, from: 4, sizes: 22..25 };

/// The description with host sides marked as such, the direction of the bytes, and their number.
fn described<const WORDS: usize>(
    mut words: [usize; WORDS],
    layout: &Layout,
) -> CudaResult<([usize; WORDS], Way, usize)> {
    let mut on_device = [false; 2];
    for (is_device, side) in on_device.iter_mut().zip([layout.to, layout.from]) {
        // `CUmemorytype` is the lower half: 1 host, 2 device, 3 array, 4 either.
        let kind = words[side] as u32;
        let address = words[side + 2];
        *is_device = matches!(kind, 2 | 3) || (kind == 4 && book::find(address).is_some());
        if matches!(kind, 2 | 4) && is_spilled(address, 0)? {
            words[side] = words[side] >> 32 << 32 | 1;
            words[side + 1] = address;
        }
    }
    let way = match on_device {
        [true, false] => Way::In,
        [false, true] => Way::Out,
        [true, true] => Way::Within,
        [false, false] => Way::ByAddress(0, 0),
    };
    let bytes = words[layout.sizes.clone()].iter().fold(1, |bytes: usize, size| bytes.saturating_mul(*size));
    Ok((words, way, bytes))
}

macro_rules! described_copies {
    ($($type:ident $layout:ident { $(fn $name:ident($($stream:ident)?);)* })*) => {$($(
        exports! {
            fn $name(from: *const $type $(, $stream: usize)?) = |from $(, $stream)?| {
                let (words, way, bytes) = described(In(from).get()?, &$layout)?;
                call!($name(&raw const words => *const $type $(, $stream => usize)?))?;
                traffic::count(way, bytes);
                Ok(())
            };
        }
    )*)*};
}

described_copies! {
    Flat FLAT {
        fn cuMemcpy2D_v2();
        fn cuMemcpy2D_v2_ptds();
        fn cuMemcpy2DUnaligned_v2();
        fn cuMemcpy2DUnaligned_v2_ptds();
        fn cuMemcpy2DAsync_v2(stream);
        fn cuMemcpy2DAsync_v2_ptsz(stream);
    }
    Deep DEEP {
        fn cuMemcpy3D_v2();
        fn cuMemcpy3D_v2_ptds();
        fn cuMemcpy3DAsync_v2(stream);
        fn cuMemcpy3DAsync_v2_ptsz(stream);
    }
}
