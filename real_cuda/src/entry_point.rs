//! `cuGetProcAddress`: the real library decides which functions exist, and the program gets the functions of this one.

use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};
use std::sync::OnceLock;

use abi::cuda::{CudaError, CudaResult};
use libloading::os::unix::{Library, RTLD_LAZY};
use protocol::cuda_history;

use crate::guard::exports;
use crate::real::call;
use crate::trouble;

/// `real` recognizes this library by this symbol.
#[unsafe(no_mangle)]
static fakegpu_cuda_hybrid: u8 = 1;

exports! {
    fn cuGetProcAddress(symbol: *const c_char, out: *mut usize, wanted: c_int, flags: c_ulonglong) = |symbol, out, wanted, flags| {
        let ask = |version, out| call!(cuGetProcAddress(symbol => *const c_char, out => *mut usize, version => c_int, flags => c_ulonglong));
        // SAFETY: promised by the caller.
        unsafe { answer(symbol, out, wanted, flags, &ask, &|| Err(CudaError::NOT_FOUND)) }
    };
    fn cuGetProcAddress_v2(symbol: *const c_char, out: *mut usize, wanted: c_int, flags: c_ulonglong, status: *mut c_int) = |symbol, out, wanted, flags, status| {
        let ask = |version, out| call!(cuGetProcAddress_v2(symbol => *const c_char, out => *mut usize, version => c_int, flags => c_ulonglong, status => *mut c_int));
        let absent = || {
            if !status.is_null() {
                // `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`. SAFETY: promised by the caller.
                unsafe { status.write(1) };
            }
            Ok(())
        };
        // SAFETY: promised by the caller.
        unsafe { answer(symbol, out, wanted, flags, &ask, &absent) }
    };
}

/// Replaces the real function that `ask` finds for a version of CUDA with ours.
///
/// # Safety
/// `symbol` and `out` are null or as the call documents them.
unsafe fn answer(
    symbol: *const c_char,
    out: *mut usize,
    wanted: c_int,
    flags: c_ulonglong,
    ask: &dyn Fn(c_int, *mut usize) -> CudaResult,
    absent: &dyn Fn() -> CudaResult,
) -> CudaResult {
    if symbol.is_null() || out.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut real = 0;
    let answered = ask(wanted, &raw mut real);
    // SAFETY: promised by the caller.
    unsafe { out.write(real) };
    answered?;
    if real == 0 {
        return Ok(());
    }
    // SAFETY: promised by the caller.
    let symbol = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
    // In a CUDA newer than this library knows, the name may have another interface; the same function has the same interface.
    let mut known = real;
    let newest = cuda_history::NEWEST;
    let is_known = wanted <= newest || (ask(newest, &raw mut known).is_ok() && known == real);
    let ours = match cuda_history::name_in(&symbol, wanted.min(newest)) {
        Some(name) if is_known => own(&name, flags == 2),
        _ => None,
    };
    let ours = match ours {
        Some(ours) => ours,
        None if own(&symbol, false).is_none() => real,
        None => {
            trouble::say(&format!("{symbol}: the interface of CUDA {wanted} is unknown here; reported as missing"));
            // SAFETY: promised by the caller.
            unsafe { out.write(0) };
            return absent();
        }
    };
    // SAFETY: promised by the caller.
    unsafe { out.write(ours) };
    Ok(())
}

/// This library's function of that name; the one for per-thread default streams if it is wanted and exists.
fn own(name: &str, per_thread: bool) -> Option<usize> {
    let variants: &[&str] = if per_thread { &["_ptsz", "_ptds", ""] } else { &[""] };
    variants.iter().find_map(|suffix| {
        // SAFETY: only the address is used.
        let found = unsafe { this()?.get::<*const c_void>(format!("{name}{suffix}").as_bytes()) };
        found.ok().map(|symbol| symbol.as_raw_ptr() as usize)
    })
}

/// This library, which is already loaded.
fn this() -> Option<&'static Library> {
    static THIS: OnceLock<Option<Library>> = OnceLock::new();
    // SAFETY: it is loaded already, so nothing runs.
    let find = || unsafe { Library::open(Some(file()?), RTLD_LAZY | libc::RTLD_NOLOAD) }.ok();
    THIS.get_or_init(find).as_ref()
}

/// The file that this library was loaded from.
pub(crate) fn file() -> Option<String> {
    // SAFETY: plain data, which is written before it is read; the address is one of this library's.
    unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr((&raw const fakegpu_cuda_hybrid).cast(), &raw mut found) == 0 {
            return None;
        }
        Some(CStr::from_ptr(found.dli_fname).to_string_lossy().into_owned())
    }
}
