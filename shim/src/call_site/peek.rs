//! Reads Python's structures. Until a whole stack has been read as expected, the kernel copies the words, so that an unknown
//! layout is an error and not a crash.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the structures match the layout.
static TRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on, words are read directly.
pub(super) fn trust() {
    TRUSTED.store(true, Ordering::Relaxed);
}

/// Whether a whole stack has been read before.
pub(super) fn is_trusted() -> bool {
    TRUSTED.load(Ordering::Relaxed)
}

/// No structure is in the first page.
const LOWEST: usize = 4096;

/// The word at `address`, if it exists: for a structure that may be gone.
pub(super) fn checked(address: usize) -> Option<usize> {
    let mut bytes = [0; size_of::<usize>()];
    (address >= LOWEST && copy(address, &mut bytes)).then(|| usize::from_ne_bytes(bytes))
}

/// The word at `address`.
///
/// # Safety
/// Once the layout is trusted, `address` is that of a pointer in a structure that no other thread changes.
pub(super) unsafe fn word(address: usize) -> Option<usize> {
    if address < LOWEST || !address.is_multiple_of(align_of::<usize>()) {
        return None;
    }
    if is_trusted() {
        // SAFETY: the caller's promise.
        return Some(unsafe { (address as *const usize).read() });
    }
    checked(address)
}

/// The 32 bits at `address`.
///
/// # Safety
/// As [`word`].
pub(super) unsafe fn half(address: usize) -> Option<u32> {
    // A whole word around it: structures end on one.
    let (around, upper) = (address & !7, address & 4 != 0);
    // SAFETY: the caller's promise.
    let word = unsafe { word(around) }?;
    Some(if upper { (word >> 32) as u32 } else { word as u32 })
}

/// The byte at `address`.
///
/// # Safety
/// As [`word`].
pub(super) unsafe fn byte(address: usize) -> Option<u8> {
    // SAFETY: the caller's promise.
    let half = unsafe { half(address & !3) }?;
    Some(half.to_ne_bytes()[address & 3])
}

/// Copies the bytes at `address`, if all of them exist.
pub(super) fn copy(address: usize, to: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: to.len() };
    // SAFETY: the kernel writes at most the length of `to`, and answers an error for what is not mapped at `address`.
    let copied = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(copied) == Ok(to.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let words = [7usize, 9];
        let address = words.as_ptr() as usize;
        let mut bytes = [0; 16];
        assert!(copy(address, &mut bytes));
        assert_eq!(bytes[..8], 7usize.to_ne_bytes());
        assert!(!copy(8, &mut bytes));
        // SAFETY: the layout is not trusted in a test.
        unsafe {
            assert_eq!(word(address), Some(7));
            assert_eq!(word(address + 1), None);
            assert_eq!(word(0), None);
            assert_eq!(word(usize::MAX - 7), None);
            assert_eq!(half(address + 8), Some(9));
            assert_eq!(byte(address + 8), Some(9));
        }
    }
}
