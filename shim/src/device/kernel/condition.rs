//! Conditions of conditional nodes: values that kernels set through a handle while a graph runs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

/// Keyed by handle; kernels have nothing else.
static CONDITIONS: Mutex<Option<HashMap<u64, Weak<Condition>>>> = Mutex::new(None);

/// A `cudaGraphConditionalHandle`. It lives as long as the graphs that have it.
#[derive(Debug)]
pub(crate) struct Condition {
    handle: u64,
    value: AtomicU32,
    /// Its value at the start of each launch; `None` if it keeps its value.
    default: Option<u32>,
}

impl Condition {
    /// Creates a condition with this value.
    pub(crate) fn create(value: u32, is_default: bool) -> Arc<Self> {
        static HANDLES: AtomicU64 = AtomicU64::new(1);
        let handle = HANDLES.fetch_add(1, Ordering::Relaxed);
        let condition = Arc::new(Self { handle, value: value.into(), default: is_default.then_some(value) });
        CONDITIONS.lock().get_or_insert_default().insert(handle, Arc::downgrade(&condition));
        condition
    }

    /// The handle used by programs and kernels.
    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    /// Its value now.
    pub(crate) fn value(&self) -> u32 {
        self.value.load(Ordering::Acquire)
    }

    /// A launch begins.
    pub(crate) fn reset(&self) {
        if let Some(default) = self.default {
            self.value.store(default, Ordering::Release);
        }
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        CONDITIONS.lock().get_or_insert_default().remove(&self.handle);
    }
}

/// Called when a kernel sets a condition.
///
/// # Errors
/// `INVALID_HANDLE` for an invalid handle.
pub(crate) fn set(handle: u64, value: u32) -> CudaResult {
    let found = CONDITIONS.lock().get_or_insert_default().get(&handle).and_then(Weak::upgrade);
    found.ok_or(CudaError::INVALID_HANDLE)?.value.store(value, Ordering::Release);
    Ok(())
}
