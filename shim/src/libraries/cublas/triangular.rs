//! Symmetric and triangular matrices: expanding half-stored ones, products with triangles, and solving. Works in blocks, so that
//! nearly all of the work is products of full matrices. Elements that a triangle lacks are skipped, not multiplied by zero, which
//! matters for infinities.

use std::ops::Range;

use super::dense::{Dense, Transpose};
use super::number::Number;
use super::operand::{Region, Shape};

/// Rows of a block.
const BLOCK: usize = 64;

/// A triangular matrix.
pub(crate) struct Triangle<T> {
    whole: Dense<T>,
    is_upper: bool,
    /// Whether its diagonal is all ones.
    is_unit: bool,
}

/// The full matrix, which is equal to its transpose or, with `hermitian`, to its conjugate transpose.
///
/// # Safety
/// As [`Region::load`], for a triangle.
pub(crate) unsafe fn symmetric<T: Number>(place: &Region, hermitian: bool) -> Dense<T> {
    // SAFETY: passed on.
    let mut whole = unsafe { Dense::<T>::load(place, Transpose::No) };
    let Shape::Triangle { n, upper, .. } = place.shape() else { return whole };
    for column in 0..n {
        for row in 0..column {
            let (stored, other) = if upper { ((row, column), (column, row)) } else { ((column, row), (row, column)) };
            let value = whole.get(stored.0, stored.1);
            whole.set(other.0, other.1, if hermitian { value.conj() } else { value });
        }
        if hermitian {
            whole.set(column, column, whole.get(column, column).real());
        }
    }
    whole
}

impl<T: Number> Triangle<T> {
    /// One half of a square matrix; the other is not looked at.
    pub(crate) fn new(whole: Dense<T>, is_upper: bool, is_unit: bool) -> Self {
        Self { whole, is_upper, is_unit }
    }

    /// After an operation.
    ///
    /// # Safety
    /// As [`Region::load`], for a triangle.
    pub(crate) unsafe fn load(place: &Region, operation: Transpose) -> Self {
        let (is_upper, is_unit) = match place.shape() {
            Shape::Triangle { upper, strict, .. } => (upper, strict),
            _ => (false, false),
        };
        // SAFETY: passed on.
        let whole = unsafe { Dense::load(place, operation) };
        Self { whole, is_upper: is_upper == (operation == Transpose::No), is_unit }
    }

    pub(crate) fn transposed(self) -> Self {
        Self { whole: self.whole.after(Transpose::Yes), is_upper: !self.is_upper, is_unit: self.is_unit }
    }

    fn blocks(&self) -> Vec<Range<usize>> {
        let n = self.whole.rows;
        (0..n).step_by(BLOCK).map(|first| first..n.min(first + BLOCK)).collect()
    }

    /// The columns beside a block that the triangle has in its rows.
    fn beside(&self, block: &Range<usize>) -> Range<usize> {
        if self.is_upper { block.end..self.whole.rows } else { 0..block.start }
    }

    /// Columns of the block in a row of it, without the diagonal.
    fn within(&self, block: &Range<usize>, row: usize) -> Range<usize> {
        if self.is_upper { row + 1..block.end } else { block.start..row }
    }

    /// The rest of the rows of a block times the rows of `other` that belong to it.
    fn rest_times(&self, block: &Range<usize>, other: &Dense<T>) -> Dense<T> {
        let beside = self.beside(block);
        self.whole.rows(block.clone()).columns(beside.clone()).times(&other.rows(beside))
    }

    /// The product with `other`.
    pub(crate) fn times(&self, other: &Dense<T>) -> Dense<T> {
        let mut result = Dense::zero(other.rows, other.columns);
        for block in self.blocks() {
            let rest = self.rest_times(&block, other);
            for column in 0..other.columns {
                for row in block.clone() {
                    let value = other.get(row, column);
                    let mut sum = if self.is_unit { value } else { self.whole.get(row, row) * value };
                    for inner in self.within(&block, row) {
                        sum += self.whole.get(row, inner) * other.get(inner, column);
                    }
                    result.set(row, column, sum + rest.get(row - block.start, column));
                }
            }
        }
        result
    }

    /// The matrix that it has to be multiplied with to give `other`.
    pub(crate) fn solve(&self, mut other: Dense<T>) -> Dense<T> {
        let mut blocks = self.blocks();
        if self.is_upper {
            blocks.reverse();
        }
        for block in blocks {
            let rest = self.rest_times(&block, &other);
            for column in 0..other.columns {
                let rows: Vec<usize> =
                    if self.is_upper { block.clone().rev().collect() } else { block.clone().collect() };
                for row in rows {
                    let mut value = other.get(row, column) - rest.get(row - block.start, column);
                    for inner in self.within(&block, row) {
                        value -= self.whole.get(row, inner) * other.get(inner, column);
                    }
                    other.set(row, column, if self.is_unit { value } else { value / self.whole.get(row, row) });
                }
            }
        }
        other
    }
}
