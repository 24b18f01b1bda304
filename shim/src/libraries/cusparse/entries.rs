//! A sparse matrix once it is read: its numbers with their places, and what its arrays hold.

use super::descriptor::{Format, Sparse};
use crate::libraries::cublas::dense::Transpose;
use crate::libraries::cublas::element::Wide;
use crate::libraries::cublas::number::Number;
use crate::libraries::cublas::operand::Region;

/// Integers in memory.
///
/// # Safety
/// As [`Region::load`].
pub(super) unsafe fn integers(place: &Region) -> Vec<i64> {
    // SAFETY: passed on. Indices are below 2^53.
    unsafe { place.load::<f64>() }.data.into_iter().map(|number| number as i64).collect()
}

/// Writes integers.
///
/// # Safety
/// As [`Region::store`].
pub(super) unsafe fn store_integers(place: &Region, numbers: impl Iterator<Item = usize>) {
    for (index, number) in numbers.enumerate() {
        // SAFETY: passed on.
        unsafe { place.write(index, Wide::new(number as f64, 0.0)) };
    }
}

/// The numbers of a matrix with their row and column, in the order in which they are stored. Numbers at places that the matrix lacks,
/// which is undefined behavior on a GPU, are left out.
///
/// # Safety
/// The arrays that [`Sparse::push`] added are in memory.
pub(super) unsafe fn entries<T: Number>(matrix: &Sparse, places: &[Region]) -> Vec<(usize, usize, T)> {
    // SAFETY: passed on.
    let (starts, indices, values) = unsafe { (integers(&places[0]), integers(&places[1]), places[2].load::<T>().data) };
    let base = matrix.base as i64;
    let lines: Vec<i64> = match matrix.format {
        Format::Coo => starts.iter().map(|row| row - base).collect(),
        Format::Csr | Format::Csc => {
            let mut lines = vec![-1; values.len()];
            for (line, ends) in starts.windows(2).enumerate() {
                let range = ends.iter().map(|end| (end - base).clamp(0, values.len() as i64) as usize);
                let [first, last] = [range.clone().next().unwrap_or(0), range.clone().next_back().unwrap_or(0)];
                lines[first.min(last)..last].fill(line as i64);
            }
            lines
        }
    };
    let is_by_columns = matrix.format == Format::Csc;
    let whole = lines.into_iter().zip(indices).zip(values).filter_map(|((line, index), value)| {
        let (line, index) = (usize::try_from(line).ok()?, usize::try_from(index - base).ok()?);
        let (row, column) = if is_by_columns { (index, line) } else { (line, index) };
        (row < matrix.rows && column < matrix.columns).then_some((row, column, value))
    });
    whole.collect()
}

/// The same after an operation.
pub(super) fn after<T: Number>(entries: Vec<(usize, usize, T)>, operation: Transpose) -> Vec<(usize, usize, T)> {
    if operation == Transpose::No {
        return entries;
    }
    entries.into_iter().map(|(row, column, value)| (column, row, operation.apply(value))).collect()
}

/// Where lines begin, in numbers from 0, if their numbers are in order of lines.
pub(super) fn starts(lines: impl Iterator<Item = usize>, count: usize) -> Vec<usize> {
    let mut starts = vec![0; count + 1];
    lines.filter(|line| *line < count).for_each(|line| starts[line + 1] += 1);
    for line in 0..count {
        starts[line + 1] += starts[line];
    }
    starts
}
