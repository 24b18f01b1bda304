//! Which books belong to which of the real NCCL's handles, and to the splits whose handles it has yet to write.

use std::collections::HashMap;
use std::sync::Arc;

use abi::nccl;
use dataplane::lock::{Mutex, RwLock};

use crate::books::Books;
use crate::trouble;

/// The books by the handle that the real NCCL returned.
static HELD: RwLock<Option<HashMap<usize, Arc<Books>>>> = RwLock::new(None);

/// A split that is in progress.
struct Expected {
    /// Where the real NCCL writes the handle.
    out: usize,
    parent: Arc<Books>,
    books: Arc<Books>,
}

static EXPECTED: Mutex<Vec<Expected>> = Mutex::new(Vec::new());

/// The books of a communicator.
///
/// # Errors
/// `ncclInvalidArgument` for a communicator that was not made here.
pub(crate) fn books(handle: usize) -> Result<Arc<Books>, u32> {
    held(handle)
        .or_else(|| {
            // A program that has a handle has it from where the real NCCL wrote it.
            hold_written(|_, written| written == handle);
            held(handle)
        })
        .ok_or_else(|| {
            let detail = format!("{handle:#x} is not a communicator that the books know");
            trouble::refuse(nccl::INVALID_ARGUMENT, &detail)
        })
}

fn held(handle: usize) -> Option<Arc<Books>> {
    HELD.read().as_ref()?.get(&handle).cloned()
}

/// Stores books under the `handle` that the real NCCL returned for them.
pub(crate) fn hold(handle: usize, books: Arc<Books>) {
    HELD.write().get_or_insert_default().insert(handle, books);
}

/// Takes books out: the real NCCL may use the handle again.
pub(crate) fn release(handle: usize) -> Option<Arc<Books>> {
    let books = HELD.write().as_mut()?.remove(&handle)?;
    forget(&books);
    Some(books)
}

/// A split of `parent`. The real NCCL is in progress, and writes its handle to `out`.
///
/// # Safety
/// `out` is valid until the program has used the handle, or destroys the parent.
pub(crate) unsafe fn expect(out: *mut usize, parent: Arc<Books>, books: Arc<Books>) {
    EXPECTED.lock().push(Expected { out: out.expose_provenance(), parent, books });
}

/// The real NCCL is no longer in progress with `parent`: `failed`, or else the handles of its splits are there, or will be in a moment.
pub(crate) fn settled(parent: &Arc<Books>, failed: bool) {
    if failed {
        forget(parent);
    } else {
        hold_written(|expected, _| Arc::ptr_eq(&expected.parent, parent));
    }
}

/// Stores the books of those whose handle has been written and that `chosen` accepts.
fn hold_written(chosen: impl Fn(&Expected, usize) -> bool) {
    EXPECTED.lock().retain(|expected| {
        // SAFETY: valid by the promise to `expect`.
        let handle = unsafe { std::ptr::with_exposed_provenance::<usize>(expected.out).read_volatile() };
        let is_there = handle != 0 && chosen(expected, handle);
        if is_there {
            hold(handle, Arc::clone(&expected.books));
        }
        !is_there
    });
}

/// The splits of `parent` that are in progress come to nothing.
fn forget(parent: &Arc<Books>) {
    EXPECTED.lock().retain(|expected| !Arc::ptr_eq(&expected.parent, parent));
}
