//! Suspend, resume and the memory of communicators. Communicators hold no device memory here, so there is nothing to
//! release; a suspension only means that the ranks meet, and that the communicator cannot be used.

use std::ffi::c_int;
use std::sync::Arc;

use abi::argument::Out;
use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use protocol::datatype::{Datatype, Operation};

use super::communicator::{Communicator, resolve};
use super::error::{NcclError, NcclResult};
use super::group;
use super::header::SUSPEND_MEMORY;

/// Body of `ncclCommSuspend`: all ranks suspend together. Flags other than `NCCL_SUSPEND_MEM` suspend nothing, as in NCCL.
pub(crate) fn suspend(handle: usize, flags: c_int) -> NcclResult {
    group::within(|| {
        let communicator = resolve(handle)?;
        let ranks = communicator.ranks()?;
        if flags & SUSPEND_MEMORY == 0 {
            return Ok(());
        }
        if !communicator.suspend(true) {
            return Err(NcclError::INVALID_USAGE.because("the communicator is suspended already"));
        }
        group::manage(Arc::clone(&communicator), Box::new(move || meet(&communicator, &ranks)))
    })
}

/// Body of `ncclCommResume`: all ranks resume together.
pub(crate) fn resume(handle: usize) -> NcclResult {
    group::within(|| {
        let communicator = resolve(handle)?;
        let ranks = communicator.ranks()?;
        if !communicator.is_suspended() {
            return Err(NcclError::INVALID_USAGE.because("the communicator is not suspended"));
        }
        let task = {
            let communicator = Arc::clone(&communicator);
            move || {
                meet(&communicator, &ranks)?;
                communicator.suspend(false);
                Ok(())
            }
        };
        group::manage(communicator, Box::new(task))
    })
}

/// Waits for the other ranks, after the operations under way.
fn meet(communicator: &Communicator, ranks: &Arc<Ranks>) -> NcclResult {
    // A revoked one does nothing with the others any more.
    if communicator.is_revoked() {
        return Ok(());
    }
    Ok(ranks.run(&[Call::new(Operation::Barrier, 0, Datatype::Uint8)])?)
}

/// Body of `ncclCommMemStats`: communicators hold no device memory.
pub(crate) fn statistic(handle: usize, statistic: c_int, out: Out<u64>) -> NcclResult {
    let communicator = resolve(handle)?;
    communicator.ranks()?;
    let out = out.required()?;
    let value = match statistic {
        // ncclStatGpuMemSuspend, ncclStatGpuMemPersist, ncclStatGpuMemTotal, bytes.
        0 | 2 | 3 => 0,
        // ncclStatGpuMemSuspended.
        1 => u64::from(communicator.is_suspended()),
        other => return Err(NcclError::INVALID_ARGUMENT.because(format!("statistic {other} does not exist"))),
    };
    Ok(out.set(value)?)
}
