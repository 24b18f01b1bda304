//! Mipmapped arrays: a CUDA array for each level, in one block of memory, level after level.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use abi::library::Library;

use super::array::{self, Format};
use crate::device::Device;
use crate::device::work::stream;

/// One mipmapped array.
#[derive(Debug)]
pub(crate) struct Mipmapped {
    device: &'static Device,
    /// Handles of the arrays, the most detailed level first; never empty.
    pub(crate) levels: Vec<usize>,
}

static MIPMAPPED: Handles<Mipmapped> = Handles::new(22);

/// Makes a mipmapped array of at most `count` levels: each has half the size of the one before, until all sizes are 1.
///
/// # Errors
/// `INVALID_VALUE` for sizes that the device does not support; `MEMORY_ALLOCATION`. Sparse arrays and other special kinds are
/// gaps of `name`.
pub(crate) fn create(
    device: &'static Device,
    mut sizes: [usize; 3],
    format: Format,
    flags: u32,
    count: u32,
    library: Library,
    name: &'static str,
) -> CudaResult<usize> {
    array::check(device, sizes, flags, true, library, name)?;
    let has_layers = flags & (array::LAYERED | array::CUBE) != 0;
    let largest = sizes.iter().copied().max().unwrap_or(1);
    let mut levels = Vec::new();
    let mut bytes = 0;
    for _ in 0..count.clamp(1, 1 + largest.ilog2()) {
        levels.push((bytes, sizes));
        bytes += array::bytes(sizes, format);
        for (axis, size) in sizes.iter_mut().enumerate() {
            // A missing dimension stays missing, and every level has all layers.
            if *size > 1 && !(axis == 2 && has_layers) {
                *size /= 2;
            }
        }
    }
    let block = array::Block::new(device, bytes)?;
    let insert = |(offset, sizes)| array::insert_level(device, &block, offset, sizes, format, flags);
    Ok(MIPMAPPED.insert(Arc::new(Mipmapped { device, levels: levels.into_iter().map(insert).collect() })))
}

/// The mipmapped array behind a handle.
///
/// # Errors
/// `INVALID_HANDLE`.
pub(crate) fn find(handle: usize) -> CudaResult<Arc<Mipmapped>> {
    MIPMAPPED.get(handle).ok_or(CudaError::INVALID_HANDLE)
}

/// The array of a level.
///
/// # Errors
/// `INVALID_HANDLE`; `INVALID_VALUE` for a level that does not exist.
pub(crate) fn level(handle: usize, level: u32) -> CudaResult<usize> {
    find(handle)?.levels.get(level as usize).copied().ok_or(CudaError::INVALID_VALUE)
}

/// Frees a mipmapped array with its levels once the device is done with it.
///
/// # Errors
/// `INVALID_HANDLE`.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    stream::synchronize_device(find(handle)?.device);
    let removed = MIPMAPPED.remove(handle).ok_or(CudaError::INVALID_HANDLE)?;
    removed.levels.iter().copied().for_each(array::forget_level);
    Ok(())
}

/// Forgets all mipmapped arrays of a device; their levels go with its arrays.
pub(crate) fn reset(device: &Device) {
    MIPMAPPED.remove_all(|mipmapped| mipmapped.device.ordinal == device.ordinal);
}
