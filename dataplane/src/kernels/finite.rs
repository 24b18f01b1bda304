//! Numbers that are not finite: how they look in memory, and the reductions that make them of finite ones.

use std::ops::{BitAnd, BitOr};
use std::sync::OnceLock;

use protocol::datatype::Datatype;

use crate::call::Call;
#[cfg(target_arch = "x86_64")]
use crate::kernels::reduce;

/// How many numbers there are, and how many of them are not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub numbers: usize,
    /// NaN.
    pub nan: usize,
    /// Inf.
    pub infinite: usize,
}

impl Count {
    /// The sum of both counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            numbers: self.numbers + other.numbers,
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
        }
    }

    /// Whether a number is not finite.
    pub fn is_any(&self) -> bool {
        self.nan + self.infinite > 0
    }

    /// "2 NaN and 1 Inf among 9 results".
    pub fn words(self) -> String {
        let Self { numbers, nan, infinite } = self;
        let results = if numbers == 1 { "result" } else { "results" };
        match (nan, infinite) {
            (_, 0) => format!("{nan} NaN among {numbers} {results}"),
            (0, _) => format!("{infinite} Inf among {numbers} {results}"),
            _ => format!("{nan} NaN and {infinite} Inf among {numbers} {results}"),
        }
    }
}

/// A floating-point format; complex numbers are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are PyTorch's")]
pub enum Format {
    Half,
    Bfloat,
    Single,
    Double,
}

impl Format {
    /// The format of a datatype; `None` for integers, and for 8-bit types, which few programs compute with.
    fn from_datatype(datatype: Datatype) -> Option<Self> {
        match datatype {
            Datatype::Float16 => Some(Self::Half),
            Datatype::Bfloat16 => Some(Self::Bfloat),
            Datatype::Float32 => Some(Self::Single),
            Datatype::Float64 => Some(Self::Double),
            _ => None,
        }
    }

    /// Whether a number of a result is not finite, as far as [`examine`] looks for such.
    ///
    /// # Safety
    /// As [`Format::count`].
    pub(crate) unsafe fn has_any(datatype: Datatype, address: usize, bytes: usize) -> bool {
        // SAFETY: by the caller.
        Self::from_datatype(datatype).is_some_and(|format| unsafe { format.count(address, bytes) }.is_any())
    }

    /// Examines the numbers in `bytes` bytes.
    ///
    /// # Safety
    /// They exist, are aligned, and nobody changes them in the meantime.
    pub unsafe fn count(self, address: usize, bytes: usize) -> Count {
        // SAFETY: by the caller.
        unsafe {
            match self {
                Self::Half => HALF.count(words(address, bytes)),
                Self::Bfloat => BFLOAT.count(words(address, bytes)),
                Self::Single => SINGLE.count(words(address, bytes)),
                Self::Double => DOUBLE.count(words(address, bytes)),
            }
        }
    }
}

const HALF: Layout<u16> = Layout { sign: 1 << 15, exponent: 0x7c00, unit: 1 << 10, mantissa: 0x03ff };
const BFLOAT: Layout<u16> = Layout { sign: 1 << 15, exponent: 0x7f80, unit: 1 << 7, mantissa: 0x007f };
const SINGLE: Layout<u32> = Layout { sign: 1 << 31, exponent: 0x7f80_0000, unit: 1 << 23, mantissa: 0x007f_ffff };
const DOUBLE: Layout<u64> =
    Layout { sign: 1 << 63, exponent: 0x7ff0_0000_0000_0000, unit: 1 << 52, mantissa: 0x000f_ffff_ffff_ffff };

/// # Safety
/// As [`Format::count`].
unsafe fn words<'a, T>(address: usize, bytes: usize) -> &'a [T] {
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(address as *const T, bytes / size_of::<T>()) }
}

/// The bits of a number.
trait Bits: Copy + PartialEq + BitAnd<Output = Self> + BitOr<Output = Self> + Default {
    fn plus(self, other: Self) -> Self;
}

impl Bits for u16 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Bits for u32 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

impl Bits for u64 {
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
}

/// How a format lays out its numbers, each part as bits in place.
#[derive(Clone, Copy)]
struct Layout<T> {
    sign: T,
    exponent: T,
    /// The exponent's lowest bit.
    unit: T,
    mantissa: T,
}

impl<T: Bits> Layout<T> {
    /// A number is not finite if all bits of its exponent are set, and then NaN if one of its mantissa is (IEEE 754).
    fn count(self, words: &[T]) -> Count {
        let mut count = Count { numbers: words.len(), nan: 0, infinite: 0 };
        // Mostly there is none, which is found out without a branch per number.
        if self.is_any(words) {
            for word in words.iter().filter(|word| **word & self.exponent == self.exponent) {
                let is_nan = *word & self.mantissa != T::default();
                count.nan += usize::from(is_nan);
                count.infinite += usize::from(!is_nan);
            }
        }
        count
    }

    /// Whether a number is not finite.
    fn is_any(self, words: &[T]) -> bool {
        #[cfg(target_arch = "x86_64")]
        if reduce::has_avx512() {
            // SAFETY: the processor has AVX-512.
            return unsafe { self.is_any_avx512(words) };
        }
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.is_any_avx2(words) };
        }
        self.is_any_with(words)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn is_any_avx512(self, words: &[T]) -> bool {
        self.is_any_with(words)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn is_any_avx2(self, words: &[T]) -> bool {
        self.is_any_with(words)
    }

    /// One more in an exponent of which all bits are set carries into the sign.
    #[inline(always)]
    fn is_any_with(self, words: &[T]) -> bool {
        let carried =
            words.iter().fold(T::default(), |carried, word| carried | (*word & self.exponent).plus(self.unit));
        carried & self.sign != T::default()
    }
}

/// Gets the call of a reduction, and what this rank made of finite numbers.
pub type Report = fn(&Call, Count);

static REPORT: OnceLock<Report> = OnceLock::new();

/// From now on, `report` is called for each reduction of this process that makes such numbers of finite ones.
pub fn watch(report: Report) {
    let _ = REPORT.set(report);
}

/// How many bytes of each contribution are examined and reduced at a time: what was examined is still in the cache when it is read.
const PIECE: usize = 16 << 10;

/// Reduces `count` elements by `run`, which gets a piece of every contribution and result, and reports what came out.
///
/// # Safety
/// Every pointer is valid for `count` elements of the call's datatype, which nobody else changes in the meantime; `run` has written
/// what it gets when it returns.
pub(crate) unsafe fn examine(
    call: &Call,
    contributions: &[*const u8],
    results: &[*mut u8],
    count: usize,
    run: impl Fn(&[*const u8], &[*mut u8], usize),
) {
    let made = REPORT.get().and_then(|report| {
        // SAFETY: by the caller.
        Some((report, unsafe { Reduced::from_call(call)?.run(contributions, results, count, &run)? }))
    });
    match made {
        Some((report, made)) if made.is_any() => report(call, made),
        Some(_) => (),
        None => run(contributions, results, count),
    }
}

/// The elements of a reduction.
#[derive(Clone, Copy)]
struct Reduced {
    format: Format,
    width: usize,
}

impl Reduced {
    fn from_call(call: &Call) -> Option<Self> {
        Some(Self { format: Format::from_datatype(call.datatype)?, width: call.datatype.size() })
    }

    /// What `run` made of finite numbers; `None`, and nothing is done, for odd addresses, which NCCL takes and which would need copies.
    ///
    /// # Safety
    /// As [`examine`].
    unsafe fn run(
        self,
        contributions: &[*const u8],
        results: &[*mut u8],
        count: usize,
        run: impl Fn(&[*const u8], &[*mut u8], usize),
    ) -> Option<Count> {
        let is_odd = |address: usize| !address.is_multiple_of(self.width);
        let result = results.first()?;
        if contributions.iter().any(|contribution| is_odd(*contribution as usize)) || is_odd(*result as usize) {
            return None;
        }
        let mut made = Count::default();
        let (mut sources, mut destinations) = (contributions.to_vec(), results.to_vec());
        for from in (0..count).step_by(PIECE / self.width) {
            let count = (count - from).min(PIECE / self.width);
            let offset = from * self.width;
            sources.iter_mut().zip(contributions).for_each(|(piece, all)| *piece = all.wrapping_add(offset));
            destinations.iter_mut().zip(results).for_each(|(piece, all)| *piece = all.wrapping_add(offset));
            // SAFETY: by the caller, whose buffers the pieces are in.
            made = made.and(unsafe {
                let tainted = self.tainted(&sources, count);
                run(&sources, &destinations, count);
                self.made(destinations[0], count, &tainted)
            });
        }
        Some(made)
    }

    /// The elements of which a contribution is not finite, before the result replaces one; empty if there are none.
    ///
    /// # Safety
    /// As [`examine`].
    unsafe fn tainted(self, contributions: &[*const u8], count: usize) -> Vec<bool> {
        let mut tainted = Vec::new();
        for contribution in contributions {
            // SAFETY: by the caller.
            let is_finite = |from, count| unsafe { !self.count(*contribution, from, count).is_any() };
            if !is_finite(0, count) {
                tainted.resize(count, false);
                tainted.iter_mut().enumerate().for_each(|(at, tainted)| *tainted |= !is_finite(at, 1));
            }
        }
        tainted
    }

    /// What is not finite in `result` where no contribution is to blame.
    ///
    /// # Safety
    /// As [`examine`].
    unsafe fn made(self, result: *const u8, count: usize, tainted: &[bool]) -> Count {
        // SAFETY: by the caller.
        let counted = |from, count| unsafe { self.count(result, from, count) };
        let all = counted(0, count);
        if !all.is_any() || tainted.is_empty() {
            return all;
        }
        let clean = (0..count).filter(|at| !tainted[*at]);
        clean.map(|at| counted(at, 1)).fold(Count::default(), Count::and)
    }

    /// Examines `count` elements from the element `from` on.
    ///
    /// # Safety
    /// As [`examine`]; the address is a multiple of the width.
    unsafe fn count(self, buffer: *const u8, from: usize, count: usize) -> Count {
        // SAFETY: by the caller.
        unsafe { self.format.count(buffer as usize + from * self.width, count * self.width) }
    }
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};
    use protocol::datatype::Operation;

    use super::*;

    fn count<T>(format: Format, numbers: &[T]) -> Count {
        // SAFETY: a live slice of that format.
        unsafe { format.count(numbers.as_ptr() as usize, size_of_val(numbers)) }
    }

    #[test]
    fn what_is_not_finite_is_counted_in_every_format() {
        let expected = Count { numbers: 6, nan: 2, infinite: 2 };
        let numbers = [1.5, f64::NAN, f64::INFINITY, -0.0, f64::NEG_INFINITY, -f64::NAN];
        assert_eq!(count(Format::Double, &numbers), expected);
        assert_eq!(count(Format::Single, &numbers.map(|number| number as f32)), expected);
        assert_eq!(count(Format::Half, &numbers.map(f16::from_f64)), expected);
        assert_eq!(count(Format::Bfloat, &numbers.map(bf16::from_f64)), expected);
        let finite = [f64::MAX, f64::MIN, f64::MIN_POSITIVE / 2.0];
        assert!(!count(Format::Double, &finite).is_any());
        assert!(!count(Format::Half, &[f16::MAX, f16::MIN]).is_any());
        assert!(count(Format::Half, &[f16::from_f32(65520.0)]).is_any(), "rounds to Inf");
    }

    #[test]
    fn a_count_in_words() {
        let count = |nan, infinite| Count { numbers: 9, nan, infinite };
        assert_eq!(count(2, 0).words(), "2 NaN among 9 results");
        assert_eq!(count(0, 1).words(), "1 Inf among 9 results");
        assert_eq!(count(2, 0).and(count(0, 1)).words(), "2 NaN and 1 Inf among 18 results");
    }

    const SINGLES: Reduced = Reduced { format: Format::Single, width: 4 };

    /// What a reduction of these contributions to `result` is said to have made.
    fn made(contributions: &[[f32; 3]], result: [f32; 3]) -> Option<Count> {
        let pointers: Vec<*const u8> = contributions.iter().map(|numbers| numbers.as_ptr().cast()).collect();
        let mut written = [0.0_f32; 3];
        // SAFETY: live arrays of three elements.
        let count = unsafe {
            let write = |_: &[*const u8], to: &[*mut u8], count| {
                result.as_ptr().copy_to(to[0].cast(), count);
            };
            SINGLES.run(&pointers, &[written.as_mut_ptr().cast()], 3, write)
        };
        count.filter(Count::is_any)
    }

    #[test]
    fn pieces_cover_every_element_once() {
        for count in [0, 1, 4095, 4096, 4097, 10_000] {
            let one = vec![1.0_f32; count];
            // The contribution is overwritten, and its last sum is too large.
            let mut sum = vec![2.0_f32; count];
            sum.iter_mut().skip(1).next_back().into_iter().for_each(|last| *last = f32::INFINITY);
            let run = |from: &[*const u8], to: &[*mut u8], count: usize| {
                for at in 0..count {
                    // SAFETY: live, and of that length.
                    unsafe { *to[0].cast::<f32>().add(at) += *from[0].cast::<f32>().add(at) };
                }
            };
            // SAFETY: live slices of that length.
            let made = unsafe {
                let sum = sum.as_mut_ptr();
                SINGLES.run(&[one.as_ptr().cast(), sum.cast_const().cast()], &[sum.cast()], count, run).unwrap()
            };
            // What was not finite before is not made here.
            assert!(!made.is_any(), "{count}");
            assert!(sum.iter().all(|sum| *sum == 3.0 || sum.is_infinite()), "{count}");
        }
    }

    #[test]
    fn odd_addresses_are_left_to_the_caller() {
        let numbers = [1.0_f32; 4];
        let odd = numbers.as_ptr().cast::<u8>().wrapping_add(1);
        // SAFETY: nothing is read.
        let made = unsafe { SINGLES.run(&[odd], &[odd.cast_mut()], 3, |_, _, _| unreachable!()) };
        assert_eq!(made, None);
    }

    #[test]
    fn only_what_was_finite_before_counts() {
        let huge = f32::MAX;
        assert_eq!(made(&[[1.0; 3], [2.0; 3]], [3.0; 3]), None);
        let expected = Count { numbers: 3, nan: 0, infinite: 1 };
        assert_eq!(made(&[[1.0, huge, 1.0], [2.0, huge, 1.0]], [3.0, f32::INFINITY, 2.0]), Some(expected));
        // The Inf of the first element is a rank's own, that of the second is not.
        let both = [f32::INFINITY, f32::INFINITY, 2.0];
        let expected = Count { numbers: 2, nan: 0, infinite: 1 };
        assert_eq!(made(&[[f32::INFINITY, huge, 1.0], [2.0, huge, 1.0]], both), Some(expected));
        assert_eq!(made(&[[1.0, f32::NAN, 1.0], [2.0; 3]], [3.0, f32::NAN, 3.0]), None);
    }

    #[test]
    fn integers_are_finite() {
        let call = Call::new(Operation::AllReduce, 3, Datatype::Int32);
        assert!(Reduced::from_call(&call).is_none());
    }
}
