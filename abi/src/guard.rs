//! The guard around every call from C: a panic becomes a code. A library says what it adds to that.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::table::Status;

/// What a library does around its C functions. The macros of [`crate::table`] call it.
pub trait Guard {
    /// A panic of ours in `name`, caught. Makes it known, and returns the code for it. Must not panic.
    fn panicked(&self, name: &'static str) -> u32;

    /// The code of a symbol without a body; `status` is not [`Status::Real`].
    fn missing(&self, name: &'static str, status: Status) -> u32;

    /// A call. Returns its status to C.
    #[inline]
    fn call<S: Success, E: Into<u32>>(&self, name: &'static str, body: impl FnOnce() -> Result<S, E>) -> u32 {
        self.caught(name, body)
    }

    /// A call that works before and without initialization.
    #[inline]
    fn bare<S: Success, E: Into<u32>>(&self, name: &'static str, body: impl FnOnce() -> Result<S, E>) -> u32 {
        self.caught(name, body)
    }

    /// A call that returns no status.
    #[inline]
    fn raw<T: Nothing>(&self, name: &'static str, body: impl FnOnce() -> T) -> T {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
            self.panicked(name);
            T::nothing()
        })
    }

    /// The code of `body`, also if it panics.
    #[inline]
    fn caught<S: Success, E: Into<u32>>(&self, name: &'static str, body: impl FnOnce() -> Result<S, E>) -> u32 {
        match catch_unwind(AssertUnwindSafe(body)) {
            Ok(Ok(success)) => success.code(),
            Ok(Err(error)) => error.into(),
            Err(_) => self.panicked(name),
        }
    }
}

/// What a body returns if all went well.
pub trait Success {
    /// Its code.
    fn code(self) -> u32;
}

impl Success for () {
    #[inline]
    fn code(self) -> u32 {
        0
    }
}

/// A code that is not an error: 0, or NCCL's "in progress".
impl Success for u32 {
    #[inline]
    fn code(self) -> u32 {
        self
    }
}

/// What a call without a status returns if it failed internally.
pub trait Nothing {
    /// 0, NULL or nothing.
    fn nothing() -> Self;
}

impl Nothing for () {
    fn nothing() {}
}

impl<T> Nothing for *const T {
    fn nothing() -> Self {
        std::ptr::null()
    }
}

impl<T> Nothing for *mut T {
    fn nothing() -> Self {
        std::ptr::null_mut()
    }
}

impl<T> Nothing for Option<T> {
    fn nothing() -> Self {
        None
    }
}

macro_rules! zero {
    ($($type:ty)*) => { $(impl Nothing for $type { fn nothing() -> Self { 0 } })* };
}

zero!(u8 i8 i32 u32 i64 u64 usize);

#[cfg(test)]
mod tests {
    use super::*;

    struct Plain;

    impl Guard for Plain {
        fn panicked(&self, _: &'static str) -> u32 {
            999
        }

        fn missing(&self, _: &'static str, _: Status) -> u32 {
            801
        }
    }

    crate::functions! {
        guarded by Plain;
        real {
            fn abi_test_divide(out: *mut u32, over: u32, under: u32) = |out, over, under| {
                // SAFETY: the test passes a variable.
                unsafe { *out = over / under };
                if over == 1 { Err(1_u32) } else { Ok(()) }
            };
        }
        raw { fn abi_test_text(index: usize) -> *const u8 = |index| [c"text".as_ptr().cast()][index]; }
        stub { abi_test_later }
        empty { abi_test_nothing }
        second { Real abi_test_again = abi_test_divide; }
    }

    #[test]
    fn a_panic_is_a_code_and_a_missing_symbol_answers() {
        let mut result = 7;
        assert_eq!((abi_test_divide(&raw mut result, 6, 2), result), (0, 3));
        assert_eq!(abi_test_divide(&raw mut result, 1, 1), 1);
        assert_eq!(abi_test_divide(&raw mut result, 1, 0), 999);
        assert!(!abi_test_text(0).is_null() && abi_test_text(1).is_null());
        assert_eq!((abi_test_later(), abi_test_nothing()), (801, 0));
        // SAFETY: the function that it continues as has this signature.
        let again: extern "C" fn(*mut u32, u32, u32) -> u32 =
            unsafe { std::mem::transmute(abi_test_again as *const ()) };
        assert_eq!((again(&raw mut result, 8, 2), result), (0, 4));
    }
}
