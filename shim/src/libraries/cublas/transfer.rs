//! cuBLAS's copies between host and device: vectors with a step, matrices in columns.

use abi::cuda::{CudaError, CudaResult};

use super::handle::REFUSALS;
use crate::device::calls::copy::{rows, rows_async};
use crate::libraries::objects::{Answer, Code};

/// `cudaMemcpyHostToDevice` and `cudaMemcpyDeviceToHost`.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    Set = 1,
    Get = 2,
}

/// `count` elements of `bytes` bytes; neighbors are `from_step` and `to_step` elements apart. `stream` is that of asynchronous
/// calls.
pub(crate) fn vector(
    way: Way,
    [count, bytes]: [i64; 2],
    (from, from_step): (usize, i64),
    (to, to_step): (usize, i64),
    stream: Option<usize>,
) -> Answer {
    // A vector is a matrix of one row, whose columns are its elements.
    matrix(way, [1, count, bytes], (from, from_step), (to, to_step), stream)
}

/// Columns of `rows` elements of `bytes` bytes; they begin `from_step` and `to_step` elements apart.
pub(crate) fn matrix(
    way: Way,
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
    let (columns, kind) = (columns as usize, way as u32);
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
