//! `dlopen` of an NVIDIA library by path: a library that a program finds in the packages around it (as cuda-pathfinder does)
//! would bypass us. The program gets the holder of that name instead, and the file is used where it can do the work
//! (`libraries::installed`).

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::catch_unwind;
use std::path::Path;

use crate::libraries::installed;

/// Name prefixes of NVIDIA's libraries.
const STARTS: [&[u8]; 3] = [b"libnv", b"libcu", b"libnccl"];
/// The file that marks a directory of holders.
const MARK: &str = ".complete";

/// What to open, and the function that does it.
#[repr(C)]
struct Opening {
    path: *const c_char,
    open: *mut c_void,
}

/// `dlopen(3)`. It continues in libc as if libc had been called directly: a name without a directory is searched for in the
/// run path of the library that contains the return address.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlopen() {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "push rsi",
        "call {}",
        "pop rsi",
        "mov rdi, rax",
        "jmp rdx",
        sym opening,
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-32]!",
        "str x1, [sp, #16]",
        "bl {}",
        "mov x16, x1",
        "ldr x1, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "br x16",
        sym opening,
    );
}

/// # Safety
/// `path` is null or a C string.
unsafe extern "C" fn opening(path: *const c_char) -> Opening {
    let held = catch_unwind(|| {
        // SAFETY: the caller's promise.
        let path = (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })?;
        instead_of(path, &std::env::var_os("LD_LIBRARY_PATH")?)
    });
    let path = held.ok().flatten().map_or(path, |held| held.into_raw().cast_const());
    Opening { path, open: installed::loader() }
}

/// The holder for a file, found in the directories of a list.
fn instead_of(path: &CStr, directories: &OsStr) -> Option<CString> {
    let bytes = path.to_bytes();
    let slash = bytes.iter().rposition(|byte| *byte == b'/')?;
    let (directory, name) = (&bytes[..slash], &bytes[slash + 1..]);
    if !STARTS.iter().any(|start| name.starts_with(start)) {
        return None;
    }
    let directory = Path::new(OsStr::from_bytes(directory));
    let name = OsStr::from_bytes(name);
    let holders = std::env::split_paths(directories)
        .find(|holders| holders.join(MARK).exists() && holders.join(name).exists())
        .filter(|holders| holders != directory)?;
    installed::asked_for(path);
    CString::new(holders.join(name).into_os_string().into_encoded_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_to_a_library_that_is_held_leads_to_its_holder() {
        let (holders, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in [MARK, "libnvrtc.so.13"] {
            std::fs::write(holders.path().join(file), "").unwrap();
        }
        std::fs::write(plain.path().join("libnvrtc.so.12"), "").unwrap();
        let list = std::env::join_paths([plain.path(), holders.path()]).unwrap();
        let found = |path: &str| {
            let path = CString::new(path).unwrap();
            instead_of(&path, &list).map(|found| found.into_string().unwrap())
        };
        let holder = holders.path().join("libnvrtc.so.13").to_str().unwrap().to_owned();
        assert_eq!(found("/opt/cuda/lib64/libnvrtc.so.13"), Some(holder.clone()));
        assert_eq!(found("../lib/libnvrtc.so.13"), Some(holder.clone()));
        for other in [&holder, "libnvrtc.so.13", "/opt/libnvrtc.so.12", "/opt/libnvrtc-builtins.so.13.5", "/opt/", ""] {
            assert_eq!(found(other), None, "{other}");
        }
    }
}
