//! How memory is allocated and freed: it is booked and then made by the real library, or as the policy says if the real device
//! has no room.

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;
use protocol::device_report::{Allocations, HybridStats};

use crate::backing::{self, Backing};
use crate::book::{self, Held, Kind};
use crate::device::Device;
use crate::real::call;
use crate::settings::{self, Policy};

static STATS: Mutex<HybridStats> = {
    const NONE: Allocations = Allocations { count: 0, bytes: 0 };
    Mutex::new(HybridStats {
        real_alloc: NONE,
        managed_alloc: NONE,
        mapped_host_alloc: NONE,
        spilled_alloc: NONE,
        oom_fallback_count: 0,
    })
};

/// What this mode has done so far.
pub(crate) fn stats() -> HybridStats {
    *STATS.lock()
}

fn policy() -> Policy {
    settings::get().map_or(Policy::Clamp, |settings| settings.policy)
}

/// Books `bytes` of `device` for `context`, and makes them with `real`, or by the policy if the real device has no room.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY` if the virtual device has no room, and the real library's errors.
pub(crate) fn allocate(
    (context, device): (usize, &Device),
    bytes: u64,
    real: impl FnOnce() -> CudaResult<usize>,
) -> CudaResult<usize> {
    book::reserve(device, bytes)?;
    let made = match real() {
        Ok(address) => Ok((address, Backing::Real)),
        Err(CudaError::MEMORY_ALLOCATION) => {
            backing::instead(policy(), bytes as usize).inspect(|_| STATS.lock().oom_fallback_count += 1)
        }
        Err(code) => Err(code),
    };
    match made {
        Ok((address, backing)) => {
            count(backing, bytes);
            book::hold(
                Kind::Address,
                address,
                Held { device: device.ordinal as usize, bytes, booked: bytes, backing, context },
            );
            Ok(address)
        }
        Err(code) => {
            book::cancel(device, bytes, code == CudaError::MEMORY_ALLOCATION);
            Err(code)
        }
    }
}

/// The same for other kinds of memory: `real` also returns what backs it. `booked` may be less than `bytes` for managed memory that
/// is not all on the device.
pub(crate) fn allocate_as(
    (context, device): (usize, &Device),
    kind: Kind,
    (bytes, booked): (u64, u64),
    real: impl FnOnce() -> CudaResult<(usize, Backing)>,
) -> CudaResult<usize> {
    book::reserve(device, booked)?;
    let (made, backing) =
        real().inspect_err(|code| book::cancel(device, booked, *code == CudaError::MEMORY_ALLOCATION))?;
    count(backing, bytes);
    book::hold(kind, made, Held { device: device.ordinal as usize, bytes, booked, backing, context });
    Ok(made)
}

/// An allocation without an address: with `real`, or with `host` if the policy says so and the real device has no room.
///
/// # Errors
/// Those of `real`.
pub(crate) fn physical(real: impl FnOnce() -> CudaResult, host: impl FnOnce() -> CudaResult) -> CudaResult<Backing> {
    match real() {
        Ok(()) => Ok(Backing::Real),
        Err(CudaError::MEMORY_ALLOCATION) if policy() == Policy::MappedHost && host().is_ok() => {
            STATS.lock().oom_fallback_count += 1;
            Ok(Backing::Mapped(0))
        }
        Err(code) => Err(code),
    }
}

fn count(backing: Backing, bytes: u64) {
    let mut stats = STATS.lock();
    let tally = match backing {
        Backing::Real => &mut stats.real_alloc,
        Backing::Managed => &mut stats.managed_alloc,
        Backing::Mapped(_) => &mut stats.mapped_host_alloc,
        Backing::Spilled(_) => &mut stats.spilled_alloc,
    };
    *tally = Allocations { count: tally.count + 1, bytes: tally.bytes + bytes };
}

/// Frees an allocation, with `real` if it is the real device's. Host memory is freed only after all work of the context is done,
/// because `cuMemFree` waits for that as well.
pub(crate) fn free(address: usize, real: impl FnOnce() -> CudaResult) -> CudaResult {
    match book::get(Kind::Address, address) {
        None | Some(Held { backing: Backing::Real | Backing::Managed, .. }) => {
            book::give_back(Kind::Address, address, real)
        }
        Some(_) => {
            call!(cuCtxSynchronize())?;
            match book::remove(Kind::Address, address) {
                Some(held) => backing::release(address, held.backing),
                None => real(),
            }
        }
    }
}
