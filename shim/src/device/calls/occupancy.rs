//! Occupancy: how many blocks of a kernel fit on an SM, and which block size fills it best.

use std::ffi::c_int;

use abi::cuda::{CudaError, CudaResult};

use super::kernel::Figures;
use crate::device::Device;
use crate::device::kernel::occupancy::{self, Need};
use crate::device::state::attribute;

const WARP: u32 = 32;

/// `CUoccupancyB2DSize`: dynamic shared memory for a block with the given number of threads.
pub(crate) type SharedBytesOf = Option<unsafe extern "C" fn(c_int) -> usize>;

fn blocks_of(device: &Device, figures: &Figures, threads: u32, dynamic_shared: usize) -> u32 {
    if threads > figures.max_threads {
        return 0;
    }
    let need = Need {
        threads,
        registers_per_thread: figures.registers,
        shared_bytes: u32::try_from(dynamic_shared).unwrap_or(u32::MAX / 2).saturating_add(figures.shared_bytes),
    };
    occupancy::blocks_per_sm(&device.gpu.profile.limits, attribute::capability(device).0, need)
}

/// Blocks per SM.
pub(crate) fn blocks(device: &Device, figures: &Figures, threads: c_int, dynamic_shared: usize) -> CudaResult<c_int> {
    if threads <= 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(blocks_of(device, figures, threads as u32, dynamic_shared) as c_int)
}

/// The block size that keeps the most threads of an SM busy (the larger one in a tie), and the number of blocks that fill the
/// device with it: the search of NVIDIA's cuda_occupancy.h.
///
/// # Safety
/// `shared_bytes_of` is the program's function for this call.
pub(crate) unsafe fn best_block(
    device: &Device,
    figures: &Figures,
    shared_bytes_of: SharedBytesOf,
    dynamic_shared: usize,
    limit: c_int,
) -> CudaResult<(c_int, c_int)> {
    let most = figures.max_threads;
    let limit = match u32::try_from(limit).map_err(|_| CudaError::INVALID_VALUE)? {
        0 => most,
        limit => limit.min(most),
    };
    let (mut best, mut busiest) = ((0, 0), 0);
    for aligned in (WARP..=limit.next_multiple_of(WARP)).rev().step_by(WARP as usize) {
        let threads = aligned.min(limit);
        let shared = match shared_bytes_of {
            // SAFETY: the caller's promise.
            Some(function) => unsafe { function(threads as c_int) },
            None => dynamic_shared,
        };
        let blocks = blocks_of(device, figures, threads, shared);
        if threads * blocks > busiest {
            busiest = threads * blocks;
            best = ((blocks * device.gpu.profile.sm_count) as c_int, threads as c_int);
        }
        if busiest == device.gpu.profile.limits.max_threads_per_sm {
            break;
        }
    }
    Ok(best)
}

/// Dynamic shared memory that each of `blocks` blocks of `threads` threads may have on one SM.
pub(crate) fn available_shared(device: &Device, figures: &Figures, blocks: c_int, threads: c_int) -> CudaResult<usize> {
    let (Ok(blocks @ 1..), Ok(threads @ 1..)) = (u32::try_from(blocks), u32::try_from(threads)) else {
        return Err(CudaError::INVALID_VALUE);
    };
    if blocks_of(device, figures, threads, 0) < blocks {
        return Err(CudaError::INVALID_VALUE);
    }
    let limits = &device.gpu.profile.limits;
    let (step, reserved) = if attribute::capability(device).0 >= 8 { (128, 1024) } else { (256, 0) };
    let share = limits.shared_memory_per_sm / blocks / step * step;
    let whole = share.saturating_sub(reserved).min(limits.shared_memory_per_block);
    Ok(whole.saturating_sub(figures.shared_bytes) as usize)
}
