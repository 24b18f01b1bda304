//! Arguments from C: out-pointers and texts that may be NULL. The only place where their pointers are dereferenced.

use std::ffi::{CStr, c_char};

/// A pointer that must not be NULL was NULL. Each library turns this into its "invalid value".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Null;

/// A pointer to where a result goes.
#[repr(transparent)]
pub(crate) struct Out<T>(pub(crate) *mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// True if there is nowhere to put the result.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Null is an error.
    ///
    /// # Errors
    /// [`Null`].
    pub(crate) fn required(self) -> Result<Self, Null> {
        if self.0.is_null() { Err(Null) } else { Ok(self) }
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// [`Null`] if there is nowhere to put it.
    pub(crate) fn set(self, value: T) -> Result<(), Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: C passed a pointer that is not null; that it points to a `T` is the documented contract of the call.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result if it is wanted.
    pub(crate) fn set_if_wanted(self, value: T) {
        let _ = self.set(value);
    }
}

impl<T: Copy> Out<T> {
    /// The `count` values of a C array; empty for 0, regardless of the pointer.
    ///
    /// # Errors
    /// [`Null`] for a null pointer if `count` is not 0.
    pub(crate) fn list(self, count: usize) -> Result<Vec<T>, Null> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let first = self.required()?.0;
        // SAFETY: C passed a pointer that is not null; that so many values follow is the documented contract of the call.
        Ok((0..count).map(|index| unsafe { first.add(index).read_unaligned() }).collect())
    }

    /// The current value.
    ///
    /// # Errors
    /// [`Null`] for a null pointer.
    pub(crate) fn get(self) -> Result<T, Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: C passed a pointer that is not null; that it points to a `T` is the documented contract of the call.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

/// A C string.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(crate) struct Text(pub(crate) *const c_char);

impl Text {
    /// The text.
    ///
    /// # Errors
    /// [`Null`] for a null pointer.
    pub(crate) fn get(self) -> Result<String, Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: C passed a pointer that is not null; that it ends with NUL is the documented contract of the call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

/// Copies `text` into a buffer of `length` bytes, truncated if necessary and always terminated with NUL.
///
/// # Errors
/// [`Null`] for a null buffer or a length below 1.
pub(crate) fn fill(buffer: *mut c_char, length: usize, text: &str) -> Result<(), Null> {
    if buffer.is_null() || length == 0 {
        return Err(Null);
    }
    let count = text.len().min(length - 1);
    // SAFETY: C passed a buffer of `length` bytes; `count` < `length`.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), count);
        *buffer.add(count) = 0;
    }
    Ok(())
}
