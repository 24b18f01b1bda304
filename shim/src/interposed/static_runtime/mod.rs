//! CUDA's runtime as a part of a program or library, which is nvcc's default (`-cudart static`). The loader does not look
//! elsewhere for its functions, so each is made to lead to ours of the same name, by the object's table of symbols: in the
//! program before its first constructor, in a library that is opened before the program can find a function in it.
//!
//! An object without its table of symbols (`strip`) stays as it is. Its runtime asks for driver tables that NVIDIA does not
//! document (`cuGetExportTable`), which is a gap.

mod entry;
mod object;

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::panic::catch_unwind;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::lock::Mutex;

use self::object::{Object, Runtime};
use crate::cuda_runtime::error;
use crate::device::version;
use crate::stubs::installed;

/// An object that was looked at.
struct Seen {
    object: Object,
    runtime: Option<Runtime>,
}

/// How many objects had been loaded, in all, when they were last looked at; 0 before the program starts.
static LOADED: AtomicU64 = AtomicU64::new(0);
static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

thread_local! {
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// `__libc_start_main`, the first function that a program calls. It continues in libc.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn __libc_start_main() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        sym before_main,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-80]!",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "str x6, [sp, #64]",
        "bl {}",
        "mov x16, x0",
        "ldr x6, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #80",
        "br x16",
        sym before_main,
    );
}

/// Looks at the objects that the program starts with; returns libc's `__libc_start_main`.
extern "C" fn before_main() -> *mut c_void {
    let _ = catch_unwind(|| look(false));
    // SAFETY: the name of a function, of which libc has the next definition.
    unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr()) }
}

/// `dlsym(3)`. It continues in libc as if libc had been called directly: `RTLD_NEXT` counts from the library that contains
/// the return address.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        sym before_symbol,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "stp x0, x1, [sp, #16]",
        "bl {}",
        "mov x16, x0",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        sym before_symbol,
    );
}

/// Looks at libraries that were opened meanwhile; returns libc's `dlsym`.
extern "C" fn before_symbol() -> *mut c_void {
    static FINDER: OnceLock<usize> = OnceLock::new();
    // Before the program starts, constructors of allocators look for functions, and cannot allocate yet.
    let loaded = LOADED.load(Ordering::Acquire);
    if loaded != 0 && loaded != object::count() {
        let _ = catch_unwind(|| look(true));
    }
    let version = if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" };
    let find = |place| {
        // SAFETY: C texts, and a place that `dlvsym` knows.
        unsafe { libc::dlvsym(place, c"dlsym".as_ptr(), version.as_ptr()) as usize }
    };
    let finder = FINDER.get_or_init(|| match find(libc::RTLD_NEXT) {
        // Loaded late: libc comes before us.
        0 => find(libc::RTLD_DEFAULT),
        next => next,
    });
    *finder as *mut c_void
}

/// Looks at the objects that were loaded since the last time. `is_started` is false before the program's constructors ran; those
/// of its libraries ran in any case.
fn look(is_started: bool) {
    // What is called from here may look for functions itself.
    if LOOKING.replace(true) {
        return;
    }
    let mut seen = SEEN.lock();
    let count = object::count();
    let objects = object::loaded(&|object| seen.iter().any(|seen| seen.object == *object && seen.runtime.is_none()));
    seen.retain(|seen| objects.iter().any(|(object, _)| seen.object == *object) && seen.leads_here());
    let mut found = Vec::new();
    for (object, may_contain) in objects {
        if seen.iter().any(|seen| seen.object == object) {
            continue;
        }
        match may_contain.then(|| object.runtime()).flatten() {
            None => seen.push(Seen { object, runtime: None }),
            Some(runtime) => found.push((object, runtime)),
        }
    }
    if !found.is_empty() {
        wait_for_constructors();
        let objects = object::loaded(&|_| true);
        found.retain(|(object, _)| objects.iter().any(|(loaded, _)| loaded == object));
    }
    let mut constructors = Vec::new();
    for (object, runtime) in found {
        let leads_here = lead_here(&object, &runtime);
        if leads_here && (is_started || !object.is_program()) {
            constructors.extend(prepared(&runtime));
        }
        seen.push(Seen { object, runtime: Some(runtime).filter(|_| leads_here) });
    }
    LOADED.store(count, Ordering::Release);
    // They call us, and a thread that holds what they wait for may wait for this.
    drop(seen);
    for constructor in constructors {
        // SAFETY: a constructor without arguments, which calls functions that lead here, and `atexit`.
        unsafe { transmute::<usize, extern "C" fn()>(constructor)() };
    }
    LOOKING.set(false);
}

/// Returns once no other thread is opening a library.
fn wait_for_constructors() {
    // SAFETY: `dlopen`, which gives a handle to the program, and does so after what holds the loader's lock.
    unsafe {
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void = transmute(installed::loader());
        open(null(), libc::RTLD_LAZY);
    }
}

impl Seen {
    /// False for an object that was closed and opened again.
    fn leads_here(&self) -> bool {
        // SAFETY: the object is loaded, so its code can be read.
        self.runtime.as_ref().is_none_or(|runtime| unsafe { entry::are_replaced(&runtime.functions) })
    }
}

/// Makes the runtime of an object lead here. Returns whether it does.
fn lead_here(object: &Object, runtime: &Runtime) -> bool {
    if !version::contain(runtime.major) {
        let (name, other) = (object.path.display(), version::runtime() / 1000);
        eprintln!(
            "fakegpu: {name} contains the runtime of CUDA {}, but this process uses CUDA {other}: its calls are not supported",
            runtime.major
        );
        return false;
    }
    // SAFETY: functions of the object's code, which is loaded, by the names of those that replace them. The program has not
    // started, or has not found a function in the library yet; no constructor is running.
    let leads_here = unsafe { entry::replace(&runtime.functions, &object.code) };
    if leads_here {
        error::add_copy(object.code.clone());
    }
    leads_here
}

/// The constructors of an object that leads here by now. When they ran, they registered the object's kernels with its own runtime;
/// they can run again, to register them with us.
fn prepared(runtime: &Runtime) -> &[usize] {
    for counter in &runtime.counters {
        // SAFETY: an `int` of the object, which its constructors alone use.
        unsafe { (*counter as *mut c_int).write(0) };
    }
    &runtime.registrations
}
