//! C++ exceptions that the bridge throws: `c10::NotImplementedError`, which Python sees as NotImplementedError.

use std::ffi::{CString, c_void};

use super::cxx::CxxString;
use super::symbols::Loaded;
use super::{object, torch};

type Construct =
    unsafe extern "C-unwind" fn(*mut c_void, *mut CxxString, *mut [usize; 2], *const c_void) -> *mut c_void;
type Throw = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *const c_void) -> !;

/// More than any version's `c10::Error`.
const ERROR_SIZE: usize = 1024;

/// Throws. The frames between here and the C++ caller are left as after a panic: their values are dropped.
pub(super) fn not_implemented(message: &str) -> ! {
    let torch = torch();
    let found = Loaded::find(c"libtorch_cpu.so").and_then(|library| {
        Some((
            library.symbol(c"__cxa_allocate_exception")?,
            library.symbol(
                c"_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt10shared_ptrIKNS_9LazyValueIS6_EEEPKv",
            )?,
            library.symbol(c"__cxa_throw")?,
        ))
    });
    let Some((allocate, construct, throw)) = found else { fail(message) };
    // SAFETY: libstdc++'s exception functions and c10::Error's constructor (message, no backtrace, no caller). The class
    // derived from it adds no member, so the table is all that differs.
    unsafe {
        let allocate: unsafe extern "C-unwind" fn(usize) -> *mut c_void = std::mem::transmute(allocate);
        let construct: Construct = std::mem::transmute(construct);
        let throw: Throw = std::mem::transmute(throw);
        let error = allocate(ERROR_SIZE);
        error.write_bytes(0, ERROR_SIZE);
        // Moved from, so it has to be writable.
        let mut no_backtrace = [0; 2];
        CxxString::with(message, |text| construct(error, text, &raw mut no_backtrace, std::ptr::null()));
        let table = torch.symbols.not_implemented_table.cast::<*const c_void>().add(2);
        object::set_class(error, table);
        throw(error, torch.symbols.not_implemented_type, table.read())
    }
}

/// Throws `c10::Error`, which Python sees as RuntimeError.
pub(super) fn fail(message: &str) -> ! {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // The exception leaves this frame, so the text is left behind; errors are few.
    let message = message.into_raw();
    // SAFETY: constant C strings and one that is never freed.
    unsafe { (torch().symbols.fail)(c"compute".as_ptr(), c"libfakegpu".as_ptr(), 0, message) }
}
