//! Memory that NCCL hands out, and the buffers and windows that programs register. Registration speeds up real hardware; here
//! every buffer is reachable as it is, so it is kept only to answer for it.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::communicator::resolve;
use super::error::{NcclError, NcclResult};
use crate::boundary::args::Out;
use crate::boundary::handle::Handles;
use crate::device::memory::{self, Kind, Known};
use crate::device::{context, current};

/// Registered with `ncclCommRegister`.
static REGISTRATIONS: Handles<Range> = Handles::new(14);
/// Registered with `ncclCommWindowRegister`.
static WINDOWS: Handles<Range> = Handles::new(15);
/// `NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING`.
const WINDOW_FLAGS: c_int = 3;

struct Range {
    communicator: u64,
    base: usize,
}

/// Body of `ncclMemAlloc`.
pub(crate) fn allocate(out: Out<usize>, size: usize) -> NcclResult {
    let out = out.required()?;
    context::enter()?;
    Ok(out.set(memory::allocate(current()?, size, Kind::Plain)?)?)
}

/// Body of `ncclMemFree`. Null is nothing to free.
pub(crate) fn free(address: usize) -> NcclResult {
    if address == 0 {
        return Ok(());
    }
    memory::free(address)
        .map_err(|_| NcclError::INVALID_ARGUMENT.because(format!("no allocation starts at {address:#x}")))
}

fn range(communicator: usize, base: *mut c_void, size: usize) -> NcclResult<Arc<Range>> {
    let communicator = resolve(communicator)?;
    communicator.ranks()?;
    let known = memory::known(base as usize, size);
    if base.is_null() || size == 0 || !matches!(known, Ok(Known::Device(_) | Known::Host)) {
        let detail = format!("{size} bytes at {base:p} are not memory known to CUDA");
        return Err(NcclError::INVALID_ARGUMENT.because(detail));
    }
    Ok(Arc::new(Range { communicator: communicator.serial, base: base as usize }))
}

fn forget(table: &Handles<Range>, communicator: usize, handle: usize) -> NcclResult {
    let communicator = resolve(communicator)?;
    let own = table.get(handle).is_some_and(|range| range.communicator == communicator.serial);
    if !own {
        return Err(
            NcclError::INVALID_ARGUMENT.because(format!("{handle:#x} is not registered with this communicator"))
        );
    }
    table.remove(handle);
    Ok(())
}

/// Body of `ncclCommRegister`.
pub(crate) fn register(communicator: usize, base: *mut c_void, size: usize, out: Out<usize>) -> NcclResult {
    let (out, range) = (out.required()?, range(communicator, base, size)?);
    Ok(out.set(REGISTRATIONS.insert(range))?)
}

/// Body of `ncclCommDeregister`.
pub(crate) fn deregister(communicator: usize, handle: usize) -> NcclResult {
    forget(&REGISTRATIONS, communicator, handle)
}

/// Body of `ncclCommWindowRegister`.
pub(crate) fn register_window(
    communicator: usize,
    base: *mut c_void,
    size: usize,
    out: Out<usize>,
    flags: c_int,
) -> NcclResult {
    let (out, range) = (out.required()?, range(communicator, base, size)?);
    if flags & !WINDOW_FLAGS != 0 {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("window flags {flags:#x} are not known")));
    }
    Ok(out.set(WINDOWS.insert(range))?)
}

/// Body of `ncclCommWindowDeregister`.
pub(crate) fn deregister_window(communicator: usize, window: usize) -> NcclResult {
    forget(&WINDOWS, communicator, window)
}

/// Body of `ncclWinGetUserPtr`.
pub(crate) fn window_pointer(communicator: usize, window: usize, out: Out<usize>) -> NcclResult {
    let communicator = resolve(communicator)?;
    match WINDOWS.get(window).filter(|range| range.communicator == communicator.serial) {
        Some(range) => Ok(out.set(range.base)?),
        None => Err(NcclError::INVALID_ARGUMENT.because(format!("{window:#x} is no window of this communicator"))),
    }
}
