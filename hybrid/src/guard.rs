//! The outer edge of every C function: no panic leaves it, and results go where C wants them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::trouble::{self, CudaResult, INVALID_VALUE};

/// Runs the body of `name`; a panic in it is `CUDA_ERROR_UNKNOWN`.
pub(crate) fn guard(name: &str, body: impl FnOnce() -> CudaResult) -> u32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.err().unwrap_or(0),
        Err(_) => {
            trouble::say(&format!("{name}: a mistake in fakegpu"));
            trouble::UNKNOWN
        }
    }
}

/// Writes a result; a null pointer is `CUDA_ERROR_INVALID_VALUE`, as in the real library.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> CudaResult {
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: promised by the caller.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Reads an argument that is passed by pointer.
///
/// # Errors
/// A null pointer is `CUDA_ERROR_INVALID_VALUE`.
///
/// # Safety
/// `from` is null or may be read.
pub(crate) unsafe fn take<T: Copy>(from: *const T) -> CudaResult<T> {
    // SAFETY: promised by the caller.
    if from.is_null() { Err(INVALID_VALUE) } else { Ok(unsafe { from.read_unaligned() }) }
}

/// C functions with bodies. Each is called from C, and the caller guarantees its pointers as NVIDIA's documentation requires.
macro_rules! exports {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) = $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            $crate::guard::guard(stringify!($name), || {
                let body: unsafe fn($($type),*) -> $crate::trouble::CudaResult = $body;
                // SAFETY: promised by the caller, see above.
                unsafe { body($($argument),*) }
            })
        }
    )*};
}

pub(crate) use exports;
