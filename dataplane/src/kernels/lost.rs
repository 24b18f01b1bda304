//! Sums over ranks in 16-bit floats that lose what a rank gave: the result is the same without it, and farther from the true sum.

use std::sync::OnceLock;

use half::{bf16, f16};
use protocol::datatype::{Datatype, ReductionOp};

use crate::call::Call;

/// What a sum has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Whose contribution: the rank in the communicator.
    pub rank: usize,
    /// How many elements it had that are not 0.
    pub elements: usize,
}

/// Gets the call of a sum, and what this rank's part of it has lost.
pub type Report = fn(&Call, Lost);

static REPORT: OnceLock<Report> = OnceLock::new();

/// From now on, `report` is called for each sum of this process that loses all of what a rank gave.
pub fn watch(report: Report) {
    let _ = REPORT.set(report);
}

/// Whether someone wants to know.
pub(crate) fn is_watched() -> bool {
    REPORT.get().is_some()
}

/// Reports the first rank of whose contribution nothing is in the sum of `count` elements, before the sum replaces one of them.
///
/// # Safety
/// Every pointer is valid for `count` elements of the call's datatype, which do not change in the meantime.
pub(crate) unsafe fn examine(call: &Call, contributions: &[*const u8], count: usize) {
    let Some(report) = REPORT.get() else { return };
    // SAFETY: by the caller.
    if let Some(lost) = unsafe { first(call, contributions, count) } {
        report(call, lost);
    }
}

/// What [`examine`] reports.
///
/// # Safety
/// As [`examine`].
pub(crate) unsafe fn first(call: &Call, contributions: &[*const u8], count: usize) -> Option<Lost> {
    // A factor of its own makes a contribution small on purpose.
    if !matches!(call.reduction, Some(ReductionOp::Sum | ReductionOp::Avg)) {
        return None;
    }
    // SAFETY: by the caller.
    unsafe {
        match call.datatype {
            Datatype::Float16 => find(contributions, count, |bits| f16::from_bits(bits).to_f64(), round_half),
            Datatype::Bfloat16 => find(contributions, count, |bits| bf16::from_bits(bits).to_f64(), round_bfloat),
            _ => None,
        }
    }
}

fn round_half(value: f64) -> f64 {
    f16::from_f64(value).to_f64()
}

fn round_bfloat(value: f64) -> f64 {
    bf16::from_f64(value).to_f64()
}

/// The first rank of whose elements none changes the sum, if at least half of them are not 0: a few that are too small are rounding.
///
/// # Safety
/// As [`examine`].
unsafe fn find(
    contributions: &[*const u8],
    count: usize,
    value: fn(u16) -> f64,
    round: fn(f64) -> f64,
) -> Option<Lost> {
    // SAFETY: by the caller; NCCL takes odd addresses.
    let element = |rank: usize, at: usize| value(unsafe { contributions[rank].cast::<u16>().add(at).read_unaligned() });
    // Each rank asks for the sum of its first element at least.
    let mut sums: Vec<Option<f64>> = vec![None; count];
    let mut is_lost = |at: usize, own: f64| {
        // Exact: it has 53 bits for sums of numbers with 8 or 11.
        let sum = *sums[at].get_or_insert_with(|| (0..contributions.len()).map(|rank| element(rank, at)).sum());
        let (with, without) = (round(sum), sum - own);
        sum.is_finite() && with == round(without) && (with - sum).abs() > (with - without).abs()
    };
    let lost = |rank: usize| {
        let mut elements = 0;
        for at in 0..count {
            let own = element(rank, at);
            if own != 0.0 {
                if !is_lost(at, own) {
                    return None;
                }
                elements += 1;
            }
        }
        (2 * elements >= count && elements > 0).then_some(Lost { rank, elements })
    };
    (0..contributions.len()).filter(|_| contributions.len() > 1).find_map(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(ranks: &[&[f32]]) -> Option<Lost> {
        let ranks: Vec<Vec<bf16>> =
            ranks.iter().map(|rank| rank.iter().map(|x| bf16::from_f32(*x)).collect()).collect();
        let pointers: Vec<*const u8> = ranks.iter().map(|rank| rank.as_ptr().cast()).collect();
        // SAFETY: live vectors of equal length.
        unsafe { find(&pointers, ranks[0].len(), |bits| bf16::from_bits(bits).to_f64(), round_bfloat) }
    }

    #[test]
    fn a_contribution_below_half_a_digit_is_lost() {
        // Neighbors of 256 and above are 2 apart in bfloat16, and 1024 is 8 away from its next one.
        assert_eq!(lost(&[&[1024.0, 512.0], &[1.0, 1.0]]), Some(Lost { rank: 1, elements: 2 }));
        assert_eq!(lost(&[&[1.0], &[512.0], &[1024.0]]), Some(Lost { rank: 0, elements: 1 }));
        assert_eq!(lost(&[&[1024.0, 2.0], &[1.0, 1.0]]), None, "one element counts");
        assert_eq!(lost(&[&[128.0], &[1.0]]), None, "129 is exact");
    }

    #[test]
    fn equal_contributions_are_not_lost_one_by_one() {
        // 512 is the sum of 512 ones, and would be what 511 of them round to.
        let one: &[f32] = &[1.0];
        assert_eq!(lost(&vec![one; 512]), None);
    }

    #[test]
    fn nothing_is_lost_of_zeros_of_few_elements_and_of_what_is_not_finite() {
        assert_eq!(lost(&[&[1024.0, 1.0], &[0.0, 0.0]]), None);
        assert_eq!(lost(&[&[1024.0, 1.0, 1.0], &[1.0, 0.0, 0.0]]), None, "one of three");
        assert_eq!(lost(&[&[f32::INFINITY], &[1.0]]), None);
        assert_eq!(lost(&[&[1024.0]]), None, "one rank");
    }
}
