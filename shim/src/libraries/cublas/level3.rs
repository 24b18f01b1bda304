//! Half-stored matrices: `symm`, `syrk` and similar, `trmm`, `trsm`; and `geam` and `dgmm`. Products of full matrices are in
//! `gemm`.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use num_complex::Complex;

use super::calls::calls;
use super::dense::{Dense, Transpose};
use super::element::Element;
use super::gemm::operation;
use super::handle::REFUSALS;
use super::job::{Job, size};
use super::number::Number;
use super::operand::{Base, Region, Shape};
use super::triangular::{Triangle, symmetric};
use crate::libraries::objects::{Answer, Code};

type C32 = Complex<f32>;
type C64 = Complex<f64>;

/// A matrix in C: its location, and its leading dimension.
type Argument = (Base, i64);

fn at_address(address: usize, leading: impl Into<i64>) -> Argument {
    (Base::At { address, stride: 0 }, leading.into())
}

fn pointers(array: usize, leading: impl Into<i64>) -> Argument {
    (Base::Pointers(array), leading.into())
}

/// `cublasSideMode_t` (right), `cublasFillMode_t` (upper) and `cublasDiagType_t` (unit): 0 or 1.
pub(super) fn flag(code: c_int) -> Answer<bool> {
    match code {
        0 | 1 => Ok(code == 1),
        _ => Err(Code(REFUSALS.value)),
    }
}

fn full((rows, columns): (usize, usize), leading: i64) -> Answer<Shape> {
    Ok(Shape::Full { rows, columns, leading: size(leading)? })
}

fn product(factors: [usize; 3]) -> u64 {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor as u64))
}

/// C = `sums` + beta C, for the elements that the argument has; on the diagonal only the real part if `hermitian`.
///
/// # Safety
/// It is in memory, and readable if beta is not 0.
unsafe fn update<T: Number>(c: &Region, beta: T, hermitian: bool, sums: impl Fn(usize, usize) -> T) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut values = if beta.is_zero() { c.blank() } else { c.load() };
        for column in 0..values.columns() {
            let first = values.shape.first(column);
            for (index, value) in values.column_mut(column).iter_mut().enumerate() {
                let row = first + index;
                *value = sums(row, column) + beta * *value;
                if hermitian && row == column {
                    *value = value.real();
                }
            }
        }
        c.store(&values);
    }
}

/// C = alpha A B + beta C, or B A, where A is its own transpose or conjugate transpose.
fn multiply_symmetric<T: Number>(
    handle: usize,
    hermitian: bool,
    [side, fill]: [c_int; 2],
    [m, n]: [i64; 2],
    (alpha, beta): (usize, usize),
    [a, b, c]: [Argument; 3],
) -> Answer {
    let mut job = Job::begin(handle)?;
    let (right, upper) = (flag(side)?, flag(fill)?);
    let (m, n) = (size(m)?, size(n)?);
    let (alpha, beta) = (job.scale(alpha, T::ELEMENT)?, job.scale(beta, T::ELEMENT)?);
    let order = if right { n } else { m };
    let half = Shape::Triangle { n: order, leading: size(a.1)?, upper, strict: false };
    job.push(a.0, T::ELEMENT, half, !alpha.is_zero(), false);
    job.push(b.0, T::ELEMENT, full((m, n), b.1)?, !alpha.is_zero(), false);
    job.push(c.0, T::ELEMENT, full((m, n), c.1)?, beta.is_known(), true);
    job.run_product(product([m, n, order]), move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (alpha, beta) = (T::from_wide(alpha.get(0)), T::from_wide(beta.get(0)));
            if alpha.is_zero() {
                return update(&at[2], beta, false, |_, _| T::zero());
            }
            let (a, b) = (symmetric::<T>(&at[0], hermitian), Dense::load(&at[1], Transpose::No));
            let sums = if right { b.times(&a) } else { a.times(&b) };
            update(&at[2], beta, false, |row, column| alpha * sums.get(row, column));
        }
    })
}

/// The differences between `syrk` and similar routines.
#[derive(Clone, Copy)]
struct Rank {
    /// Whether the result is its own conjugate transpose, and beta is real.
    hermitian: bool,
    /// Whether the product and its transpose are summed.
    both: bool,
    /// The element type of alpha.
    alpha: Element,
}

/// Half of C = alpha op(A) op(B)^T + beta C; B is A for `syrk`.
fn update_rank<T: Number>(
    handle: usize,
    rank: Rank,
    [fill, code]: [c_int; 2],
    [n, k]: [i64; 2],
    (alpha, beta): (usize, usize),
    [a, b, c]: [Argument; 3],
) -> Answer {
    let mut job = Job::begin(handle)?;
    let Rank { hermitian, both, .. } = rank;
    let (upper, operation) = (flag(fill)?, operation(code)?);
    // The other transpose has no routine (BLAS: "TRANS" of CHERK and CSYRK).
    let refused = if hermitian { Transpose::Yes } else { Transpose::Conjugate };
    if T::ELEMENT.is_complex() && operation == refused {
        return REFUSALS.value();
    }
    let (n, k) = (size(n)?, size(k)?);
    let alpha = job.scale(alpha, rank.alpha)?;
    let beta = job.scale(beta, if hermitian { T::REAL } else { T::ELEMENT })?;
    let stored = if operation == Transpose::No { (n, k) } else { (k, n) };
    job.push(a.0, T::ELEMENT, full(stored, a.1)?, !alpha.is_zero(), false);
    job.push(b.0, T::ELEMENT, full(stored, b.1)?, !alpha.is_zero(), false);
    let half = Shape::Triangle { n, leading: size(c.1)?, upper, strict: false };
    job.push(c.0, T::ELEMENT, half, beta.is_known(), true);
    job.run_product(product([n, n, k]), move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (alpha, beta) = (T::from_wide(alpha.get(0)), T::from_wide(beta.get(0)));
            if alpha.is_zero() || k == 0 {
                return update(&at[2], beta, hermitian, |_, _| T::zero());
            }
            let turned = if hermitian { Transpose::Conjugate } else { Transpose::Yes };
            let second = if operation == Transpose::No { turned } else { Transpose::No };
            let sums = Dense::<T>::load(&at[0], operation).times(&Dense::load(&at[1], second));
            update(&at[2], beta, hermitian, |row, column| {
                let value = alpha * sums.get(row, column);
                match (both, hermitian) {
                    (false, _) => value,
                    (true, false) => value + alpha * sums.get(column, row),
                    (true, true) => value + (alpha * sums.get(column, row)).conj(),
                }
            });
        }
    })
}

/// C = alpha op(A) B, or with the inverse of A, or from the right, where A is a triangle.
fn by_triangle<T: Number>(
    handle: usize,
    solves: bool,
    [side, fill, code, diagonal]: [c_int; 4],
    [m, n]: [i64; 2],
    alpha: usize,
    [a, b, c]: [Argument; 3],
    batch: i64,
) -> Answer {
    let mut job = Job::begin(handle)?;
    let (right, upper, operation, strict) = (flag(side)?, flag(fill)?, operation(code)?, flag(diagonal)?);
    let (m, n) = (size(m)?, size(n)?);
    job.batch(batch)?;
    let alpha = job.scale(alpha, T::ELEMENT)?;
    let order = if right { n } else { m };
    job.push(
        a.0,
        T::ELEMENT,
        Shape::Triangle { n: order, leading: size(a.1)?, upper, strict },
        !alpha.is_zero(),
        false,
    );
    job.push(b.0, T::ELEMENT, full((m, n), b.1)?, !alpha.is_zero(), false);
    job.push(c.0, T::ELEMENT, full((m, n), c.1)?, false, true);
    job.run_product(product([m, n, order]), move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let alpha = T::from_wide(alpha.get(0));
            if alpha.is_zero() {
                return update(&at[2], T::zero(), false, |_, _| T::zero());
            }
            let (mut a, mut b) = (Triangle::<T>::load(&at[0], operation), Dense::load(&at[1], Transpose::No));
            if right {
                (a, b) = (a.transposed(), b.after(Transpose::Yes));
            }
            let mut result = if solves {
                b.data.iter_mut().for_each(|value| *value *= alpha);
                a.solve(b)
            } else {
                let mut sums = a.times(&b);
                sums.data.iter_mut().for_each(|value| *value *= alpha);
                sums
            };
            if right {
                result = result.after(Transpose::Yes);
            }
            update(&at[2], T::zero(), false, |row, column| result.get(row, column));
        }
    })
}

calls! {
    fn symm[T: Number, const HERMITIAN: bool,](
        handle: usize, side: c_int, fill: c_int, m: Int, n: Int, alpha: usize, a: usize, lda: Int, b: usize, ldb: Int,
        beta: usize, c: usize, ldc: Int
    ) {
        let arguments = [at_address(a, lda), at_address(b, ldb), at_address(c, ldc)];
        multiply_symmetric::<T>(handle, HERMITIAN, [side, fill], [m.into(), n.into()], (alpha, beta), arguments)
    }
    [f32, false,] cublasSsymm_v2 cublasSsymm_v2_64, [f64, false,] cublasDsymm_v2 cublasDsymm_v2_64,
    [C32, false,] cublasCsymm_v2 cublasCsymm_v2_64, [C64, false,] cublasZsymm_v2 cublasZsymm_v2_64,
    [C32, true,] cublasChemm_v2 cublasChemm_v2_64, [C64, true,] cublasZhemm_v2 cublasZhemm_v2_64;

    /// `syrk` and `herk`.
    fn rank_k[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, code: c_int, n: Int, k: Int, alpha: usize, a: usize, lda: Int, beta: usize, c: usize,
        ldc: Int
    ) {
        let rank = Rank { hermitian: HERMITIAN, both: false, alpha: if HERMITIAN { T::REAL } else { T::ELEMENT } };
        let a = at_address(a, lda);
        update_rank::<T>(handle, rank, [fill, code], [n.into(), k.into()], (alpha, beta), [a, a, at_address(c, ldc)])
    }
    [f32, false,] cublasSsyrk_v2 cublasSsyrk_v2_64, [f64, false,] cublasDsyrk_v2 cublasDsyrk_v2_64,
    [C32, false,] cublasCsyrk_v2 cublasCsyrk_v2_64, [C64, false,] cublasZsyrk_v2 cublasZsyrk_v2_64,
    [C32, true,] cublasCherk_v2 cublasCherk_v2_64, [C64, true,] cublasZherk_v2 cublasZherk_v2_64;

    /// `syr2k` and `her2k` (`BOTH`), `syrkx` and `herkx`.
    fn rank_two[T: Number, const HERMITIAN: bool, const BOTH: bool,](
        handle: usize, fill: c_int, code: c_int, n: Int, k: Int, alpha: usize, a: usize, lda: Int, b: usize, ldb: Int,
        beta: usize, c: usize, ldc: Int
    ) {
        let rank = Rank { hermitian: HERMITIAN, both: BOTH, alpha: T::ELEMENT };
        let arguments = [at_address(a, lda), at_address(b, ldb), at_address(c, ldc)];
        update_rank::<T>(handle, rank, [fill, code], [n.into(), k.into()], (alpha, beta), arguments)
    }
    [f32, false, true,] cublasSsyr2k_v2 cublasSsyr2k_v2_64, [f64, false, true,] cublasDsyr2k_v2 cublasDsyr2k_v2_64,
    [C32, false, true,] cublasCsyr2k_v2 cublasCsyr2k_v2_64, [C64, false, true,] cublasZsyr2k_v2 cublasZsyr2k_v2_64,
    [C32, true, true,] cublasCher2k_v2 cublasCher2k_v2_64, [C64, true, true,] cublasZher2k_v2 cublasZher2k_v2_64,
    [f32, false, false,] cublasSsyrkx cublasSsyrkx_64, [f64, false, false,] cublasDsyrkx cublasDsyrkx_64,
    [C32, false, false,] cublasCsyrkx cublasCsyrkx_64, [C64, false, false,] cublasZsyrkx cublasZsyrkx_64,
    [C32, true, false,] cublasCherkx cublasCherkx_64, [C64, true, false,] cublasZherkx cublasZherkx_64;

    fn trmm[T: Number,](
        handle: usize, side: c_int, fill: c_int, code: c_int, diagonal: c_int, m: Int, n: Int, alpha: usize, a: usize,
        lda: Int, b: usize, ldb: Int, c: usize, ldc: Int
    ) {
        let arguments = [at_address(a, lda), at_address(b, ldb), at_address(c, ldc)];
        by_triangle::<T>(handle, false, [side, fill, code, diagonal], [m.into(), n.into()], alpha, arguments, 1)
    }
    [f32,] cublasStrmm_v2 cublasStrmm_v2_64, [f64,] cublasDtrmm_v2 cublasDtrmm_v2_64,
    [C32,] cublasCtrmm_v2 cublasCtrmm_v2_64, [C64,] cublasZtrmm_v2 cublasZtrmm_v2_64;

    fn trsm[T: Number,](
        handle: usize, side: c_int, fill: c_int, code: c_int, diagonal: c_int, m: Int, n: Int, alpha: usize, a: usize,
        lda: Int, b: usize, ldb: Int
    ) {
        let (a, b) = (at_address(a, lda), at_address(b, ldb));
        by_triangle::<T>(handle, true, [side, fill, code, diagonal], [m.into(), n.into()], alpha, [a, b, b], 1)
    }
    [f32,] cublasStrsm_v2 cublasStrsm_v2_64, [f64,] cublasDtrsm_v2 cublasDtrsm_v2_64,
    [C32,] cublasCtrsm_v2 cublasCtrsm_v2_64, [C64,] cublasZtrsm_v2 cublasZtrsm_v2_64;

    fn trsm_batched[T: Number,](
        handle: usize, side: c_int, fill: c_int, code: c_int, diagonal: c_int, m: Int, n: Int, alpha: usize, a: usize,
        lda: Int, b: usize, ldb: Int, batch: Int
    ) {
        let (a, b) = (pointers(a, lda), pointers(b, ldb));
        by_triangle::<T>(handle, true, [side, fill, code, diagonal], [m.into(), n.into()], alpha, [a, b, b], batch.into())
    }
    [f32,] cublasStrsmBatched cublasStrsmBatched_64, [f64,] cublasDtrsmBatched cublasDtrsmBatched_64,
    [C32,] cublasCtrsmBatched cublasCtrsmBatched_64, [C64,] cublasZtrsmBatched cublasZtrsmBatched_64;

    /// C = alpha op(A) + beta op(B).
    fn geam[T: Number,](
        handle: usize, left: c_int, right: c_int, m: Int, n: Int, alpha: usize, a: usize, lda: Int, beta: usize, b: usize,
        ldb: Int, c: usize, ldc: Int
    ) {
        let mut job = Job::begin(handle)?;
        let (left, right) = (operation(left)?, operation(right)?);
        let (m, n) = (size(m.into())?, size(n.into())?);
        let (lda, ldb, ldc) = (lda.into(), ldb.into(), ldc.into());
        // In place only as it lies there.
        let moves = |address, leading, operation| address == c && (leading != ldc || operation != Transpose::No);
        if moves(a, lda, left) || moves(b, ldb, right) {
            return REFUSALS.value();
        }
        let (alpha, beta) = (job.scale(alpha, T::ELEMENT)?, job.scale(beta, T::ELEMENT)?);
        let stored = |operation| if operation == Transpose::No { (m, n) } else { (n, m) };
        // Where its factor is 0, a matrix may be anything, also no memory.
        for (address, leading, operation, factor) in [(a, lda, left, alpha), (b, ldb, right, beta)] {
            let shape = if factor.is_zero() { Shape::Vector { n: 0, step: 1 } } else { full(stored(operation), leading)? };
            job.push(at_address(address, leading).0, T::ELEMENT, shape, factor.is_known(), false);
        }
        job.push(at_address(c, ldc).0, T::ELEMENT, full((m, n), ldc)?, false, true);
        job.run(move |_, at| {
            // SAFETY: the job's arguments are in memory.
            unsafe {
                let part = |place, factor: T, operation| (!factor.is_zero()).then(|| Dense::<T>::load(place, operation));
                let (alpha, beta) = (T::from_wide(alpha.get(0)), T::from_wide(beta.get(0)));
                let (a, b) = (part(&at[0], alpha, left), part(&at[1], beta, right));
                update(&at[2], T::zero(), false, |row, column| {
                    let of = |part: &Option<Dense<T>>, factor: T| {
                        part.as_ref().map_or(T::zero(), |part| factor * part.get(row, column))
                    };
                    of(&a, alpha) + of(&b, beta)
                });
            }
        })
    }
    [f32,] cublasSgeam cublasSgeam_64, [f64,] cublasDgeam cublasDgeam_64,
    [C32,] cublasCgeam cublasCgeam_64, [C64,] cublasZgeam cublasZgeam_64;

    /// C = diag(x) A, or A diag(x) from the right.
    fn dgmm[T: Number,](
        handle: usize, side: c_int, m: Int, n: Int, a: usize, lda: Int, x: usize, step: Int, c: usize, ldc: Int
    ) {
        let mut job = Job::begin(handle)?;
        let right = flag(side)?;
        let (m, n) = (size(m.into())?, size(n.into())?);
        job.push(at_address(a, 0).0, T::ELEMENT, full((m, n), lda.into())?, true, false);
        let length = if right { n } else { m };
        job.push(at_address(x, 0).0, T::ELEMENT, Shape::Vector { n: length, step: step.into() }, true, false);
        job.push(at_address(c, 0).0, T::ELEMENT, full((m, n), ldc.into())?, false, true);
        job.run(move |_, at| {
            // SAFETY: the job's arguments are in memory.
            unsafe {
                let (a, x) = (Dense::<T>::load(&at[0], Transpose::No), at[1].load::<T>());
                update(&at[2], T::zero(), false, |row, column| {
                    a.get(row, column) * x.data[if right { column } else { row }]
                });
            }
        })
    }
    [f32,] cublasSdgmm cublasSdgmm_64, [f64,] cublasDdgmm cublasDdgmm_64,
    [C32,] cublasCdgmm cublasCdgmm_64, [C64,] cublasZdgmm cublasZdgmm_64;
}
