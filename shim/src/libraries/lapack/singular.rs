//! Singular values: `gesvd` and its relatives, by Jacobi rotations of columns (Hestenes 1958), which find small singular values as
//! exactly as large ones.

use super::super::cublas::dense::{Dense, Transpose};
use super::super::cublas::number::Number;
use super::{dot, norm, real, reflect};

/// Rounds over all pairs of columns. LAPACK's `gesvj` has as many; fewer than ten are usual.
const MOST_SWEEPS: usize = 30;

/// A = U diag(values) V^H.
pub(crate) struct Singular<T> {
    /// In descending order.
    pub(crate) values: Vec<f64>,
    /// With as many columns as A has rows, or as there are values; none if it was not wanted.
    pub(crate) u: Option<Dense<T>>,
    pub(crate) v: Option<Dense<T>>,
    /// How many pairs of columns were not orthogonal in the end.
    pub(crate) info: usize,
}

/// How many columns of U or V.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    None,
    /// One for each singular value.
    Thin,
    All,
}

/// Decomposes A.
pub(crate) fn decompose<T: Number>(a: Dense<T>, u: Columns, v: Columns) -> Singular<T> {
    if a.rows < a.columns {
        let Singular { values, u: v, v: u, info } = decompose(a.after(Transpose::Conjugate), v, u);
        return Singular { values, u, v, info };
    }
    let (rows, columns) = (a.rows, a.columns);
    let most = norm(&a.data);
    if !most.is_finite() || most == 0.0 {
        let basis = |wanted, size| basis::<T>(wanted, size, columns, Dense::zero(size, 0));
        let (values, info) = if most == 0.0 { (0.0, 0) } else { (f64::NAN, 1) };
        return Singular { values: vec![values; columns], u: basis(u, rows), v: basis(v, columns), info };
    }
    // Numbers near 1, so that no square overflows; and a square matrix, R^H, whose columns are closer to orthogonal.
    let mut reflectors = a;
    reflectors.data.iter_mut().for_each(|value| *value /= real(most));
    let taus = reflect::qr(&mut reflectors);
    let mut left = Dense::zero(columns, columns);
    for column in 0..columns {
        (0..=column).for_each(|row| left.set(column, row, reflectors.get(row, column).conj()));
    }
    // R^H right = left, with orthogonal columns in left: R = right left^H.
    let mut right = super::factor::identity(columns, columns);
    let info = orthogonalize(&mut left, &mut right);
    let sizes: Vec<f64> = (0..columns).map(|column| norm(left.column(column))).collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|first, second| sizes[*second].total_cmp(&sizes[*first]));
    let rank = order.iter().filter(|column| sizes[**column] > 0.0).count();
    let in_order = |from: &Dense<T>, count: usize| Dense {
        rows: columns,
        columns: count,
        data: order[..count].iter().flat_map(|column| from.column(*column)).copied().collect(),
    };
    let u = (u != Columns::None).then(|| {
        let mut result = Dense::zero(rows, columns);
        for (column, from) in order.iter().enumerate() {
            result.data[column * rows..][..columns].copy_from_slice(right.column(*from));
        }
        reflect::multiply(&reflectors, &taus, false, &mut result);
        basis(u, rows, columns, result)
    });
    let v = (v != Columns::None).then(|| {
        let mut result = in_order(&left, rank);
        for (column, from) in result.data.chunks_exact_mut(columns).zip(&order) {
            column.iter_mut().for_each(|value| *value /= real(sizes[*from]));
        }
        basis(v, columns, columns, result)
    });
    let values = order.iter().map(|column| sizes[*column] * most).collect();
    Singular { values, u: u.flatten(), v: v.flatten(), info }
}

/// Adds orthonormal columns to those in `known`, up to `thin` or all.
fn basis<T: Number>(wanted: Columns, rows: usize, thin: usize, known: Dense<T>) -> Option<Dense<T>> {
    let count = match wanted {
        Columns::None => return None,
        Columns::Thin => thin,
        Columns::All => rows,
    };
    let mut reflectors = known.clone();
    let taus = reflect::qr(&mut reflectors);
    let mut whole = reflect::q(&reflectors, &taus, count);
    whole.data[..known.data.len()].copy_from_slice(&known.data);
    Some(whole)
}

/// Rotates pairs of columns until all are orthogonal, and those of `right` with them. Returns how many pairs were not.
fn orthogonalize<T: Number>(columns: &mut Dense<T>, right: &mut Dense<T>) -> usize {
    let n = columns.columns;
    let mut rotated = 0;
    for _ in 0..MOST_SWEEPS {
        rotated = 0;
        for first in 0..n {
            for second in first + 1..n {
                let (x, y) = (columns.column(first), columns.column(second));
                let [alpha, beta] = [x, y].map(|column| column.iter().map(|v| v.wide().norm_sqr()).sum::<f64>());
                let gamma = dot(x, y);
                let size = gamma.wide().norm();
                if size <= f64::EPSILON * (n as f64).sqrt() * alpha.sqrt() * beta.sqrt() {
                    continue;
                }
                rotated += 1;
                let phase = T::from_wide(gamma.wide() / size);
                let zeta = (beta - alpha) / (2.0 * size);
                let tangent = 1.0_f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
                let c = 1.0 / tangent.hypot(1.0);
                for matrix in [&mut *columns, &mut *right] {
                    rotate(matrix, (first, second), (real(c), real(c * tangent)), phase);
                }
            }
        }
        if rotated == 0 {
            return 0;
        }
    }
    rotated
}

fn rotate<T: Number>(matrix: &mut Dense<T>, (first, second): (usize, usize), (c, s): (T, T), phase: T) {
    let (left, right) = matrix.data.split_at_mut(second * matrix.rows);
    for (x, y) in left[first * matrix.rows..][..matrix.rows].iter_mut().zip(&mut right[..matrix.rows]) {
        let turned = *y * phase.conj();
        (*x, *y) = (c * *x - s * turned, s * *x + c * turned);
    }
}
