//! Numbers that are not finite: how they look in memory, and the reductions that make them of finite ones.

use std::sync::OnceLock;

use protocol::datatype::Datatype;

use crate::call::Call;

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

    /// Whether a number of a result is not finite, as far as [`Inputs`] looks for such.
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
                Self::Half => count(words::<u16>(address, bytes), 0x7c00, 0x03ff),
                Self::Bfloat => count(words::<u16>(address, bytes), 0x7f80, 0x007f),
                Self::Single => count(words::<u32>(address, bytes), 0x7f80_0000, 0x007f_ffff),
                Self::Double => count(words::<u64>(address, bytes), 0x7ff0_0000_0000_0000, 0x000f_ffff_ffff_ffff),
            }
        }
    }
}

/// # Safety
/// As [`Format::count`].
unsafe fn words<'a, T>(address: usize, bytes: usize) -> &'a [T] {
    // SAFETY: by the caller.
    unsafe { std::slice::from_raw_parts(address as *const T, bytes / size_of::<T>()) }
}

/// A number is not finite if all bits of its exponent are set, and then NaN if one of its mantissa is (IEEE 754).
fn count<T>(words: &[T], exponent: T, mantissa: T) -> Count
where
    T: Copy + PartialEq + std::ops::BitAnd<Output = T> + Default,
{
    // Mostly there is none, which is found out without a branch per number.
    let is_any = words.iter().fold(false, |is_any, word| is_any | (*word & exponent == exponent));
    let mut count = Count { numbers: words.len(), nan: 0, infinite: 0 };
    for word in words.iter().filter(|word| is_any && **word & exponent == exponent) {
        let is_nan = *word & mantissa != T::default();
        count.nan += usize::from(is_nan);
        count.infinite += usize::from(!is_nan);
    }
    count
}

/// Gets the call of a reduction, and what this rank made of finite numbers.
pub type Report = fn(&Call, Count);

static REPORT: OnceLock<Report> = OnceLock::new();

/// From now on, `report` is called for each reduction of this process that makes such numbers of finite ones.
pub fn watch(report: Report) {
    let _ = REPORT.set(report);
}

/// The contributions to a reduction, examined before its result replaces one of them.
pub(crate) struct Inputs {
    report: Report,
    format: Format,
    width: usize,
    /// The elements of which a contribution is not finite; empty if there are none.
    tainted: Vec<bool>,
}

impl Inputs {
    /// Examines `count` elements of each contribution; `None` if nobody wants to know.
    ///
    /// # Safety
    /// Every pointer is valid for `count` elements of the call's datatype, which do not change in the meantime.
    pub(crate) unsafe fn examine(call: &Call, contributions: &[*const u8], count: usize) -> Option<Self> {
        Self::examine_for(*REPORT.get()?, call, contributions, count)
    }

    fn examine_for(report: Report, call: &Call, contributions: &[*const u8], count: usize) -> Option<Self> {
        let (format, width) = (Format::from_datatype(call.datatype)?, call.datatype.size());
        let mut tainted = Vec::new();
        // An odd address, which NCCL takes, would need copies.
        if contributions.iter().any(|contribution| !(*contribution as usize).is_multiple_of(width)) {
            return None;
        }
        for contribution in contributions {
            let address = *contribution as usize;
            // SAFETY: by the caller; the address is a multiple of the width.
            let is_finite =
                |from: usize, count: usize| unsafe { !format.count(address + from * width, count * width).is_any() };
            if !is_finite(0, count) {
                tainted.resize(count, false);
                tainted.iter_mut().enumerate().for_each(|(at, tainted)| *tainted |= !is_finite(at, 1));
            }
        }
        Some(Self { report, format, width, tainted })
    }

    /// Examines the result.
    ///
    /// # Safety
    /// As [`Inputs::examine`], for the result.
    pub(crate) unsafe fn judge(self, call: &Call, result: *const u8, count: usize) {
        let address = result as usize;
        if !address.is_multiple_of(self.width) {
            return;
        }
        // SAFETY: by the caller.
        let counted =
            |from: usize, count: usize| unsafe { self.format.count(address + from * self.width, count * self.width) };
        let mut made = counted(0, count);
        if made.is_any() && !self.tainted.is_empty() {
            let clean = (0..count).filter(|at| !self.tainted[*at]);
            made = clean.map(|at| counted(at, 1)).fold(Count::default(), Count::and);
        }
        if made.is_any() {
            (self.report)(call, made);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

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

    thread_local! {
        static MADE: Cell<Option<Count>> = const { Cell::new(None) };
    }

    /// What a reduction of these contributions to `result` is said to have made.
    fn made(contributions: &[[f32; 3]], result: [f32; 3]) -> Option<Count> {
        let call = Call::new(Operation::AllReduce, 3, Datatype::Float32);
        let pointers: Vec<*const u8> = contributions.iter().map(|numbers| numbers.as_ptr().cast()).collect();
        MADE.set(None);
        let inputs = Inputs::examine_for(|_, count| MADE.set(Some(count)), &call, &pointers, 3).unwrap();
        // SAFETY: a live array of the call's elements.
        unsafe { inputs.judge(&call, result.as_ptr().cast(), 3) };
        MADE.get()
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
        assert!(Inputs::examine_for(|_, _| (), &call, &[], 3).is_none());
    }
}
