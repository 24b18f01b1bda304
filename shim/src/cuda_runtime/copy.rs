//! Copies and fills: `cudaMemcpy*`, `cudaMemset*`.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::array;
use super::header::{Copy3D, Copy3DPeer, PitchedPtr, Three};
use crate::boundary::gap;
use crate::device;
use crate::device::calls::copy::{default_stream, linear, linear_async, stream_of};
use crate::device::graph::submit::{copy, fill};
use crate::device::kernel::symbol::{self, Symbol};
use crate::device::memory::array::Array;
use crate::device::memory::copy::{BoxCopy, Direction, Extent, Layout, When};
use crate::device::state::context;
use crate::device::work::stream::Stream;

pub(crate) fn peer(to: usize, to_device: c_int, from: usize, from_device: c_int, bytes: usize) -> CudaResult {
    device::get(to_device)?;
    device::get(from_device)?;
    linear(to, from, bytes, 4)
}

pub(crate) fn peer_async(
    to: usize,
    to_device: c_int,
    from: usize,
    from_device: c_int,
    bytes: usize,
    handle: usize,
) -> CudaResult {
    device::get(to_device)?;
    device::get(from_device)?;
    linear_async(to, from, bytes, 4, handle)
}

fn pitched(pointer: PitchedPtr, at: Three) -> Layout {
    let slice = pointer.pitch * pointer.height;
    Layout { address: pointer.address + at.z * slice + at.y * pointer.pitch + at.x, pitch: pointer.pitch, slice }
}

fn extent(three: Three) -> Extent {
    Extent { width: three.x, height: three.y, depth: three.z }
}

/// One side of a copy: an array, or memory.
#[derive(Clone, Copy)]
struct Side {
    array: usize,
    memory: PitchedPtr,
    position: Three,
}

/// Both sides and the size of a box. If an array takes part, the size of the box, and its position in an array, are in array
/// elements.
fn sides(to: Side, from: Side, size: Three) -> CudaResult<(Layout, Layout, Extent)> {
    let found = |side: Side| if side.array == 0 { Ok(None) } else { array::find(side.array).map(Some) };
    let (to_array, from_array) = (found(to)?, found(from)?);
    let elements = [&to_array, &from_array].map(|array| array.as_ref().map(|array| array.format.bytes()));
    let element = match elements {
        [Some(one), Some(other)] if one != other => return Err(CudaError::INVALID_VALUE),
        [Some(one), _] | [None, Some(one)] => one,
        [None, None] => 1,
    };
    let width = size.x.checked_mul(element).ok_or(CudaError::INVALID_VALUE)?;
    let extent = Extent { width, height: size.y, depth: size.z };
    let layout = |side: Side, array: Option<Arc<Array>>| match array {
        Some(_) if side.memory.address != 0 => Err(CudaError::INVALID_VALUE),
        Some(array) => {
            let x = side.position.x.checked_mul(element).ok_or(CudaError::INVALID_VALUE)?;
            array.layout([x, side.position.y, side.position.z], extent)
        }
        None => Ok(pitched(side.memory, side.position)),
    };
    Ok((layout(to, to_array)?, layout(from, from_array)?, extent))
}

/// The copy described by its parameters.
pub(crate) fn described(parameters: Out<Copy3D>) -> CudaResult<BoxCopy> {
    let p = parameters.get()?;
    let to = Side { array: p.to_array, memory: p.to, position: p.to_position };
    let from = Side { array: p.from_array, memory: p.from, position: p.from_position };
    let (to, from, extent) = sides(to, from, p.extent)?;
    Ok(BoxCopy { to, from, extent, direction: Direction::from_kind(p.kind)? })
}

fn three_d(parameters: Out<Copy3D>, stream: &Arc<Stream>, when: When) -> CudaResult {
    let BoxCopy { to, from, extent, direction } = described(parameters)?;
    copy(stream, to, from, extent, direction, when)
}

pub(crate) fn box_3d(parameters: Out<Copy3D>) -> CudaResult {
    three_d(parameters, &default_stream()?, When::Now)
}

pub(crate) fn box_3d_async(parameters: Out<Copy3D>, handle: usize) -> CudaResult {
    three_d(parameters, &stream_of(handle)?, When::InOrder)
}

fn three_d_peer(parameters: Out<Copy3DPeer>, stream: &Arc<Stream>, when: When) -> CudaResult {
    let p = parameters.get()?;
    device::get(p.from_device)?;
    device::get(p.to_device)?;
    let to = Side { array: p.to_array, memory: p.to, position: p.to_position };
    let from = Side { array: p.from_array, memory: p.from, position: p.from_position };
    let (to, from, extent) = sides(to, from, p.extent)?;
    copy(stream, to, from, extent, Direction::ANY, when)
}

pub(crate) fn box_3d_peer(parameters: Out<Copy3DPeer>) -> CudaResult {
    three_d_peer(parameters, &default_stream()?, When::Now)
}

pub(crate) fn box_3d_peer_async(parameters: Out<Copy3DPeer>, handle: usize) -> CudaResult {
    three_d_peer(parameters, &stream_of(handle)?, When::InOrder)
}

pub(crate) fn set(to: usize, value: c_int, bytes: usize) -> CudaResult {
    fill(&default_stream()?, Layout::line(to), value as u32, 1, Extent::line(bytes), When::Now)
}

pub(crate) fn set_async(to: usize, value: c_int, bytes: usize, handle: usize) -> CudaResult {
    fill(&stream_of(handle)?, Layout::line(to), value as u32, 1, Extent::line(bytes), When::InOrder)
}

pub(crate) fn set_rows(to: usize, pitch: usize, value: c_int, width: usize, height: usize) -> CudaResult {
    let extent = Extent { width, height, depth: 1 };
    fill(&default_stream()?, Layout::rows(to, pitch), value as u32, 1, extent, When::Now)
}

pub(crate) fn set_rows_async(
    to: usize,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    handle: usize,
) -> CudaResult {
    let extent = Extent { width, height, depth: 1 };
    fill(&stream_of(handle)?, Layout::rows(to, pitch), value as u32, 1, extent, When::InOrder)
}

const ORIGIN: Three = Three { x: 0, y: 0, z: 0 };

pub(crate) fn set_3d(to: PitchedPtr, value: c_int, size: Three) -> CudaResult {
    fill(&default_stream()?, pitched(to, ORIGIN), value as u32, 1, extent(size), When::Now)
}

pub(crate) fn set_3d_async(to: PitchedPtr, value: c_int, size: Three, handle: usize) -> CudaResult {
    fill(&stream_of(handle)?, pitched(to, ORIGIN), value as u32, 1, extent(size), When::InOrder)
}

/// The part of a symbol that a copy touches. Reading a variable whose initial value is unavailable is a gap.
pub(crate) fn part(host: usize, offset: usize, bytes: usize, reads: bool) -> CudaResult<Symbol> {
    let symbol = symbol::place(host, context::enter()?)?;
    if offset.checked_add(bytes).is_none_or(|end| end > symbol.size) {
        return Err(CudaError::INVALID_VALUE);
    }
    if let Some(why) = &symbol.unknown
        && (reads || bytes < symbol.size)
    {
        gap::tolerate(
            Library::CudaRuntime,
            "__cudaRegisterVar",
            &format!("initial value of {}: {why}", symbol.name()),
        )?;
    }
    Ok(symbol)
}

pub(crate) fn to_symbol(host: usize, from: usize, bytes: usize, offset: usize, kind: c_uint) -> CudaResult {
    let symbol = part(host, offset, bytes, false)?;
    linear(symbol.address + offset, from, bytes, kind)
}

pub(crate) fn to_symbol_async(
    host: usize,
    from: usize,
    bytes: usize,
    offset: usize,
    kind: c_uint,
    handle: usize,
) -> CudaResult {
    let symbol = part(host, offset, bytes, false)?;
    linear_async(symbol.address + offset, from, bytes, kind, handle)
}

pub(crate) fn from_symbol(to: usize, host: usize, bytes: usize, offset: usize, kind: c_uint) -> CudaResult {
    let symbol = part(host, offset, bytes, true)?;
    linear(to, symbol.address + offset, bytes, kind)
}

pub(crate) fn from_symbol_async(
    to: usize,
    host: usize,
    bytes: usize,
    offset: usize,
    kind: c_uint,
    handle: usize,
) -> CudaResult {
    let symbol = part(host, offset, bytes, true)?;
    linear_async(to, symbol.address + offset, bytes, kind, handle)
}

pub(crate) fn symbol_address(out: Out<usize>, host: usize) -> CudaResult {
    let out = out.required()?;
    Ok(out.set(part(host, 0, 0, true)?.address)?)
}

pub(crate) fn symbol_size(out: Out<usize>, host: usize) -> CudaResult {
    Ok(out.set(symbol::size(host)?)?)
}
