//! Tensor maps, with which kernels copy boxes of tensors (TMA): `cuTensorMap*`.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;
use ptx::TensorMap;

use crate::boundary::gap;

/// `CUtensorMap`
pub(crate) type Opaque = [u8; 128];

/// Bytes of the elements of each `CUtensorMapDataType` that is not packed.
const ELEMENT_BYTES: [u8; 13] = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4];
/// The first floating-point type; these can be filled with NaN.
const FIRST_FLOAT: usize = 6;
const MAX_RANK: u32 = 5;
const MAX_BOX: u32 = 256;
const MAX_ELEMENT_STRIDE: u32 = 8;

/// `cuTensorMapEncodeTiled`. The map has our own format; the request is checked as CUDA documents.
///
/// # Errors
/// `INVALID_VALUE`. Interleaved and packed elements and the newer swizzles are gaps.
#[expect(clippy::too_many_arguments, reason = "CUDA's signature")]
pub(crate) fn encode_tiled(
    out: Out<Opaque>,
    data_type: c_uint,
    rank: c_uint,
    address: usize,
    sizes: Out<u64>,
    strides: Out<u64>,
    box_sizes: Out<u32>,
    element_strides: Out<u32>,
    interleave: c_uint,
    swizzle: c_uint,
    promotion: c_uint,
    fill: c_uint,
) -> CudaResult {
    let wrong = Err(CudaError::INVALID_VALUE);
    if !(out.0 as usize).is_multiple_of(64) || !(1..=MAX_RANK).contains(&rank) || promotion > 3 || fill > 1 {
        return wrong;
    }
    if interleave != 0 || (4..=6).contains(&swizzle) || (13..=15).contains(&data_type) {
        let what = "interleaved or packed elements, or a swizzle of larger atoms";
        gap::tolerate(Library::CudaDriver, "cuTensorMapEncodeTiled", what)?;
        return Err(CudaError::NOT_SUPPORTED);
    }
    let Some(bytes) = ELEMENT_BYTES.get(data_type as usize).copied().filter(|_| swizzle < 4) else { return wrong };
    let count = rank as usize;
    let (sizes, strides) = (sizes.list(count)?, strides.list(count - 1)?);
    let (box_sizes, element_strides) = (box_sizes.list(count)?, element_strides.list(count)?);
    let row = u64::from(box_sizes[0]) * u64::from(bytes);
    let width = 16u64 << swizzle;
    let fits = address.is_multiple_of(16)
        && sizes.iter().all(|size| (1..=1 << 32).contains(size))
        && strides.iter().all(|stride| stride.is_multiple_of(16) && *stride < 1 << 40)
        && box_sizes.iter().all(|size| (1..=MAX_BOX).contains(size))
        && element_strides.iter().all(|stride| (1..=MAX_ELEMENT_STRIDE).contains(stride))
        && row.is_multiple_of(16)
        && (swizzle == 0 || row <= width)
        && (fill == 0 || data_type as usize >= FIRST_FLOAT);
    if !fits {
        return wrong;
    }
    let at = |values: &[u64], index: usize| values.get(index).copied().unwrap_or(0);
    let small = |values: &[u32], index: usize, none: u32| values.get(index).copied().unwrap_or(none);
    let map = TensorMap {
        address: address as u64,
        rank: rank as u8,
        sizes: std::array::from_fn(|index| at(&sizes, index)),
        strides: std::array::from_fn(|index| at(&strides, index)),
        box_sizes: std::array::from_fn(|index| small(&box_sizes, index, 0) as u16),
        element_strides: std::array::from_fn(|index| small(&element_strides, index, 1) as u8),
        element_bytes: bytes,
        data_type: data_type as u8,
        swizzle: swizzle as u8,
        fill_nan: fill != 0,
    };
    Ok(out.set(map.encode())?)
}

/// `cuTensorMapReplaceAddress`
///
/// # Errors
/// `INVALID_VALUE` for anything that is not a tensor map, and for an unaligned address.
pub(crate) fn replace_address(map: Out<Opaque>, address: usize) -> CudaResult {
    match TensorMap::decode(&map.get()?) {
        Some(found) if address.is_multiple_of(16) => {
            Ok(map.set(TensorMap { address: address as u64, ..found }.encode())?)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Aligned(Opaque);

    /// A matrix of 20 rows of 100 bf16, 208 bytes apart, in boxes of 8 rows of 64.
    fn encode(
        change: impl FnOnce(&mut [u64; 2], &mut [u64; 1], &mut [u32; 2], &mut [u32; 2], &mut [u32; 4]),
    ) -> CudaResult<Opaque> {
        let mut map = Aligned([0; 128]);
        let (mut sizes, mut strides, mut edges, mut steps) = ([100, 20], [208], [64, 8], [1, 2]);
        // Type, interleave, swizzle, fill.
        let mut modes = [9, 0, 3, 1];
        change(&mut sizes, &mut strides, &mut edges, &mut steps, &mut modes);
        let [kind, interleave, swizzle, fill] = modes;
        encode_tiled(
            Out(&mut map.0),
            kind,
            2,
            0x7000_0010,
            Out(sizes.as_mut_ptr()),
            Out(strides.as_mut_ptr()),
            Out(edges.as_mut_ptr()),
            Out(steps.as_mut_ptr()),
            interleave,
            swizzle,
            0,
            fill,
        )?;
        Ok(map.0)
    }

    #[test]
    fn a_map_has_what_it_was_made_of() {
        let bytes = encode(|_, _, _, _, _| {}).unwrap();
        let expected = TensorMap {
            address: 0x7000_0010,
            rank: 2,
            sizes: [100, 20, 0, 0, 0],
            strides: [208, 0, 0, 0],
            box_sizes: [64, 8, 0, 0, 0],
            element_strides: [1, 2, 1, 1, 1],
            element_bytes: 2,
            data_type: 9,
            swizzle: 3,
            fill_nan: true,
        };
        assert_eq!(TensorMap::decode(&bytes), Some(expected));
        let mut bytes = bytes;
        replace_address(Out(&mut bytes), 0x8000).unwrap();
        assert_eq!(TensorMap::decode(&bytes), Some(TensorMap { address: 0x8000, ..expected }));
        assert_eq!(replace_address(Out(&mut bytes), 0x8008), Err(CudaError::INVALID_VALUE));
        assert_eq!(replace_address(Out(&mut [0; 128]), 0x8000), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn what_cuda_forbids_is_an_invalid_value() {
        let all = [
            encode(|sizes, _, _, _, _| sizes[1] = 0),
            encode(|_, strides, _, _, _| strides[0] = 200),
            encode(|_, _, edges, _, _| edges[1] = 257),
            // 66 elements are not a multiple of 16 bytes, 72 are wider than the swizzle.
            encode(|_, _, edges, _, _| edges[0] = 66),
            encode(|_, _, edges, _, _| edges[0] = 72),
            encode(|_, _, _, steps, _| steps[0] = 9),
            encode(|_, _, _, _, modes| modes[0] = 16),
            encode(|_, _, _, _, modes| *modes = [1, 0, 3, 1]),
        ];
        for result in all {
            assert_eq!(result, Err(CudaError::INVALID_VALUE));
        }
    }
}
