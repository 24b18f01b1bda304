//! Level 2 for matrices of which a half or a band is stored: products with a vector, solving, and adding products of vectors.
//! Works on the stored columns, so the cost of a narrow band is proportional to its size.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::c_int;

use num_complex::Complex;

use super::calls::calls;
use super::dense::Transpose;
use super::gemm::operation;
use super::handle::REFUSALS;
use super::job::{Job, size};
use super::level3::flag;
use super::number::Number;
use super::operand::{Shape, Stored};
use crate::libraries::objects::Answer;

type C32 = Complex<f32>;
type C64 = Complex<f64>;

/// How a square matrix is stored in C.
#[derive(Clone, Copy)]
enum Storage {
    /// A whole matrix with this leading dimension.
    Full(i64),
    Packed,
    /// The number of diagonals besides the main one, and the leading dimension.
    Band(i64, i64),
}

impl Storage {
    fn half(self, n: usize, upper: bool, strict: bool) -> Answer<Shape> {
        Ok(match self {
            Self::Full(leading) => Shape::Triangle { n, leading: size(leading)?, upper, strict },
            Self::Packed => Shape::Packed { n, upper, strict },
            Self::Band(diagonals, leading) => {
                let diagonals = size(diagonals)?;
                let (below, above) = if upper { (0, diagonals) } else { (diagonals, 0) };
                Shape::Band { rows: n, columns: n, below, above, leading: size(leading)?, strict }
            }
        })
    }
}

/// A vector in C: its address and step.
type Vector = (usize, i64);

fn steps(vectors: &[Vector]) -> Answer {
    if vectors.iter().any(|(_, step)| *step == 0) { REFUSALS.value() } else { Ok(()) }
}

/// The elements of a column with their rows.
fn column<T: Number>(a: &Stored<T>, column: usize) -> impl Iterator<Item = (usize, T)> + '_ {
    a.column(column).iter().copied().enumerate().map(move |(index, value)| (a.shape.first(column) + index, value))
}

/// y = alpha A x + beta y, where A is its own transpose or conjugate transpose.
fn multiply<T: Number>(
    handle: usize,
    hermitian: bool,
    fill: c_int,
    n: i64,
    (alpha, beta): (usize, usize),
    (a, storage): (usize, Storage),
    [x, y]: [Vector; 2],
) -> Answer {
    let mut job = Job::begin(handle)?;
    let (upper, n) = (flag(fill)?, size(n)?);
    steps(&[x, y])?;
    let (alpha, beta) = (job.scale(alpha, T::ELEMENT)?, job.scale(beta, T::ELEMENT)?);
    job.input(a, T::ELEMENT, storage.half(n, upper, false)?);
    job.input(x.0, T::ELEMENT, Shape::Vector { n, step: x.1 });
    job.operand_at(y.0, T::ELEMENT, Shape::Vector { n, step: y.1 }, beta.is_known(), true);
    job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory; y is read where beta is not 0.
        unsafe {
            let (alpha, beta) = (T::from_wide(alpha.get(0)), T::from_wide(beta.get(0)));
            let (a, x) = (at[0].load::<T>(), at[1].load::<T>());
            let mut sums = vec![T::zero(); n];
            // With alpha 0 what A and x hold does not matter.
            for place in 0..if alpha.is_zero() { 0 } else { n } {
                for (row, value) in column(&a, place) {
                    if row == place {
                        sums[row] += if hermitian { value.real() } else { value } * x.data[row];
                    } else {
                        sums[row] += value * x.data[place];
                        sums[place] += if hermitian { value.conj() } else { value } * x.data[row];
                    }
                }
            }
            let mut y = if beta.is_zero() { at[2].blank() } else { at[2].load::<T>() };
            for (y, sum) in y.data.iter_mut().zip(sums) {
                *y = alpha * sum + beta * *y;
            }
            at[2].store(&y);
        }
    })
}

/// x = op(A) x, or with the inverse of A, where A is a triangle.
fn by_triangle<T: Number>(
    handle: usize,
    solves: bool,
    [fill, code, diagonal]: [c_int; 3],
    n: i64,
    (a, storage): (usize, Storage),
    x: Vector,
) -> Answer {
    let mut job = Job::begin(handle)?;
    let (upper, operation, unit) = (flag(fill)?, operation(code)?, flag(diagonal)?);
    let n = size(n)?;
    steps(&[x])?;
    job.input(a, T::ELEMENT, storage.half(n, upper, unit)?);
    job.changed(x.0, T::ELEMENT, Shape::Vector { n, step: x.1 });
    job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let (a, mut x) = (at[0].load::<T>(), at[1].load::<T>());
            x.data =
                if solves { solve(&a, upper, operation, x.data) } else { triangle_times(&a, unit, operation, &x.data) };
            at[1].store(&x);
        }
    })
}

fn triangle_times<T: Number>(a: &Stored<T>, unit: bool, operation: Transpose, x: &[T]) -> Vec<T> {
    let mut sums = if unit { x.to_vec() } else { vec![T::zero(); x.len()] };
    for place in 0..x.len() {
        for (row, value) in column(a, place) {
            if operation == Transpose::No {
                sums[row] += value * x[place];
            } else {
                sums[place] += operation.apply(value) * x[row];
            }
        }
    }
    sums
}

fn solve<T: Number>(a: &Stored<T>, upper: bool, operation: Transpose, mut x: Vec<T>) -> Vec<T> {
    // The element that depends on no other comes first.
    let order: Vec<usize> =
        if upper == (operation == Transpose::No) { (0..x.len()).rev().collect() } else { (0..x.len()).collect() };
    for place in order {
        let diagonal = column(a, place).find(|(row, _)| *row == place).map(|(_, value)| operation.apply(value));
        if operation != Transpose::No {
            for (row, value) in column(a, place).filter(|(row, _)| *row != place) {
                let part = operation.apply(value) * x[row];
                x[place] -= part;
            }
        }
        if let Some(diagonal) = diagonal {
            x[place] /= diagonal;
        }
        if operation == Transpose::No {
            for (row, value) in column(a, place).filter(|(row, _)| *row != place) {
                let part = value * x[place];
                x[row] -= part;
            }
        }
    }
    x
}

/// A = alpha x y^T + A, plus the term with x and y exchanged if there is a y; otherwise y is x.
fn add<T: Number>(
    handle: usize,
    hermitian: bool,
    fill: c_int,
    n: i64,
    alpha: usize,
    (x, y): (Vector, Option<Vector>),
    (a, storage): (usize, Storage),
) -> Answer {
    let mut job = Job::begin(handle)?;
    let (upper, n) = (flag(fill)?, size(n)?);
    steps(&[x, y.unwrap_or(x)])?;
    let alpha = job.scale(alpha, if hermitian && y.is_none() { T::REAL } else { T::ELEMENT })?;
    for (address, step) in [x, y.unwrap_or(x)] {
        job.input(address, T::ELEMENT, Shape::Vector { n, step });
    }
    job.changed(a, T::ELEMENT, storage.half(n, upper, false)?);
    let both = y.is_some();
    job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let alpha = T::from_wide(alpha.get(0));
            let (x, y, mut a) = (at[0].load::<T>().data, at[1].load::<T>().data, at[2].load::<T>());
            let turned = |value: T| if hermitian { value.conj() } else { value };
            // With alpha 0 nothing is added, whatever x and y hold.
            for place in 0..if alpha.is_zero() { 0 } else { n } {
                let first = a.shape.first(place);
                for (index, value) in a.column_mut(place).iter_mut().enumerate() {
                    let row = first + index;
                    *value += alpha * x[row] * turned(y[place]);
                    if both {
                        *value += turned(alpha) * y[row] * turned(x[place]);
                    }
                    if hermitian && row == place {
                        *value = value.real();
                    }
                }
            }
            at[2].store(&a);
        }
    })
}

calls! {
    /// y = alpha op(A) x + beta y, where A is m x n with `below` and `above` diagonals.
    fn gbmv[T: Number,](
        handle: usize, code: c_int, m: Int, n: Int, below: Int, above: Int, alpha: usize, a: usize, lda: Int, x: usize,
        sx: Int, beta: usize, y: usize, sy: Int
    ) {
        let mut job = Job::begin(handle)?;
        let operation = operation(code)?;
        let (rows, columns) = (size(m.into())?, size(n.into())?);
        let (below, above, leading) = (size(below.into())?, size(above.into())?, size(lda.into())?);
        let (x, y) = ((x, sx.into()), (y, sy.into()));
        steps(&[x, y])?;
        let (inner, outer) = if operation == Transpose::No { (columns, rows) } else { (rows, columns) };
        let (alpha, beta) = (job.scale(alpha, T::ELEMENT)?, job.scale(beta, T::ELEMENT)?);
        let band = Shape::Band { rows, columns, below, above, leading, strict: false };
        job.input(a, T::ELEMENT, band);
        job.input(x.0, T::ELEMENT, Shape::Vector { n: inner, step: x.1 });
        job.operand_at(y.0, T::ELEMENT, Shape::Vector { n: outer, step: y.1 }, beta.is_known(), true);
        job.run(move |_, at| {
            // SAFETY: the job's arguments are in memory; y is read where beta is not 0.
            unsafe {
                let (alpha, beta) = (T::from_wide(alpha.get(0)), T::from_wide(beta.get(0)));
                let (a, x) = (at[0].load::<T>(), at[1].load::<T>());
                let mut sums = vec![T::zero(); outer];
                // With alpha 0 what A and x hold does not matter.
                for place in 0..if alpha.is_zero() { 0 } else { columns } {
                    for (row, value) in column(&a, place) {
                        if operation == Transpose::No {
                            sums[row] += value * x.data[place];
                        } else {
                            sums[place] += operation.apply(value) * x.data[row];
                        }
                    }
                }
                let mut y = if beta.is_zero() { at[2].blank() } else { at[2].load::<T>() };
                for (y, sum) in y.data.iter_mut().zip(sums) {
                    *y = alpha * sum + beta * *y;
                }
                at[2].store(&y);
            }
        })
    }
    [f32,] cublasSgbmv_v2 cublasSgbmv_v2_64, [f64,] cublasDgbmv_v2 cublasDgbmv_v2_64,
    [C32,] cublasCgbmv_v2 cublasCgbmv_v2_64, [C64,] cublasZgbmv_v2 cublasZgbmv_v2_64;

    /// `symv` and `hemv`.
    fn full_times[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, alpha: usize, a: usize, lda: Int, x: usize, sx: Int, beta: usize, y: usize,
        sy: Int
    ) {
        let vectors = [(x, sx.into()), (y, sy.into())];
        multiply::<T>(handle, HERMITIAN, fill, n.into(), (alpha, beta), (a, Storage::Full(lda.into())), vectors)
    }
    [f32, false,] cublasSsymv_v2 cublasSsymv_v2_64, [f64, false,] cublasDsymv_v2 cublasDsymv_v2_64,
    [C32, false,] cublasCsymv_v2 cublasCsymv_v2_64, [C64, false,] cublasZsymv_v2 cublasZsymv_v2_64,
    [C32, true,] cublasChemv_v2 cublasChemv_v2_64, [C64, true,] cublasZhemv_v2 cublasZhemv_v2_64;

    /// `spmv` and `hpmv`.
    fn packed_times[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, alpha: usize, a: usize, x: usize, sx: Int, beta: usize, y: usize, sy: Int
    ) {
        let vectors = [(x, sx.into()), (y, sy.into())];
        multiply::<T>(handle, HERMITIAN, fill, n.into(), (alpha, beta), (a, Storage::Packed), vectors)
    }
    [f32, false,] cublasSspmv_v2 cublasSspmv_v2_64, [f64, false,] cublasDspmv_v2 cublasDspmv_v2_64,
    [C32, true,] cublasChpmv_v2 cublasChpmv_v2_64, [C64, true,] cublasZhpmv_v2 cublasZhpmv_v2_64;

    /// `sbmv` and `hbmv`.
    fn band_times[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, diagonals: Int, alpha: usize, a: usize, lda: Int, x: usize, sx: Int, beta: usize,
        y: usize, sy: Int
    ) {
        let (storage, vectors) = (Storage::Band(diagonals.into(), lda.into()), [(x, sx.into()), (y, sy.into())]);
        multiply::<T>(handle, HERMITIAN, fill, n.into(), (alpha, beta), (a, storage), vectors)
    }
    [f32, false,] cublasSsbmv_v2 cublasSsbmv_v2_64, [f64, false,] cublasDsbmv_v2 cublasDsbmv_v2_64,
    [C32, true,] cublasChbmv_v2 cublasChbmv_v2_64, [C64, true,] cublasZhbmv_v2 cublasZhbmv_v2_64;

    /// `trmv` and `trsv`.
    fn full_triangle[T: Number, const SOLVES: bool,](
        handle: usize, fill: c_int, code: c_int, diagonal: c_int, n: Int, a: usize, lda: Int, x: usize, sx: Int
    ) {
        by_triangle::<T>(handle, SOLVES, [fill, code, diagonal], n.into(), (a, Storage::Full(lda.into())), (x, sx.into()))
    }
    [f32, false,] cublasStrmv_v2 cublasStrmv_v2_64, [f64, false,] cublasDtrmv_v2 cublasDtrmv_v2_64,
    [C32, false,] cublasCtrmv_v2 cublasCtrmv_v2_64, [C64, false,] cublasZtrmv_v2 cublasZtrmv_v2_64,
    [f32, true,] cublasStrsv_v2 cublasStrsv_v2_64, [f64, true,] cublasDtrsv_v2 cublasDtrsv_v2_64,
    [C32, true,] cublasCtrsv_v2 cublasCtrsv_v2_64, [C64, true,] cublasZtrsv_v2 cublasZtrsv_v2_64;

    /// `tpmv` and `tpsv`.
    fn packed_triangle[T: Number, const SOLVES: bool,](
        handle: usize, fill: c_int, code: c_int, diagonal: c_int, n: Int, a: usize, x: usize, sx: Int
    ) {
        by_triangle::<T>(handle, SOLVES, [fill, code, diagonal], n.into(), (a, Storage::Packed), (x, sx.into()))
    }
    [f32, false,] cublasStpmv_v2 cublasStpmv_v2_64, [f64, false,] cublasDtpmv_v2 cublasDtpmv_v2_64,
    [C32, false,] cublasCtpmv_v2 cublasCtpmv_v2_64, [C64, false,] cublasZtpmv_v2 cublasZtpmv_v2_64,
    [f32, true,] cublasStpsv_v2 cublasStpsv_v2_64, [f64, true,] cublasDtpsv_v2 cublasDtpsv_v2_64,
    [C32, true,] cublasCtpsv_v2 cublasCtpsv_v2_64, [C64, true,] cublasZtpsv_v2 cublasZtpsv_v2_64;

    /// `tbmv` and `tbsv`.
    fn band_triangle[T: Number, const SOLVES: bool,](
        handle: usize, fill: c_int, code: c_int, diagonal: c_int, n: Int, diagonals: Int, a: usize, lda: Int, x: usize,
        sx: Int
    ) {
        let storage = Storage::Band(diagonals.into(), lda.into());
        by_triangle::<T>(handle, SOLVES, [fill, code, diagonal], n.into(), (a, storage), (x, sx.into()))
    }
    [f32, false,] cublasStbmv_v2 cublasStbmv_v2_64, [f64, false,] cublasDtbmv_v2 cublasDtbmv_v2_64,
    [C32, false,] cublasCtbmv_v2 cublasCtbmv_v2_64, [C64, false,] cublasZtbmv_v2 cublasZtbmv_v2_64,
    [f32, true,] cublasStbsv_v2 cublasStbsv_v2_64, [f64, true,] cublasDtbsv_v2 cublasDtbsv_v2_64,
    [C32, true,] cublasCtbsv_v2 cublasCtbsv_v2_64, [C64, true,] cublasZtbsv_v2 cublasZtbsv_v2_64;

    /// `syr` and `her`.
    fn add_to_full[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, alpha: usize, x: usize, sx: Int, a: usize, lda: Int
    ) {
        add::<T>(handle, HERMITIAN, fill, n.into(), alpha, ((x, sx.into()), None), (a, Storage::Full(lda.into())))
    }
    [f32, false,] cublasSsyr_v2 cublasSsyr_v2_64, [f64, false,] cublasDsyr_v2 cublasDsyr_v2_64,
    [C32, false,] cublasCsyr_v2 cublasCsyr_v2_64, [C64, false,] cublasZsyr_v2 cublasZsyr_v2_64,
    [C32, true,] cublasCher_v2 cublasCher_v2_64, [C64, true,] cublasZher_v2 cublasZher_v2_64;

    /// `spr` and `hpr`.
    fn add_to_packed[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, alpha: usize, x: usize, sx: Int, a: usize
    ) {
        add::<T>(handle, HERMITIAN, fill, n.into(), alpha, ((x, sx.into()), None), (a, Storage::Packed))
    }
    [f32, false,] cublasSspr_v2 cublasSspr_v2_64, [f64, false,] cublasDspr_v2 cublasDspr_v2_64,
    [C32, true,] cublasChpr_v2 cublasChpr_v2_64, [C64, true,] cublasZhpr_v2 cublasZhpr_v2_64;

    /// `syr2` and `her2`.
    fn add_two_to_full[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, alpha: usize, x: usize, sx: Int, y: usize, sy: Int, a: usize, lda: Int
    ) {
        let vectors = ((x, sx.into()), Some((y, sy.into())));
        add::<T>(handle, HERMITIAN, fill, n.into(), alpha, vectors, (a, Storage::Full(lda.into())))
    }
    [f32, false,] cublasSsyr2_v2 cublasSsyr2_v2_64, [f64, false,] cublasDsyr2_v2 cublasDsyr2_v2_64,
    [C32, false,] cublasCsyr2_v2 cublasCsyr2_v2_64, [C64, false,] cublasZsyr2_v2 cublasZsyr2_v2_64,
    [C32, true,] cublasCher2_v2 cublasCher2_v2_64, [C64, true,] cublasZher2_v2 cublasZher2_v2_64;

    /// `spr2` and `hpr2`.
    fn add_two_to_packed[T: Number, const HERMITIAN: bool,](
        handle: usize, fill: c_int, n: Int, alpha: usize, x: usize, sx: Int, y: usize, sy: Int, a: usize
    ) {
        let vectors = ((x, sx.into()), Some((y, sy.into())));
        add::<T>(handle, HERMITIAN, fill, n.into(), alpha, vectors, (a, Storage::Packed))
    }
    [f32, false,] cublasSspr2_v2 cublasSspr2_v2_64, [f64, false,] cublasDspr2_v2 cublasDspr2_v2_64,
    [C32, true,] cublasChpr2_v2 cublasChpr2_v2_64, [C64, true,] cublasZhpr2_v2 cublasZhpr2_v2_64;
}
