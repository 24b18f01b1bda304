//! Memory allocated by NCCL, and buffers registered by programs. Registration speeds up real hardware; here every buffer is
//! accessible anyway, so registrations are recorded only to answer queries.

use std::ffi::c_void;
use std::sync::Arc;

use abi::argument::Out;
use abi::handle::Handles;

use super::buffer::place;
use super::communicator::{Communicator, resolve};
use super::error::{NcclError, NcclResult};
use crate::device::current;
use crate::device::memory::{self, Kind, misuse};
use crate::device::state::context;
use crate::report::finding;

/// Registered with `ncclCommRegister`.
static REGISTRATIONS: Handles<Range> = Handles::new(14);

struct Range {
    communicator: u64,
}

/// Body of `ncclMemAlloc`.
pub(crate) fn allocate(out: Out<usize>, size: usize) -> NcclResult {
    let out = out.required()?;
    context::enter()?;
    Ok(out.set(memory::allocate(current()?, size, Kind::Plain)?)?)
}

/// Body of `ncclMemFree`. Does nothing for null.
pub(crate) fn free(address: usize) -> NcclResult {
    if address == 0 {
        return Ok(());
    }
    memory::free(address)
        .inspect_err(|_| misuse::free(finding::function(), address))
        .map_err(|_| NcclError::INVALID_ARGUMENT.because(format!("no allocation starts at {address:#x}")))
}

/// The communicator with which `size` bytes at `base` are to be registered.
///
/// # Errors
/// `ncclInvalidArgument` for memory that CUDA does not know, and for that of another device.
pub(super) fn registers(communicator: usize, base: *mut c_void, size: usize) -> NcclResult<Arc<Communicator>> {
    let communicator = resolve(communicator)?;
    communicator.ranks()?;
    if base.is_null() || size == 0 {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("{size} bytes at {base:p} cannot be registered")));
    }
    place(&communicator, "registered", base.cast(), size)?;
    Ok(communicator)
}

/// Body of `ncclCommRegister`.
pub(crate) fn register(communicator: usize, base: *mut c_void, size: usize, out: Out<usize>) -> NcclResult {
    let (out, communicator) = (out.required()?, registers(communicator, base, size)?);
    Ok(out.set(REGISTRATIONS.insert(Arc::new(Range { communicator: communicator.serial })))?)
}

/// Body of `ncclCommDeregister`.
pub(crate) fn deregister(communicator: usize, handle: usize) -> NcclResult {
    let communicator = resolve(communicator)?;
    let own = REGISTRATIONS.get(handle).is_some_and(|range| range.communicator == communicator.serial);
    if !own {
        return Err(
            NcclError::INVALID_ARGUMENT.because(format!("{handle:#x} is not registered with this communicator"))
        );
    }
    REGISTRATIONS.remove(handle);
    Ok(())
}

/// Forgets the registrations of the destroyed communicator.
pub(super) fn forget_all(communicator: u64) {
    REGISTRATIONS.remove_all(|range| range.communicator == communicator);
}
