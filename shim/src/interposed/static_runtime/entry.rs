//! The first instructions of functions that a program contains: overwritten, they lead here.

use std::ffi::c_void;
use std::ops::Range;

/// `jmp` to an absolute address that follows it, and `jmp` by a 32-bit distance.
const FAR: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];
const FAR_SIZE: usize = FAR.len() + size_of::<usize>();
const NEAR: u8 = 0xe9;
const NEAR_SIZE: usize = 1 + size_of::<i32>();

/// A function in memory, and the one that takes its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced {
    /// Address of the function.
    pub(super) start: usize,
    /// Bytes of its code.
    pub(super) size: usize,
    /// Address of the function to run instead.
    pub(super) by: usize,
}

/// Whether functions start with a jump to those in their place; the first that is large enough stands for all. Not if their memory
/// is gone.
pub(super) fn are_replaced(functions: &[Replaced]) -> bool {
    functions.iter().find(|function| function.size >= FAR_SIZE).is_none_or(|function| {
        let mut code = [0_u8; FAR_SIZE];
        let here = libc::iovec { iov_base: code.as_mut_ptr().cast(), iov_len: FAR_SIZE };
        let there = libc::iovec { iov_base: function.start as *mut c_void, iov_len: FAR_SIZE };
        // SAFETY: the kernel reads this process's memory, if there is any, and writes to `code`.
        let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const there, 1, 0) };
        match read {
            // A sandbox may forbid the call; then they are taken to be there.
            -1 => std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT),
            _ => read == FAR_SIZE as isize && code == far(function.by),
        }
    })
}

fn far(to: usize) -> [u8; FAR_SIZE] {
    let mut code = [0; FAR_SIZE];
    code[..FAR.len()].copy_from_slice(&FAR);
    code[FAR.len()..].copy_from_slice(&to.to_le_bytes());
    code
}

/// Makes each function lead to the one in its place. Where a far jump does not fit, a near one leads to a far one in the largest
/// function, whose code no longer runs. Returns false, with nothing changed, if the code cannot be written.
///
/// # Safety
/// `code` is mapped, to be read and executed; the functions can be replaced, and nothing runs in `code` meanwhile.
pub(super) unsafe fn replace(functions: &[Replaced], code: &Range<usize>) -> bool {
    let starts = functions.iter().map(|function| function.start);
    let ends = functions.iter().map(|function| function.start + function.size);
    let (Some(first), Some(last)) = (starts.min(), ends.max()) else { return true };
    if first < code.start || last > code.end || !cfg!(target_arch = "x86_64") {
        return false;
    }
    // SAFETY: `sysconf` reads a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let pages = first & !(page - 1)..last.next_multiple_of(page);
    // SAFETY: pages of the code, which stays mapped.
    let protect = |access| unsafe { libc::mprotect(pages.start as *mut c_void, pages.len(), access) == 0 };
    if !protect(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    // Room for far jumps: behind the jump at the start of the largest function.
    let mut room = functions
        .iter()
        .max_by_key(|function| function.size)
        .map_or(0..0, |function| function.start + FAR_SIZE..function.start + function.size.max(FAR_SIZE));
    for function in functions {
        // SAFETY: all writes stay in code of `functions`, on pages that can be written now.
        unsafe {
            if function.size >= FAR_SIZE {
                (function.start as *mut [u8; FAR_SIZE]).write_unaligned(far(function.by));
            } else if function.size >= NEAR_SIZE && room.len() >= FAR_SIZE {
                (room.start as *mut [u8; FAR_SIZE]).write_unaligned(far(function.by));
                let distance = (room.start as i64 - (function.start + NEAR_SIZE) as i64) as i32;
                (function.start as *mut u8).write(NEAR);
                ((function.start + 1) as *mut [u8; 4]).write_unaligned(distance.to_le_bytes());
                room.start += FAR_SIZE;
            }
        }
    }
    protect(libc::PROT_READ | libc::PROT_EXEC)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::mem::transmute;
    use std::ptr::null_mut;

    use super::*;

    extern "C" fn seven() -> i32 {
        7
    }

    extern "C" fn nine() -> i32 {
        9
    }

    #[test]
    fn large_and_small_functions_lead_elsewhere_and_tiny_ones_stay() {
        const SIZE: usize = 4096;
        // `mov eax, 1` and `ret`
        const ONE: [u8; 6] = [0xb8, 1, 0, 0, 0, 0xc3];
        // SAFETY: a new page, on which the test writes three functions before it can be executed.
        let page = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let page = libc::mmap(null_mut(), SIZE, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
            for at in [0, 100, 200] {
                page.cast::<u8>().add(at).cast::<[u8; 6]>().write_unaligned(ONE);
            }
            libc::mprotect(page, SIZE, libc::PROT_READ | libc::PROT_EXEC);
            page as usize
        };
        // SAFETY: a function without arguments.
        let call = |at: usize| unsafe { transmute::<usize, extern "C" fn() -> i32>(page + at)() };
        let (seven, nine) = (seven as *const () as usize, nine as *const () as usize);
        let functions = [
            Replaced { start: page, size: 40, by: seven },
            Replaced { start: page + 100, size: 6, by: nine },
            Replaced { start: page + 200, size: 4, by: nine },
        ];
        // SAFETY: the functions above.
        unsafe {
            assert!(!replace(&functions, &(page..page + 150)), "the last one is outside");
            assert!(!are_replaced(&functions));
            assert_eq!([0, 100, 200].map(call), [1, 1, 1]);
            assert!(replace(&functions, &(page..page + SIZE)));
            assert!(are_replaced(&functions));
            assert_eq!([0, 100, 200].map(call), [7, 9, 1]);
            libc::munmap(page as *mut c_void, SIZE);
            assert!(!are_replaced(&functions));
        }
    }
}
