//! Eigenvalues of matrices that are their own conjugate transpose: `sytrd`, `syevd`. Reduced to tridiagonal form by reflectors, then
//! diagonalized by implicit QL steps, both in 64 bits.

use super::super::cublas::dense::Dense;
use super::super::cublas::number::Number;
use super::reflect::reflector;
use super::{dot, real};

/// QL steps per eigenvalue before it is given up, as in LAPACK's `steqr`.
const MOST_STEPS: usize = 30;

/// A = Q T Q^H.
pub(crate) struct Tridiagonal<T> {
    /// The reflectors of Q below the first subdiagonal, as `sytrd` leaves them for the lower half.
    pub(crate) reflectors: Dense<T>,
    pub(crate) taus: Vec<T>,
    pub(crate) diagonal: Vec<f64>,
    pub(crate) beside: Vec<f64>,
}

impl<T: Number> Tridiagonal<T> {
    /// Of the whole matrix (`hetd2`, lower).
    pub(crate) fn new(mut a: Dense<T>) -> Self {
        let n = a.rows;
        let (mut taus, mut beside) = (Vec::new(), Vec::new());
        for step in 0..n.saturating_sub(1) {
            let mut v = a.column(step)[step + 1..].to_vec();
            let (tau, beta) = reflector(v[0], &mut v[1..]);
            v[0] = T::one();
            beside.push(beta.wide().re);
            taus.push(tau);
            // w = tau A v - (tau/2) (w^H v) v, and A -= v w^H + w v^H.
            let mut w = vec![T::zero(); v.len()];
            for (index, factor) in v.iter().enumerate() {
                let column = &a.column(step + 1 + index)[step + 1..];
                w.iter_mut().zip(column).for_each(|(sum, value)| *sum += tau * *factor * *value);
            }
            let half = real::<T>(-0.5) * tau * dot(&w, &v);
            w.iter_mut().zip(&v).for_each(|(value, v)| *value += half * *v);
            for index in 0..v.len() {
                let (by_v, by_w) = (v[index].conj(), w[index].conj());
                let column = &mut a.data[(step + 1 + index) * n + step + 1..][..v.len()];
                for ((value, v), w) in column.iter_mut().zip(&v).zip(&w) {
                    *value -= *v * by_w + *w * by_v;
                }
            }
            a.data[step * n + step + 1..][..v.len()].copy_from_slice(&v);
            a.set(step + 1, step, beta);
        }
        let diagonal = (0..n).map(|index| a.get(index, index).wide().re).collect();
        Self { reflectors: a, taus, diagonal, beside }
    }

    /// Q.
    fn q(&self) -> Dense<T> {
        let n = self.reflectors.rows;
        let mut result = super::factor::identity(n, n);
        if n > 1 {
            let below = self.reflectors.rows(1..n).columns(0..n - 1);
            let inner = super::reflect::q(&below, &self.taus, n - 1);
            for column in 1..n {
                result.data[column * n + 1..(column + 1) * n].copy_from_slice(inner.column(column - 1));
            }
        }
        result
    }
}

/// Eigenvalues, in ascending order, and eigenvectors.
pub(crate) struct Eigen<T> {
    pub(crate) values: Vec<f64>,
    /// Columns; none if they were not wanted.
    pub(crate) vectors: Option<Dense<T>>,
    /// How many numbers beside the diagonal did not become 0.
    pub(crate) info: usize,
}

/// Of the whole matrix.
pub(crate) fn eigen<T: Number>(a: Dense<T>, with_vectors: bool) -> Eigen<T> {
    let reduced = Tridiagonal::new(a);
    let mut vectors = with_vectors.then(|| reduced.q());
    let (mut values, mut beside) = (reduced.diagonal, reduced.beside);
    let info = diagonalize(&mut values, &mut beside, vectors.as_mut());
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|first, second| values[*first].total_cmp(&values[*second]));
    let vectors = vectors.map(|vectors| Dense {
        rows: vectors.rows,
        columns: vectors.columns,
        data: order.iter().flat_map(|column| vectors.column(*column)).copied().collect(),
    });
    Eigen { values: order.iter().map(|index| values[*index]).collect(), vectors, info }
}

/// Makes what is beside the diagonal 0, and multiplies the columns with the same rotations (`tql2` of EISPACK). Returns how many are
/// left.
fn diagonalize<T: Number>(diagonal: &mut [f64], beside: &mut Vec<f64>, mut vectors: Option<&mut Dense<T>>) -> usize {
    let n = diagonal.len();
    beside.push(0.0);
    for first in 0..n {
        for step in 0.. {
            let is_small = |index: &usize| {
                beside[*index].abs() <= f64::EPSILON * (diagonal[*index].abs() + diagonal[*index + 1].abs())
                    || beside[*index].abs() < f64::MIN_POSITIVE
            };
            let last = (first..n - 1).find(is_small).unwrap_or(n - 1);
            if last == first {
                break;
            }
            if step == MOST_STEPS {
                return beside.iter().filter(|value| **value != 0.0).count();
            }
            // Wilkinson's shift.
            let mut g = (diagonal[first + 1] - diagonal[first]) / (2.0 * beside[first]);
            let mut r = g.hypot(1.0);
            g = diagonal[last] - diagonal[first] + beside[first] / (g + r.copysign(g));
            let (mut s, mut c, mut p) = (1.0, 1.0, 0.0);
            let mut is_cut = false;
            for index in (first..last).rev() {
                let (f, b) = (s * beside[index], c * beside[index]);
                r = f.hypot(g);
                beside[index + 1] = r;
                if r == 0.0 {
                    diagonal[index + 1] -= p;
                    beside[last] = 0.0;
                    is_cut = true;
                    break;
                }
                (s, c) = (f / r, g / r);
                g = diagonal[index + 1] - p;
                r = (diagonal[index] - g) * s + 2.0 * c * b;
                p = s * r;
                diagonal[index + 1] = g + p;
                g = c * r - b;
                if let Some(vectors) = vectors.as_deref_mut() {
                    rotate(vectors, index, c, s);
                }
            }
            if !is_cut {
                diagonal[first] -= p;
                beside[first] = g;
                beside[last] = 0.0;
            }
        }
        beside[first] = 0.0;
    }
    0
}

/// Rotates a column and the next.
fn rotate<T: Number>(vectors: &mut Dense<T>, column: usize, c: f64, s: f64) {
    let (c, s) = (real::<T>(c), real::<T>(s));
    let (left, right) = vectors.data[column * vectors.rows..][..2 * vectors.rows].split_at_mut(vectors.rows);
    for (left, right) in left.iter_mut().zip(right) {
        (*left, *right) = (c * *left - s * *right, s * *left + c * *right);
    }
}
