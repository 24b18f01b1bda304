//! Where a program has the containers that nvcc writes: behind the wrapper that it registers, or in memory
//! (fatbinary_section.h).

use device_code::container::{HEADER, whole_length};

pub(super) const WRAPPER: u32 = 0x4662_43b1;
/// Version of the wrapper around the device linker's output.
const LINKED_VERSION: u32 = 2;

/// The containers behind a wrapper: that of a translation unit; or the device linker's output, followed by those of the
/// translation units that it linked (`-rdc=true`; version 2, crt/link.stub).
///
/// # Safety
/// As [`super::initial`].
pub(super) unsafe fn of_wrapper(wrapper: usize) -> Result<Vec<&'static [u8]>, String> {
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Wrapper {
        magic: u32,
        version: u32,
        data: *const u8,
        more: *const *const u8,
    }
    if wrapper == 0 {
        return Err("no device code".to_owned());
    }
    // SAFETY: the caller's promise.
    let wrapper = unsafe { (wrapper as *const Wrapper).read_unaligned() };
    if wrapper.magic != WRAPPER || wrapper.data.is_null() {
        return Err("an unknown kind of fat binary".to_owned());
    }
    // SAFETY: the compiler puts a container there.
    let mut containers = vec![unsafe { of_container(wrapper.data) }?];
    if wrapper.version == LINKED_VERSION && !wrapper.more.is_null() {
        // SAFETY: of this version, a list that ends with null, of containers that are registered before.
        unsafe {
            let mut next = wrapper.more;
            while !(*next).is_null() {
                containers.push(of_container(*next)?);
                next = next.add(1);
            }
        }
    }
    Ok(containers)
}

/// A container in memory.
///
/// # Safety
/// `data` points to one that outlives every use of the result.
pub(super) unsafe fn of_container(data: *const u8) -> Result<&'static [u8], String> {
    // SAFETY: the caller's promise; a container begins with its own size.
    let header = unsafe { std::slice::from_raw_parts(data, HEADER) };
    let length = whole_length(header)?;
    // SAFETY: as above.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}
