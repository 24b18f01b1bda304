//! C++ exceptions: those that the bridge throws, such as `c10::NotImplementedError`, which Python sees as NotImplementedError,
//! and those that it catches if its caller is C.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use abi::cuda::CudaError;

use super::cxx::CxxString;
use super::libtorch::torch;
use super::object;
use super::symbols::Loaded;
use crate::device::state::error_names;

type Construct =
    unsafe extern "C-unwind" fn(*mut c_void, *mut CxxString, *mut [usize; 2], *const c_void) -> *mut c_void;
type Throw = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *const c_void) -> !;

/// More than any version's `c10::Error`.
const ERROR_SIZE: usize = 1024;

/// Throws. The frames between here and the C++ caller are unwound as after a panic: their values are dropped.
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

/// Throws what PyTorch throws for an error of CUDA: `torch.AcceleratorError` where that exists, with its hints.
pub(super) fn cuda(error: CudaError) -> ! {
    type Check = unsafe extern "C-unwind" fn(c_int, *const c_char, *const c_char, u32, bool);
    type CheckWithLog = unsafe extern "C-unwind" fn(c_int, *const c_char, *const c_char, u32, bool, *mut c_void);
    let library = Loaded::find(c"libc10_cuda.so");
    let find = |name| library.as_ref().and_then(|library| library.symbol(name));
    let (code, file, function) = (error.0 as c_int, c"compute".as_ptr(), c"libfakegpu".as_ptr());
    // SAFETY: the mangled names give the functions' types; the strings are constants, and nothing captures CUDA's log.
    unsafe {
        if let Some(check) = find(c"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jbPNS0_19CUDAErrorLogCaptureE") {
            let check: CheckWithLog = std::mem::transmute(check);
            check(code, file, function, 0, true, std::ptr::null_mut());
        } else if let Some(check) = find(c"_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb") {
            let check: Check = std::mem::transmute(check);
            check(code, file, function, 0, true);
        }
    }
    fail(&format!("CUDA error: {}", error_names::text(error.0)))
}

/// "GNUCC++\0", the mark of C++ exceptions; the last byte is 1 for a rethrown one.
const CXX: u64 = 0x474e_5543_432b_2b00;

/// Bytes of `_Unwind_Exception`.
const UNWINDERS_PART: usize = 32;

unsafe extern "C" {
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_SetIP(context: *mut c_void, address: usize);
    fn _Unwind_SetGR(context: *mut c_void, register: c_int, value: usize);
}

/// What a frame of [`called`] does when something is thrown through it (Itanium C++ ABI, "Exception handling", 1.6): C++
/// exceptions are caught after the jump that follows the call; everything else passes.
unsafe extern "C" fn catches(
    _version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut c_void,
    context: *mut c_void,
) -> c_int {
    const SEARCH: c_int = 1;
    const HANDLER_FRAME: c_int = 4;
    const FORCED: c_int = 8;
    const HANDLER_FOUND: c_int = 6;
    const INSTALL_CONTEXT: c_int = 7;
    const CONTINUE: c_int = 8;
    const JUMP: usize = if cfg!(target_arch = "x86_64") { 2 } else { 4 };
    if class & !1 != CXX || actions & FORCED != 0 {
        CONTINUE
    } else if actions & SEARCH != 0 {
        HANDLER_FOUND
    } else if actions & HANDLER_FRAME != 0 {
        // SAFETY: the unwinder's own context; the first register is where `called` gives its result.
        unsafe {
            _Unwind_SetGR(context, 0, exception as usize);
            _Unwind_SetIP(context, _Unwind_GetIP(context) + JUMP);
        }
        INSTALL_CONTEXT
    } else {
        CONTINUE
    }
}

/// Calls `body` with `data`. The result is null, or the exception that it threw.
#[unsafe(naked)]
unsafe extern "C-unwind" fn called(body: unsafe extern "C-unwind" fn(*mut c_void), data: *mut c_void) -> *mut c_void {
    #[cfg(target_arch = "x86_64")]
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {catches}",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "jmp 2f",
        "pop rbp",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_restore_state",
        "2:",
        "xor eax, eax",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        catches = sym catches,
    );
    #[cfg(target_arch = "aarch64")]
    std::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {catches}",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        "mov x2, x0",
        "mov x0, x1",
        "blr x2",
        "b 2f",
        "b 3f",
        "2:",
        "mov x0, #0",
        "3:",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa_offset 0",
        "ret",
        ".cfi_endproc",
        catches = sym catches,
    );
}

/// Calls `body` when there is no C++ caller to catch what it throws.
///
/// # Errors
/// The message of a C++ exception.
pub(super) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    unsafe extern "C-unwind" fn enter<T, F: FnOnce() -> T>(data: *mut c_void) {
        // SAFETY: `caught` passes this pair, which it does not touch meanwhile.
        let (body, result) = unsafe { &mut *data.cast::<(Option<F>, Option<T>)>() };
        *result = body.take().map(|body| body());
    }
    fn data_of<T, F: FnOnce() -> T>(
        pair: &mut (Option<F>, Option<T>),
    ) -> (unsafe extern "C-unwind" fn(*mut c_void), *mut c_void) {
        (enter::<T, F>, std::ptr::from_mut(pair).cast())
    }
    let mut pair = (Some(body), None);
    let (function, data) = data_of(&mut pair);
    // SAFETY: the function takes exactly this.
    let exception = unsafe { called(function, data) };
    if exception.is_null() {
        return pair.1.ok_or_else(String::new);
    }
    let library = Loaded::find(c"libtorch_cpu.so");
    let symbol = |name| library.as_ref().and_then(|library| library.symbol(name));
    let Some((begin, end)) = symbol(c"__cxa_begin_catch").zip(symbol(c"__cxa_end_catch")) else {
        return Err("a C++ exception".to_owned());
    };
    // The object is behind the unwinder's part of the exception; `begin` would give the place that libstdc++'s own personality noted.
    // SAFETY: libstdc++'s functions, for the exception that was just caught. libtorch throws classes derived from `std::exception`,
    // whose third virtual function is `what`.
    unsafe {
        let begin: unsafe extern "C" fn(*mut c_void) -> *mut c_void = std::mem::transmute(begin);
        let end: unsafe extern "C-unwind" fn() = std::mem::transmute(end);
        let is_primary = exception.cast::<u64>().read() == CXX;
        begin(exception);
        let text = if is_primary {
            let object = exception.byte_add(UNWINDERS_PART);
            let table = object.cast::<*const unsafe extern "C-unwind" fn(*mut c_void) -> *const c_char>().read();
            CStr::from_ptr((*table.add(2))(object)).to_string_lossy().into_owned()
        } else {
            "a C++ exception of another thread".to_owned()
        };
        end();
        Err(text)
    }
}
