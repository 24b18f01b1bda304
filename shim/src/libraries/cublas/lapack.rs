//! The functions that are also in LAPACK, of batches of small matrices: `getrfBatched`, `getrsBatched`, `getriBatched`,
//! `matinvBatched`, `geqrfBatched`.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use super::dense::{Dense, Transpose};
use super::element::Element;
use super::gemm::operation;
use super::handle::REFUSALS;
use super::job::{Job, size};
use super::number::Number;
use super::operand::{Base, Region, Shape};
use crate::libraries::lapack::factor::Lu;
use crate::libraries::lapack::memory::{factored, geqrf, getrf, store, store_count};
use crate::libraries::objects::Answer;
use crate::libraries::typed::typed;

/// How an argument is used: whether it is read, and whether it is written.
const READ: [bool; 2] = [true, false];
const WRITTEN: [bool; 2] = [false, true];
const CHANGED: [bool; 2] = [true, true];

/// A call for matrices that an array of pointers lists.
struct Batch(Job);

impl Batch {
    fn begin(handle: usize, batch: c_int) -> Answer<Self> {
        let mut job = Job::begin(handle)?;
        job.batch(batch.into())?;
        Ok(Self(job))
    }

    fn matrix<T: Number>(
        &mut self,
        array: usize,
        [rows, columns]: [usize; 2],
        leading: c_int,
        [reads, writes]: [bool; 2],
    ) -> Answer {
        let leading = size(leading.into())?;
        if array == 0 || leading < rows.max(1) {
            return REFUSALS.value();
        }
        self.0.push(Base::Pointers(array), T::ELEMENT, Shape::Full { rows, columns, leading }, reads, writes);
        Ok(())
    }

    /// Numbers of each problem, one after the other.
    fn counts(&mut self, address: usize, n: usize, reads: bool, writes: bool) {
        let base = Base::At { address, stride: n as i64 };
        self.0.push(base, Element::I32, Shape::Vector { n, step: 1 }, reads, writes);
    }

    /// Does it in stream order, unless nothing computes.
    fn run(self, body: impl Fn(&[Region]) + Send + Sync + 'static) -> Answer {
        self.0.run_computed(move |_, places| body(places))
    }
}

/// Answers that no argument is wrong, in host memory: what is wrong has been refused.
fn answer(info: usize) -> Answer {
    let info = info as *mut c_int;
    if info.is_null() {
        return REFUSALS.value();
    }
    // SAFETY: not null, and C vouches for the rest.
    unsafe { info.write(0) };
    Ok(())
}

/// # Safety
/// The arguments are in memory.
unsafe fn store_inverse<T: Number>(lu: Lu<T>, to: &Region, info: &Region) {
    let n = lu.factors.rows;
    let singular = (0..n).find(|index| lu.factors.get(*index, *index).is_zero());
    // SAFETY: passed on.
    unsafe {
        store_count(info, 0, singular.map_or(0, |index| index + 1));
        if let Some(inverse) = lu.inverse() {
            store(to, inverse);
        }
    }
}

typed! {
    library Cublas;

    /// Without a place for pivots, no rows are exchanged.
    fn getrf_batched[T](handle: usize, n: c_int, a: usize, lda: c_int, pivots: usize, info: usize, batch: c_int) {
        let mut call = Batch::begin(handle, batch)?;
        let n = size(n.into())?;
        if info == 0 {
            return REFUSALS.value();
        }
        call.matrix::<T>(a, [n, n], lda, CHANGED)?;
        call.counts(info, 1, false, true);
        if pivots != 0 {
            call.counts(pivots, n, false, true);
        }
        // SAFETY: the arguments are in memory.
        call.run(|at| unsafe { getrf::<T>(&at[0], at.get(2), &at[1]) })
    }
    cublasSgetrfBatched cublasDgetrfBatched cublasCgetrfBatched cublasZgetrfBatched;

    fn getrs_batched[T](handle: usize, code: c_int, n: c_int, rhs: c_int, a: usize, lda: c_int, pivots: usize, b: usize, ldb: c_int, info: usize, batch: c_int) {
        let mut call = Batch::begin(handle, batch)?;
        let (operation, n, rhs) = (operation(code)?, size(n.into())?, size(rhs.into())?);
        call.matrix::<T>(a, [n, n], lda, READ)?;
        call.matrix::<T>(b, [n, rhs], ldb, CHANGED)?;
        answer(info)?;
        if pivots != 0 {
            call.counts(pivots, n, true, false);
        }
        call.run(move |at| {
            // SAFETY: the arguments are in memory.
            unsafe {
                let b = Dense::<T>::load(&at[1], Transpose::No);
                store(&at[1], factored(&at[0], at.get(2)).solve(operation, b));
            }
        })
    }
    cublasSgetrsBatched cublasDgetrsBatched cublasCgetrsBatched cublasZgetrsBatched;

    fn getri_batched[T](handle: usize, n: c_int, a: usize, lda: c_int, pivots: usize, c: usize, ldc: c_int, info: usize, batch: c_int) {
        let mut call = Batch::begin(handle, batch)?;
        let n = size(n.into())?;
        if info == 0 {
            return REFUSALS.value();
        }
        call.matrix::<T>(a, [n, n], lda, READ)?;
        call.matrix::<T>(c, [n, n], ldc, WRITTEN)?;
        call.counts(info, 1, false, true);
        if pivots != 0 {
            call.counts(pivots, n, true, false);
        }
        // SAFETY: the arguments are in memory.
        call.run(|at| unsafe { store_inverse(factored::<T>(&at[0], at.get(3)), &at[1], &at[2]) })
    }
    cublasSgetriBatched cublasDgetriBatched cublasCgetriBatched cublasZgetriBatched;

    /// Matrices of up to 32 rows.
    fn matinv_batched[T](handle: usize, n: c_int, a: usize, lda: c_int, c: usize, ldc: c_int, info: usize, batch: c_int) {
        let mut call = Batch::begin(handle, batch)?;
        if n > 32 || info == 0 {
            return REFUSALS.value();
        }
        let n = size(n.into())?;
        call.matrix::<T>(a, [n, n], lda, READ)?;
        call.matrix::<T>(c, [n, n], ldc, WRITTEN)?;
        call.counts(info, 1, false, true);
        call.run(|at| {
            // SAFETY: the arguments are in memory.
            unsafe { store_inverse(Lu::<T>::new(Dense::load(&at[0], Transpose::No), true), &at[1], &at[2]) }
        })
    }
    cublasSmatinvBatched cublasDmatinvBatched cublasCmatinvBatched cublasZmatinvBatched;

    fn geqrf_batched[T](handle: usize, m: c_int, n: c_int, a: usize, lda: c_int, taus: usize, info: usize, batch: c_int) {
        let mut call = Batch::begin(handle, batch)?;
        let (m, n) = (size(m.into())?, size(n.into())?);
        call.matrix::<T>(a, [m, n], lda, CHANGED)?;
        if taus == 0 {
            return REFUSALS.value();
        }
        call.0.push(Base::Pointers(taus), T::ELEMENT, Shape::Vector { n: m.min(n), step: 1 }, false, true);
        answer(info)?;
        // SAFETY: the arguments are in memory.
        call.run(|at| unsafe { geqrf::<T>(&at[0], &at[1]) })
    }
    cublasSgeqrfBatched cublasDgeqrfBatched cublasCgeqrfBatched cublasZgeqrfBatched;
}
