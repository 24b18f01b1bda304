//! What a kernel that does not run may have written: whatever its parameters point to. How many there are is not known, and how long
//! they are, so the kernel of the machine copies them.

use super::Arguments;

/// The most parameters that are looked at.
const MOST: usize = 32;
/// Words of each: structures of tensors contain their pointers.
const WORDS: usize = 16;

/// Every word in the parameters that could be a pointer; some may belong to something else.
pub(super) fn words(arguments: &Arguments) -> Vec<usize> {
    match *arguments {
        Arguments::Each(parameters) => {
            copied(parameters as usize, MOST).into_iter().flat_map(|parameter| copied(parameter, WORDS)).collect()
        }
        Arguments::Packed(data, bytes) => copied(data as usize, bytes / size_of::<usize>()),
    }
}

/// Up to `count` words from `address` on, as far as they are mapped.
fn copied(address: usize, count: usize) -> Vec<usize> {
    const PAGE: usize = 4096;
    let mut words = vec![0usize; count];
    let length = count * size_of::<usize>();
    if address == 0 || length == 0 {
        return Vec::new();
    }
    let first = length.min(PAGE - address % PAGE);
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: length };
    // Two, since the kernel copies whole entries.
    let remote = [(address, first), (address + first, length - first)]
        .map(|(start, length)| libc::iovec { iov_base: start as *mut libc::c_void, iov_len: length });
    // SAFETY: the kernel writes at most the length of `words`, and answers an error for what is not mapped.
    let done = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, remote.as_ptr(), 2, 0) };
    words.truncate(usize::try_from(done).unwrap_or(0) / size_of::<usize>());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_found_in_parameters_and_what_is_not_mapped_is_left_out() {
        let (pointer, structure) = (0x7000_usize, [1_usize, 0x8000]);
        let parameters = [(&raw const pointer).cast(), (&raw const structure).cast(), std::ptr::without_provenance(8)];
        let found = words(&Arguments::Each(parameters.as_ptr()));
        assert!(found.contains(&0x7000) && found.contains(&0x8000));
        let packed = [3_usize, 0x9000];
        assert_eq!(words(&Arguments::Packed(packed.as_ptr().cast(), 16)), [3, 0x9000]);
        assert!(words(&Arguments::Packed(std::ptr::null(), 16)).is_empty());
    }
}
