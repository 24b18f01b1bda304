//! The code for a device in what a program passes by a pointer.

use std::ffi::{CStr, c_char, c_void};

use device_code::container::CONTAINER;
use device_code::select::{self, Code, ELF, Unusable};

use super::fat_binary::{self, WRAPPER};

/// The code for a device of this compute capability in the argument of `__cudaRegisterFatBinary`.
///
/// # Errors
/// Why it cannot be read.
///
/// # Safety
/// `wrapper` is null or was made by the compiler.
pub(crate) unsafe fn for_device(wrapper: usize, capability: (i32, i32)) -> Result<Code, Unusable> {
    // SAFETY: passed on.
    select::choose_linked(&unsafe { fat_binary::of_wrapper(wrapper) }?, capability)
}

/// The same for the argument of `cuModuleLoadData`: a fat binary with or without its wrapper, a cubin, or PTX that ends
/// with NUL.
///
/// # Errors
/// As [`for_device`].
///
/// # Safety
/// `image` points to one of these.
pub(crate) unsafe fn of_pointer(image: *const c_void, capability: (i32, i32)) -> Result<Code, Unusable> {
    let begins = |bytes: [u8; 4]| {
        // SAFETY: an image has a first byte, and another one behind each that was as expected: none of these has a zero.
        (0..4).all(|at| unsafe { *image.cast::<u8>().add(at) } == bytes[at])
    };
    if begins(WRAPPER.to_le_bytes()) {
        // SAFETY: the caller's promise.
        return unsafe { for_device(image as usize, capability) };
    }
    if begins(CONTAINER.to_le_bytes()) {
        // SAFETY: as above.
        return select::choose(unsafe { fat_binary::of_container(image.cast()) }?, capability);
    }
    if begins(ELF) {
        return Ok(Code::Machine { ptx_from: None });
    }
    // SAFETY: what is left is a text of C.
    select::text(unsafe { CStr::from_ptr(image.cast::<c_char>()) }.to_bytes())
}

#[cfg(test)]
mod tests {
    use device_code::container::linked;

    use super::*;
    use crate::device::kernel::image::tests::IMAGES;

    #[test]
    fn a_pointer_may_lead_to_any_of_them() {
        for (way, image) in IMAGES {
            // SAFETY: a container in memory.
            let found = unsafe { of_pointer(image.as_ptr().cast(), (8, 0)) };
            assert!(matches!(found, Ok(Code::Ptx(_))), "{way}: {found:?}");
        }
        // SAFETY: C texts.
        unsafe {
            assert!(of_pointer(c"".as_ptr().cast(), (8, 0)).is_err());
            assert!(of_pointer(c"P".as_ptr().cast(), (8, 0)).is_err());
            assert_eq!(of_pointer(c"\x7fELF".as_ptr().cast(), (8, 0)), Ok(Code::Machine { ptx_from: None }));
        }
    }

    #[test]
    fn a_wrapper_has_the_list_of_what_was_linked() {
        let [empty, first, second] = [&[][..], &["first".to_owned()], &["second".to_owned()]].map(linked);
        let [wrapped, null] = [first.as_ptr(), std::ptr::null()];
        let list = [wrapped, second.as_ptr(), null];
        let wrapper = (WRAPPER, 2u32, empty.as_ptr(), list.as_ptr());
        // SAFETY: a wrapper with its list, as crt/link.stub lays them out: two words, two pointers.
        let found = unsafe { for_device(lay_out(&wrapper).as_ptr() as usize, (8, 0)) };
        assert!(matches!(found, Ok(Code::Ptx(texts)) if texts.len() == 2));
    }

    fn lay_out((magic, version, data, list): &(u32, u32, *const u8, *const *const u8)) -> [usize; 3] {
        [usize::try_from(u64::from(*version) << 32 | u64::from(*magic)).unwrap(), *data as usize, *list as usize]
    }
}
