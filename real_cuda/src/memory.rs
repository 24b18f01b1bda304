//! Memory with an address: `cuMemAlloc` and related functions, managed and asynchronous, and how much is left.

use std::ffi::c_uint;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};

use crate::backing::Backing;
use crate::book::{self, Held, Kind};
use crate::context::{current, of_stream};
use crate::guard::exports;
use crate::policy;
use crate::real::call;
use crate::settings::{self, Policy};

exports! {
    fn cuMemAlloc_v2(out: *mut usize, size: usize) = |out, size| {
        let real = |address: *mut usize| call!(cuMemAlloc_v2(address => *mut usize, size => usize));
        // SAFETY: promised by the caller.
        unsafe { allocate(out, size, None, &real) }
    };
    fn cuMemAllocAsync(out: *mut usize, size: usize, stream: usize) = |out, size, stream| {
        let real = |address: *mut usize| call!(cuMemAllocAsync(address => *mut usize, size => usize, stream => usize));
        // SAFETY: promised by the caller.
        unsafe { allocate(out, size, Some(stream), &real) }
    };
    fn cuMemAllocAsync_ptsz(out: *mut usize, size: usize, stream: usize) = |out, size, stream| {
        let real = |address: *mut usize| call!(cuMemAllocAsync_ptsz(address => *mut usize, size => usize, stream => usize));
        // SAFETY: promised by the caller.
        unsafe { allocate(out, size, Some(stream), &real) }
    };
    fn cuMemAllocFromPoolAsync(out: *mut usize, size: usize, pool: usize, stream: usize) = |out, size, pool, stream| {
        let real = |address: *mut usize| call!(cuMemAllocFromPoolAsync(address => *mut usize, size => usize, pool => usize, stream => usize));
        // SAFETY: promised by the caller.
        unsafe { allocate(out, size, Some(stream), &real) }
    };
    fn cuMemAllocFromPoolAsync_ptsz(out: *mut usize, size: usize, pool: usize, stream: usize) = |out, size, pool, stream| {
        let real = |address: *mut usize| call!(cuMemAllocFromPoolAsync_ptsz(address => *mut usize, size => usize, pool => usize, stream => usize));
        // SAFETY: promised by the caller.
        unsafe { allocate(out, size, Some(stream), &real) }
    };
    fn cuMemAllocPitch_v2(out: *mut usize, pitch: *mut usize, width: usize, height: usize, element: c_uint) = pitched;
    fn cuMemAllocManaged(out: *mut usize, size: usize, flags: c_uint) = managed;
    fn cuMemFree_v2(address: usize) = |address| policy::free(address, || call!(cuMemFree_v2(address => usize)));
    fn cuMemFreeAsync(address: usize, stream: usize) = |address, stream| {
        free_async(address, || call!(cuStreamSynchronize(stream => usize)), || call!(cuMemFreeAsync(address => usize, stream => usize)))
    };
    fn cuMemFreeAsync_ptsz(address: usize, stream: usize) = |address, stream| {
        free_async(address, || call!(cuStreamSynchronize_ptsz(stream => usize)), || call!(cuMemFreeAsync_ptsz(address => usize, stream => usize)))
    };
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) = info;
    fn cuMemGetAddressRange_v2(base: *mut usize, size: *mut usize, address: usize) = range;
}

abi::functions! {
    guarded by crate::guard::Driver;
    refused {
        cuMemAlloc cuMemAllocPitch cuMemFree cuMemGetInfo cuMemGetAddressRange cuDeviceTotalMem cuArrayCreate cuArray3DCreate
    }
}

/// # Safety
/// `out` is null or may be written.
unsafe fn allocate(
    out: *mut usize,
    size: usize,
    stream: Option<usize>,
    real: &dyn Fn(*mut usize) -> CudaResult,
) -> CudaResult {
    // The real library refuses mistakes.
    if out.is_null() || size == 0 {
        return real(out);
    }
    let place = stream.map_or_else(current, of_stream)?;
    let make = || {
        let mut address = 0;
        real(&raw mut address).map(|()| address)
    };
    let address = policy::allocate(place, size as u64, make)?;
    Ok(Out(out).set(address)?)
}

/// Every row takes up the pitch, which only the real library knows. If it has no room, rows get a pitch that every GPU accepts.
unsafe fn pitched(out: *mut usize, pitch: *mut usize, width: usize, height: usize, element: c_uint) -> CudaResult {
    const ROW: usize = 512;
    if out.is_null() || pitch.is_null() || width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return call!(cuMemAllocPitch_v2(out => *mut usize, pitch => *mut usize, width => usize, height => usize, element => c_uint));
    }
    let row = width.checked_next_multiple_of(ROW).ok_or(CudaError::INVALID_VALUE)?;
    let bytes = row.checked_mul(height).ok_or(CudaError::INVALID_VALUE)?;
    let mut real_row = row;
    let make = || {
        let mut address = 0;
        call!(cuMemAllocPitch_v2(&raw mut address => *mut usize, &raw mut real_row => *mut usize, width => usize, height => usize, element => c_uint))?;
        Ok(address)
    };
    let address = policy::allocate(current()?, bytes as u64, make)?;
    Out(pitch).set(real_row)?;
    Ok(Out(out).set(address)?)
}

unsafe fn managed(out: *mut usize, size: usize, flags: c_uint) -> CudaResult {
    if out.is_null() || size == 0 {
        return call!(cuMemAllocManaged(out => *mut usize, size => usize, flags => c_uint));
    }
    let make = || {
        let mut address = 0;
        call!(cuMemAllocManaged(&raw mut address => *mut usize, size => usize, flags => c_uint))?;
        Ok((address, Backing::Managed))
    };
    let place = current()?;
    // What does not fit on the device is on the host, as on hardware.
    let booked = book::left(place.1).min(size as u64);
    let address = policy::allocate_as(place, Kind::Address, (size as u64, booked), make)?;
    Ok(Out(out).set(address)?)
}

/// Only memory on the real device can be freed in stream order; for the rest, this waits for the stream.
fn free_async(address: usize, wait: impl FnOnce() -> CudaResult, real: impl FnOnce() -> CudaResult) -> CudaResult {
    match book::get(Kind::Address, address) {
        None | Some(Held { backing: Backing::Real, .. }) => policy::free(address, real),
        Some(_) => {
            wait()?;
            policy::free(address, || call!(cuMemFree_v2(address => usize)))
        }
    }
}

/// What the virtual device has left; with `clamp`, no more than the real one has.
unsafe fn info(free: *mut usize, total: *mut usize) -> CudaResult {
    let (mut real_free, mut real_total) = (0, 0);
    call!(cuMemGetInfo_v2(&raw mut real_free => *mut usize, &raw mut real_total => *mut usize))?;
    let device = current()?.1;
    let left = book::left(device) as usize;
    let is_clamped = settings::get().is_some_and(|settings| settings.policy == Policy::Clamp);
    Out(free).set(if is_clamped { left.min(real_free) } else { left })?;
    Ok(Out(total).set(device.total as usize)?)
}

unsafe fn range(base: *mut usize, size: *mut usize, address: usize) -> CudaResult {
    match book::find(address) {
        Some((start, Held { backing, bytes, .. })) if backing != Backing::Real => {
            // SAFETY: promised by the caller; null asks for nothing.
            unsafe {
                base.as_mut().into_iter().for_each(|base| *base = start);
                size.as_mut().into_iter().for_each(|size| *size = bytes as usize);
            }
            Ok(())
        }
        _ => call!(cuMemGetAddressRange_v2(base => *mut usize, size => *mut usize, address => usize)),
    }
}
