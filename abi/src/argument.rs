//! Arguments from C: out-pointers and texts that may be NULL. The only place where their pointers are dereferenced.

use std::ffi::{CStr, c_char};

/// A pointer that must not be NULL was NULL. Each library turns this into its "invalid value".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Null;

/// A pointer to where a result goes.
#[repr(transparent)]
pub struct Out<T>(pub *mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// True if there is nowhere to put the result.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Null is an error.
    ///
    /// # Errors
    /// [`Null`].
    pub fn required(self) -> Result<Self, Null> {
        if self.0.is_null() { Err(Null) } else { Ok(self) }
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// [`Null`] if there is nowhere to put it.
    pub fn set(self, value: T) -> Result<(), Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: C passed a pointer that is not null; that it points to a `T` is the documented contract of the call.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes the result if it is wanted.
    pub fn set_if_wanted(self, value: T) {
        let _ = self.set(value);
    }
}

/// A pointer to what the caller passes by address.
#[repr(transparent)]
pub struct In<T>(pub *const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// The value.
    ///
    /// # Errors
    /// [`Null`] for a null pointer.
    pub fn get(self) -> Result<T, Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: C passed a pointer that is not null; that it points to a `T` is the documented contract of the call.
        Ok(unsafe { self.0.read_unaligned() })
    }
}

impl<T: Copy> Out<T> {
    /// The `count` values of a C array; empty for 0, regardless of the pointer.
    ///
    /// # Errors
    /// [`Null`] for a null pointer if `count` is not 0.
    pub fn list(self, count: usize) -> Result<Vec<T>, Null> {
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
    pub fn get(self) -> Result<T, Null> {
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
pub struct Text(pub *const c_char);

impl Text {
    /// The text.
    ///
    /// # Errors
    /// [`Null`] for a null pointer.
    pub fn get(self) -> Result<String, Null> {
        if self.0.is_null() {
            return Err(Null);
        }
        // SAFETY: C passed a pointer that is not null; that it ends with NUL is the documented contract of the call.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

impl Out<c_char> {
    /// Copies `text` into a buffer of `length` bytes, truncated if necessary and always terminated with NUL.
    ///
    /// # Errors
    /// [`Null`] for a null buffer or a length below 1.
    pub fn fill(self, length: usize, text: &str) -> Result<(), Null> {
        if self.0.is_null() || length == 0 {
            return Err(Null);
        }
        let count = text.len().min(length - 1);
        // SAFETY: C passed a buffer of `length` bytes; `count` < `length`.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.cast(), count);
            *self.0.add(count) = 0;
        }
        Ok(())
    }
}
