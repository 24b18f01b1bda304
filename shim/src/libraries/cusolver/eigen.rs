//! Eigenvalues of symmetric and Hermitian matrices, by whichever function: `syevd`, `syevj`, and `sytrd`.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use abi::argument::Out;
use num_complex::Complex;

use super::call::{Call, Use, flag, single, size, strided, type_of, work, work_bytes};
use crate::libraries::cublas::number::{Number, with_number};
use crate::libraries::cublas::operand::Region;
use crate::libraries::cublas::triangular::symmetric;
use crate::libraries::lapack::hermitian::{Tridiagonal, eigen};
use crate::libraries::lapack::memory::{store, store_count, store_real};
use crate::libraries::objects::Answer;
use crate::libraries::typed::typed;

/// Eigenvalues, and eigenvectors in the place of the matrix.
fn decompose<T: Number>(
    handle: usize,
    [jobz, uplo]: [c_int; 2],
    n: i64,
    (a, lda): (usize, i64),
    values: usize,
    info: usize,
    batch: i64,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let (with_vectors, upper, n) = (flag(jobz)?, flag(uplo)?, size(n)?);
    call.batch(batch)?;
    let base = strided(a, lda.saturating_mul(n as i64));
    call.half::<T>(base, n, upper, lda, Use::Changed)?;
    call.vector(values, T::REAL, n, Use::Written);
    call.info(info)?;
    if with_vectors {
        call.matrix::<T>(base, [n, n], lda, Use::Written)?;
    }
    call.run(move |_, at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            if T::ELEMENT.is_complex() {
                decompose_in::<Complex<f64>>(at, with_vectors);
            } else {
                decompose_in::<f64>(at, with_vectors);
            }
        }
    })
}

/// # Safety
/// The arguments are in memory.
unsafe fn decompose_in<T: Number>(places: &[Region], with_vectors: bool) {
    // SAFETY: passed on.
    unsafe {
        let found = eigen(symmetric::<T>(&places[0], true), with_vectors);
        store_real(&places[1], &found.values);
        store_count(&places[2], 0, found.info);
        if let Some((place, vectors)) = places.get(3).zip(found.vectors) {
            store(place, vectors);
        }
    }
}

/// # Safety
/// The arguments are in memory.
unsafe fn tridiagonalize<T: Number>(places: &[Region], upper: bool) {
    // SAFETY: passed on.
    unsafe {
        let mut whole = symmetric::<T>(&places[0], true);
        // The upper half is the lower one in the other order of rows and columns.
        if upper {
            whole.data.reverse();
        }
        let Tridiagonal { mut reflectors, mut taus, mut diagonal, mut beside } = Tridiagonal::new(whole);
        if upper {
            reflectors.data.reverse();
            taus.reverse();
            diagonal.reverse();
            beside.reverse();
        }
        store(&places[0], reflectors);
        store_real(&places[1], &diagonal);
        store_real(&places[2], &beside);
        taus.iter().enumerate().for_each(|(index, tau)| places[3].write(index, tau.wide()));
        store_count(&places[4], 0, 0);
    }
}

typed! {
    library Cusolver;

    fn syevd_work[T](handle: usize, _jobz: c_int, _uplo: c_int, n: c_int, _a: usize, _lda: c_int, _values: usize, out: Out<c_int>) { work(handle, [n, n], out) }
    cusolverDnSsyevd_bufferSize cusolverDnDsyevd_bufferSize cusolverDnCheevd_bufferSize cusolverDnZheevd_bufferSize;

    fn syevd[T](handle: usize, jobz: c_int, uplo: c_int, n: c_int, a: usize, lda: c_int, values: usize, _work: usize, _size: c_int, info: usize) {
        decompose::<T>(handle, [jobz, uplo], n.into(), (a, lda.into()), values, info, 1)
    }
    cusolverDnSsyevd cusolverDnDsyevd cusolverDnCheevd cusolverDnZheevd;

    fn syevj_work[T](handle: usize, _jobz: c_int, _uplo: c_int, n: c_int, _a: usize, _lda: c_int, _values: usize, out: Out<c_int>, _parameters: usize) { work(handle, [n, n], out) }
    cusolverDnSsyevj_bufferSize cusolverDnDsyevj_bufferSize cusolverDnCheevj_bufferSize cusolverDnZheevj_bufferSize;

    fn syevj[T](handle: usize, jobz: c_int, uplo: c_int, n: c_int, a: usize, lda: c_int, values: usize, _work: usize, _size: c_int, info: usize, _parameters: usize) {
        decompose::<T>(handle, [jobz, uplo], n.into(), (a, lda.into()), values, info, 1)
    }
    cusolverDnSsyevj cusolverDnDsyevj cusolverDnCheevj cusolverDnZheevj;

    fn syevj_batched_work[T](handle: usize, _jobz: c_int, _uplo: c_int, n: c_int, _a: usize, _lda: c_int, _values: usize, out: Out<c_int>, _parameters: usize, batch: c_int) {
        work(handle, [i64::from(n) * i64::from(n), batch.into()], out)
    }
    cusolverDnSsyevjBatched_bufferSize cusolverDnDsyevjBatched_bufferSize cusolverDnCheevjBatched_bufferSize cusolverDnZheevjBatched_bufferSize;

    fn syevj_batched[T](handle: usize, jobz: c_int, uplo: c_int, n: c_int, a: usize, lda: c_int, values: usize, _work: usize, _size: c_int, info: usize, _parameters: usize, batch: c_int) {
        decompose::<T>(handle, [jobz, uplo], n.into(), (a, lda.into()), values, info, batch.into())
    }
    cusolverDnSsyevjBatched cusolverDnDsyevjBatched cusolverDnCheevjBatched cusolverDnZheevjBatched;

    fn sytrd_work[T](handle: usize, _uplo: c_int, n: c_int, _a: usize, _lda: c_int, _diagonal: usize, _beside: usize, _taus: usize, out: Out<c_int>) { work(handle, [n, n], out) }
    cusolverDnSsytrd_bufferSize cusolverDnDsytrd_bufferSize cusolverDnChetrd_bufferSize cusolverDnZhetrd_bufferSize;

    fn sytrd[T](handle: usize, uplo: c_int, n: c_int, a: usize, lda: c_int, diagonal: usize, beside: usize, taus: usize, _work: usize, _size: c_int, info: usize) {
        let mut call = Call::begin(handle)?;
        let (upper, n) = (flag(uplo)?, size(n.into())?);
        call.half::<T>(single(a), n, upper, lda.into(), Use::Changed)?;
        call.vector(diagonal, T::REAL, n, Use::Written);
        call.vector(beside, T::REAL, n.saturating_sub(1), Use::Written);
        call.vector(taus, T::ELEMENT, n.saturating_sub(1), Use::Written);
        call.info(info)?;
        // SAFETY: the arguments are in memory.
        call.run(move |_, at| unsafe { tridiagonalize::<T>(at, upper) })
    }
    cusolverDnSsytrd cusolverDnDsytrd cusolverDnChetrd cusolverDnZhetrd;

    plain {
        fn cusolverDnXsyevd_bufferSize(handle: usize, parameters: usize, jobz: c_int, uplo: c_int, n: i64, kind: c_int, a: usize, lda: i64, kind_values: c_int, values: usize, computed: c_int, device: Out<usize>, host: Out<usize>) =
            |handle, _, _, _, n, kind, _, _, kind_values, _, computed, device, host| work_bytes(handle, type_of(kind, &[computed], Some(kind_values))?, [n, n], device, host);
        fn cusolverDnXsyevd(handle: usize, parameters: usize, jobz: c_int, uplo: c_int, n: i64, kind: c_int, a: usize, lda: i64, kind_values: c_int, values: usize, computed: c_int, device: usize, device_bytes: usize, host: usize, host_bytes: usize, info: usize) =
            |handle, _, jobz, uplo, n, kind, a, lda, kind_values, values, computed, _, _, _, _, info| with_number!(type_of(kind, &[computed], Some(kind_values))?, T => decompose::<T>(handle, [jobz, uplo], n, (a, lda), values, info, 1));
        fn cusolverDnXsyevBatched_bufferSize(handle: usize, parameters: usize, jobz: c_int, uplo: c_int, n: i64, kind: c_int, a: usize, lda: i64, kind_values: c_int, values: usize, computed: c_int, device: Out<usize>, host: Out<usize>, batch: i64) =
            |handle, _, _, _, n, kind, _, _, kind_values, _, computed, device, host, batch| work_bytes(handle, type_of(kind, &[computed], Some(kind_values))?, [n.saturating_mul(n), batch], device, host);
        fn cusolverDnXsyevBatched(handle: usize, parameters: usize, jobz: c_int, uplo: c_int, n: i64, kind: c_int, a: usize, lda: i64, kind_values: c_int, values: usize, computed: c_int, device: usize, device_bytes: usize, host: usize, host_bytes: usize, info: usize, batch: i64) =
            |handle, _, jobz, uplo, n, kind, a, lda, kind_values, values, computed, _, _, _, _, info, batch| with_number!(type_of(kind, &[computed], Some(kind_values))?, T => decompose::<T>(handle, [jobz, uplo], n, (a, lda), values, info, batch));
    }
}
