//! Submits work to a stream: added to the graph if the stream captures, else issued immediately.

use std::sync::Arc;

use abi::cuda::CudaResult;
use abi::library::Library;

use super::capture;
use super::structure::Operation;
use crate::boundary::gap;
use crate::device::kernel::Kernel;
use crate::device::kernel::launch::{Arguments, Launch, prepare};
use crate::device::memory::copy::{BoxCopy, BoxFill, Direction, Extent, Layout, When};
use crate::device::work::stream::Stream;

/// Submits an operation to a stream.
///
/// # Errors
/// Those of the operation, and of captures.
pub(crate) fn submit(operation: Operation, stream: &Arc<Stream>) -> CudaResult {
    match capture::for_stream(stream)? {
        Some(capture) => {
            operation.check()?;
            capture.add(&[stream], operation)
        }
        None => operation.issue(stream),
    }
}

/// Copies a box.
///
/// # Errors
/// `INVALID_VALUE` if a pointer is null or wrongly declared as device memory, or the box leaves its allocation;
/// `INVALID_PITCH` if rows overlap; those of captures.
pub(crate) fn copy(
    stream: &Arc<Stream>,
    to: Layout,
    from: Layout,
    extent: Extent,
    direction: Direction,
    when: When,
) -> CudaResult {
    let copy = BoxCopy { to, from, extent, direction };
    if extent.bytes() == 0 {
        return Ok(());
    }
    if when == When::InOrder {
        return submit(Operation::Copy(copy), stream);
    }
    capture::host_waits(stream)?;
    copy.perform(stream, when)
}

/// Fills a box with `pattern`, 1, 2 or 4 bytes.
///
/// # Errors
/// `INVALID_VALUE` if the memory is not CUDA's or the box leaves its allocation; those of captures.
pub(crate) fn fill(
    stream: &Arc<Stream>,
    to: Layout,
    pattern: u32,
    bytes_per_element: usize,
    extent: Extent,
    when: When,
) -> CudaResult {
    let fill = BoxFill { to, pattern, element: bytes_per_element, extent };
    if extent.bytes() == 0 {
        return Ok(());
    }
    if when == When::InOrder {
        return submit(Operation::Fill(fill), stream);
    }
    capture::host_waits(stream)?;
    fill.perform(stream, when)
}

/// Checks a launch and submits it to the stream. A kernel without code here is recorded as a gap.
///
/// # Errors
/// As [`prepare`], and those of captures.
///
/// # Safety
/// The arguments are where the program claims.
pub(crate) unsafe fn launch(
    stream: &Arc<Stream>,
    kernel: &Kernel,
    launch: Launch,
    arguments: Arguments,
    library: Library,
    call: &'static str,
) -> CudaResult {
    let launch = Launch { runs_now: matches!(capture::for_stream(stream), Ok(None)), ..launch };
    // SAFETY: the caller's promise.
    match unsafe { prepare(stream.device(), kernel, launch.clone(), arguments, library, call) }? {
        Some(call) => submit(Operation::Kernel(Arc::new(call)), stream),
        None => {
            if !gap::is_muted() && launch.runs_now {
                launch.pass_by(kernel, stream);
            }
            Ok(())
        }
    }
}
