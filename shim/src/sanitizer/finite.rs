//! Non-finite numbers: how they look in memory, and the findings about the operators that produce them.

use std::collections::BTreeSet;

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;

use super::forward;
use crate::call_site;
use crate::process::fork;
use crate::report::finding;
use crate::settings;

/// Maximum number of different operators and lines reported.
const REPORTED: usize = 16;

static MADE: Mutex<BTreeSet<(&'static str, SiteId, SiteId)>> = Mutex::new(BTreeSet::new());

/// Whether the sanitizer is enabled.
pub(crate) fn is_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.finite) && !fork::is_lost()
}

/// Reports that the operator `name` produced non-finite numbers from finite ones.
pub(crate) fn made(name: &'static str, count: Count) {
    made_at(call_site::of_python().unwrap_or_default(), name, count);
}

/// The same, for an operator that was called at `site`.
pub(crate) fn made_at(site: SiteId, name: &'static str, count: Count) {
    let forward = forward::now();
    let is_new = {
        let mut made = MADE.lock();
        made.len() < REPORTED && made.insert((name, site, forward))
    };
    if is_new {
        let sentence = format!("{name} returns {} for finite inputs{}", count.words(), forward::words(forward));
        finding::record_at(FindingKind::NotFinite, name, sentence, site);
    }
}

/// How many numbers there are, and how many of them are not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    numbers: usize,
    nan: usize,
    infinite: usize,
}

impl Count {
    /// The sum of both counts.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            numbers: self.numbers + other.numbers,
            nan: self.nan + other.nan,
            infinite: self.infinite + other.infinite,
        }
    }

    /// Whether a number is not finite.
    pub(crate) fn is_any(&self) -> bool {
        self.nan + self.infinite > 0
    }

    fn words(self) -> String {
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
pub(crate) enum Format {
    Half,
    Bfloat,
    Single,
    Double,
}

impl Format {
    /// The format for c10's number of the type (`c10/core/ScalarType.h`); `None` for integers, and for 8-bit types,
    /// which few kernels compute with.
    pub(crate) fn from_data_type(data_type: u16) -> Option<Self> {
        match data_type {
            5 | 8 => Some(Self::Half),
            6 | 9 => Some(Self::Single),
            7 | 10 => Some(Self::Double),
            15 => Some(Self::Bfloat),
            _ => None,
        }
    }

    /// Examines the numbers in `bytes` bytes.
    ///
    /// # Safety
    /// They exist, and nobody changes them in the meantime.
    pub(crate) unsafe fn count(self, address: usize, bytes: usize) -> Count {
        // SAFETY: by the caller; PyTorch aligns numbers to their size.
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

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

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
}
