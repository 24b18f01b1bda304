//! The allocator of CPU memory that comes before PyTorch's own: while a CPU kernel computes for a CUDA operator, what it
//! allocates comes from PyTorch's CUDA caching allocator. So results need no copy, and statistics, limits and
//! out-of-memory errors are those of the GPU.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::cxx::{Allocate, DataPtr, Device};
use super::symbols::Allocator;
use super::torch;
use crate::device::address;

thread_local! {
    /// Whether this thread computes for a GPU.
    static FOR_GPU: Cell<bool> = const { Cell::new(false) };
}

/// Until dropped, this thread's CPU allocations are the current GPU's.
pub(super) struct Redirect(bool);

impl Redirect {
    pub(super) fn begin() -> Self {
        Self(FOR_GPU.replace(true))
    }
}

impl Drop for Redirect {
    fn drop(&mut self) {
        FOR_GPU.set(self.0);
    }
}

/// Places in the table of virtual functions of `c10::Allocator`.
mod method {
    pub(super) const ALLOCATE: usize = 2;
    pub(super) const IS_SIMPLE: usize = 3;
    pub(super) const RAW_DELETER: usize = 4;
}

type Deleter = unsafe extern "C-unwind" fn(*mut c_void);

/// The virtual function at `place` of the CPU allocator before ours.
fn previous(place: usize) -> *const c_void {
    // SAFETY: an allocator that lives as long as the process; its table has these places.
    unsafe { (*torch().cpu_allocator).add(place).read() }
}

unsafe extern "C-unwind" fn allocate(result: *mut DataPtr, _this: *mut c_void, size: usize) -> *mut DataPtr {
    if !FOR_GPU.get() {
        // SAFETY: `allocate` of the allocator before ours.
        return unsafe {
            let allocate: Allocate = std::mem::transmute(previous(method::ALLOCATE));
            allocate(result, torch().cpu_allocator.cast(), size)
        };
    }
    let cuda = torch().cuda_allocator();
    // SAFETY: `allocate` of the CUDA allocator, which fills `result`; the storage that takes it is a CPU tensor's until
    // `view::promote` changes it.
    unsafe {
        let allocate: Allocate = std::mem::transmute((*cuda).add(method::ALLOCATE).read());
        allocate(result, cuda.cast(), size);
        (*result).device = Device::CPU;
    }
    result
}

unsafe extern "C-unwind" fn is_simple(_this: *mut c_void, data: *const DataPtr) -> bool {
    // SAFETY: `is_simple_data_ptr` of the allocator before ours, with its own argument.
    unsafe {
        let body: unsafe extern "C-unwind" fn(*mut c_void, *const DataPtr) -> bool =
            std::mem::transmute(previous(method::IS_SIMPLE));
        body(torch().cpu_allocator.cast(), data)
    }
}

fn deleter_of(allocator: Allocator) -> Option<Deleter> {
    // SAFETY: `raw_deleter` of an allocator that lives as long as the process.
    unsafe {
        let body: unsafe extern "C-unwind" fn(*mut c_void) -> Option<Deleter> =
            std::mem::transmute((*allocator).add(method::RAW_DELETER).read());
        body(allocator.cast())
    }
}

/// Frees what [`allocate`] gave out raw, whichever allocator it came from.
unsafe extern "C-unwind" fn free(data: *mut c_void) {
    let torch = torch();
    let is_gpus = address::locate(data as usize).is_some();
    let owner = if is_gpus { torch.cuda_allocator() } else { torch.cpu_allocator };
    if let Some(deleter) = deleter_of(owner) {
        // SAFETY: the deleter of the allocator that the block is from.
        unsafe { deleter(data) };
    }
}

unsafe extern "C-unwind" fn raw_deleter(_this: *mut c_void) -> Option<Deleter> {
    deleter_of(torch().cpu_allocator).map(|_| free as Deleter)
}

unsafe extern "C-unwind" fn copy_data(_this: *mut c_void, to: *mut c_void, from: *const c_void, count: usize) {
    // SAFETY: both blocks have at least `count` bytes, as the caller promises.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), count) };
}

unsafe extern "C-unwind" fn destroy(_this: *mut c_void) {}

static OURS: AtomicPtr<*const *const c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The allocator that [`install`] made.
pub(super) fn ours() -> Allocator {
    OURS.load(Ordering::Acquire)
}

/// Puts ours in the place of PyTorch's.
pub(super) fn install() {
    let torch = torch();
    let table: [*const c_void; 8] = [
        std::ptr::null(),
        torch.symbols.allocator_type,
        destroy as *const c_void,
        destroy as *const c_void,
        allocate as *const c_void,
        is_simple as *const c_void,
        raw_deleter as *const c_void,
        copy_data as *const c_void,
    ];
    let functions: *const *const c_void = &Box::leak(Box::new(table))[2];
    let allocator: Allocator = Box::leak(Box::new(functions));
    OURS.store(allocator, Ordering::Release);
    // SAFETY: an object with c10::Allocator's table that lives as long as the process. Priority 0 replaces the default.
    unsafe { (torch.symbols.set_allocator)(Device::CPU.kind, allocator, 0) };
}
