//! Householder reflectors as LAPACK stores them, H = I - tau v v^H with v's first number 1: `geqrf`, `orgqr`, `ormqr`.

use super::super::cublas::dense::Dense;
use super::super::cublas::number::{Number, add_multiple};
use super::{dot, norm, real};

/// `larfg`: tau and v, in the place of x, of the reflector whose H^H makes (alpha, x) a multiple of the first axis; and that multiple,
/// which is real.
pub(super) fn reflector<T: Number>(alpha: T, x: &mut [T]) -> (T, T) {
    let rest = norm(x);
    let first = alpha.wide();
    if rest == 0.0 && first.im == 0.0 {
        return (T::zero(), alpha);
    }
    let length = first.norm().hypot(rest);
    let beta = if first.re >= 0.0 { -length } else { length };
    let scale = T::one() / T::from_wide(first - beta);
    x.iter_mut().for_each(|value| *value *= scale);
    (T::from_wide((beta - first) / beta), real(beta))
}

/// Subtracts factor v (v^H c) from each column c, whose numbers from `first` on belong to v.
fn reflect<T: Number>(columns: &mut [T], rows: usize, first: usize, v: &[T], factor: T) {
    if factor.is_zero() {
        return;
    }
    for column in columns.chunks_exact_mut(rows) {
        let product = factor * dot(v, &column[first..]);
        add_multiple(&mut column[first..], -product, v);
    }
}

/// Q R = A: R in the upper half, the reflectors below it; and their tau (`geqr2`).
pub(crate) fn qr<T: Number>(a: &mut Dense<T>) -> Vec<T> {
    let (rows, columns) = (a.rows, a.columns);
    let mut taus = Vec::new();
    for step in 0..rows.min(columns) {
        let (left, right) = a.data.split_at_mut((step + 1) * rows);
        let column = &mut left[step * rows + step..];
        let (tau, beta) = reflector(column[0], &mut column[1..]);
        column[0] = T::one();
        reflect(right, rows, step, column, tau.conj());
        column[0] = beta;
        taus.push(tau);
    }
    taus
}

/// v of a reflector below a diagonal.
fn vector<T: Number>(reflectors: &Dense<T>, step: usize) -> Vec<T> {
    let mut v = reflectors.column(step)[step..].to_vec();
    v[0] = T::one();
    v
}

/// Q C or, if conjugate, Q^H C, where Q is the product of the reflectors in these columns.
pub(crate) fn multiply<T: Number>(reflectors: &Dense<T>, taus: &[T], is_conjugate: bool, c: &mut Dense<T>) {
    let steps = 0..taus.len();
    let apply = |step: usize| {
        let tau = if is_conjugate { taus[step].conj() } else { taus[step] };
        reflect(&mut c.data, reflectors.rows, step, &vector(reflectors, step), tau);
    };
    if is_conjugate { steps.for_each(apply) } else { steps.rev().for_each(apply) }
}

/// The first columns of Q.
pub(crate) fn q<T: Number>(reflectors: &Dense<T>, taus: &[T], columns: usize) -> Dense<T> {
    let mut result = super::factor::identity(reflectors.rows, columns);
    multiply(reflectors, taus, false, &mut result);
    result
}
