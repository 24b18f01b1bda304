//! Names of C++ functions as a person writes them.

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::transmute;

/// The demangled name, if the process contains a demangler.
pub(super) fn demangled(name: &CStr) -> String {
    type Demangle = unsafe extern "C" fn(*const c_char, *mut c_char, *mut usize, *mut c_int) -> *mut c_char;
    let plain = name.to_string_lossy().into_owned();
    if !plain.starts_with("_Z") {
        return plain;
    }
    // SAFETY: the name says which function this is (Itanium C++ ABI); it returns null or a string from malloc.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_demangle".as_ptr());
        if found.is_null() {
            return plain;
        }
        let demangle: Demangle = transmute(found);
        let mut status = 0;
        let text = demangle(name.as_ptr(), std::ptr::null_mut(), std::ptr::null_mut(), &raw mut status);
        if text.is_null() {
            return plain;
        }
        let readable = CString::from(CStr::from_ptr(text)).to_string_lossy().into_owned();
        libc::free(text.cast());
        readable
    }
}

/// The name of a kernel in a sentence: qualified, without result, parameters and template arguments, which fill pages if the kernel is
/// that of a library like CUB.
pub(crate) fn of_kernel(symbol: &str) -> String {
    let Ok(name) = CString::new(symbol) else { return symbol.to_owned() };
    bare(&demangled(&name))
}

fn bare(demangled: &str) -> String {
    let mut depth = 0;
    let mut text = String::new();
    for character in demangled.replace("(anonymous namespace)::", "").chars() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            // What came before was the result's type.
            ' ' if depth == 0 => text.clear(),
            other if depth == 0 => text.push(other),
            _ => {}
        }
    }
    if depth == 0 && !text.is_empty() { text } else { demangled.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn kernels_have_the_name_of_their_source() {
        for (demangled, name) in [
            ("add", "add"),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
            ("add(float const*, float*, int)", "add"),
            ("void scale<float, (Mode)1>(float*, (Mode)1)", "scale"),
            ("a::b<c::d<int> >::kernel<(lambda(int)#1)>(int)", "a::b::kernel"),
            ("void (anonymous namespace)::hidden<std::function<void (int)> >(int)", "hidden"),
            // Not what it is made for, and nothing is lost.
            ("operator<(int)", "operator<(int)"),
        ] {
            assert_eq!(bare(demangled), name);
        }
    }
}
