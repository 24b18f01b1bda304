//! Stream capture: `cudaStreamBeginCapture` and related functions.

use std::ffi::{c_uint, c_ulonglong};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::device::graph::capture::{self, Info, Mode};
use crate::device::state::{context, version};
use crate::device::work::stream;

pub(crate) fn begin(handle: usize, mode: c_uint) -> CudaResult {
    context::enter()?;
    capture::begin(&stream::resolve(handle)?, Mode::from_number(mode)?, None)
}

/// Edge data is for programmatic launches, which are ordinary launches here.
pub(crate) fn begin_to_graph(
    handle: usize,
    graph: usize,
    nodes: Out<usize>,
    _edges: usize,
    count: usize,
    mode: c_uint,
) -> CudaResult {
    context::enter()?;
    let into = capture::into(graph, nodes.list(count)?)?;
    capture::begin(&stream::resolve(handle)?, Mode::from_number(mode)?, into)
}

pub(crate) fn end(handle: usize, out: Out<usize>) -> CudaResult {
    context::enter()?;
    let stream = stream::resolve(handle)?;
    // Who captures into a graph knows it.
    if out.is_null() && capture::is_into_given(&stream) {
        return capture::end(&stream).map(drop);
    }
    // A capture that failed has no graph.
    out.set(0)?;
    Ok(out.set(capture::end(&stream)?)?)
}

/// Without a capture `cudaStreamCaptureStatusNone`, 0.
///
/// # Errors
/// `CAPTURE_IMPLICIT` for the legacy stream while a blocking stream of its device captures; the capture goes on.
pub(crate) fn is_capturing(handle: usize, out: Out<c_uint>) -> CudaResult {
    let stream = stream::resolve(handle)?;
    if capture::is_hidden() {
        return Ok(out.set(0)?);
    }
    capture::legacy_is_usable(&stream)?;
    let status = capture::info(&stream).map_or(0, |info| info.status);
    Ok(out.set(status)?)
}

/// The common start of all layouts of `cudaStreamGetCaptureInfo`; without a capture, nothing else is written.
fn info(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>) -> CudaResult<Option<Info>> {
    let stream = stream::resolve(handle)?;
    capture::legacy_is_usable(&stream)?;
    let info = capture::info(&stream);
    status.set(info.map_or(0, |info| info.status))?;
    id.set_if_wanted(info.map_or(0, |info| info.id));
    Ok(info.filter(|info| info.status == 1))
}

fn describe(info: Option<Info>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>) {
    let Some(info) = info else { return };
    graph.set_if_wanted(info.graph);
    nodes.set_if_wanted(info.after);
    edges.set_if_wanted(0);
    count.set_if_wanted(info.count);
}

/// For CUDA 10 to 12: status and id. In CUDA 13, the name has the layout of [`info_v3`].
pub(crate) fn info_by_version(
    handle: usize,
    status: Out<c_uint>,
    id: Out<c_ulonglong>,
    graph: Out<usize>,
    nodes: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> CudaResult {
    if version::is_twelve() {
        return info(handle, status, id).map(drop);
    }
    info_v3(handle, status, id, graph, nodes, edges, count)
}

pub(crate) fn info_v1(handle: usize, status: Out<c_uint>, id: Out<c_ulonglong>) -> CudaResult {
    info(handle, status, id).map(drop)
}

pub(crate) fn info_v2(
    handle: usize,
    status: Out<c_uint>,
    id: Out<c_ulonglong>,
    graph: Out<usize>,
    nodes: Out<usize>,
    count: Out<usize>,
) -> CudaResult {
    describe(info(handle, status, id)?, graph, nodes, Out(std::ptr::null_mut()), count);
    Ok(())
}

pub(crate) fn info_v3(
    handle: usize,
    status: Out<c_uint>,
    id: Out<c_ulonglong>,
    graph: Out<usize>,
    nodes: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> CudaResult {
    describe(info(handle, status, id)?, graph, nodes, edges, count);
    Ok(())
}

/// Adds to (0) or replaces (1) the dependencies of the stream's next node.
pub(crate) fn update(handle: usize, nodes: Out<usize>, count: usize, flags: c_uint) -> CudaResult {
    context::enter()?;
    if flags > 1 {
        return Err(CudaError::INVALID_VALUE);
    }
    let stream = stream::resolve(handle)?;
    capture::depend(&stream, &nodes.list(count)?, flags == 1)
}

pub(crate) fn update_v2(handle: usize, nodes: Out<usize>, _edges: usize, count: usize, flags: c_uint) -> CudaResult {
    update(handle, nodes, count, flags)
}

/// The function of this name, which in CUDA 13 has the layout of [`update_v2`].
pub(crate) fn update_by_version(
    handle: usize,
    nodes: Out<usize>,
    third: usize,
    fourth: usize,
    fifth: c_uint,
) -> CudaResult {
    if version::is_twelve() {
        return update(handle, nodes, third, fourth as c_uint);
    }
    update_v2(handle, nodes, third, fourth, fifth)
}

pub(crate) fn exchange_mode(mode: Out<c_uint>) -> CudaResult {
    let before = capture::exchange_mode(mode.get()?)?;
    Ok(mode.set(before)?)
}
