//! Factors of square systems: `getrf`, `getrs`, `getri`, `potrf`, `potrs`, `potri`.

use super::super::cublas::dense::{Dense, Transpose};
use super::super::cublas::number::{Number, add_multiple};
use super::super::cublas::triangular::Triangle;
use super::real;

/// P A = L U in the place of A, with ones on L's diagonal (LAPACK's `getf2`).
#[derive(Clone, Debug)]
pub(crate) struct Lu<T> {
    pub(crate) factors: Dense<T>,
    /// The row that each was exchanged with, from 0.
    pub(crate) pivots: Vec<usize>,
    /// The first column whose pivot is 0, from 1; 0 if there is none.
    pub(crate) info: usize,
}

impl<T: Number> Lu<T> {
    /// Without pivots, no rows are exchanged.
    pub(crate) fn new(mut a: Dense<T>, pivoted: bool) -> Self {
        let (rows, columns) = (a.rows, a.columns);
        let (mut pivots, mut info) = (Vec::new(), 0);
        for step in 0..rows.min(columns) {
            let below = step + 1..rows;
            let largest = |most, row| if a.get(row, step).size() > a.get(most, step).size() { row } else { most };
            let pivot = if pivoted { below.fold(step, largest) } else { step };
            pivots.push(pivot);
            if a.get(pivot, step).is_zero() {
                if info == 0 {
                    info = step + 1;
                }
                continue;
            }
            if pivot != step {
                (0..columns).for_each(|column| a.data.swap(column * rows + step, column * rows + pivot));
            }
            let (left, right) = a.data.split_at_mut((step + 1) * rows);
            let (head, multipliers) = left[step * rows + step..].split_at_mut(1);
            multipliers.iter_mut().for_each(|value| *value /= head[0]);
            for column in right.chunks_exact_mut(rows) {
                let factor = column[step];
                if !factor.is_zero() {
                    add_multiple(&mut column[step + 1..], -factor, multipliers);
                }
            }
        }
        Self { factors: a, pivots, info }
    }

    /// X with op(A) X = B.
    pub(crate) fn solve(self, operation: Transpose, mut b: Dense<T>) -> Dense<T> {
        let pivots = self.pivots;
        let factors = self.factors.after(operation);
        // op(L U): the operation exchanges the triangles.
        let is_turned = operation != Transpose::No;
        let unit = Triangle::new(factors.clone(), is_turned, true);
        let other = Triangle::new(factors, !is_turned, false);
        if is_turned {
            b = unit.solve(other.solve(b));
            exchange(&mut b, pivots.iter().copied().enumerate().rev());
            b
        } else {
            exchange(&mut b, pivots.iter().copied().enumerate());
            other.solve(unit.solve(b))
        }
    }

    /// The inverse of A; `None` if it is singular.
    pub(crate) fn inverse(self) -> Option<Dense<T>> {
        let n = self.factors.rows;
        let is_regular = (0..n).all(|index| !self.factors.get(index, index).is_zero());
        is_regular.then(|| self.solve(Transpose::No, identity(n, n)))
    }
}

/// Exchanges rows of a matrix.
pub(crate) fn exchange<T: Number>(b: &mut Dense<T>, pairs: impl Iterator<Item = (usize, usize)> + Clone) {
    if b.rows == 0 {
        return;
    }
    for column in b.data.chunks_exact_mut(b.rows) {
        pairs.clone().for_each(|(row, other)| column.swap(row, other));
    }
}

/// Ones on the diagonal.
pub(crate) fn identity<T: Number>(rows: usize, columns: usize) -> Dense<T> {
    let mut result = Dense::zero(rows, columns);
    (0..rows.min(columns)).for_each(|index| result.set(index, index, T::one()));
    result
}

/// L of A = L L^H in the lower half of A, of which the lower half is read; and the order of the first minor that is not positive, 0 if
/// there is none. As `potf2`, it leaves the columns from there on as they were, but for the diagonal number that was not positive.
pub(crate) fn cholesky<T: Number>(a: &mut Dense<T>) -> usize {
    let n = a.rows;
    for step in 0..n {
        let mut column = a.column(step)[step..].to_vec();
        for before in 0..step {
            let earlier = &a.column(before)[step..];
            add_multiple(&mut column, -earlier[0].conj(), earlier);
        }
        let pivot = column[0].wide().re;
        if pivot.is_nan() || pivot <= 0.0 {
            a.set(step, step, real(pivot));
            return step + 1;
        }
        let root = pivot.sqrt();
        column.iter_mut().for_each(|value| *value /= real(root));
        column[0] = real(root);
        a.data[step * n + step..(step + 1) * n].copy_from_slice(&column);
    }
    0
}

/// X with L L^H X = B.
pub(crate) fn solve_cholesky<T: Number>(lower: &Dense<T>, b: Dense<T>) -> Dense<T> {
    let first = Triangle::new(lower.clone(), false, false).solve(b);
    Triangle::new(lower.clone().after(Transpose::Conjugate), true, false).solve(first)
}
