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
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{MutexGuard, OnceLock};

use dataplane::lock::Mutex;

use self::object::{Object, Runtime};
use crate::cuda_runtime::error;
use crate::device::state::version;
use crate::libraries::installed;

/// An object that was looked at.
struct Seen {
    object: Object,
    runtime: Option<Runtime>,
}

/// How many objects had been loaded, in all, when they were last looked at; 0 before the program starts.
static LOADED: AtomicU64 = AtomicU64::new(0);
static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
/// The process that last held `SEEN`.
static HOLDER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Defines a function of libc, with up to seven arguments: it calls one of ours and continues in the function whose address that
/// returns, as if libc had been called directly.
macro_rules! before_libc {
    ($(#[$doc:meta])* $name:ident: $before:ident) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
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
                sym $before,
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
                sym $before,
            );
        }
    };
}

before_libc! {
    /// `__libc_start_main`, the first function that a program calls.
    __libc_start_main: before_main
}

before_libc! {
    /// `dlsym(3)`, for which `RTLD_NEXT` counts from the library that contains the return address.
    dlsym: before_symbol
}

/// Looks at the objects that the program starts with; returns libc's `__libc_start_main`.
extern "C" fn before_main() -> *mut c_void {
    let _ = catch_unwind(|| look(false));
    // SAFETY: the name of a function, of which libc has the next definition.
    unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_start_main".as_ptr()) }
}

/// Looks at libraries that were opened meanwhile; returns libc's `dlsym`.
extern "C" fn before_symbol() -> *mut c_void {
    static FINDER: OnceLock<usize> = OnceLock::new();
    // Before the program starts, constructors of allocators look for functions, and cannot allocate yet.
    let loaded = LOADED.load(Ordering::Acquire);
    if loaded != 0 && loaded != object::changes().0 {
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
///
/// Other threads may open and close libraries meanwhile. What they have begun is waited for; if they begin something new, this
/// starts again. A thread in a library's constructor holds the loader's lock when it comes here, so nobody waits for that lock
/// while holding `SEEN`. Whoever comes while another thread is at work waits for `SEEN`, because `LOADED` changes last.
fn look(is_started: bool) {
    // What is called from here may look for functions itself.
    if LOOKING.replace(true) {
        return;
    }
    let mut read: Vec<(Object, Option<Runtime>)> = Vec::new();
    loop {
        let changes = object::changes();
        if is_started {
            wait_for_others();
        }
        let Some(mut seen) = seen() else { break };
        let closed: Vec<Object> = seen.extract_if(.., |seen| !seen.leads_here()).map(|seen| seen.object).collect();
        let known: Vec<Object> = seen.iter().map(|seen| seen.object.clone()).collect();
        drop(seen);
        let objects = object::loaded(&known);
        // It is still listed while it is being closed: the next round waits for that.
        if closed.iter().any(|closed| objects.iter().any(|(object, _)| object == closed)) {
            continue;
        }
        for (object, may_contain) in &objects {
            if !known.contains(object) && read.iter().all(|(other, _)| other != object) {
                read.push((object.clone(), may_contain.then(|| object.runtime()).flatten()));
            }
        }
        let Some(mut seen) = self::seen() else { break };
        if is_started && (object::changes() != changes || !seen.iter().all(Seen::leads_here)) {
            // What was read of an object that was being opened may be wrong.
            read.clear();
            continue;
        }
        // From here on, nobody closes an object that is not `seen`: its thread waits for this one before it can use it.
        seen.retain(|seen| objects.iter().any(|(object, _)| seen.object == *object));
        for (object, runtime) in read {
            if seen.iter().all(|seen| seen.object != object) {
                let runtime = runtime.filter(|runtime| lead_here(&object, runtime, is_started || !object.is_program()));
                seen.push(Seen { object, runtime });
            }
        }
        LOADED.store(changes.0, Ordering::Release);
        break;
    }
    LOOKING.set(false);
}

/// `SEEN`, or `None` in a forked child whose parent had a thread at work on it, which the child does not have.
fn seen() -> Option<MutexGuard<'static, Vec<Seen>>> {
    let process = std::process::id();
    let seen = match SEEN.try_lock() {
        Some(seen) => seen,
        None if HOLDER.load(Ordering::Relaxed) == process => SEEN.lock(),
        None => return None,
    };
    HOLDER.store(process, Ordering::Relaxed);
    Some(seen)
}

/// Returns once no other thread is opening or closing a library.
fn wait_for_others() {
    // SAFETY: `dlopen`, which gives a handle to the program, and does so after what holds the loader's lock.
    unsafe {
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void = transmute(installed::loader());
        open(null(), libc::RTLD_LAZY);
    }
}

impl Seen {
    /// False for an object that was closed, and perhaps opened again.
    fn leads_here(&self) -> bool {
        self.runtime.as_ref().is_none_or(|runtime| entry::are_replaced(&runtime.functions))
    }
}

/// Makes the runtime of an object lead here; returns whether it does. If its constructors ran before, they registered their kernels
/// with that runtime: they register them again, with us.
fn lead_here(object: &Object, runtime: &Runtime, has_registered: bool) -> bool {
    if !version::contain(runtime.major) {
        let (name, other) = (object.path.display(), version::runtime() / 1000);
        eprintln!(
            "fakegpu: {name} contains the runtime of CUDA {}, but this process uses CUDA {other}: its calls are not supported",
            runtime.major
        );
        return false;
    }
    // SAFETY: functions of the object's code, which is loaded, by the names of those that replace them. The program has not
    // started, or has not found a function in the library yet, and no other thread runs its constructors.
    if !unsafe { entry::replace(&runtime.functions, &object.code) } {
        return false;
    }
    error::add_copy(object.code.clone());
    if has_registered {
        for counter in &runtime.counters {
            // SAFETY: an `int` of the object, which its constructors alone use.
            unsafe { (*counter as *mut c_int).write(0) };
        }
        for constructor in &runtime.registrations {
            // SAFETY: a constructor without arguments, which calls functions that lead here, and `atexit`.
            unsafe { transmute::<usize, extern "C" fn()>(*constructor)() };
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forked_child_does_not_wait_for_a_thread_that_it_does_not_have() {
        let held = seen().unwrap();
        HOLDER.store(std::process::id() + 1, Ordering::Relaxed);
        assert!(seen().is_none());
        drop(held);
        assert!(seen().is_some());
        assert_eq!(HOLDER.load(Ordering::Relaxed), std::process::id());
    }
}
