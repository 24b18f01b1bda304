//! Copies of lines and rows of bytes.

use std::ffi::c_uint;
use std::sync::Arc;

use abi::cuda::CudaResult;

use crate::device::graph::submit::copy;
use crate::device::memory::copy::{Direction, Extent, Layout, When};
use crate::device::state::context;
use crate::device::work::stream::{self, Stream};

/// The default stream of the call under way, on the current device.
///
/// # Errors
/// `NO_DEVICE`.
pub(crate) fn default_stream() -> CudaResult<Arc<Stream>> {
    Ok(stream::default_of(context::enter()?))
}

/// The stream behind a handle, once there is a context.
///
/// # Errors
/// `NO_DEVICE`, `INVALID_HANDLE`.
pub(crate) fn stream_of(handle: usize) -> CudaResult<Arc<Stream>> {
    context::enter()?;
    stream::resolve(handle)
}

pub(crate) fn linear(to: usize, from: usize, bytes: usize, kind: c_uint) -> CudaResult {
    let direction = Direction::from_kind(kind)?;
    copy(&default_stream()?, Layout::line(to), Layout::line(from), Extent::line(bytes), direction, When::Now)
}

pub(crate) fn linear_async(to: usize, from: usize, bytes: usize, kind: c_uint, handle: usize) -> CudaResult {
    let direction = Direction::from_kind(kind)?;
    copy(&stream_of(handle)?, Layout::line(to), Layout::line(from), Extent::line(bytes), direction, When::InOrder)
}

pub(crate) fn rows(
    to: usize,
    to_pitch: usize,
    from: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_uint,
) -> CudaResult {
    let extent = Extent { width, height, depth: 1 };
    let (to, from) = (Layout::rows(to, to_pitch), Layout::rows(from, from_pitch));
    copy(&default_stream()?, to, from, extent, Direction::from_kind(kind)?, When::Now)
}

#[expect(clippy::too_many_arguments, reason = "NVIDIA's interface")]
pub(crate) fn rows_async(
    to: usize,
    to_pitch: usize,
    from: usize,
    from_pitch: usize,
    width: usize,
    height: usize,
    kind: c_uint,
    handle: usize,
) -> CudaResult {
    let extent = Extent { width, height, depth: 1 };
    let (to, from) = (Layout::rows(to, to_pitch), Layout::rows(from, from_pitch));
    copy(&stream_of(handle)?, to, from, extent, Direction::from_kind(kind)?, When::InOrder)
}
