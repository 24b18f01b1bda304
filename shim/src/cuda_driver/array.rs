//! Arrays: `cuArray*`, and the copies to and from them by bytes.

use std::ffi::{c_int, c_uint};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use crate::boundary::gap;
use crate::device::calls::copy::stream_of;
use crate::device::graph::{capture, submit};
use crate::device::memory::array::{self, Format};
use crate::device::memory::copy::{Direction, Extent, Layout, When};
use crate::device::memory::mipmap;
use crate::device::state::context;

/// `CUDA_ARRAY_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    width: usize,
    height: usize,
    format: c_uint,
    channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description3D {
    width: usize,
    height: usize,
    depth: usize,
    format: c_uint,
    channels: c_uint,
    flags: c_uint,
}

const _: () = assert!(size_of::<Description>() == 24 && size_of::<Description3D>() == 40);

/// A format supported for arrays here.
///
/// # Errors
/// `INVALID_VALUE`; picture formats and packed formats are gaps of `name`.
pub(crate) fn format(number: c_uint, channels: c_uint, name: &'static str) -> CudaResult<Format> {
    // Those from here on are packed, compressed or of several planes.
    if number > 0x20 {
        gap::record(Library::CudaDriver, name, "of a special array format");
        return Err(CudaError::NOT_SUPPORTED);
    }
    Format::of_driver(number, channels).ok_or(CudaError::INVALID_VALUE)
}

fn make(out: Out<usize>, from: Description3D, name: &'static str) -> CudaResult {
    let (device, out) = (context::required()?, out.required()?);
    let format = format(from.format, from.channels, name)?;
    let sizes = [from.width, from.height, from.depth];
    capture::unsafe_call()?;
    Ok(out.set(array::create(device, sizes, format, from.flags, Library::CudaDriver, name)?)?)
}

pub(crate) fn create(out: Out<usize>, from: Out<Description>) -> CudaResult {
    let Description { width, height, format, channels } = from.get()?;
    make(out, Description3D { width, height, depth: 0, format, channels, flags: 0 }, "cuArrayCreate")
}

pub(crate) fn create_3d(out: Out<usize>, from: Out<Description3D>) -> CudaResult {
    make(out, from.get()?, "cuArray3DCreate")
}

pub(crate) fn create_mipmapped(out: Out<usize>, from: Out<Description3D>, levels: c_uint) -> CudaResult {
    const NAME: &str = "cuMipmappedArrayCreate";
    let (device, out, from) = (context::required()?, out.required()?, from.get()?);
    let format = format(from.format, from.channels, NAME)?;
    let sizes = [from.width, from.height, from.depth];
    capture::unsafe_call()?;
    Ok(out.set(mipmap::create(device, sizes, format, from.flags, levels, Library::CudaDriver, NAME)?)?)
}

pub(crate) fn level(out: Out<usize>, handle: usize, level: c_uint) -> CudaResult {
    context::required()?;
    let out = out.required()?;
    Ok(out.set(mipmap::level(handle, level)?)?)
}

pub(crate) fn destroy_mipmapped(handle: usize) -> CudaResult {
    context::required()?;
    capture::unsafe_call()?;
    mipmap::destroy(handle)
}

pub(crate) fn destroy(handle: usize) -> CudaResult {
    context::required()?;
    capture::unsafe_call()?;
    array::destroy(handle)
}

fn described(handle: usize) -> CudaResult<Description3D> {
    context::required()?;
    let found = array::find(handle)?;
    let ([width, height, depth], (format, channels)) = (found.sizes, found.format.driver());
    Ok(Description3D { width, height, depth, format, channels, flags: found.flags })
}

pub(crate) fn descriptor(out: Out<Description>, handle: usize) -> CudaResult {
    let Description3D { width, height, depth, format, channels, .. } = described(handle)?;
    if depth > 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(Description { width, height, format, channels })?)
}

pub(crate) fn descriptor_3d(out: Out<Description3D>, handle: usize) -> CudaResult {
    Ok(out.set(described(handle)?)?)
}

/// The memory of an array that is mapped later.
///
/// # Errors
/// `INVALID_VALUE`: no array here is made for deferred mapping, so every array has its memory already.
pub(crate) fn requirements(_out: usize, handle: usize, ordinal: c_int) -> CudaResult {
    context::required()?;
    crate::device::get(ordinal)?;
    array::find(handle)?;
    Err(CudaError::INVALID_VALUE)
}

/// As [`requirements`], of a mipmapped array.
pub(crate) fn requirements_mipmapped(_out: usize, handle: usize, ordinal: c_int) -> CudaResult {
    context::required()?;
    crate::device::get(ordinal)?;
    mipmap::find(handle)?;
    Err(CudaError::INVALID_VALUE)
}

/// One side of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    Memory(usize),
    /// A handle, and the byte offset into the array.
    Array(usize, usize),
}

impl Side {
    fn layout(self, bytes: usize) -> CudaResult<Layout> {
        match self {
            Self::Memory(address) => Ok(Layout::line(address)),
            Self::Array(handle, offset) => array::find(handle)?.line(offset, 0, bytes),
        }
    }
}

/// Copies bytes to, from or between arrays.
pub(crate) fn copy(to: Side, from: Side, bytes: usize, stream: Option<usize>) -> CudaResult {
    context::required()?;
    let when = if stream.is_some() { When::InOrder } else { When::Now };
    let (to, from) = (to.layout(bytes)?, from.layout(bytes)?);
    submit::copy(&stream_of(stream.unwrap_or(0))?, to, from, Extent::line(bytes), Direction::ANY, when)
}
