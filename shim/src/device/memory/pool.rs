//! Memory pools of the stream-ordered allocator. Our pools do not keep freed memory, so reserved equals used.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::lock::Mutex;

use crate::device::memory::{self, Kind, address, graph_memory, misuse};
use crate::device::work::stream::Stream;
use crate::device::{Device, all};
use crate::report::finding;
use crate::sanitizer::races::{self, Access};

/// One pool.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The device that has the memory.
    pub(crate) device: u32,
    /// What other devices may do with it (`cudaMemAccessFlags`): nothing unless the program says so.
    access: Mutex<BTreeMap<u32, u32>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Attributes 1 to 3, whether freed memory may be reused in three situations: stored, but without effect here.
    reuse: [i32; 3],
    threshold: u64,
    used: u64,
    used_high: u64,
    reserved_high: u64,
}

static POOLS: Handles<Pool> = Handles::new(4);

/// `cudaMemAccessFlagsProtReadWrite`
const READ_WRITE: u32 = 3;

/// A value of `cudaMemPoolAttr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Switch(i32),
    Bytes(u64),
}

/// Makes a pool on `device` and returns its handle.
pub(crate) fn create(device: &Device) -> usize {
    POOLS.insert(Arc::new(Pool {
        device: device.ordinal,
        access: Mutex::default(),
        state: Mutex::new(State { reuse: [1; 3], ..State::default() }),
    }))
}

/// Handle of the device's default pool.
pub(crate) fn default_of(device: &Device) -> usize {
    static DEFAULTS: OnceLock<Vec<usize>> = OnceLock::new();
    DEFAULTS.get_or_init(|| all().iter().map(create).collect())[device.ordinal as usize]
}

/// The pool behind a handle.
///
/// # Errors
/// `INVALID_VALUE`.
pub(crate) fn resolve(handle: usize) -> CudaResult<Arc<Pool>> {
    POOLS.get(handle).ok_or(CudaError::INVALID_VALUE)
}

/// Destroys a pool; memory allocated from it stays until it is freed.
///
/// # Errors
/// `INVALID_VALUE` for a default pool or a handle that names no pool.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    let pool = resolve(handle)?;
    if default_of(&all()[pool.device as usize]) == handle {
        return Err(CudaError::INVALID_VALUE);
    }
    POOLS.remove(handle).map(drop).ok_or(CudaError::INVALID_VALUE)
}

impl Pool {
    /// What `device` may do with it (`cudaMemAccessFlags`).
    pub(crate) fn access(&self, device: u32) -> u32 {
        if device == self.device { READ_WRITE } else { self.access.lock().get(&device).copied().unwrap_or(0) }
    }

    /// Says what a device may do with it.
    pub(crate) fn set_access(&self, device: u32, flags: u32) {
        self.access.lock().insert(device, flags);
    }

    fn change(&self, body: impl FnOnce(&mut State)) {
        body(&mut self.state.lock());
    }

    /// An attribute of `cudaMemPoolAttr`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for one that does not exist.
    pub(crate) fn get(&self, attribute: u32) -> CudaResult<Value> {
        let state = self.state.lock();
        Ok(match attribute {
            1..=3 => Value::Switch(state.reuse[attribute as usize - 1]),
            4 => Value::Bytes(state.threshold),
            5 | 7 => Value::Bytes(state.used),
            6 => Value::Bytes(state.reserved_high),
            8 => Value::Bytes(state.used_high),
            _ => return Err(CudaError::INVALID_VALUE),
        })
    }

    /// Sets an attribute; high-water marks can only be reset to 0.
    ///
    /// # Errors
    /// `INVALID_VALUE` for one that does not exist or cannot be set.
    pub(crate) fn set(&self, attribute: u32, value: Value) -> CudaResult {
        let mut state = self.state.lock();
        match (attribute, value) {
            (1..=3, Value::Switch(value)) => state.reuse[attribute as usize - 1] = value,
            (4, Value::Bytes(bytes)) => state.threshold = bytes,
            (6, Value::Bytes(0)) => state.reserved_high = state.used,
            (8, Value::Bytes(0)) => state.used_high = state.used,
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }
}

/// Allocates from a pool in stream order.
///
/// # Errors
/// `MEMORY_ALLOCATION`, `INVALID_VALUE`.
pub(crate) fn allocate(handle: usize, size: usize, stream: &Arc<Stream>) -> CudaResult<usize> {
    let pool = resolve(handle)?;
    let device = &all()[pool.device as usize];
    let address = memory::allocate(device, size, Kind::Pool(handle)).or_else(|error| {
        // Memory that is freed before us in the stream is ours to reuse.
        stream.synchronize();
        if error == CudaError::MEMORY_ALLOCATION {
            memory::allocate(device, size, Kind::Pool(handle))
        } else {
            Err(error)
        }
    })?;
    // It is there once the stream has come this far.
    races::work(&[stream.lane()], finding::function(), &[Access { address, bytes: size, writes: true }]);
    pool.change(|state| {
        state.used += size as u64;
        state.used_high = state.used_high.max(state.used);
        state.reserved_high = state.reserved_high.max(state.used);
    });
    Ok(address)
}

/// Frees in stream order, including memory from `cudaMalloc`.
///
/// # Errors
/// `INVALID_VALUE` if no allocation starts at `address`.
pub(crate) fn free(address: usize, stream: &Arc<Stream>) -> CudaResult {
    let function = finding::function();
    let location = address::locate(address)
        .filter(|location| location.base == address && !matches!(location.kind, Kind::Internal | Kind::Mapped));
    let Some(location) = location else {
        misuse::free(function, address);
        return Err(CudaError::INVALID_VALUE);
    };
    if let Kind::Graph(_) = location.kind {
        return graph_memory::free_in_order(address, function, stream).inspect_err(|_| misuse::free(function, address));
    }
    // Whoever gets the memory next writes to it.
    let whole = Access { address, bytes: location.size, writes: true };
    races::work(&[stream.lane()], function, &[whole]);
    stream.run(move || match memory::free(address) {
        Ok(()) => {
            if let Kind::Pool(pool) = location.kind {
                forget(pool, location.size);
            }
        }
        // Another free came before it in the stream.
        Err(_) => misuse::free(function, address),
    });
    Ok(())
}

/// Counts memory of a pool as freed.
pub(crate) fn forget(handle: usize, size: usize) {
    if let Ok(pool) = resolve(handle) {
        pool.change(|state| state.used = state.used.saturating_sub(size as u64));
    }
}
