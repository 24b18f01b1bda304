//! A tensor in a few numbers: its elements are read where they are, without an operator of PyTorch.

use half::{bf16, f16};
use protocol::step_record::{Summary, sampled};

/// This rank's shard of a tensor, by dimension.
#[derive(Clone, Copy)]
pub(super) struct Shard<'a> {
    /// Address of its first element.
    pub(super) address: usize,
    /// The size of the whole tensor.
    pub(super) whole: &'a [u64],
    /// Where it starts in that.
    pub(super) offset: &'a [u64],
    /// Its size.
    pub(super) shape: &'a [u64],
    /// From one of its elements to the next, in elements.
    pub(super) strides: &'a [u64],
}

/// An element of a tensor.
trait Element: Copy {
    /// Its value, and its bits.
    fn read(self) -> (f64, u64);
}

macro_rules! elements {
    ($($kind:ty: |$value:ident| $read:expr;)*) => {
        $(impl Element for $kind {
            fn read(self) -> (f64, u64) {
                let $value = self;
                $read
            }
        })*
    };
}

elements! {
    f64: |value| (value, value.to_bits());
    f32: |value| (value.into(), value.to_bits().into());
    f16: |value| (value.into(), value.to_bits().into());
    bf16: |value| (value.into(), value.to_bits().into());
    i64: |value| (value as f64, value as u64);
    i32: |value| (value.into(), value as u64);
    i16: |value| (value.into(), value as u64);
    i8: |value| (value.into(), value as u64);
    u8: |value| (value.into(), value.into());
}

/// The numbers of a shard of the tensor with this name; `None` for a datatype that is not known.
///
/// # Safety
/// There is an element of `dtype` at each place of the shard, and nobody writes there.
pub(super) unsafe fn summarize(name: &str, dtype: &str, shard: &Shard<'_>) -> Option<Summary> {
    // SAFETY: the caller's promise; PyTorch's bool is a byte.
    unsafe {
        Some(match dtype {
            "float64" => each::<f64>(name, shard),
            "float32" => each::<f32>(name, shard),
            "float16" => each::<f16>(name, shard),
            "bfloat16" => each::<bf16>(name, shard),
            "int64" => each::<i64>(name, shard),
            "int32" => each::<i32>(name, shard),
            "int16" => each::<i16>(name, shard),
            "int8" => each::<i8>(name, shard),
            "uint8" | "bool" => each::<u8>(name, shard),
            _ => return None,
        })
    }
}

/// # Safety
/// There is a `T` at each place of the shard, and nobody writes there.
unsafe fn each<T: Element>(name: &str, shard: &Shard<'_>) -> Summary {
    let mut summary = Summary::default();
    let mut samples = sampled(name, shard.whole.iter().product()).into_iter().peekable();
    // Row by row, so that indices ascend; the last dimension is the inner loop.
    let (outer, length) = match shard.shape.split_last() {
        Some((length, outer)) => (outer, *length),
        None => (shard.shape, 1),
    };
    let stride = shard.strides.last().map_or(0, |stride| *stride as usize);
    let mut place = vec![0; outer.len()];
    for _ in 0..outer.iter().product() {
        let (mut index, mut element) = (0, 0);
        for (dimension, at) in place.iter().enumerate() {
            index = index * shard.whole[dimension] + shard.offset[dimension] + at;
            element += (shard.strides[dimension] * at) as usize;
        }
        if let (Some(whole), Some(offset)) = (shard.whole.last(), shard.offset.last()) {
            index = index * whole + offset;
        }
        for along in 0..length as usize {
            // SAFETY: an element of the shard, by the caller's promise; it may be unaligned in a view of bytes.
            let value = unsafe { (shard.address as *const T).add(element + along * stride).read_unaligned() };
            let (value, bits) = value.read();
            let index = index + along as u64;
            summary.add_element(index, value, bits);
            while samples.next_if(|sample| *sample < index).is_some() {}
            if samples.next_if_eq(&index).is_some() {
                summary.samples.push((index, value.is_finite().then_some(value)));
            }
        }
        for dimension in (0..outer.len()).rev() {
            place[dimension] += 1;
            if place[dimension] < outer[dimension] {
                break;
            }
            place[dimension] = 0;
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The summary of a box of a tensor of 4 by 6 numbers with these strides in memory.
    fn summarized(offset: [u64; 2], shape: [u64; 2], strides: [u64; 2]) -> Summary {
        let mut memory = [f32::NAN; 24];
        let (from, whole) = (offset, [4, 6]);
        for row in 0..shape[0] {
            for column in 0..shape[1] {
                let value = (from[0] + row) * 10 + from[1] + column;
                memory[(row * strides[0] + column * strides[1]) as usize] = value as f32;
            }
        }
        let address = memory.as_ptr() as usize;
        let shard = Shard { address, whole: &whole, offset: &offset, shape: &shape, strides: &strides };
        // SAFETY: all places of the shard are in `memory`.
        unsafe { summarize("weight", "float32", &shard) }.unwrap()
    }

    #[test]
    fn memory_format_and_sharding_make_no_difference() {
        let whole = summarized([0, 0], [4, 6], [6, 1]);
        assert_eq!((whole.count, whole.sum, whole.largest), (24, f64::from(6 * 60 + 4 * 15), 35.0));
        assert_eq!(summarized([0, 0], [4, 6], [1, 4]), whole, "column by column");
        let shards = [
            summarized([0, 0], [1, 6], [6, 1]),
            summarized([1, 0], [3, 2], [2, 1]),
            summarized([1, 2], [3, 4], [1, 3]),
        ];
        let mut sum = Summary::default();
        shards.iter().for_each(|shard| sum.add_shard(shard));
        assert_eq!(sum, whole);
        let sampled: Vec<u64> = whole.samples.iter().map(|(index, _)| *index).collect();
        assert_eq!(sampled, super::sampled("weight", 24));
        assert!(whole.samples.iter().all(|(index, value)| *value == Some((index / 6 * 10 + index % 6) as f64)));
    }

    #[test]
    fn datatypes_by_table() {
        let shard = |address| Shard { address, whole: &[], offset: &[], shape: &[], strides: &[] };
        macro_rules! sum {
            ($dtype:literal, $value:expr) => {{
                let value = $value;
                // SAFETY: one number of that datatype.
                unsafe { summarize("x", $dtype, &shard(&raw const value as usize)) }.map(|summary| summary.sum)
            }};
        }
        assert_eq!(sum!("float64", -1.5_f64), Some(-1.5));
        assert_eq!(sum!("bfloat16", bf16::from_f32(-1.5)), Some(-1.5));
        assert_eq!(sum!("float16", f16::from_f32(-1.5)), Some(-1.5));
        assert_eq!(sum!("int64", -3_i64), Some(-3.0));
        assert_eq!(sum!("bool", true), Some(1.0));
        assert_eq!(sum!("complex64", 0_u64), None);
    }
}
