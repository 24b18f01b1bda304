//! Queries about NCCL and its communicators.

use std::ffi::{c_char, c_int, c_uint};

use abi::argument::Out;

use super::communicator::{COMMUNICATORS, resolve};
use super::error::{self, NcclResult};
use super::header::{VERSION_NEWEST, VERSION_TWELVE};
use crate::device::state::version;

/// Body of `ncclGetVersion`: the NCCL version that PyTorch's wheels ship with the process's CUDA major version.
pub(crate) fn version(out: Out<c_int>) -> NcclResult {
    Ok(out.set(version_number())?)
}

/// 10000 x major + 100 x minor + patch.
pub(crate) fn version_number() -> c_int {
    if version::is_twelve() { VERSION_TWELVE } else { VERSION_NEWEST }
}

/// Body of `ncclGetErrorString`.
pub(crate) fn error_string(result: c_uint) -> *const c_char {
    error::text(result)
}

/// Body of `ncclGetLastError`: the communicator's first failure, else the process's last one.
pub(crate) fn last_error(handle: usize) -> *const c_char {
    if let Some(failure) = COMMUNICATORS.get(handle).and_then(|communicator| communicator.failure()) {
        error::note(failure.detail);
    }
    error::last()
}

/// Body of `ncclCommGetAsyncError`.
pub(crate) fn async_error(handle: usize, out: Out<c_uint>) -> NcclResult {
    let communicator = resolve(handle)?;
    Ok(out.set(communicator.async_error())?)
}

/// Body of `ncclCommCount`.
pub(crate) fn count(handle: usize, out: Out<c_int>) -> NcclResult {
    let ranks = resolve(handle)?.ranks()?;
    Ok(out.set(ranks.size() as c_int)?)
}

/// Body of `ncclCommUserRank`.
pub(crate) fn user_rank(handle: usize, out: Out<c_int>) -> NcclResult {
    let ranks = resolve(handle)?.ranks()?;
    Ok(out.set(ranks.rank() as c_int)?)
}

/// Body of `ncclCommCuDevice`.
pub(crate) fn device(handle: usize, out: Out<c_int>) -> NcclResult {
    let communicator = resolve(handle)?;
    communicator.ranks()?;
    Ok(out.set(communicator.device.ordinal as c_int)?)
}
