//! The functions that cuSOLVER and cuBLAS share, on matrices in memory.

use super::super::cublas::dense::{Dense, Transpose};
use super::super::cublas::element::Wide;
use super::super::cublas::number::Number;
use super::super::cublas::operand::{Region, Stored};
use super::factor::Lu;
use super::reflect;

/// Writes the numbers that the shape has.
///
/// # Safety
/// As [`Region::store`].
pub(crate) unsafe fn store<T: Number>(place: &Region, matrix: Dense<T>) {
    // SAFETY: passed on.
    unsafe { place.store(&Stored { shape: place.shape(), data: matrix.data }) };
}

/// Writes real numbers.
///
/// # Safety
/// As [`Region::store`].
pub(crate) unsafe fn store_real(place: &Region, numbers: &[f64]) {
    for (index, number) in numbers.iter().enumerate() {
        // SAFETY: passed on.
        unsafe { place.write(index, Wide::new(*number, 0.0)) };
    }
}

/// Writes an `info`, or another count.
///
/// # Safety
/// As [`Region::store`].
pub(crate) unsafe fn store_count(place: &Region, index: usize, count: usize) {
    // SAFETY: passed on.
    unsafe { place.write(index, Wide::new(count as f64, 0.0)) };
}

/// `getrf`, with the pivots from 1 if there is a place for them.
///
/// # Safety
/// As [`Region::load`] and [`Region::store`].
pub(crate) unsafe fn getrf<T: Number>(a: &Region, pivots: Option<&Region>, info: &Region) {
    // SAFETY: passed on.
    unsafe {
        let lu = Lu::<T>::new(Dense::load(a, Transpose::No), pivots.is_some());
        store(a, lu.factors);
        if let Some(place) = pivots {
            lu.pivots.iter().enumerate().for_each(|(index, row)| store_count(place, index, row + 1));
        }
        store_count(info, 0, lu.info);
    }
}

/// What `getrf` left.
///
/// # Safety
/// As [`Region::load`].
pub(crate) unsafe fn factored<T: Number>(a: &Region, pivots: Option<&Region>) -> Lu<T> {
    // SAFETY: passed on.
    let factors = unsafe { Dense::<T>::load(a, Transpose::No) };
    let n = factors.rows;
    let pivots = pivots.map_or_else(
        || (0..n).collect(),
        // SAFETY: passed on. Of a row that the matrix lacks, NVIDIA's documentation says nothing; here it is the nearest.
        |place| unsafe { place.load::<f64>() }.data.iter().map(|row| (*row as usize).clamp(1, n) - 1).collect(),
    );
    Lu { pivots, factors, info: 0 }
}

/// `geqrf`.
///
/// # Safety
/// As [`Region::load`] and [`Region::store`].
pub(crate) unsafe fn geqrf<T: Number>(a: &Region, taus: &Region) {
    // SAFETY: passed on.
    unsafe {
        let mut matrix = Dense::<T>::load(a, Transpose::No);
        let found = reflect::qr(&mut matrix);
        store(a, matrix);
        found.iter().enumerate().for_each(|(index, tau)| taus.write(index, tau.wide()));
    }
}

/// The numbers of a vector.
///
/// # Safety
/// As [`Region::load`].
pub(crate) unsafe fn vector<T: Number>(place: &Region) -> Vec<T> {
    // SAFETY: passed on.
    unsafe { place.load::<T>() }.data
}
