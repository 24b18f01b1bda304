//! Matrices and vectors: `gemv`, single and batched, and `ger`. Level 2 for partially stored matrices is in `halves`.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use std::ffi::{c_int, c_longlong};

use num_complex::Complex;
use num_traits::Zero;

use super::calls::calls;
use super::dense::Transpose;
use super::element::{Element, Wide};
use super::gemm::operation;
use super::handle::REFUSALS;
use super::job::{Job, size};
use super::number::{Number, add_multiple, with_number};
use super::operand::{Base, Shape};
use crate::libraries::objects::Answer;

type C32 = Complex<f32>;
type C64 = Complex<f64>;

/// A matrix or vector in C: its location, and its leading dimension or step.
type Argument = (Base, i64);

fn at_address(address: usize, step: impl Into<i64>) -> Argument {
    (Base::At { address, stride: 0 }, step.into())
}

fn every(address: usize, step: impl Into<i64>, stride: c_longlong) -> Argument {
    (Base::At { address, stride }, step.into())
}

fn pointers(array: usize, step: impl Into<i64>) -> Argument {
    (Base::Pointers(array), step.into())
}

/// y = alpha op(A) x + beta y, where A and x have one type and y another; alpha and beta have the compute type.
fn multiply(
    handle: usize,
    [input, output, compute]: [Element; 3],
    code: c_int,
    [m, n]: [i64; 2],
    (alpha, beta): (usize, usize),
    [a, x, y]: [Argument; 3],
    batch: i64,
) -> Answer {
    let mut job = Job::begin(handle)?;
    let operation = operation(code)?;
    let (m, n) = (size(m)?, size(n)?);
    job.batch(batch)?;
    if x.1 == 0 || y.1 == 0 {
        return REFUSALS.value();
    }
    let (inner, outer) = if operation == Transpose::No { (n, m) } else { (m, n) };
    let (alpha, beta) = (job.scale(alpha, compute)?, job.scale(beta, compute)?);
    let matrix = Shape::Full { rows: m, columns: n, leading: size(a.1)? };
    job.push(a.0, input, matrix, true, false);
    job.push(x.0, input, Shape::Vector { n: inner, step: x.1 }, true, false);
    job.push(y.0, output, Shape::Vector { n: outer, step: y.1 }, beta.is_known(), true);
    with_number!(compute, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory; y is read where beta is not 0.
        unsafe {
            let (alpha, beta) = (T::from_wide(alpha.get(0)), beta.get(0));
            let (a, x) = (at[0].load::<T>(), at[1].load::<T>());
            let mut y = if beta == Wide::new(0.0, 0.0) { at[2].blank() } else { at[2].load::<T>() };
            let mut sums = vec![T::zero(); outer];
            // With alpha 0 what A and x hold does not matter.
            for column in 0..if alpha.is_zero() { 0 } else { n } {
                if operation == Transpose::No {
                    add_multiple(&mut sums, x.data[column], a.column(column));
                } else {
                    for (value, x) in a.column(column).iter().zip(&x.data) {
                        sums[column] += operation.apply(*value) * *x;
                    }
                }
            }
            for (y, sum) in y.data.iter_mut().zip(sums) {
                *y = alpha * sum + T::from_wide(beta) * *y;
            }
            at[2].store(&y);
        }
    }))
}

/// A = alpha x y^T + A, or with the conjugate of y.
fn add_outer(
    handle: usize,
    element: Element,
    conjugate: bool,
    [m, n]: [i64; 2],
    alpha: usize,
    [x, y, a]: [(usize, i64); 3],
) -> Answer {
    let mut job = Job::begin(handle)?;
    let (m, n) = (size(m)?, size(n)?);
    if x.1 == 0 || y.1 == 0 {
        return REFUSALS.value();
    }
    let alpha = job.scale(alpha, element)?;
    job.input(x.0, element, Shape::Vector { n: m, step: x.1 });
    job.input(y.0, element, Shape::Vector { n, step: y.1 });
    job.changed(a.0, element, Shape::Full { rows: m, columns: n, leading: size(a.1)? });
    with_number!(element, T => job.run(move |_, at| {
        // SAFETY: the job's arguments are in memory.
        unsafe {
            let alpha = T::from_wide(alpha.get(0));
            let (x, y, mut a) = (at[0].load::<T>(), at[1].load::<T>(), at[2].load::<T>());
            // With alpha 0 nothing is added, whatever x and y hold.
            for (column, y) in y.data.iter().enumerate().filter(|_| !alpha.is_zero()) {
                let factor = alpha * if conjugate { y.conj() } else { *y };
                add_multiple(a.column_mut(column), factor, &x.data);
            }
            at[2].store(&a);
        }
    }))
}

/// The types of `cublasHSHgemv` and similar, by these numbers: input and output; they compute in f32.
fn types<const IN: u8, const OUT: u8>() -> [Element; 3] {
    let element = |code| match code {
        0 => Element::F32,
        1 => Element::F64,
        2 => Element::F16,
        4 => Element::C32,
        5 => Element::C64,
        _ => Element::Bf16,
    };
    let compute = match element(IN) {
        Element::F16 | Element::Bf16 => Element::F32,
        other => other,
    };
    [element(IN), element(OUT), compute]
}

calls! {
    fn gemv[T: Number,](
        handle: usize, code: c_int, m: Int, n: Int, alpha: usize, a: usize, lda: Int, x: usize, sx: Int, beta: usize,
        y: usize, sy: Int
    ) {
        let arguments = [at_address(a, lda), at_address(x, sx), at_address(y, sy)];
        multiply(handle, [T::ELEMENT; 3], code, [m.into(), n.into()], (alpha, beta), arguments, 1)
    }
    [f32,] cublasSgemv_v2 cublasSgemv_v2_64, [f64,] cublasDgemv_v2 cublasDgemv_v2_64,
    [C32,] cublasCgemv_v2 cublasCgemv_v2_64, [C64,] cublasZgemv_v2 cublasZgemv_v2_64;

    fn batched[const IN: u8, const OUT: u8,](
        handle: usize, code: c_int, m: Int, n: Int, alpha: usize, a: usize, lda: Int, x: usize, sx: Int, beta: usize,
        y: usize, sy: Int, batch: Int
    ) {
        let arguments = [pointers(a, lda), pointers(x, sx), pointers(y, sy)];
        multiply(handle, types::<IN, OUT>(), code, [m.into(), n.into()], (alpha, beta), arguments, batch.into())
    }
    [0, 0,] cublasSgemvBatched cublasSgemvBatched_64, [1, 1,] cublasDgemvBatched cublasDgemvBatched_64,
    [4, 4,] cublasCgemvBatched cublasCgemvBatched_64, [5, 5,] cublasZgemvBatched cublasZgemvBatched_64,
    [2, 2,] cublasHSHgemvBatched cublasHSHgemvBatched_64, [2, 0,] cublasHSSgemvBatched cublasHSSgemvBatched_64,
    [14, 14,] cublasTSTgemvBatched cublasTSTgemvBatched_64, [14, 0,] cublasTSSgemvBatched cublasTSSgemvBatched_64;

    fn strided[const IN: u8, const OUT: u8,](
        handle: usize, code: c_int, m: Int, n: Int, alpha: usize, a: usize, lda: Int, stride_a: c_longlong, x: usize,
        sx: Int, stride_x: c_longlong, beta: usize, y: usize, sy: Int, stride_y: c_longlong, batch: Int
    ) {
        let arguments = [every(a, lda, stride_a), every(x, sx, stride_x), every(y, sy, stride_y)];
        multiply(handle, types::<IN, OUT>(), code, [m.into(), n.into()], (alpha, beta), arguments, batch.into())
    }
    [0, 0,] cublasSgemvStridedBatched cublasSgemvStridedBatched_64, [1, 1,] cublasDgemvStridedBatched cublasDgemvStridedBatched_64,
    [4, 4,] cublasCgemvStridedBatched cublasCgemvStridedBatched_64, [5, 5,] cublasZgemvStridedBatched cublasZgemvStridedBatched_64,
    [2, 2,] cublasHSHgemvStridedBatched cublasHSHgemvStridedBatched_64, [2, 0,] cublasHSSgemvStridedBatched cublasHSSgemvStridedBatched_64,
    [14, 14,] cublasTSTgemvStridedBatched cublasTSTgemvStridedBatched_64, [14, 0,] cublasTSSgemvStridedBatched cublasTSSgemvStridedBatched_64;

    fn ger[T: Number, const CONJUGATE: bool,](
        handle: usize, m: Int, n: Int, alpha: usize, x: usize, sx: Int, y: usize, sy: Int, a: usize, lda: Int
    ) {
        let arguments = [(x, sx.into()), (y, sy.into()), (a, lda.into())];
        add_outer(handle, T::ELEMENT, CONJUGATE, [m.into(), n.into()], alpha, arguments)
    }
    [f32, false,] cublasSger_v2 cublasSger_v2_64, [f64, false,] cublasDger_v2 cublasDger_v2_64,
    [C32, false,] cublasCgeru_v2 cublasCgeru_v2_64, [C64, false,] cublasZgeru_v2 cublasZgeru_v2_64,
    [C32, true,] cublasCgerc_v2 cublasCgerc_v2_64, [C64, true,] cublasZgerc_v2 cublasZgerc_v2_64;
}
