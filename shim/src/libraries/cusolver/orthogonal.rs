//! QR factors and what is done with their reflectors: `geqrf`, `orgqr`, `ormqr`.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use abi::argument::Out;

use super::call::{Call, Use, flag, single, size, type_of, work, work_bytes};
use super::handle::REFUSALS;
use crate::libraries::cublas::dense::{Dense, Transpose};
use crate::libraries::cublas::number::{Number, with_number};
use crate::libraries::lapack::memory::{geqrf as factor, store, store_count, vector};
use crate::libraries::lapack::reflect;
use crate::libraries::objects::{Answer, Code};
use crate::libraries::typed::typed;

fn factor_qr<T: Number>(handle: usize, [m, n]: [i64; 2], (a, lda): (usize, i64), taus: usize, info: usize) -> Answer {
    let mut call = Call::begin(handle)?;
    let sizes = [size(m)?, size(n)?];
    call.matrix::<T>(single(a), sizes, lda, Use::Changed)?;
    call.vector(taus, T::ELEMENT, sizes[0].min(sizes[1]), Use::Written);
    call.info(info)?;
    call.run(move |_, at| {
        // SAFETY: the arguments are in memory.
        unsafe {
            factor::<T>(&at[0], &at[1]);
            store_count(&at[2], 0, 0);
        }
    })
}

typed! {
    library Cusolver;

    fn geqrf_work[T](handle: usize, m: c_int, n: c_int, _a: usize, _lda: c_int, out: Out<c_int>) { work(handle, [m, n], out) }
    cusolverDnSgeqrf_bufferSize cusolverDnDgeqrf_bufferSize cusolverDnCgeqrf_bufferSize cusolverDnZgeqrf_bufferSize;

    fn geqrf[T](handle: usize, m: c_int, n: c_int, a: usize, lda: c_int, taus: usize, _work: usize, _size: c_int, info: usize) {
        factor_qr::<T>(handle, [m.into(), n.into()], (a, lda.into()), taus, info)
    }
    cusolverDnSgeqrf cusolverDnDgeqrf cusolverDnCgeqrf cusolverDnZgeqrf;

    fn orgqr_work[T](handle: usize, m: c_int, n: c_int, _k: c_int, _a: usize, _lda: c_int, _taus: usize, out: Out<c_int>) { work(handle, [m, n], out) }
    cusolverDnSorgqr_bufferSize cusolverDnDorgqr_bufferSize cusolverDnCungqr_bufferSize cusolverDnZungqr_bufferSize;

    fn orgqr[T](handle: usize, m: c_int, n: c_int, k: c_int, a: usize, lda: c_int, taus: usize, _work: usize, _size: c_int, info: usize) {
        let mut call = Call::begin(handle)?;
        let [m, n, k] = [size(m.into())?, size(n.into())?, size(k.into())?];
        if n > m || k > n {
            return REFUSALS.value();
        }
        // Only the columns of reflectors are read, but all are written.
        call.matrix::<T>(single(a), [m, k], lda.into(), Use::Read)?;
        call.matrix::<T>(single(a), [m, n], lda.into(), Use::Written)?;
        call.vector(taus, T::ELEMENT, k, Use::Read);
        call.info(info)?;
        call.run(move |_, at| {
            // SAFETY: the arguments are in memory.
            unsafe {
                let reflectors = Dense::<T>::load(&at[0], Transpose::No);
                store(&at[1], reflect::q(&reflectors, &vector(&at[2]), n));
                store_count(&at[3], 0, 0);
            }
        })
    }
    cusolverDnSorgqr cusolverDnDorgqr cusolverDnCungqr cusolverDnZungqr;

    fn ormqr_work[T](handle: usize, _side: c_int, _operation: c_int, m: c_int, n: c_int, _k: c_int, _a: usize, _lda: c_int, _taus: usize, _c: usize, _ldc: c_int, out: Out<c_int>) { work(handle, [m, n], out) }
    cusolverDnSormqr_bufferSize cusolverDnDormqr_bufferSize cusolverDnCunmqr_bufferSize cusolverDnZunmqr_bufferSize;

    fn ormqr[T](handle: usize, side: c_int, operation: c_int, m: c_int, n: c_int, k: c_int, a: usize, lda: c_int, taus: usize, c: usize, ldc: c_int, _work: usize, _size: c_int, info: usize) {
        let mut call = Call::begin(handle)?;
        let right = flag(side)?;
        let operation = Transpose::from_code(operation).ok_or(Code(REFUSALS.value))?;
        let [m, n, k] = [size(m.into())?, size(n.into())?, size(k.into())?];
        let rows = if right { n } else { m };
        // LAPACK's `unmqr` has no transpose without conjugation.
        if k > rows || (T::ELEMENT.is_complex() && operation == Transpose::Yes) {
            return REFUSALS.value();
        }
        call.matrix::<T>(single(a), [rows, k], lda.into(), Use::Read)?;
        call.vector(taus, T::ELEMENT, k, Use::Read);
        call.matrix::<T>(single(c), [m, n], ldc.into(), Use::Changed)?;
        call.info(info)?;
        call.run(move |_, at| {
            // C Q is the conjugate transpose of Q^H C^H.
            let turned = if right { Transpose::Conjugate } else { Transpose::No };
            let is_conjugate = (operation != Transpose::No) != right;
            // SAFETY: the arguments are in memory.
            unsafe {
                let mut matrix = Dense::<T>::load(&at[2], turned);
                reflect::multiply(&Dense::load(&at[0], Transpose::No), &vector(&at[1]), is_conjugate, &mut matrix);
                store(&at[2], matrix.after(turned));
                store_count(&at[3], 0, 0);
            }
        })
    }
    cusolverDnSormqr cusolverDnDormqr cusolverDnCunmqr cusolverDnZunmqr;

    plain {
        fn cusolverDnXgeqrf_bufferSize(handle: usize, parameters: usize, m: i64, n: i64, kind: c_int, a: usize, lda: i64, kind_taus: c_int, taus: usize, computed: c_int, device: Out<usize>, host: Out<usize>) =
            |handle, _, m, n, kind, _, _, kind_taus, _, computed, device, host| work_bytes(handle, type_of(kind, &[kind_taus, computed], None)?, [m, n], device, host);
        fn cusolverDnXgeqrf(handle: usize, parameters: usize, m: i64, n: i64, kind: c_int, a: usize, lda: i64, kind_taus: c_int, taus: usize, computed: c_int, device: usize, device_bytes: usize, host: usize, host_bytes: usize, info: usize) =
            |handle, _, m, n, kind, a, lda, kind_taus, taus, computed, _, _, _, _, info| with_number!(type_of(kind, &[kind_taus, computed], None)?, T => factor_qr::<T>(handle, [m, n], (a, lda), taus, info));
    }
}
