//! Memory: `cuMem*`, `cuPointerGetAttribute`, and virtual memory management.

use std::ffi::{c_int, c_uchar, c_uint, c_ulonglong, c_ushort};

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::context::in_context;
use crate::boundary::gap;
use crate::device;
use crate::device::calls::header::{AccessDescription, MemLocation};
use crate::device::calls::{self, pool};
use crate::device::graph::{capture, submit};
use crate::device::memory::address::locate;
use crate::device::memory::copy::{BoxCopy, Direction, Extent, Layout, When};
use crate::device::memory::mapping::{self, ON_DEVICE, Residence};
use crate::device::memory::{HostKind, Kind, array, locate_host};
use crate::device::state::context;
use crate::device::work::stream;

in_context! {
    allocate(out: Out<usize>, size: usize) = alloc;
    free(address: usize) = calls::memory::release;
    info(free: Out<usize>, total: Out<usize>) = calls::memory::info;
    host_alloc(out: Out<usize>, size: usize, flags: c_uint) = calls::memory::host_alloc;
    malloc_host(out: Out<usize>, size: usize) = calls::memory::malloc_host;
    free_host(address: usize) = calls::memory::free_host;
    host_register(address: usize, size: usize, flags: c_uint) = calls::memory::host_register;
    host_unregister(address: usize) = calls::memory::host_unregister;
    host_device_pointer(out: Out<usize>, address: usize, flags: c_uint) = calls::memory::host_device_pointer;
    host_flags(out: Out<c_uint>, address: usize) = calls::memory::host_flags;
    managed(out: Out<usize>, size: usize, flags: c_uint) = calls::memory::malloc_managed;
    allocate_async(out: Out<usize>, size: usize, stream: usize) = pool::malloc_async;
    allocate_from_pool(out: Out<usize>, size: usize, pool: usize, stream: usize) = pool::malloc_from_pool;
    free_async(address: usize, stream: usize) = pool::free_async;
    copy_any(to: usize, from: usize, bytes: usize) = |to, from, bytes| calls::copy::linear(to, from, bytes, 4);
    copy_to_device(to: usize, from: usize, bytes: usize) = |to, from, bytes| calls::copy::linear(to, from, bytes, 1);
    copy_to_host(to: usize, from: usize, bytes: usize) = |to, from, bytes| calls::copy::linear(to, from, bytes, 2);
    copy_on_device(to: usize, from: usize, bytes: usize) = |to, from, bytes| calls::copy::linear(to, from, bytes, 3);
    copy_any_async(to: usize, from: usize, bytes: usize, stream: usize) =
        |to, from, bytes, stream| calls::copy::linear_async(to, from, bytes, 4, stream);
    copy_to_device_async(to: usize, from: usize, bytes: usize, stream: usize) =
        |to, from, bytes, stream| calls::copy::linear_async(to, from, bytes, 1, stream);
    copy_to_host_async(to: usize, from: usize, bytes: usize, stream: usize) =
        |to, from, bytes, stream| calls::copy::linear_async(to, from, bytes, 2, stream);
    copy_on_device_async(to: usize, from: usize, bytes: usize, stream: usize) =
        |to, from, bytes, stream| calls::copy::linear_async(to, from, bytes, 3, stream);
    copy_peer(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize) = peer;
    copy_peer_async(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize, stream: usize) =
        peer_async;
    set8(to: usize, value: c_uchar, count: usize) = |to, value, count| set(to, u32::from(value), 1, count, None);
    set16(to: usize, value: c_ushort, count: usize) = |to, value, count| set(to, u32::from(value), 2, count, None);
    set32(to: usize, value: c_uint, count: usize) = |to, value, count| set(to, value, 4, count, None);
    set8_async(to: usize, value: c_uchar, count: usize, stream: usize) =
        |to, value, count, stream| set(to, u32::from(value), 1, count, Some(stream));
    set16_async(to: usize, value: c_ushort, count: usize, stream: usize) =
        |to, value, count, stream| set(to, u32::from(value), 2, count, Some(stream));
    set32_async(to: usize, value: c_uint, count: usize, stream: usize) =
        |to, value, count, stream| set(to, value, 4, count, Some(stream));
}

fn alloc(out: Out<usize>, size: usize) -> CudaResult {
    // Unlike the runtime, the driver refuses 0 bytes.
    if size == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    calls::memory::malloc(out, size)
}

pub(crate) fn allocate_pitch(
    out: Out<usize>,
    pitch: Out<usize>,
    width: usize,
    height: usize,
    element: c_uint,
) -> CudaResult {
    context::required()?;
    if ![4, 8, 16].contains(&element) || width == 0 || height == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    calls::memory::malloc_pitch(out, pitch, width, height)
}

fn peer(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize) -> CudaResult {
    context::resolve(to_context)?;
    context::resolve(from_context)?;
    calls::copy::linear(to, from, bytes, 4)
}

fn peer_async(
    to: usize,
    to_context: usize,
    from: usize,
    from_context: usize,
    bytes: usize,
    stream: usize,
) -> CudaResult {
    context::resolve(to_context)?;
    context::resolve(from_context)?;
    calls::copy::linear_async(to, from, bytes, 4, stream)
}

fn set(to: usize, value: u32, element: usize, count: usize, handle: Option<usize>) -> CudaResult {
    let stream = stream::resolve(handle.unwrap_or(0))?;
    let bytes = count.checked_mul(element).ok_or(CudaError::INVALID_VALUE)?;
    let when = if handle.is_some() { When::InOrder } else { When::Now };
    submit::fill(&stream, Layout::line(to), value, element, Extent::line(bytes), when)
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    from: Side2D,
    to: Side2D,
    width: usize,
    height: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Side2D {
    x: usize,
    y: usize,
    kind: c_uint,
    host: usize,
    device: usize,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3D {
    from: Side3D,
    to: Side3D,
    width: usize,
    height: usize,
    depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Side3D {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: c_uint,
    host: usize,
    device: usize,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

const _: () = assert!(size_of::<Copy2D>() == 128 && size_of::<Copy3D>() == 200);

const ARRAY: c_uint = 3;

/// Address of one side of a copy that is not an array: host (1), device (2), unified (4).
fn side(kind: c_uint, host: usize, device: usize) -> CudaResult<usize> {
    match kind {
        1 => Ok(host),
        2 | 4 => Ok(device),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

fn rows(parameters: Out<Copy2D>, handle: Option<usize>) -> CudaResult {
    context::required()?;
    let p = parameters.get()?;
    let extent = Extent { width: p.width, height: p.height, depth: 1 };
    let layout = |s: Side2D| -> CudaResult<Layout> {
        if s.kind == ARRAY {
            return array::find(s.array)?.layout([s.x, s.y, 0], extent);
        }
        let base = side(s.kind, s.host, s.device)?;
        let pitch = if s.pitch == 0 { p.width } else { s.pitch };
        Ok(Layout::rows(base + s.y * pitch + s.x, pitch))
    };
    let when = if handle.is_some() { When::InOrder } else { When::Now };
    submit::copy(&stream::resolve(handle.unwrap_or(0))?, layout(p.to)?, layout(p.from)?, extent, Direction::ANY, when)
}

pub(crate) fn copy_2d(parameters: Out<Copy2D>) -> CudaResult {
    rows(parameters, None)
}

pub(crate) fn copy_2d_async(parameters: Out<Copy2D>, handle: usize) -> CudaResult {
    rows(parameters, Some(handle))
}

/// The copy described by its parameters.
pub(crate) fn described(parameters: Out<Copy3D>) -> CudaResult<BoxCopy> {
    context::required()?;
    let p = parameters.get()?;
    let extent = Extent { width: p.width, height: p.height, depth: p.depth };
    let layout = |s: Side3D| -> CudaResult<Layout> {
        if s.kind == ARRAY {
            return array::find(s.array)?.layout([s.x, s.y, s.z], extent);
        }
        let base = side(s.kind, s.host, s.device)?;
        let pitch = if s.pitch == 0 { p.width } else { s.pitch };
        let slice = pitch * if s.height == 0 { p.height } else { s.height };
        Ok(Layout { address: base + s.z * slice + s.y * pitch + s.x, pitch, slice })
    };
    Ok(BoxCopy { to: layout(p.to)?, from: layout(p.from)?, extent, direction: Direction::ANY })
}

fn boxes(parameters: Out<Copy3D>, handle: Option<usize>) -> CudaResult {
    let BoxCopy { to, from, extent, direction } = described(parameters)?;
    let when = if handle.is_some() { When::InOrder } else { When::Now };
    submit::copy(&stream::resolve(handle.unwrap_or(0))?, to, from, extent, direction, when)
}

pub(crate) fn copy_3d(parameters: Out<Copy3D>) -> CudaResult {
    boxes(parameters, None)
}

pub(crate) fn copy_3d_async(parameters: Out<Copy3D>, handle: usize) -> CudaResult {
    boxes(parameters, Some(handle))
}

pub(crate) fn address_range(base: Out<usize>, size: Out<usize>, address: usize) -> CudaResult {
    context::required()?;
    let location = locate(address).ok_or(CudaError::NOT_FOUND)?;
    base.set_if_wanted(location.base);
    size.set_if_wanted(location.size);
    Ok(())
}

/// `cuPointerGetAttribute`; the numbers are `CUpointer_attribute`'s.
pub(crate) fn pointer_attribute(out: Out<u8>, number: c_uint, address: usize) -> CudaResult {
    let out = out.required()?;
    let (on_device, on_host) = (locate(address), locate_host(address));
    if on_device.is_none() && on_host.is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    let is_managed = on_device.is_some_and(|location| location.kind == Kind::Managed)
        || on_host.is_some_and(|range| range.kind == HostKind::Managed);
    let ordinal = on_device.map_or_else(|| on_host.map_or(0, |range| range.device), |location| location.device.ordinal);
    let (base, size) = on_device.map_or_else(
        || on_host.map_or((0, 0), |range| (range.base, range.size)),
        |location| (location.base, location.size),
    );
    let number32 = |value: u32| Ok(Out(out.0.cast::<u32>()).set(value)?);
    let pointer = |value: usize| Ok(Out(out.0.cast::<usize>()).set(value)?);
    let boolean = |value: bool| Ok(out.set(u8::from(value))?);
    match number {
        1 => pointer(context::primary_of(&device::all()[ordinal as usize])),
        2 => number32(if on_device.is_some() || is_managed { 2 } else { 1 }),
        3 => pointer(address),
        4 if on_device.is_some() && !is_managed => Err(CudaError::INVALID_VALUE),
        4 => pointer(address),
        6 => boolean(false),
        7 => Ok(Out(out.0.cast::<u64>()).set(base as u64)?),
        8 => boolean(is_managed),
        9 => number32(ordinal),
        10 | 15 => boolean(false),
        11 => pointer(base),
        12 => pointer(size),
        13 => boolean(true),
        14 => Ok(Out(out.0.cast::<u64>()).set(0)?),
        16 => number32(3),
        17 => pointer(match on_device.map(|location| location.kind) {
            Some(Kind::Pool(pool)) => pool,
            _ => 0,
        }),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Several attributes at once; for memory that CUDA does not know, each result is 0.
pub(crate) fn pointer_attributes(
    count: c_uint,
    numbers: Out<c_uint>,
    answers: Out<Out<u8>>,
    address: usize,
) -> CudaResult {
    let (numbers, answers) = (numbers.required()?, answers.required()?);
    for index in 0..count as usize {
        let number = Out(numbers.0.wrapping_add(index)).get()?;
        let answer = Out(answers.0.wrapping_add(index)).get()?;
        if pointer_attribute(answer, number, address).is_err() {
            let width = match number {
                6 | 8 | 10 | 13 | 15 => 1,
                2 | 9 | 16 => 4,
                _ => 8,
            };
            for byte in 0..width {
                Out(answer.required()?.0.wrapping_add(byte)).set(0)?;
            }
        }
    }
    Ok(())
}

/// `CUmemAllocationProp`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationProperties {
    kind: c_uint,
    handle_types: c_uint,
    location: MemLocation,
    metadata: usize,
    flags: u64,
}

const _: () = assert!(size_of::<AllocationProperties>() == 32);

/// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`
pub(super) const POSIX_FD: c_uint = 1;

/// Where the properties place physical memory. `CU_MEM_LOCATION_TYPE_HOST` ignores the id, and cannot be shared.
fn residence(properties: Out<AllocationProperties>) -> CudaResult<Residence> {
    let AllocationProperties { kind, handle_types, location, .. } = properties.get()?;
    match location.kind {
        // Pinned is the only kind.
        _ if kind != 1 => Err(CudaError::INVALID_VALUE),
        1 => device::get(location.id).map(Residence::Device),
        2 if handle_types == 0 => Ok(Residence::Host),
        3 if location.id == 0 => Ok(Residence::HostNode),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

pub(crate) fn create(
    out: Out<usize>,
    size: usize,
    properties: Out<AllocationProperties>,
    flags: c_ulonglong,
) -> CudaResult {
    let out = out.required()?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let is_shareable = properties.get()?.handle_types & POSIX_FD != 0;
    Ok(out.set(mapping::create(residence(properties)?, size, is_shareable)?)?)
}

pub(crate) fn release(handle: usize) -> CudaResult {
    mapping::release(handle)
}

pub(crate) fn retain(out: Out<usize>, address: usize) -> CudaResult {
    let out = out.required()?;
    Ok(out.set(mapping::retain(address)?)?)
}

pub(crate) fn properties_of(out: Out<AllocationProperties>, handle: usize) -> CudaResult {
    let location = match mapping::physical(handle)?.residence {
        Residence::Device(device) => MemLocation { kind: 1, id: device.ordinal as c_int },
        Residence::Host => MemLocation { kind: 2, id: 0 },
        Residence::HostNode => MemLocation { kind: 3, id: 0 },
        Residence::Team => return Err(CudaError::INVALID_VALUE),
    };
    Ok(out.set(AllocationProperties { kind: 1, handle_types: 0, location, metadata: 0, flags: 0 })?)
}

pub(crate) fn granularity(out: Out<usize>, properties: Out<AllocationProperties>, _option: c_uint) -> CudaResult {
    residence(properties)?;
    Ok(out.set(mapping::GRANULARITY)?)
}

pub(crate) fn reserve(out: Out<usize>, size: usize, alignment: usize, _wish: usize, flags: c_ulonglong) -> CudaResult {
    let out = out.required()?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(out.set(mapping::reserve(size, alignment)?)?)
}

pub(crate) fn unreserve(base: usize, size: usize) -> CudaResult {
    mapping::unreserve(base, size)
}

pub(crate) fn map(address: usize, size: usize, offset: usize, handle: usize, flags: c_ulonglong) -> CudaResult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    mapping::map_at(address, size, offset, handle)
}

pub(crate) fn unmap(address: usize, size: usize) -> CudaResult {
    mapping::unmap(address, size)
}

/// What kernels of the listed devices may do with mapped memory; copies, and the host, may always use it.
pub(crate) fn set_access(address: usize, size: usize, list: Out<AccessDescription>, count: usize) -> CudaResult {
    let mut allowed = Vec::new();
    for AccessDescription { location, flags } in list.required()?.list(count)? {
        if location.kind == ON_DEVICE {
            device::get(location.id)?;
        }
        if ![0, 1, 3].contains(&flags) {
            return Err(CudaError::INVALID_VALUE);
        }
        allowed.push(((location.kind, location.id), flags));
    }
    mapping::set_access(address, size, &allowed)
}

pub(crate) fn get_access(out: Out<c_ulonglong>, location: Out<MemLocation>, address: usize) -> CudaResult {
    let location = location.get()?;
    if location.kind == ON_DEVICE {
        device::get(location.id)?;
    }
    let flags = match mapping::access(address, (location.kind, location.id)) {
        Some(flags) => flags,
        None if locate(address).is_none() && locate_host(address).is_none() => return Err(CudaError::INVALID_VALUE),
        // Not mapped by the program.
        None => 3,
    };
    Ok(out.set(flags.into())?)
}

/// Physical memory for another process, as a descriptor. Handles of another kind are not supported.
pub(crate) fn export(out: Out<c_int>, handle: usize, kind: c_uint, flags: c_ulonglong) -> CudaResult {
    let out = out.required()?;
    mapping::physical(handle)?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    is_descriptor(kind, "cuMemExportToShareableHandle")?;
    Ok(out.set(mapping::export(handle)?)?)
}

/// The descriptor is passed in the place of a pointer.
pub(crate) fn import(out: Out<usize>, descriptor: usize, kind: c_uint) -> CudaResult {
    let out = out.required()?;
    is_descriptor(kind, "cuMemImportFromShareableHandle")?;
    let descriptor = c_int::try_from(descriptor).map_err(|_| CudaError::INVALID_VALUE)?;
    Ok(out.set(mapping::import(descriptor)?)?)
}

pub(super) fn is_descriptor(kind: c_uint, call: &'static str) -> CudaResult {
    match kind {
        POSIX_FD => Ok(()),
        2 | 4 | 8 => {
            gap::record(Library::CudaDriver, call, "a handle that is not a file descriptor");
            Err(CudaError::NOT_SUPPORTED)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

pub(crate) fn write32(handle: usize, address: usize, value: c_uint, flags: c_uint) -> CudaResult {
    write(handle, address, &value.to_le_bytes(), flags)
}

pub(crate) fn write64(handle: usize, address: usize, value: c_ulonglong, flags: c_uint) -> CudaResult {
    write(handle, address, &value.to_le_bytes(), flags)
}

/// A value written in stream order, as one store.
fn write(handle: usize, address: usize, value: &[u8], flags: c_uint) -> CudaResult {
    context::required()?;
    let stream = stream::resolve(handle)?;
    let is_known =
        locate(address).is_some_and(|location| location.bytes_left >= value.len()) || locate_host(address).is_some();
    if flags > 1 || !address.is_multiple_of(value.len()) || !is_known {
        return Err(CudaError::INVALID_VALUE);
    }
    if capture::for_stream(&stream)?.is_some() {
        gap::record(Library::CudaDriver, "cuStreamWriteValue32", "in a stream capture");
        return capture::refuse(&stream);
    }
    let (mut number, width) = ([0; 8], value.len());
    number[..width].copy_from_slice(value);
    stream.run(move || {
        use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
        let number = u64::from_le_bytes(number);
        // SAFETY: the address is aligned, was checked to be in memory known to CUDA, and freeing that waits for us.
        unsafe {
            if width == 4 {
                AtomicU32::from_ptr(address as *mut u32).store(number as u32, Ordering::Release);
            } else {
                AtomicU64::from_ptr(address as *mut u64).store(number, Ordering::Release);
            }
        }
    });
    Ok(())
}
