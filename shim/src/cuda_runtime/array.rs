//! Arrays: `cudaMallocArray` and kin, and the copies to and from them.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::header::{ChannelFormat, Three};
use crate::boundary::gap;
use crate::device::calls::copy::{default_stream, stream_of};
use crate::device::graph::{capture, submit};
use crate::device::memory::array::{self, Array, Format};
use crate::device::memory::copy::{Direction, Extent, Layout, When};
use crate::device::memory::mipmap;
use crate::device::state::context;
use crate::device::work::stream::Stream;

/// The format that a descriptor describes.
///
/// # Errors
/// `INVALID_CHANNEL_DESCRIPTOR`; picture formats and packed formats are gaps of `name`.
pub(crate) fn format(description: ChannelFormat, name: &'static str) -> CudaResult<Format> {
    if description.format > 3 {
        gap::record(Library::CudaRuntime, name, "of a special channel format");
        return Err(CudaError::NOT_SUPPORTED);
    }
    Format::of_channels(description.bits, description.format).ok_or(CudaError::INVALID_CHANNEL_DESCRIPTOR)
}

pub(crate) fn description(format: Format) -> ChannelFormat {
    let (bits, format) = format.channels();
    ChannelFormat { bits, format }
}

fn create(
    out: Out<usize>,
    description: Out<ChannelFormat>,
    sizes: [usize; 3],
    flags: c_uint,
    name: &'static str,
) -> CudaResult {
    let (device, out) = (context::enter()?, out.required()?);
    let format = format(description.get()?, name)?;
    capture::unsafe_call()?;
    Ok(out.set(array::create(device, sizes, format, flags, Library::CudaRuntime, name)?)?)
}

pub(crate) fn malloc(
    out: Out<usize>,
    format: Out<ChannelFormat>,
    width: usize,
    height: usize,
    flags: c_uint,
) -> CudaResult {
    create(out, format, [width, height, 0], flags, "cudaMallocArray")
}

pub(crate) fn malloc_3d(out: Out<usize>, format: Out<ChannelFormat>, extent: Three, flags: c_uint) -> CudaResult {
    create(out, format, [extent.x, extent.y, extent.z], flags, "cudaMalloc3DArray")
}

pub(crate) fn free(handle: usize) -> CudaResult {
    context::enter()?;
    if handle == 0 {
        return Ok(());
    }
    capture::unsafe_call()?;
    array::destroy(handle).map_err(invalid)
}

pub(crate) fn malloc_mipmapped(
    out: Out<usize>,
    description: Out<ChannelFormat>,
    extent: Three,
    levels: c_uint,
    flags: c_uint,
) -> CudaResult {
    const NAME: &str = "cudaMallocMipmappedArray";
    let (device, out) = (context::enter()?, out.required()?);
    let format = format(description.get()?, NAME)?;
    capture::unsafe_call()?;
    let sizes = [extent.x, extent.y, extent.z];
    Ok(out.set(mipmap::create(device, sizes, format, flags, levels, Library::CudaRuntime, NAME)?)?)
}

pub(crate) fn level(out: Out<usize>, handle: usize, level: c_uint) -> CudaResult {
    context::enter()?;
    let out = out.required()?;
    Ok(out.set(mipmap::level(handle, level)?)?)
}

pub(crate) fn free_mipmapped(handle: usize) -> CudaResult {
    context::enter()?;
    if handle == 0 {
        return Ok(());
    }
    capture::unsafe_call()?;
    mipmap::destroy(handle).map_err(invalid)
}

/// The runtime has no error code for an invalid handle.
fn invalid(error: CudaError) -> CudaError {
    if error == CudaError::INVALID_HANDLE { CudaError::INVALID_VALUE } else { error }
}

pub(crate) fn find(handle: usize) -> CudaResult<Arc<Array>> {
    array::find(handle).map_err(invalid)
}

pub(crate) fn info(format: Out<ChannelFormat>, extent: Out<Three>, flags: Out<c_uint>, handle: usize) -> CudaResult {
    let found = find(handle)?;
    let [x, y, z] = found.sizes;
    format.set_if_wanted(description(found.format));
    extent.set_if_wanted(Three { x, y, z });
    flags.set_if_wanted(found.flags);
    Ok(())
}

/// The memory of an array that is mapped later.
///
/// # Errors
/// `INVALID_VALUE`: no array here is made for deferred mapping, so every array has its memory already.
pub(crate) fn requirements(_out: usize, handle: usize, ordinal: c_int) -> CudaResult {
    context::enter()?;
    crate::device::get(ordinal)?;
    array::find(handle).map_err(invalid)?;
    Err(CudaError::INVALID_VALUE)
}

/// As [`requirements`], of a mipmapped array.
pub(crate) fn requirements_mipmapped(_out: usize, handle: usize, ordinal: c_int) -> CudaResult {
    context::enter()?;
    crate::device::get(ordinal)?;
    mipmap::find(handle).map_err(invalid)?;
    Err(CudaError::INVALID_VALUE)
}

pub(crate) fn channels(format: Out<ChannelFormat>, handle: usize) -> CudaResult {
    Ok(format.set(description(find(handle)?.format))?)
}

/// The stream of a call, and who waits.
fn given(handle: Option<usize>) -> CudaResult<(Arc<Stream>, When)> {
    Ok(match handle {
        Some(handle) => (stream_of(handle)?, When::InOrder),
        None => (default_stream()?, When::Now),
    })
}

fn copy(to: Layout, from: Layout, extent: Extent, kind: c_uint, handle: Option<usize>) -> CudaResult {
    let (stream, when) = given(handle)?;
    submit::copy(&stream, to, from, extent, Direction::from_kind(kind)?, when)
}

/// A box of bytes in an array: byte offset in the row, row, bytes per row, rows.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) array: usize,
    pub(crate) x: usize,
    pub(crate) y: usize,
}

impl Part {
    fn rows(self, extent: Extent) -> CudaResult<Layout> {
        find(self.array)?.layout([self.x, self.y, 0], extent)
    }

    fn line(self, bytes: usize) -> CudaResult<Layout> {
        find(self.array)?.line(self.x, self.y, bytes)
    }
}

fn rows(width: usize, height: usize) -> Extent {
    Extent { width, height, depth: 1 }
}

pub(crate) fn rows_to(
    to: Part,
    from: usize,
    pitch: usize,
    width: usize,
    height: usize,
    kind: c_uint,
    stream: Option<usize>,
) -> CudaResult {
    let extent = rows(width, height);
    // Of one row the pitch means nothing.
    if pitch < width && height > 1 {
        return Err(CudaError::INVALID_PITCH);
    }
    copy(to.rows(extent)?, Layout::rows(from, pitch), extent, kind, stream)
}

pub(crate) fn rows_from(
    to: usize,
    pitch: usize,
    from: Part,
    width: usize,
    height: usize,
    kind: c_uint,
    stream: Option<usize>,
) -> CudaResult {
    let extent = rows(width, height);
    if pitch < width && height > 1 {
        return Err(CudaError::INVALID_PITCH);
    }
    copy(Layout::rows(to, pitch), from.rows(extent)?, extent, kind, stream)
}

pub(crate) fn rows_between(to: Part, from: Part, width: usize, height: usize, kind: c_uint) -> CudaResult {
    let extent = rows(width, height);
    copy(to.rows(extent)?, from.rows(extent)?, extent, kind, None)
}

pub(crate) fn line_to(to: Part, from: usize, bytes: usize, kind: c_uint, stream: Option<usize>) -> CudaResult {
    copy(to.line(bytes)?, Layout::line(from), Extent::line(bytes), kind, stream)
}

pub(crate) fn line_from(to: usize, from: Part, bytes: usize, kind: c_uint, stream: Option<usize>) -> CudaResult {
    copy(Layout::line(to), from.line(bytes)?, Extent::line(bytes), kind, stream)
}

pub(crate) fn line_between(to: Part, from: Part, bytes: usize, kind: c_uint) -> CudaResult {
    copy(to.line(bytes)?, from.line(bytes)?, Extent::line(bytes), kind, None)
}
