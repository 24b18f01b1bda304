//! `wgmma`: a warp's 16 rows of a product whose factors are in shared memory, located by descriptors.

use crate::number::Scalar;
use crate::runtime::home::{Slot, Source};
use crate::runtime::matrix::{float_of, int_of, lanes_of, set_lanes, single_of};
use crate::runtime::state::Warp;

use Scalar::*;

/// Rows of a warp: a quarter of the 64 that a warpgroup has.
pub(crate) const ROWS: u32 = 16;
/// The part that is contiguous in shared memory in every layout.
pub(crate) const CHUNK: u64 = 16;

/// `wgmma.mma_async`: d = a b + d, or a b.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WarpgroupMma {
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) a: Scalar,
    pub(crate) b: Scalar,
    pub(crate) d: Scalar,
    /// Whether A is in shared memory, else it is in four registers.
    pub(crate) a_in_memory: bool,
    /// Whether rows of A (columns of B) are contiguous, instead of the dimension that is summed over.
    pub(crate) a_transposed: bool,
    pub(crate) b_transposed: bool,
    pub(crate) a_negated: bool,
    pub(crate) b_negated: bool,
    pub(crate) saturate: bool,
}

/// Where a factor is in shared memory: CUTLASS' canonical layouts of `GmmaDescriptor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    start: u64,
    /// Bytes from chunk to chunk, or from one group of chunks to the next, in the contiguous dimension.
    leading: u64,
    /// Bytes from eight lines to the next eight.
    stride: u64,
    /// By how many lines of 128 bytes the start of the pattern is off a multiple of its size.
    phase: u64,
    /// Bytes of a line within which chunks are swapped; 16 for none.
    width: u64,
}

impl Descriptor {
    pub(crate) fn decode(bits: u64) -> Descriptor {
        let field = |shift: u32| (bits >> shift & 0x3fff) << 4;
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            phase: bits >> 49 & 7,
            width: [16, 128, 64, 32][(bits >> 62) as usize],
        }
    }

    /// The shared address of the chunk of 16 bytes that has element `chunk` (in chunks) of line `line`. A line is a row of
    /// A or a column of B; if the factor is transposed, it is one step of the sum.
    pub(crate) fn chunk(&self, line: u64, chunk: u64, transposed: bool) -> u64 {
        let (group, inner) = (line / 8, line % 8);
        let per_line = self.width / CHUNK;
        let offset = match (transposed, self.width) {
            (false, 16) => inner * 16 + group * self.stride + chunk * self.leading,
            (true, 16) => inner * 16 + group * self.leading + chunk * self.stride,
            (false, width) => inner * width + group * self.stride + chunk * CHUNK,
            (true, width) => {
                inner * width + group * self.stride + chunk % per_line * CHUNK + chunk / per_line * self.leading
            }
        };
        let address = self.start + offset;
        address ^ (((address >> 7).wrapping_sub(self.phase)) & (per_line - 1)) << 4
    }
}

/// The parts of a vector that a chunk holds, one after the other.
pub(crate) fn elements(chunk: [u8; 16], scalar: Scalar) -> impl Iterator<Item = u32> {
    let bytes = (scalar.bits() / 8) as usize;
    (0..16 / bytes).map(move |at| {
        let mut raw = [0u8; 4];
        raw[..bytes].copy_from_slice(&chunk[at * bytes..(at + 1) * bytes]);
        u32::from_le_bytes(raw)
    })
}

impl WarpgroupMma {
    /// How many registers the result has, and of what type.
    pub(crate) fn results(&self) -> (u32, Scalar) {
        match self.d {
            F16 => (self.n / 4, B32),
            d => (self.n / 2, d),
        }
    }

    /// A's elements in registers, by row and step.
    pub(crate) fn read_rows(&self, warp: &Warp, sources: &[Source]) -> Vec<u32> {
        let (bits, k) = (self.a.bits(), self.k as usize);
        let per = 32 / bits;
        let mut all = vec![0u32; ROWS as usize * k];
        for (register, source) in (0u32..).zip(sources) {
            for (lane, value) in (0u32..).zip(lanes_of(warp, *source)) {
                let row = lane / 4 + 8 * (register & 1);
                for part in 0..per {
                    let step = lane % 4 * per + (register >> 1) * 4 * per + part;
                    let value = if bits == 32 { value } else { value >> (part * bits) & ((1 << bits) - 1) };
                    all[row as usize * k + step as usize] = value;
                }
            }
        }
        all
    }

    /// Multiplies `a`, by row and step, with `b`, by step and column, and adds to the results.
    pub(crate) fn multiply(&self, warp: &Warp, a: &[u32], b: &[u32], add: bool, sums: &[Source], dst: &[Option<Slot>]) {
        if self.d == S32 {
            let convert = |values: &[u32], scalar| -> Vec<i32> {
                values.iter().map(|value| int_of(u64::from(*value), scalar)).collect()
            };
            let (a, b) = (convert(a, self.a), convert(b, self.b));
            let mut c = self.read_sums(warp, sums, add, |bits| i64::from(bits as i32));
            for (row, sums) in c.chunks_exact_mut(self.n as usize).enumerate() {
                for step in 0..self.k as usize {
                    let factor = i64::from(a[row * self.k as usize + step]);
                    for (sum, other) in sums.iter_mut().zip(&b[step * self.n as usize..]) {
                        *sum += factor * i64::from(*other);
                    }
                }
            }
            self.write_sums(warp, dst, &c, |sum| {
                let sum = if self.saturate { sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) } else { sum };
                sum as u32
            });
            return;
        }
        let convert = |values: &[u32], scalar, negated: bool| -> Vec<f32> {
            let sign = if negated { -1.0 } else { 1.0 };
            values.iter().map(|value| sign * single_of(*value, scalar)).collect()
        };
        let (a, b) = (convert(a, self.a, self.a_negated), convert(b, self.b, self.b_negated));
        let mut c = self.read_sums(warp, sums, add, |bits| float_of(u64::from(bits), self.d) as f32);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has what the function is compiled for.
            unsafe { sum_wide(&a, &b, &mut c, self.n as usize) };
        } else {
            sum(&a, &b, &mut c, self.n as usize);
        }
        #[cfg(not(target_arch = "x86_64"))]
        sum(&a, &b, &mut c, self.n as usize);
        self.write_sums(warp, dst, &c, |sum| match self.d {
            F16 if sum.is_nan() => 0x7fff,
            F16 => u32::from(half::f16::from_f32(sum).to_bits()),
            _ if sum.is_nan() => 0x7fff_ffff,
            _ => sum.to_bits(),
        });
    }

    /// The place in the warp's rows of part `part` of result register `register` of `lane`.
    fn place(&self, register: u32, lane: u32, part: u32) -> usize {
        let element = register * self.parts() + part;
        let row = lane / 4 + 8 * (element >> 1 & 1);
        let column = element / 4 * 8 + lane % 4 * 2 + (element & 1);
        (row * self.n + column) as usize
    }

    fn parts(&self) -> u32 {
        if self.d == F16 { 2 } else { 1 }
    }

    fn read_sums<T: Copy + Default>(&self, warp: &Warp, sums: &[Source], add: bool, of: impl Fn(u32) -> T) -> Vec<T> {
        let mut all = vec![T::default(); (ROWS * self.n) as usize];
        if add {
            for (register, source) in (0u32..).zip(sums) {
                for (lane, value) in (0u32..).zip(lanes_of(warp, *source)) {
                    for part in 0..self.parts() {
                        let value = if self.d == F16 { value >> (part * 16) & 0xffff } else { value };
                        all[self.place(register, lane, part)] = of(value);
                    }
                }
            }
        }
        all
    }

    fn write_sums<T: Copy>(&self, warp: &Warp, dst: &[Option<Slot>], sums: &[T], bits: impl Fn(T) -> u32) {
        for (register, slot) in (0u32..).zip(dst) {
            let mut values = [0u32; 32];
            for (lane, value) in (0u32..).zip(&mut values) {
                for part in 0..self.parts() {
                    *value |= bits(sums[self.place(register, lane, part)]) << (part * 16);
                }
            }
            set_lanes(warp, *slot, &values);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn sum_wide(a: &[f32], b: &[f32], c: &mut [f32], n: usize) {
    sum(a, b, c, n);
}

#[inline(always)]
fn sum(a: &[f32], b: &[f32], c: &mut [f32], n: usize) {
    let k = b.len() / n;
    for (factors, sums) in a.chunks_exact(k).zip(c.chunks_exact_mut(n)) {
        for (factor, line) in factors.iter().zip(b.chunks_exact(n)) {
            for (sum, other) in sums.iter_mut().zip(line) {
                *sum = factor.mul_add(*other, *sum);
            }
        }
    }
}
