//! Reductions: combines the same range of every rank's buffer, in rank order, into one or several destinations.
//!
//! Rules (reference: NCCL's device reduction functions). Sums run in rank order, so every rank and every run gets the same bits.
//! 16- and 8-bit floats accumulate in f32 and are rounded once. Integers wrap. Float max and min drop NaN, as fmaxf does. A
//! float average multiplies each contribution by 1/n first; an integer average sums in its type, then divides. If nothing is
//! multiplied, a single rank gets its bits back: NaN keeps its payload, and no small float is rounded or clamped.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use protocol::datatype::{Datatype, ReductionOp};

use crate::kernels::float8;
use crate::kernels::{rows, streaming};

/// One reduction over the buffers of all ranks.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'a> {
    /// Element type.
    pub datatype: Datatype,
    /// Operator.
    pub op: ReductionOp,
    /// For `PreMulSum`: each rank's factor, in the first bytes, as an element of `datatype`.
    pub scalars: &'a [[u8; 8]],
}

impl Reduction<'_> {
    /// Reduces `count` elements of each of `sources` (in rank order) and writes the result to each of `destinations`.
    ///
    /// # Safety
    /// Every pointer is valid for `count` elements. A destination may equal a source; it must not overlap one otherwise.
    pub unsafe fn run(&self, sources: &[*const u8], destinations: &[*mut u8], count: usize) {
        if let ([source], false) = (sources, self.multiplies()) {
            let bytes = count * self.datatype.size();
            for destination in destinations.iter().filter(|destination| destination.cast_const() != *source) {
                // SAFETY: the caller's promise.
                unsafe { streaming::copy(*source, *destination, bytes, bytes, streaming::FROM_MEMORY) };
            }
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            // SAFETY: the processor has AVX-512; the pointers are the caller's promise.
            unsafe { self.run_avx512(sources, destinations, count) };
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2; the pointers are the caller's promise.
            unsafe { self.run_avx2(sources, destinations, count) };
            return;
        }
        // SAFETY: the caller's promise.
        unsafe { self.run_with(sources, destinations, count) }
    }

    /// True if contributions are multiplied by a factor first.
    fn multiplies(&self) -> bool {
        use Datatype::{Bfloat16, Float8E4M3, Float8E5M2, Float16, Float32, Float64};
        let float = matches!(self.datatype, Float16 | Float32 | Float64 | Bfloat16 | Float8E4M3 | Float8E5M2);
        self.op == ReductionOp::PreMulSum || (self.op == ReductionOp::Avg && float)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn run_avx512(&self, sources: &[*const u8], destinations: &[*mut u8], count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.run_with(sources, destinations, count) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(&self, sources: &[*const u8], destinations: &[*mut u8], count: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.run_with(sources, destinations, count) }
    }

    #[inline(always)]
    unsafe fn run_with(&self, sources: &[*const u8], destinations: &[*mut u8], count: usize) {
        // How many elements are worked on at a time: as many as fill a row, and of float16 more, since its conversion is a call.
        // SAFETY: the caller's promise, for each arm.
        unsafe {
            match self.datatype {
                Datatype::Int8 => self.typed::<i8, 256>(sources, destinations, count),
                Datatype::Uint8 => self.typed::<u8, 256>(sources, destinations, count),
                Datatype::Int32 => self.typed::<i32, 64>(sources, destinations, count),
                Datatype::Uint32 => self.typed::<u32, 64>(sources, destinations, count),
                Datatype::Int64 => self.typed::<i64, 32>(sources, destinations, count),
                Datatype::Uint64 => self.typed::<u64, 32>(sources, destinations, count),
                Datatype::Float16 => self.typed::<f16, 512>(sources, destinations, count),
                Datatype::Float32 => self.typed::<f32, 64>(sources, destinations, count),
                Datatype::Float64 => self.typed::<f64, 32>(sources, destinations, count),
                Datatype::Bfloat16 => self.typed::<bf16, 128>(sources, destinations, count),
                Datatype::Float8E4M3 => self.typed::<E4M3, 256>(sources, destinations, count),
                Datatype::Float8E5M2 => self.typed::<E5M2, 256>(sources, destinations, count),
            }
        }
    }

    #[inline(always)]
    unsafe fn typed<E: Element, const N: usize>(&self, sources: &[*const u8], destinations: &[*mut u8], count: usize) {
        let ranks = sources.len();
        // SAFETY: the caller's promise, for each arm.
        unsafe {
            match self.op {
                ReductionOp::Sum => each::<E, N>(sources, destinations, count, |_, x| x, Lane::add, |x| x),
                ReductionOp::Prod => each::<E, N>(sources, destinations, count, |_, x| x, Lane::mul, |x| x),
                ReductionOp::Max => each::<E, N>(sources, destinations, count, |_, x| x, Lane::max, |x| x),
                ReductionOp::Min => each::<E, N>(sources, destinations, count, |_, x| x, Lane::min, |x| x),
                ReductionOp::Avg => match <E::Lane as Lane>::reciprocal(ranks) {
                    Some(share) => {
                        each::<E, N>(sources, destinations, count, move |_, x| Lane::mul(x, share), Lane::add, |x| x);
                    }
                    None => {
                        let finish = move |x| Lane::divide(x, ranks);
                        each::<E, N>(sources, destinations, count, |_, x| x, Lane::add, finish);
                    }
                },
                ReductionOp::PreMulSum => {
                    let factors: Vec<E::Lane> = self.scalars.iter().map(E::scalar).collect();
                    let factors = factors.as_slice();
                    let scale = |rank: usize, x| Lane::mul(x, factors[rank]);
                    each::<E, N>(sources, destinations, count, scale, Lane::add, |x| x);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as detected;
    detected!("avx512f") && detected!("avx512bw") && detected!("avx512dq") && detected!("avx512vl")
}

/// The type in which sums are computed.
trait Lane: Copy + Default {
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    /// 1/n for floats; integers divide at the end instead.
    fn reciprocal(ranks: usize) -> Option<Self>;
    fn divide(self, ranks: usize) -> Self;
}

/// Divides integers as floats, because processors have no integer vector division: `$wide` holds every `$type` exactly, so
/// its truncated quotient is the integer quotient. `$whole` is the type that processors convert it to.
macro_rules! quotients {
    ($($name:ident: $type:ty as $wide:ty as $whole:ty;)*) => {$(
        #[inline(always)]
        fn $name(sum: $type, ranks: usize) -> $type {
            // SAFETY: the quotient is no larger than `sum`, hence finite and in the range of `$whole`.
            (unsafe { (sum as $wide / ranks as $wide).to_int_unchecked::<$whole>() }) as $type
        }
    )*};
}

quotients! {
    quotient_i8: i8 as f32 as i32;
    quotient_u8: u8 as f32 as i32;
    quotient_i32: i32 as f64 as i32;
    quotient_u32: u32 as f64 as i64;
}

/// The widest integers fit in no float. The number of ranks always fits in them.
#[inline(always)]
fn quotient_i64(sum: i64, ranks: usize) -> i64 {
    sum / ranks as i64
}

#[inline(always)]
fn quotient_u64(sum: u64, ranks: usize) -> u64 {
    sum / ranks as u64
}

macro_rules! integer_lanes {
    ($($type:ty: $quotient:ident),*) => {$(
        impl Lane for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn max(self, other: Self) -> Self { Ord::max(self, other) }
            #[inline(always)]
            fn min(self, other: Self) -> Self { Ord::min(self, other) }
            fn reciprocal(_: usize) -> Option<Self> { None }
            #[inline(always)]
            fn divide(self, ranks: usize) -> Self {
                // A number of ranks beyond the type's range leaves nothing of a sum that wrapped into it.
                $quotient(self, ranks)
            }
        }
        impl Element for $type {
            native!($type);
        }
    )*};
}

macro_rules! float_lanes {
    ($($type:ty),*) => {$(
        impl Lane for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn max(self, other: Self) -> Self { <$type>::max(self, other) }
            #[inline(always)]
            fn min(self, other: Self) -> Self { <$type>::min(self, other) }
            fn reciprocal(ranks: usize) -> Option<Self> { Some(1.0 / ranks as $type) }
            #[inline(always)]
            fn divide(self, ranks: usize) -> Self { self / ranks as $type }
        }
    )*};
}

/// How an element type is read into lanes and written from them, `N` at a time.
trait Element {
    type Lane: Lane;
    type Stored: Copy;
    /// A factor, as the caller's bytes give it.
    fn scalar(bytes: &[u8; 8]) -> Self::Lane;
    /// `lanes[i] = f(lanes[i], source[i])`.
    unsafe fn combine<const N: usize>(
        lanes: &mut [Self::Lane; N],
        source: *const Self::Stored,
        f: impl Fn(Self::Lane, Self::Lane) -> Self::Lane,
    );
    /// What to store for `lanes`.
    fn encode<const N: usize>(lanes: &[Self::Lane; N]) -> [Self::Stored; N];
}

macro_rules! native {
    ($type:ty) => {
        type Lane = $type;
        type Stored = $type;
        fn scalar(bytes: &[u8; 8]) -> $type {
            let mut value = [0; size_of::<$type>()];
            value.copy_from_slice(&bytes[..size_of::<$type>()]);
            <$type>::from_ne_bytes(value)
        }
        #[inline(always)]
        unsafe fn combine<const N: usize>(
            lanes: &mut [$type; N],
            source: *const $type,
            f: impl Fn($type, $type) -> $type,
        ) {
            for (index, lane) in lanes.iter_mut().enumerate() {
                // SAFETY: the caller's promise: `source` holds as many elements as there are lanes.
                *lane = f(*lane, unsafe { source.add(index).read_unaligned() });
            }
        }
        #[inline(always)]
        fn encode<const N: usize>(lanes: &[$type; N]) -> [$type; N] {
            *lanes
        }
    };
}

integer_lanes!(
    i8: quotient_i8,
    u8: quotient_u8,
    i32: quotient_i32,
    u32: quotient_u32,
    i64: quotient_i64,
    u64: quotient_u64
);
float_lanes!(f32, f64);
impl Element for f32 {
    native!(f32);
}
impl Element for f64 {
    native!(f64);
}

/// Marks `Datatype::Float8E4M3` bytes.
struct E4M3;
/// Marks `Datatype::Float8E5M2` bytes.
struct E5M2;

macro_rules! widened {
    ($type:ty, $stored:ty, $zero:expr, $decode:expr, $encode:expr) => {
        impl Element for $type {
            type Lane = f32;
            type Stored = $stored;
            fn scalar(bytes: &[u8; 8]) -> f32 {
                let mut lane = [0.0];
                let mut stored = [$zero];
                // SAFETY: eight bytes hold one element, and every bit pattern is one.
                unsafe {
                    std::ptr::copy_nonoverlapping(bytes.as_ptr(), stored.as_mut_ptr().cast(), size_of::<$stored>())
                };
                $decode(&stored[..], &mut lane[..]);
                lane[0]
            }
            #[inline(always)]
            unsafe fn combine<const N: usize>(
                lanes: &mut [f32; N],
                source: *const $stored,
                f: impl Fn(f32, f32) -> f32,
            ) {
                // SAFETY: the caller's promise: `source` holds as many elements as there are lanes.
                let stored = unsafe { source.cast::<[$stored; N]>().read_unaligned() };
                let mut decoded = [0.0; N];
                $decode(&stored[..], &mut decoded[..]);
                for (lane, value) in lanes.iter_mut().zip(decoded) {
                    *lane = f(*lane, value);
                }
            }
            #[inline(always)]
            fn encode<const N: usize>(lanes: &[f32; N]) -> [$stored; N] {
                let mut stored = [$zero; N];
                $encode(&lanes[..], &mut stored[..]);
                stored
            }
        }
    };
}

fn decode_f16(stored: &[f16], lanes: &mut [f32]) {
    stored.convert_to_f32_slice(lanes);
}

fn encode_f16(lanes: &[f32], stored: &mut [f16]) {
    stored.convert_from_f32_slice(lanes);
}

#[inline(always)]
fn decode_bf16(stored: &[bf16], lanes: &mut [f32]) {
    for (lane, value) in lanes.iter_mut().zip(stored) {
        *lane = f32::from_bits(u32::from(value.to_bits()) << 16);
    }
}

#[inline(always)]
fn encode_bf16(lanes: &[f32], stored: &mut [bf16]) {
    for (value, lane) in stored.iter_mut().zip(lanes) {
        let bits = lane.to_bits();
        let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1))) >> 16;
        let quiet = (bits >> 16) | 0x40;
        *value = bf16::from_bits(if lane.is_nan() { quiet } else { rounded } as u16);
    }
}

macro_rules! float8_slices {
    ($decode:ident = $from:path, $encode:ident = $to:path) => {
        #[inline(always)]
        fn $decode(stored: &[u8], lanes: &mut [f32]) {
            lanes.iter_mut().zip(stored).for_each(|(lane, code)| *lane = $from(*code));
        }

        #[inline(always)]
        fn $encode(lanes: &[f32], stored: &mut [u8]) {
            stored.iter_mut().zip(lanes).for_each(|(code, lane)| *code = $to(*lane));
        }
    };
}

float8_slices!(decode_e4m3 = float8::e4m3_to_f32, encode_e4m3 = float8::f32_to_e4m3);
float8_slices!(decode_e5m2 = float8::e5m2_to_f32, encode_e5m2 = float8::f32_to_e5m2);

widened!(f16, f16, f16::ZERO, decode_f16, encode_f16);
widened!(bf16, bf16, bf16::ZERO, decode_bf16, encode_bf16);
widened!(E4M3, u8, 0u8, decode_e4m3, encode_e4m3);
widened!(E5M2, u8, 0u8, decode_e5m2, encode_e5m2);

#[inline(always)]
unsafe fn each<E: Element, const N: usize>(
    sources: &[*const u8],
    destinations: &[*mut u8],
    count: usize,
    prepare: impl Fn(usize, E::Lane) -> E::Lane + Copy,
    combine: impl Fn(E::Lane, E::Lane) -> E::Lane + Copy,
    finish: impl Fn(E::Lane) -> E::Lane,
) {
    // SAFETY: for the caller `N` elements at `at` are within all sources.
    let row = |sources: &[*const u8], at: usize| unsafe {
        let mut lanes = [E::Lane::default(); N];
        for (rank, source) in sources.iter().enumerate() {
            let source = source.add(at).cast::<E::Stored>();
            if rank == 0 {
                E::combine(&mut lanes, source, move |_, x| prepare(0, x));
            } else {
                E::combine(&mut lanes, source, move |sum, x| combine(sum, prepare(rank, x)));
            }
        }
        lanes.iter_mut().for_each(|lane| *lane = finish(*lane));
        E::encode(&lanes)
    };
    // SAFETY: rows are within the buffers, which hold `count` elements; each is read before it is written.
    unsafe {
        rows::each::<E::Stored, N>(sources, destinations, count, row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduce<T: Copy + Default>(datatype: Datatype, op: ReductionOp, ranks: &[&[T]]) -> Vec<T> {
        reduce_scaled(datatype, op, ranks, &[])
    }

    fn reduce_scaled<T: Copy + Default>(
        datatype: Datatype,
        op: ReductionOp,
        ranks: &[&[T]],
        scalars: &[[u8; 8]],
    ) -> Vec<T> {
        assert_eq!(size_of::<T>(), datatype.size());
        let mut result = vec![T::default(); ranks[0].len()];
        let sources: Vec<*const u8> = ranks.iter().map(|rank| rank.as_ptr().cast()).collect();
        // SAFETY: every slice has the length of the first.
        unsafe {
            Reduction { datatype, op, scalars }.run(&sources, &[result.as_mut_ptr().cast()], result.len());
        }
        result
    }

    #[test]
    fn integers_wrap_and_their_average_divides_the_wrapped_sum() {
        use ReductionOp::{Avg, Max, Min, Prod, Sum};
        assert_eq!(reduce::<i8>(Datatype::Int8, Avg, &[&[100], &[100]]), [-28]);
        assert_eq!(reduce::<u8>(Datatype::Uint8, Avg, &[&[200], &[200]]), [72]);
        assert_eq!(reduce::<i32>(Datatype::Int32, Avg, &[&[-7], &[0]]), [-3]);
        assert_eq!(reduce::<i32>(Datatype::Int32, Sum, &[&[i32::MAX], &[1]]), [i32::MIN]);
        assert_eq!(reduce::<u64>(Datatype::Uint64, Prod, &[&[1 << 63], &[3]]), [1 << 63]);
        assert_eq!(reduce::<i64>(Datatype::Int64, Min, &[&[-1, 5], &[1, 4]]), [-1, 4]);
        assert_eq!(reduce::<u32>(Datatype::Uint32, Max, &[&[u32::MAX], &[1]]), [u32::MAX]);
    }

    #[test]
    fn every_average_of_integers_is_cut_off_towards_zero() {
        use ReductionOp::Avg;
        for ranks in 1..=9usize {
            for sum in -128..=127i8 {
                let mut parts = vec![[0i8]; ranks];
                parts[0] = [sum];
                let parts: Vec<&[i8]> = parts.iter().map(|part| part.as_slice()).collect();
                assert_eq!(reduce::<i8>(Datatype::Int8, Avg, &parts), [sum / ranks as i8]);
            }
        }
        let (most, least) = (u32::MAX, i32::MIN);
        assert_eq!(reduce::<u32>(Datatype::Uint32, Avg, &[&[most - 2], &[0], &[0]]), [(most - 2) / 3]);
        assert_eq!(reduce::<i32>(Datatype::Int32, Avg, &[&[least], &[0], &[0]]), [least / 3]);
        assert_eq!(reduce::<i64>(Datatype::Int64, Avg, &[&[i64::MIN], &[0], &[0]]), [i64::MIN / 3]);
    }

    #[test]
    fn max_and_min_drop_nan_on_either_side() {
        for op in [ReductionOp::Max, ReductionOp::Min] {
            assert_eq!(reduce::<f32>(Datatype::Float32, op, &[&[f32::NAN, 1.0], &[1.0, f32::NAN]]), [1.0, 1.0]);
            assert_eq!(reduce::<f64>(Datatype::Float64, op, &[&[f64::NAN, 2.0], &[2.0, f64::NAN]]), [2.0, 2.0]);
            let (nan, one) = (f16::NAN, f16::ONE);
            assert_eq!(reduce::<f16>(Datatype::Float16, op, &[&[nan, one], &[one, nan]]), [one, one]);
            // e4m3: 0x7f is NaN, 0x38 is 1.
            assert_eq!(reduce::<u8>(Datatype::Float8E4M3, op, &[&[0x7f, 0x38], &[0x38, 0x7f]]), [0x38, 0x38]);
        }
        assert!(reduce::<f32>(Datatype::Float32, ReductionOp::Max, &[&[f32::NAN], &[f32::NAN]])[0].is_nan());
    }

    #[test]
    fn small_floats_round_once() {
        // 2048 + 1 + 1 in f16: rounding each step loses both ones, rounding once keeps their sum.
        let (big, one) = (f16::from_f32(2048.0), f16::ONE);
        assert_eq!(
            reduce::<f16>(Datatype::Float16, ReductionOp::Sum, &[&[big], &[one], &[one]]),
            [f16::from_f32(2050.0)]
        );
        let (big, one) = (bf16::from_f32(256.0), bf16::ONE);
        assert_eq!(
            reduce::<bf16>(Datatype::Bfloat16, ReductionOp::Sum, &[&[big], &[one], &[one]]),
            [bf16::from_f32(258.0)]
        );
        // e4m3: 0x38 is 1, 0x40 is 2; e5m2: 0x3c is 1, 0x40 is 2.
        assert_eq!(reduce::<u8>(Datatype::Float8E4M3, ReductionOp::Sum, &[&[0x38], &[0x38]]), [0x40]);
        assert_eq!(reduce::<u8>(Datatype::Float8E5M2, ReductionOp::Sum, &[&[0x3c], &[0x3c]]), [0x40]);
    }

    #[test]
    fn bf16_encoding_is_the_half_crates() {
        for step in 0..100_000u32 {
            let value = f32::from_bits(step.wrapping_mul(2_654_435_761));
            let mut stored = [bf16::ZERO];
            encode_bf16(&[value], &mut stored);
            assert_eq!(stored[0].to_bits(), bf16::from_f32(value).to_bits(), "{value}");
        }
    }

    #[test]
    fn averages_and_scaled_sums_of_floats() {
        assert_eq!(reduce::<f32>(Datatype::Float32, ReductionOp::Avg, &[&[1.0], &[2.0], &[3.0], &[6.0]]), [3.0]);
        let mut scalars = [[0; 8]; 2];
        scalars[0][..4].copy_from_slice(&0.5f32.to_ne_bytes());
        scalars[1][..4].copy_from_slice(&4f32.to_ne_bytes());
        assert_eq!(reduce_scaled::<f32>(Datatype::Float32, ReductionOp::PreMulSum, &[&[3.0], &[2.0]], &scalars), [9.5]);
    }

    #[test]
    fn one_rank_alone_gets_its_bits_back() {
        use ReductionOp::{Avg, Max, Min, PreMulSum, Prod, Sum};
        let bytes: Vec<u8> = (0..=255).collect();
        for datatype in [Datatype::Float8E4M3, Datatype::Float8E5M2, Datatype::Int8] {
            for op in [Sum, Prod, Max, Min] {
                assert_eq!(reduce::<u8>(datatype, op, &[&bytes]), bytes, "{datatype} {op}");
            }
        }
        let signaling = f32::from_bits(0x7f80_0001);
        assert_eq!(reduce::<f32>(Datatype::Float32, Sum, &[&[signaling]])[0].to_bits(), signaling.to_bits());
        // A product is encoded anew: infinity (0x7c) becomes the largest number, as it does among several ranks.
        let mut one = [0; 8];
        one[0] = 0x3c;
        assert_eq!(reduce_scaled::<u8>(Datatype::Float8E5M2, PreMulSum, &[&[0x7c]], &[one]), [0x7b]);
        assert_eq!(reduce::<u8>(Datatype::Float8E5M2, Avg, &[&[0x7c]]), [0x7b]);
    }

    #[test]
    fn long_unaligned_and_in_place() {
        let count = 3 * 8192 + 17;
        let mut bytes = vec![0u8; count * 4 + 1];
        let other: Vec<f32> = (0..count).map(|index| index as f32).collect();
        for (index, value) in other.iter().enumerate() {
            bytes[1 + index * 4..5 + index * 4].copy_from_slice(&(value * 2.0).to_ne_bytes());
        }
        // SAFETY: one byte in, the buffer still holds `count` elements.
        let odd = unsafe { bytes.as_mut_ptr().add(1) };
        let reduction = Reduction { datatype: Datatype::Float32, op: ReductionOp::Sum, scalars: &[] };
        // SAFETY: both buffers hold `count` elements; the destination equals a source.
        unsafe { reduction.run(&[other.as_ptr().cast(), odd.cast_const()], &[odd], count) };
        for (index, value) in other.iter().enumerate() {
            let got = f32::from_ne_bytes(bytes[1 + index * 4..5 + index * 4].try_into().unwrap());
            assert_eq!(got, value * 3.0);
        }
    }
}
