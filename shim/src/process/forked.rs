//! The end of a process that was forked from a warm one, which had imported PyTorch: what the libraries of that one would still
//! do to their own memory is left out. It takes a seventh of a second and shows nowhere.

use std::ffi::{c_int, c_void};
use std::{ptr, slice};

use dataplane::lock::Mutex;
use libc::dl_phdr_info;

/// Tags of the dynamic section (elf.h): bytes of the array of functions that end a library.
const DT_FINI_ARRAYSZ: i64 = 28;
/// Compilers give each library one such function, which does nothing where all destructors were run. What has more has its own.
const PLAIN: u64 = size_of::<usize>() as u64;

/// Where the libraries are that were there at the fork.
static BEFORE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

#[repr(C)]
struct Entry {
    tag: i64,
    value: u64,
}

unsafe extern "C" {
    /// As `atexit`, with the status (glibc).
    fn on_exit(action: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// For a fresh fork of a process that has used no GPU: when it exits, it ends as soon as everything is done that it registers from
/// here on (`atexit`, destructors of libraries that it loads, the device report) and output is flushed.
pub(crate) fn forked() {
    *BEFORE.lock() = libraries().into_iter().map(|(base, _)| base).collect();
    // SAFETY: the handler is a function of this library, which is never unloaded (`-z nodelete`).
    unsafe { on_exit(leave, ptr::null_mut()) };
}

/// Runs after all that the process registered, and before all that it was forked with.
extern "C" fn leave(status: c_int, _argument: *mut c_void) {
    let before = std::mem::take(&mut *BEFORE.lock());
    // glibc runs the functions of a library's array behind all handlers: a profile is written there, for one.
    let has_more = libraries().into_iter().any(|(base, ends)| ends > PLAIN && !before.contains(&base));
    if !has_more {
        // SAFETY: all streams of C, which `exit` would flush next; it is the end of the process, which has run its handlers.
        unsafe {
            libc::fflush(ptr::null_mut());
            libc::_exit(status);
        }
    }
}

/// Base and bytes of functions at the end, of every library that is loaded.
fn libraries() -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    // SAFETY: the callback gets a pointer to `found`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn look(info: *mut dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: glibc passes a valid description, and `data` is the list of the caller.
    let (info, found) = unsafe { (&*info, &mut *data.cast::<Vec<(u64, u64)>>()) };
    // SAFETY: as above; `dlpi_phnum` is the number of its headers.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut ends = 0;
    if let Some(section) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) {
        let mut entry = (info.dlpi_addr + section.p_vaddr) as *const Entry;
        // SAFETY: the dynamic section of a loaded library, which ends with an entry of tag 0.
        while let Entry { tag: tag @ 1.., value } = unsafe { entry.read() } {
            if tag == DT_FINI_ARRAYSZ {
                ends = value;
            }
            // SAFETY: this was not the last.
            entry = unsafe { entry.add(1) };
        }
    }
    found.push((info.dlpi_addr, ends));
    0
}
