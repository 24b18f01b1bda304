//! Contexts are the real library's; this module knows which virtual device each one belongs to. A real device has a single
//! primary context, so a virtual device that shares its real device with an earlier one gets its own context as its primary one.

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use abi::argument::Out;
use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

use crate::book;
use crate::device::{self, Device};
use crate::guard::exports;
use crate::real::call;

/// A context (or green context) and its device.
static OWNERS: Mutex<Option<HashMap<usize, c_int>>> = Mutex::new(None);

fn owns(context: usize, device: &Device) {
    OWNERS.lock().get_or_insert_default().insert(context, device.ordinal);
    book::show(device);
}

fn owner(context: usize) -> Option<&'static Device> {
    let ordinal = OWNERS.lock().as_ref()?.get(&context).copied()?;
    device::get(ordinal).ok()
}

/// Everything in a context is gone with it. 0 is no context: what does not belong to one stays.
fn ends(context: usize) {
    if context == 0 {
        return;
    }
    if let Some(owners) = &mut *OWNERS.lock() {
        owners.remove(&context);
    }
    book::forget(context);
}

/// The context of this thread, and its device.
///
/// # Errors
/// `CUDA_ERROR_INVALID_CONTEXT` if there is none, and the real library's errors.
pub(crate) fn current() -> CudaResult<(usize, &'static Device)> {
    let mut context = 0;
    call!(cuCtxGetCurrent(&raw mut context => *mut usize))?;
    if context == 0 {
        return Err(CudaError::INVALID_CONTEXT);
    }
    if let Some(device) = owner(context) {
        return Ok((context, device));
    }
    let mut real: c_int = 0;
    call!(cuCtxGetDevice(&raw mut real => *mut c_int))?;
    Ok((context, device::first_of(real)?))
}

/// The context and device of a stream; 0 to 2 are the default streams of this thread's context.
pub(crate) fn of_stream(stream: usize) -> CudaResult<(usize, &'static Device)> {
    if stream > 2 {
        let mut context = 0;
        call!(cuStreamGetCtx(stream => usize, &raw mut context => *mut usize))?;
        if let Some(device) = owner(context) {
            return Ok((context, device));
        }
    }
    current()
}

/// The primary context of a device. Users and flags are tracked here if it is not the real primary context.
#[derive(Debug, Default)]
struct Primary {
    context: usize,
    users: u64,
    flags: c_uint,
}

fn primary(device: &Device) -> &'static Mutex<Primary> {
    static PRIMARY: OnceLock<Vec<Mutex<Primary>>> = OnceLock::new();
    let count = device::machine().map_or(0, |machine| machine.devices.len());
    &PRIMARY.get_or_init(|| (0..count).map(|_| Mutex::default()).collect())[device.ordinal as usize]
}

exports! {
    fn cuDevicePrimaryCtxRetain(out: *mut usize, ordinal: c_int) = retain;
    fn cuDevicePrimaryCtxRelease(ordinal: c_int) = release;
    fn cuDevicePrimaryCtxRelease_v2(ordinal: c_int) = release;
    fn cuDevicePrimaryCtxReset(ordinal: c_int) = reset;
    fn cuDevicePrimaryCtxReset_v2(ordinal: c_int) = reset;
    fn cuDevicePrimaryCtxSetFlags(ordinal: c_int, flags: c_uint) = set_flags;
    fn cuDevicePrimaryCtxSetFlags_v2(ordinal: c_int, flags: c_uint) = set_flags;
    fn cuDevicePrimaryCtxGetState(ordinal: c_int, flags: *mut c_uint, active: *mut c_int) = state;
    fn cuCtxCreate(out: *mut usize, flags: c_uint, ordinal: c_int) = create;
    fn cuCtxCreate_v2(out: *mut usize, flags: c_uint, ordinal: c_int) = create;
    fn cuCtxCreate_v3(out: *mut usize, affinity: *const c_void, count: c_int, flags: c_uint, ordinal: c_int) = |out, affinity, count, flags, ordinal| {
        let device = device::get(ordinal)?;
        let real = device.real;
        call!(cuCtxCreate_v3(out => *mut usize, affinity => *const c_void, count => c_int, flags => c_uint, real => c_int))?;
        // SAFETY: the real library has written it.
        owns(unsafe { *out }, device);
        Ok(())
    };
    fn cuCtxCreate_v4(out: *mut usize, parameters: *const c_void, flags: c_uint, ordinal: c_int) = |out, parameters, flags, ordinal| {
        let device = device::get(ordinal)?;
        let real = device.real;
        call!(cuCtxCreate_v4(out => *mut usize, parameters => *const c_void, flags => c_uint, real => c_int))?;
        // SAFETY: the real library has written it.
        owns(unsafe { *out }, device);
        Ok(())
    };
    fn cuGreenCtxCreate(out: *mut usize, description: usize, ordinal: c_int, flags: c_uint) = |out, description, ordinal, flags| {
        let device = device::get(ordinal)?;
        call!(cuGreenCtxCreate(out => *mut usize, description => usize, device.real => c_int, flags => c_uint))?;
        // SAFETY: the real library has written it.
        owns(unsafe { *out }, device);
        Ok(())
    };
    fn cuCtxFromGreenCtx(out: *mut usize, green: usize) = |out, green| {
        call!(cuCtxFromGreenCtx(out => *mut usize, green => usize))?;
        if let Some(device) = owner(green) {
            // SAFETY: the real library has written it.
            owns(unsafe { *out }, device);
        }
        Ok(())
    };
    fn cuCtxDestroy(context: usize) = destroy;
    fn cuCtxDestroy_v2(context: usize) = destroy;
    fn cuCtxGetDevice(out: *mut c_int) = |out| {
        let device = current()?.1.ordinal;
        Ok(Out(out).set(device)?)
    };
    fn cuCtxGetDevice_v2(out: *mut c_int, context: usize) = |out, context| {
        call!(cuCtxGetDevice_v2(out => *mut c_int, context => usize))?;
        // SAFETY: the real library has written it.
        let device = owner(context).map_or_else(|| device::first_of(unsafe { *out }), Ok)?;
        Ok(Out(out).set(device.ordinal)?)
    };
    fn cuStreamGetDevice(stream: usize, out: *mut c_int) = |stream, out| {
        call!(cuStreamGetDevice(stream => usize, out => *mut c_int))?;
        Ok(Out(out).set(of_stream(stream)?.1.ordinal)?)
    };
    fn cuStreamGetDevice_ptsz(stream: usize, out: *mut c_int) = |stream, out| {
        call!(cuStreamGetDevice_ptsz(stream => usize, out => *mut c_int))?;
        Ok(Out(out).set(of_stream(stream)?.1.ordinal)?)
    };
}

unsafe fn create(out: *mut usize, flags: c_uint, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    let real = device.real;
    call!(cuCtxCreate_v2(out => *mut usize, flags => c_uint, real => c_int))?;
    // SAFETY: the real library has written it.
    owns(unsafe { *out }, device);
    Ok(())
}

unsafe fn destroy(context: usize) -> CudaResult {
    call!(cuCtxDestroy_v2(context => usize))?;
    ends(context);
    Ok(())
}

unsafe fn retain(out: *mut usize, ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    if !device.is_shared {
        call!(cuDevicePrimaryCtxRetain(out => *mut usize, device.real => c_int))?;
        // SAFETY: the real library has written it.
        let context = unsafe { *out };
        owns(context, device);
        primary(device).lock().context = context;
        return Ok(());
    }
    let mut primary = primary(device).lock();
    if primary.context == 0 {
        let (mut made, mut popped) = (0, 0);
        call!(cuCtxCreate_v2(&raw mut made => *mut usize, primary.flags => c_uint, device.real => c_int))?;
        // A new context becomes the thread's current one; a retained one does not.
        call!(cuCtxPopCurrent_v2(&raw mut popped => *mut usize))?;
        owns(made, device);
        primary.context = made;
    }
    Out(out).set(primary.context)?;
    primary.users += 1;
    Ok(())
}

unsafe fn release(ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    if !device.is_shared {
        call!(cuDevicePrimaryCtxRelease_v2(device.real => c_int))?;
        let (mut flags, mut active): (c_uint, c_int) = (0, 1);
        call!(cuDevicePrimaryCtxGetState(device.real => c_int, &raw mut flags => *mut c_uint, &raw mut active => *mut c_int))?;
        if active == 0 {
            ends_primary(device);
        }
        return Ok(());
    }
    let mut primary = primary(device).lock();
    primary.users = primary.users.checked_sub(1).ok_or(CudaError::INVALID_CONTEXT)?;
    if primary.users == 0 { end(&mut primary) } else { Ok(()) }
}

unsafe fn reset(ordinal: c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    if !device.is_shared {
        call!(cuDevicePrimaryCtxReset_v2(device.real => c_int))?;
        ends_primary(device);
        return Ok(());
    }
    end(&mut primary(device).lock())
}

/// Everything in the real primary context of the device is gone.
fn ends_primary(device: &Device) {
    let context = std::mem::take(&mut primary(device).lock().context);
    ends(context);
}

fn end(primary: &mut Primary) -> CudaResult {
    if primary.context != 0 {
        call!(cuCtxDestroy_v2(primary.context => usize))?;
        ends(primary.context);
        primary.context = 0;
    }
    Ok(())
}

unsafe fn set_flags(ordinal: c_int, flags: c_uint) -> CudaResult {
    let device = device::get(ordinal)?;
    if !device.is_shared {
        return call!(cuDevicePrimaryCtxSetFlags_v2(device.real => c_int, flags => c_uint));
    }
    primary(device).lock().flags = flags;
    Ok(())
}

unsafe fn state(ordinal: c_int, flags: *mut c_uint, active: *mut c_int) -> CudaResult {
    let device = device::get(ordinal)?;
    if !device.is_shared {
        return call!(cuDevicePrimaryCtxGetState(device.real => c_int, flags => *mut c_uint, active => *mut c_int));
    }
    let primary = primary(device).lock();
    Out(flags).set(primary.flags)?;
    Ok(Out(active).set(c_int::from(primary.context != 0))?)
}
