//! Cholesky and LU factors, and systems of equations solved with them.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use abi::argument::Out;

use super::call::{Call, Use, flag, single, size, type_of, work, work_bytes};
use super::handle::REFUSALS;
use crate::libraries::cublas::dense::{Dense, Transpose};
use crate::libraries::cublas::element::Element;
use crate::libraries::cublas::number::{Number, with_number};
use crate::libraries::cublas::operand::{Base, Shape};
use crate::libraries::lapack::factor::{cholesky, solve_cholesky};
use crate::libraries::lapack::memory::{factored, getrf, store, store_count};
use crate::libraries::objects::{Answer, Code};
use crate::libraries::typed::typed;

/// The operation after which what is stored of a half is the lower one.
fn lower(upper: bool) -> Transpose {
    if upper { Transpose::Conjugate } else { Transpose::No }
}

fn factor_cholesky<T: Number>(
    handle: usize,
    uplo: c_int,
    n: i64,
    a: Base,
    lda: i64,
    info: usize,
    batch: i64,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let upper = flag(uplo)?;
    call.batch(batch)?;
    call.half::<T>(a, size(n)?, upper, lda, Use::Changed)?;
    call.info(info)?;
    call.run(move |_, at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            let mut matrix = Dense::<T>::load(&at[0], lower(upper));
            store_count(&at[1], 0, cholesky(&mut matrix));
            store(&at[0], matrix.after(lower(upper)));
        }
    })
}

fn solve_factored_cholesky<T: Number>(
    handle: usize,
    uplo: c_int,
    [n, rhs]: [i64; 2],
    (a, lda): (Base, i64),
    (b, ldb): (Base, i64),
    info: usize,
    batch: i64,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let (upper, n) = (flag(uplo)?, size(n)?);
    call.batch(batch)?;
    call.half::<T>(a, n, upper, lda, Use::Read)?;
    call.matrix::<T>(b, [n, size(rhs)?], ldb, Use::Changed)?;
    // One for all problems: whether an argument was wrong.
    call.push(single(info), Element::I32, Shape::Vector { n: 1, step: 1 }, Use::Written);
    call.run(move |_, at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            let b = Dense::<T>::load(&at[1], Transpose::No);
            store(&at[1], solve_cholesky(&Dense::load(&at[0], lower(upper)), b));
            store_count(&at[2], 0, 0);
        }
    })
}

/// Rows, columns, and the type of the pivots.
fn factor_lu<T: Number>(
    handle: usize,
    [rows, columns]: [i64; 2],
    (a, lda): (usize, i64),
    (pivots, index): (usize, Element),
    info: usize,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let sizes = [size(rows)?, size(columns)?];
    call.matrix::<T>(single(a), sizes, lda, Use::Changed)?;
    call.info(info)?;
    if pivots != 0 {
        call.vector(pivots, index, sizes[0].min(sizes[1]), Use::Written);
    }
    // SAFETY: the arguments are in memory.
    call.run(move |_, at| unsafe { getrf::<T>(&at[0], at.get(2), &at[1]) })
}

fn solve_lu<T: Number>(
    handle: usize,
    operation: c_int,
    [n, rhs]: [i64; 2],
    (a, lda): (usize, i64),
    (pivots, index): (usize, Element),
    (b, ldb): (usize, i64),
    info: usize,
) -> Answer {
    let mut call = Call::begin(handle)?;
    let operation = Transpose::from_code(operation).ok_or(Code(REFUSALS.value))?;
    let n = size(n)?;
    call.matrix::<T>(single(a), [n, n], lda, Use::Read)?;
    call.matrix::<T>(single(b), [n, size(rhs)?], ldb, Use::Changed)?;
    call.info(info)?;
    if pivots != 0 {
        call.vector(pivots, index, n, Use::Read);
    }
    call.run(move |_, at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            let b = Dense::<T>::load(&at[1], Transpose::No);
            store(&at[1], factored(&at[0], at.get(3)).solve(operation, b));
            store_count(&at[2], 0, 0);
        }
    })
}

typed! {
    library Cusolver;

    fn potrf_work[T](handle: usize, uplo: c_int, n: c_int, _a: usize, _lda: c_int, out: Out<c_int>) {
        flag(uplo)?;
        work(handle, [n, n], out)
    }
    cusolverDnSpotrf_bufferSize cusolverDnDpotrf_bufferSize cusolverDnCpotrf_bufferSize cusolverDnZpotrf_bufferSize;

    fn potrf[T](handle: usize, uplo: c_int, n: c_int, a: usize, lda: c_int, _work: usize, _size: c_int, info: usize) {
        factor_cholesky::<T>(handle, uplo, n.into(), single(a), lda.into(), info, 1)
    }
    cusolverDnSpotrf cusolverDnDpotrf cusolverDnCpotrf cusolverDnZpotrf;

    fn potrf_batched[T](handle: usize, uplo: c_int, n: c_int, a: usize, lda: c_int, info: usize, batch: c_int) {
        factor_cholesky::<T>(handle, uplo, n.into(), Base::Pointers(a), lda.into(), info, batch.into())
    }
    cusolverDnSpotrfBatched cusolverDnDpotrfBatched cusolverDnCpotrfBatched cusolverDnZpotrfBatched;

    fn potrs[T](handle: usize, uplo: c_int, n: c_int, rhs: c_int, a: usize, lda: c_int, b: usize, ldb: c_int, info: usize) {
        solve_factored_cholesky::<T>(handle, uplo, [n.into(), rhs.into()], (single(a), lda.into()), (single(b), ldb.into()), info, 1)
    }
    cusolverDnSpotrs cusolverDnDpotrs cusolverDnCpotrs cusolverDnZpotrs;

    fn potrs_batched[T](handle: usize, uplo: c_int, n: c_int, rhs: c_int, a: usize, lda: c_int, b: usize, ldb: c_int, info: usize, batch: c_int) {
        let (a, b) = ((Base::Pointers(a), lda.into()), (Base::Pointers(b), ldb.into()));
        solve_factored_cholesky::<T>(handle, uplo, [n.into(), rhs.into()], a, b, info, batch.into())
    }
    cusolverDnSpotrsBatched cusolverDnDpotrsBatched cusolverDnCpotrsBatched cusolverDnZpotrsBatched;

    fn getrf_work[T](handle: usize, m: c_int, n: c_int, _a: usize, _lda: c_int, out: Out<c_int>) { work(handle, [m, n], out) }
    cusolverDnSgetrf_bufferSize cusolverDnDgetrf_bufferSize cusolverDnCgetrf_bufferSize cusolverDnZgetrf_bufferSize;

    fn getrf_pivoted[T](handle: usize, m: c_int, n: c_int, a: usize, lda: c_int, _work: usize, pivots: usize, info: usize) {
        factor_lu::<T>(handle, [m.into(), n.into()], (a, lda.into()), (pivots, Element::I32), info)
    }
    cusolverDnSgetrf cusolverDnDgetrf cusolverDnCgetrf cusolverDnZgetrf;

    fn getrs[T](handle: usize, operation: c_int, n: c_int, rhs: c_int, a: usize, lda: c_int, pivots: usize, b: usize, ldb: c_int, info: usize) {
        let (a, b) = ((a, lda.into()), (b, ldb.into()));
        solve_lu::<T>(handle, operation, [n.into(), rhs.into()], a, (pivots, Element::I32), b, info)
    }
    cusolverDnSgetrs cusolverDnDgetrs cusolverDnCgetrs cusolverDnZgetrs;

    plain {
        fn cusolverDnXpotrf_bufferSize(handle: usize, parameters: usize, uplo: c_int, n: i64, kind: c_int, a: usize, lda: i64, computed: c_int, device: Out<usize>, host: Out<usize>) =
            |handle, _, _, n, kind, _, _, computed, device, host| work_bytes(handle, type_of(kind, &[computed], None)?, [n, n], device, host);
        fn cusolverDnXpotrf(handle: usize, parameters: usize, uplo: c_int, n: i64, kind: c_int, a: usize, lda: i64, computed: c_int, device: usize, device_bytes: usize, host: usize, host_bytes: usize, info: usize) =
            |handle, _, uplo, n, kind, a, lda, computed, _, _, _, _, info| with_number!(type_of(kind, &[computed], None)?, T => factor_cholesky::<T>(handle, uplo, n, single(a), lda, info, 1));
        fn cusolverDnXpotrs(handle: usize, parameters: usize, uplo: c_int, n: i64, rhs: i64, kind: c_int, a: usize, lda: i64, kind_b: c_int, b: usize, ldb: i64, info: usize) =
            |handle, _, uplo, n, rhs, kind, a, lda, kind_b, b, ldb, info| with_number!(type_of(kind, &[kind_b], None)?, T => solve_factored_cholesky::<T>(handle, uplo, [n, rhs], (single(a), lda), (single(b), ldb), info, 1));
        fn cusolverDnXgetrf_bufferSize(handle: usize, parameters: usize, m: i64, n: i64, kind: c_int, a: usize, lda: i64, computed: c_int, device: Out<usize>, host: Out<usize>) =
            |handle, _, m, n, kind, _, _, computed, device, host| work_bytes(handle, type_of(kind, &[computed], None)?, [m, n], device, host);
        fn cusolverDnXgetrf(handle: usize, parameters: usize, m: i64, n: i64, kind: c_int, a: usize, lda: i64, pivots: usize, computed: c_int, device: usize, device_bytes: usize, host: usize, host_bytes: usize, info: usize) =
            |handle, _, m, n, kind, a, lda, pivots, computed, _, _, _, _, info| with_number!(type_of(kind, &[computed], None)?, T => factor_lu::<T>(handle, [m, n], (a, lda), (pivots, Element::I64), info));
        fn cusolverDnXgetrs(handle: usize, parameters: usize, operation: c_int, n: i64, rhs: i64, kind: c_int, a: usize, lda: i64, pivots: usize, kind_b: c_int, b: usize, ldb: i64, info: usize) =
            |handle, _, operation, n, rhs, kind, a, lda, pivots, kind_b, b, ldb, info| with_number!(type_of(kind, &[kind_b], None)?, T => solve_lu::<T>(handle, operation, [n, rhs], (a, lda), (pivots, Element::I64), (b, ldb), info));
    }
}
