//! cuBLAS's copies between host and device: vectors with a step, matrices in columns.
#![expect(clippy::too_many_arguments, reason = "the signatures are NVIDIA's")]

use abi::cuda::{CudaError, CudaResult};

use super::calls::calls;
use super::handle::REFUSALS;
use crate::device::calls::copy::{rows, rows_async};
use crate::libraries::objects::{Answer, Code};

/// `cudaMemcpyHostToDevice`.
const SET: u32 = 1;
/// `cudaMemcpyDeviceToHost`.
const GET: u32 = 2;

/// `count` elements of `bytes` bytes; neighbors are `from_step` and `to_step` elements apart. `stream` is that of asynchronous
/// calls.
fn vector(
    kind: u32,
    [count, bytes]: [i64; 2],
    (from, from_step): (usize, i64),
    (to, to_step): (usize, i64),
    stream: Option<usize>,
) -> Answer {
    // A vector is a matrix of one row, whose columns are its elements.
    matrix(kind, [1, count, bytes], (from, from_step), (to, to_step), stream)
}

/// Columns of `rows` elements of `bytes` bytes; they begin `from_step` and `to_step` elements apart.
fn matrix(
    kind: u32,
    [count, columns, bytes]: [i64; 3],
    (from, from_step): (usize, i64),
    (to, to_step): (usize, i64),
    stream: Option<usize>,
) -> Answer {
    if bytes <= 0 || from_step <= 0 || to_step <= 0 || count < 0 || columns < 0 {
        return REFUSALS.value();
    }
    // More rows than a column has room for would run into the next one.
    if columns > 1 && (from_step < count || to_step < count) {
        return REFUSALS.value();
    }
    if count == 0 || columns == 0 {
        return Ok(());
    }
    let length = |elements: i64| elements.checked_mul(bytes).and_then(|length| usize::try_from(length).ok());
    let (Some(width), Some(from_pitch), Some(to_pitch)) = (length(count), length(from_step), length(to_step)) else {
        return REFUSALS.value();
    };
    // A single column needs no room after it.
    let (from_pitch, to_pitch) = (from_pitch.max(width), to_pitch.max(width));
    let columns = columns as usize;
    answer(match stream {
        None => rows(to, to_pitch, from, from_pitch, width, columns, kind),
        Some(stream) => rows_async(to, to_pitch, from, from_pitch, width, columns, kind, stream),
    })
}

fn answer(result: CudaResult) -> Answer {
    const MAPPING_ERROR: u32 = 11;
    result.map_err(|error| match error {
        CudaError::NOT_INITIALIZED | CudaError::NO_DEVICE => Code(REFUSALS.handle),
        _ => Code(MAPPING_ERROR),
    })
}

calls! {
    fn copy_vector[const KIND: u32,](count: Int, bytes: Int, from: usize, from_step: Int, to: usize, to_step: Int) {
        vector(KIND, [count.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), None)
    }
    [SET,] cublasSetVector cublasSetVector_64, [GET,] cublasGetVector cublasGetVector_64;

    fn copy_vector_async[const KIND: u32,](
        count: Int, bytes: Int, from: usize, from_step: Int, to: usize, to_step: Int, stream: usize
    ) {
        vector(KIND, [count.into(), bytes.into()], (from, from_step.into()), (to, to_step.into()), Some(stream))
    }
    [SET,] cublasSetVectorAsync cublasSetVectorAsync_64, [GET,] cublasGetVectorAsync cublasGetVectorAsync_64;

    fn copy_matrix[const KIND: u32,](
        rows: Int, columns: Int, bytes: Int, from: usize, from_step: Int, to: usize, to_step: Int
    ) {
        let size = [rows.into(), columns.into(), bytes.into()];
        matrix(KIND, size, (from, from_step.into()), (to, to_step.into()), None)
    }
    [SET,] cublasSetMatrix cublasSetMatrix_64, [GET,] cublasGetMatrix cublasGetMatrix_64;

    fn copy_matrix_async[const KIND: u32,](
        rows: Int, columns: Int, bytes: Int, from: usize, from_step: Int, to: usize, to_step: Int, stream: usize
    ) {
        let size = [rows.into(), columns.into(), bytes.into()];
        matrix(KIND, size, (from, from_step.into()), (to, to_step.into()), Some(stream))
    }
    [SET,] cublasSetMatrixAsync cublasSetMatrixAsync_64, [GET,] cublasGetMatrixAsync cublasGetMatrixAsync_64;
}
