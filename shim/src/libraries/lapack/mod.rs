//! LAPACK's algorithms on contiguous matrices, as cuSOLVER and the LAPACK functions of cuBLAS compute them. Written out here, because
//! results have LAPACK's layout (reflectors, pivots, the number of the column that failed), which no crate gives. Every loop ends,
//! whatever the numbers are.

pub(super) mod factor;
pub(super) mod hermitian;
pub(super) mod memory;
pub(super) mod reflect;
pub(super) mod singular;

use super::cublas::number::Number;

/// The 2-norm of numbers; their squares do not overflow.
fn norm<T: Number>(numbers: &[T]) -> f64 {
    let most = numbers.iter().fold(0.0, |most: f64, number| {
        let size = number.size();
        if most.is_nan() || size <= most { most } else { size }
    });
    if most == 0.0 || !most.is_finite() {
        return most;
    }
    most * numbers.iter().map(|number| (number.wide() / most).norm_sqr()).sum::<f64>().sqrt()
}

/// The sum of conj(x) y.
fn dot<T: Number>(x: &[T], y: &[T]) -> T {
    x.iter().zip(y).fold(T::zero(), |sum, (x, y)| sum + x.conj() * *y)
}

/// A real number.
fn real<T: Number>(number: f64) -> T {
    T::from_wide(number.into())
}

#[cfg(test)]
mod tests;
