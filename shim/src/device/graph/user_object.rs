//! User objects, which a program keeps alive for its graphs. Releasing the last reference calls the program's function.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::lock::Mutex;

use crate::boundary::guard;

/// `cudaHostFn_t`
pub(crate) type Destroy = unsafe extern "C" fn(*mut c_void);

static OBJECTS: Handles<UserObject> = Handles::new(16);

/// A `cudaUserObject_t`.
#[derive(Debug)]
struct UserObject {
    /// The argument of the program's function.
    data: usize,
    destroy: Destroy,
    handle: AtomicUsize,
    references: AtomicUsize,
}

/// References held by a graph; they are released with it. Copies of the graph hold their own.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<BTreeMap<usize, (Weak<UserObject>, usize)>>);

/// Makes an object with this many references held by the caller.
///
/// # Errors
/// `INVALID_VALUE` for count 0.
pub(crate) fn create(data: usize, destroy: Destroy, references: usize) -> CudaResult<usize> {
    if references == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let (handle, references) = (AtomicUsize::new(0), AtomicUsize::new(references));
    let object = Arc::new(UserObject { data, destroy, handle, references });
    let handle = OBJECTS.insert(Arc::clone(&object));
    object.handle.store(handle, Ordering::Release);
    Ok(handle)
}

fn resolve(handle: usize) -> CudaResult<Arc<UserObject>> {
    OBJECTS.get(handle).ok_or(CudaError::INVALID_VALUE)
}

/// The caller takes `count` more references.
///
/// # Errors
/// `INVALID_VALUE` for an object that is gone, or for count 0.
pub(crate) fn retain(handle: usize, count: usize) -> CudaResult {
    if count == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    resolve(handle)?.references.fetch_add(count, Ordering::AcqRel);
    Ok(())
}

/// The caller releases `count` references.
///
/// # Errors
/// `INVALID_VALUE` for an object that is gone, for count 0, and for more than there are.
pub(crate) fn release(handle: usize, count: usize) -> CudaResult {
    if count == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    resolve(handle)?.release(count)
}

impl UserObject {
    fn release(&self, count: usize) -> CudaResult {
        let less = |references: usize| references.checked_sub(count);
        let before = self.references.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        if before.map_err(|_| CudaError::INVALID_VALUE)? == count {
            OBJECTS.remove(self.handle.load(Ordering::Acquire));
            // SAFETY: the program's function, with what it asked for. It must not call CUDA.
            guard::host_function(|| unsafe { (self.destroy)(self.data as *mut c_void) });
        }
        Ok(())
    }
}

impl Held {
    /// The graph takes `count` references; if moved, they are the caller's own.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an object that is gone, or for count 0.
    pub(crate) fn take(&self, handle: usize, count: usize, gives: bool) -> CudaResult {
        let object = resolve(handle)?;
        if count == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if !gives {
            object.references.fetch_add(count, Ordering::AcqRel);
        }
        self.0.lock().entry(handle).or_insert_with(|| (Arc::downgrade(&object), 0)).1 += count;
        Ok(())
    }

    /// The graph releases `count` references.
    ///
    /// # Errors
    /// `INVALID_VALUE` for more than it has.
    pub(crate) fn give_back(&self, handle: usize, count: usize) -> CudaResult {
        let mut held = self.0.lock();
        let (object, own) = held.get_mut(&handle).ok_or(CudaError::INVALID_VALUE)?;
        *own = own.checked_sub(count).ok_or(CudaError::INVALID_VALUE)?;
        let object = object.upgrade();
        if *own == 0 {
            held.remove(&handle);
        }
        drop(held);
        object.map_or(Ok(()), |object| object.release(count))
    }

    /// The references of a copy of the graph: as many again.
    pub(crate) fn copy(&self) -> Self {
        let held = self.0.lock();
        for (object, count) in held.values() {
            if let Some(object) = object.upgrade() {
                object.references.fetch_add(*count, Ordering::AcqRel);
            }
        }
        Self(Mutex::new(held.clone()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for (object, count) in std::mem::take(&mut *self.0.lock()).into_values() {
            if let Some(object) = object.upgrade() {
                // It has as many.
                let _ = object.release(count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ENDED: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn end(data: *mut c_void) {
        ENDED.fetch_add(data as usize, Ordering::Relaxed);
    }

    #[test]
    fn the_last_reference_ends_it() {
        let object = create(7, end, 2).unwrap();
        assert_eq!(create(7, end, 0), Err(CudaError::INVALID_VALUE));
        let held = Held::default();
        held.take(object, 1, true).unwrap();
        held.take(object, 2, false).unwrap();
        let copy = held.copy();
        release(object, 1).unwrap();
        held.give_back(object, 1).unwrap();
        assert_eq!(held.give_back(object, 3), Err(CudaError::INVALID_VALUE));
        drop(held);
        assert_eq!(ENDED.load(Ordering::Relaxed), 0, "the copy has three");
        retain(object, 1).unwrap();
        drop(copy);
        assert_eq!(ENDED.load(Ordering::Relaxed), 0);
        assert_eq!(release(object, 2), Err(CudaError::INVALID_VALUE));
        release(object, 1).unwrap();
        assert_eq!(ENDED.load(Ordering::Relaxed), 7);
        assert_eq!(release(object, 1), Err(CudaError::INVALID_VALUE));
    }
}
