//! Suspend, resume and the memory of communicators. Nothing of theirs is in device memory here, so there is nothing to give
//! back; what stays of a suspension is that the communicator cannot be used.

use std::ffi::c_int;

use super::abi::SUSPEND_MEMORY;
use super::communicator::resolve;
use super::error::{NcclError, NcclResult};
use crate::boundary::args::Out;

/// Body of `ncclCommSuspend`. Flags other than `NCCL_SUSPEND_MEM` suspend nothing, as in NCCL.
pub(crate) fn suspend(handle: usize, flags: c_int) -> NcclResult {
    let communicator = resolve(handle)?;
    communicator.ranks()?;
    if flags & SUSPEND_MEMORY != 0 && !communicator.suspend(true) {
        return Err(NcclError::INVALID_USAGE.because("the communicator is suspended already"));
    }
    Ok(())
}

/// Body of `ncclCommResume`.
pub(crate) fn resume(handle: usize) -> NcclResult {
    let communicator = resolve(handle)?;
    communicator.ranks()?;
    if !communicator.suspend(false) {
        return Err(NcclError::INVALID_USAGE.because("the communicator is not suspended"));
    }
    Ok(())
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
        other => return Err(NcclError::INVALID_ARGUMENT.because(format!("there is no statistic {other}"))),
    };
    Ok(out.set(value)?)
}
