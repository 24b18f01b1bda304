//! Launches made by a running kernel: kept until its grid has ended, then run in the order of their streams.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;
use ptx::{Caller, Child};

use crate::device::Device;
use crate::device::memory::{self, Kind};
use crate::device::state::error_names;

/// Work to run when the grid has ended.
pub(super) type Task<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Checks a launch with these parameters, or a copy; returns the task that runs it.
pub(super) trait Accept<'a>: Sync {
    /// How many bytes of parameters a kernel has.
    ///
    /// # Errors
    /// `INVALID_DEVICE_FUNCTION` if there is none.
    fn parameter_bytes(&self, function: u64) -> CudaResult<usize>;

    /// A kernel.
    ///
    /// # Errors
    /// The same errors as a launch from the host, and `LAUNCH_MAX_DEPTH`.
    fn kernel(&self, child: &Child, values: Vec<u8>) -> CudaResult<Task<'a>>;

    /// A copy of bytes.
    fn copy(&self, to: u64, source: u64, bytes: u64) -> Task<'a>;
}

/// `cudaStreamTailLaunch`: after everything else that the grid launches.
const TAIL: u64 = 3;

struct Waiting<'a> {
    is_tail: bool,
    block: u64,
    task: Task<'a>,
}

/// A kernel that is about to be launched, and the size of its parameters in bytes.
struct Prepared {
    child: Child,
    bytes: usize,
}

/// What a grid has launched so far.
///
/// A child may begin once it is launched, but not earlier, and a parent grid does not end before its children have. So all
/// children of a grid run after it, each with its own children before the next one. This respects the order within each stream
/// and is the same in every run.
pub(super) struct Children<'a> {
    device: &'static Device,
    accept: &'a dyn Accept<'a>,
    waiting: Mutex<Vec<Waiting<'a>>>,
    /// The prepared launches, by the address of their parameters.
    prepared: Mutex<HashMap<u64, Prepared>>,
    errors: Mutex<HashMap<Caller, CudaError>>,
}

impl<'a> Children<'a> {
    pub(super) fn new(device: &'static Device, accept: &'a dyn Accept<'a>) -> Self {
        Self { device, accept, waiting: Mutex::default(), prepared: Mutex::default(), errors: Mutex::default() }
    }

    /// Memory for the parameters of a kernel; 0 if there is no memory, or no such kernel.
    pub(super) fn parameters(&self, child: &Child) -> u64 {
        let Ok(bytes) = self.accept.parameter_bytes(child.function) else { return 0 };
        let Ok(address) = memory::allocate(self.device, bytes.max(1), Kind::Internal) else { return 0 };
        self.prepared.lock().insert(address as u64, Prepared { child: *child, bytes });
        address as u64
    }

    fn keep(&self, from: &Caller, stream: u64, task: CudaResult<Task<'a>>) -> u32 {
        match task {
            Ok(task) => {
                self.waiting.lock().push(Waiting { is_tail: stream == TAIL, block: from.number, task });
                0
            }
            Err(error) => {
                self.errors.lock().insert(*from, error);
                error.0
            }
        }
    }

    pub(super) fn launch(&self, from: &Caller, parameters: u64, stream: u64) -> u32 {
        let prepared = self.prepared.lock().remove(&parameters);
        let task = prepared.ok_or(CudaError::INVALID_VALUE).and_then(|Prepared { child, bytes }| {
            // SAFETY: so many bytes, which `parameters` allocated and the kernel has written; nobody else has them.
            let values = unsafe { std::slice::from_raw_parts(parameters as *const u8, bytes) }.to_vec();
            memory::free_internal(parameters as usize);
            self.accept.kernel(&child, values)
        });
        self.keep(from, stream, task)
    }

    pub(super) fn copy(&self, from: &Caller, to: u64, source: u64, bytes: u64, stream: u64) -> u32 {
        self.keep(from, stream, Ok(self.accept.copy(to, source, bytes)))
    }

    pub(super) fn last_error(&self, from: &Caller, forget: bool) -> u32 {
        let mut errors = self.errors.lock();
        let error = if forget { errors.remove(from) } else { errors.get(from).copied() };
        error.map_or(0, |error| error.0)
    }

    /// Runs the launches of the grid, which has ended; returns whether there were any.
    pub(super) fn finish(&self) -> bool {
        for (address, _) in self.prepared.lock().drain() {
            memory::free_internal(address as usize);
        }
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        // Those of one block are in the order in which it launched them.
        waiting.sort_by_key(|waiting| (waiting.is_tail, waiting.block));
        let is_any = !waiting.is_empty();
        waiting.into_iter().for_each(|waiting| (waiting.task)());
        is_any
    }
}

/// Handle of a new stream of device code.
pub(super) fn stream() -> u64 {
    // The first ones mean special streams.
    static STREAMS: AtomicU64 = AtomicU64::new(0x1000);
    STREAMS.fetch_add(1, Ordering::Relaxed)
}

/// The description of an error, at an address that device code can read.
pub(super) fn error_text(device: &'static Device, code: u32) -> u64 {
    static TEXTS: Mutex<Option<HashMap<(u32, u32), usize>>> = Mutex::new(None);
    let mut texts = TEXTS.lock();
    let texts = texts.get_or_insert_default();
    if let Some(known) = texts.get(&(device.ordinal, code)) {
        return *known as u64;
    }
    let text = format!("{}\0", error_names::text(code));
    let Ok(address) = memory::allocate(device, text.len(), Kind::Internal) else { return 0 };
    // SAFETY: so many bytes, which were just allocated.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), address as *mut u8, text.len()) };
    texts.insert((device.ordinal, code), address);
    address as u64
}
