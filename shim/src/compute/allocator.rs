//! A CPU memory allocator installed before PyTorch's own: while a CPU kernel computes for a CUDA operator, its
//! allocations come from PyTorch's CUDA caching allocator. So results need no copy, and statistics, limits and
//! out-of-memory errors are those of the GPU. For the sanitizers, this file also observes what that allocator hands out.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use abi::library::Library;

use super::cxx::{Allocate, DataPtr, Device};
use super::libtorch::torch;
use super::symbols::Allocator;
use super::{current, returned};
use crate::boundary::gap;
use crate::device::graph::capture;
use crate::device::memory::{self, address, fresh};
use crate::sanitizer::{averaged, init, known, owner, races};

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

/// Indices into the virtual function table of `c10::Allocator`.
mod method {
    pub(super) const ALLOCATE: usize = 2;
    pub(super) const IS_SIMPLE: usize = 3;
    pub(super) const RAW_DELETER: usize = 4;
}

type Deleter = unsafe extern "C-unwind" fn(*mut c_void);

/// The virtual function at `place` of the previous CPU allocator.
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
pub(super) fn installed() -> Allocator {
    OURS.load(Ordering::Acquire)
}

/// Replaces PyTorch's allocator with ours.
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

/// `allocate` of PyTorch's CUDA caching allocator.
static CUDA_ALLOCATE: OnceLock<Allocate> = OnceLock::new();

/// More entries than any version's `CUDAAllocator` has virtual functions. Whatever follows its table is copied too, but never
/// used.
const PLACES: usize = 256;
/// Offset to top and type, before a table's functions.
const BEFORE: usize = 2;

/// From now on, observes what the CUDA caching allocator hands out: it requests memory in segments, so only the allocator itself
/// knows when a block of one is fresh. Its object gets a copy of its table in which `allocate` is ours.
pub(super) fn watch() {
    let allocator = torch().cuda_allocator();
    let fills = fresh::pattern().is_some();
    let is_wanted = fills || races::are_wanted() || averaged::is_wanted() || owner::is_exact() || known::is_wanted();
    if !is_wanted || CUDA_ALLOCATE.get().is_some() {
        return;
    }
    let functions = if allocator.is_null() {
        None
    } else {
        // SAFETY: the first word of a live object is the address of its table's functions.
        let functions = unsafe { allocator.read() };
        words_at(functions as usize - BEFORE * size_of::<usize>())
    };
    let Some(mut table) = functions else {
        // Races are found all the same, without the lines of allocations.
        owner::is_blind();
        for (wanted, name) in [
            (init::is_wanted(), "sanitize: init"),
            (fresh::asked_for().is_some(), "fresh memory"),
            (averaged::is_asked(), "sanitize: replicas"),
            (owner::is_exact(), "sanitize: memory"),
            (known::is_wanted(), "preflight"),
        ] {
            if wanted {
                gap::record(Library::Torch, name, "the CUDA caching allocator is not as expected");
            }
        }
        return;
    };
    let place = BEFORE + method::ALLOCATE;
    // SAFETY: `allocate` of a `c10::Allocator`.
    let _ = CUDA_ALLOCATE.set(unsafe { std::mem::transmute::<usize, Allocate>(table[place]) });
    table[place] = hand_out as *const () as usize;
    if owner::is_exact() && !returned::watch() {
        gap::record(Library::Torch, "sanitize: memory", "the CUDA caching allocator does not report what comes back");
    }
    let table: &'static [usize; PLACES] = Box::leak(table);
    // SAFETY: the object is a variable of libtorch; other threads see one table or the other, which differ in one function.
    unsafe { AtomicUsize::from_ptr(allocator.cast()) }.store(table[BEFORE..].as_ptr() as usize, Ordering::Release);
}

/// The words from `address` on as far as they are mapped, then zeros; `None` if not even `allocate` is mapped.
fn words_at(address: usize) -> Option<Box<[usize; PLACES]>> {
    const PAGE: usize = 4096;
    let mut words = Box::new([0usize; PLACES]);
    let length = size_of_val(&*words);
    let first = length.min(PAGE - address % PAGE);
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: length };
    // Two, since the kernel copies whole entries.
    let remote = [(address, first), (address + first, length - first)]
        .map(|(start, length)| libc::iovec { iov_base: start as *mut c_void, iov_len: length });
    // SAFETY: the kernel writes at most the length of `words`, and answers an error for what is not mapped.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, remote.as_ptr(), 2, 0) };
    usize::try_from(copied)
        .is_ok_and(|copied| copied > (BEFORE + method::ALLOCATE) * size_of::<usize>())
        .then_some(words)
}

unsafe extern "C-unwind" fn hand_out(result: *mut DataPtr, this: *mut c_void, size: usize) -> *mut DataPtr {
    let Some(allocate) = CUDA_ALLOCATE.get() else { return result };
    let sublet = fresh::Sublet::begin();
    // SAFETY: the function that this one is in the place of, with its arguments.
    unsafe { allocate(result, this, size) };
    let has_grown = sublet.has_grown();
    drop(sublet);
    // SAFETY: `allocate` filled it.
    let (data, device) = unsafe { ((*result).data as usize, (*result).device) };
    if data == 0 || size == 0 {
        return result;
    }
    averaged::forget(data, size);
    known::handed_out(data, size);
    if !FOR_GPU.get() && known::keeps_too_much() {
        // Work under way may still read what was there before.
        let is_idle = current::stream(device.index).is_some_and(|stream| stream.is_idle());
        if is_idle && !capture::is_any() {
            known::left_behind(data, size).into_iter().for_each(|(address, bytes)| memory::vacate(address, bytes));
        }
    }
    if capture::is_any()
        && capture::is_hidden()
        && let Some(stream) = current::stream(device.index)
    {
        capture::handed_out(&stream, (data, size), has_grown);
    }
    races::block_handed_out(data, size, capture::is_any());
    if fresh::pattern().is_none() {
        return result;
    }
    // A CPU kernel writes all of what it allocates for its results.
    match current::stream(device.index).filter(|_| !FOR_GPU.get()) {
        Some(stream) => fresh::handed_out(data, size, &stream),
        None => init::written(data, size),
    }
    result
}
