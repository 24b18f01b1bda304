//! What a kernel that does not run may have written: whatever its parameters point to. How many there are, and of which types, is in
//! the name of a C++ function; how long structures are is not known, so the kernel of the machine copies them.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use dataplane::lock::Mutex;

use super::Arguments;
use crate::call_site::cpp_name;

/// The most parameters that are looked at, if the name does not have them.
const MOST: usize = 32;
/// Words of each, and of a structure: those of tensors contain their pointers. More would be those of somebody else too often.
const WORDS: usize = 16;

/// What a parameter may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameter {
    /// Nothing that can be written through: a number, or a pointer to constants.
    Input,
    Pointer,
    Structure,
}

impl Parameter {
    fn from_type(name: &str) -> Self {
        const NUMBERS: &[&str] = &[
            "bool",
            "char",
            "double",
            "float",
            "int",
            "long",
            "long long",
            "short",
            "signed char",
            "unsigned char",
            "unsigned int",
            "unsigned long",
            "unsigned long long",
            "unsigned short",
        ];
        match name.strip_suffix('*').map(str::trim_end) {
            Some(pointee) if pointee.ends_with(" const") || pointee.starts_with("const ") => Self::Input,
            Some(_) => Self::Pointer,
            None if NUMBERS.contains(&name) => Self::Input,
            None => Self::Structure,
        }
    }
}

/// Parameters by the kernel's name; `None` for one that is not C++.
type Known = HashMap<String, Option<Arc<[Parameter]>>>;

/// The parameters of the kernel `name`, if it is a C++ function. Taking a name apart takes longer than a launch, so it is done once.
fn parameters_of(name: &str) -> Option<Arc<[Parameter]>> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock();
    if let Some(parameters) = known.get(name) {
        return parameters.clone();
    }
    let types = cpp_name::parameters(name);
    let parameters = types.map(|types| types.iter().map(|name| Parameter::from_type(name)).collect());
    known.insert(name.to_owned(), parameters);
    known.get(name).cloned().flatten()
}

/// Every word in the parameters of the kernel `name` that could be a pointer to what it writes; some may belong to something else.
pub(super) fn words(arguments: &Arguments, name: &str) -> Vec<usize> {
    let typed = |parameters: usize, types: &[Parameter]| {
        let places = copied(parameters, types.len());
        let read = |(place, parameter): (usize, &Parameter)| match parameter {
            Parameter::Input => Vec::new(),
            Parameter::Pointer => copied(place, 1),
            Parameter::Structure => copied(place, WORDS),
        };
        places.into_iter().zip(types).flat_map(read).collect()
    };
    match *arguments {
        Arguments::Each(parameters) if let Some(types) = parameters_of(name) => typed(parameters as usize, &types),
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
    fn what_a_parameter_may_contain_by_table() {
        for (symbol, expected) in [
            // void rms<float>(Parameters, float*, float const*, int, bool)
            (
                "_Z3rmsIfEv10ParametersPT_PKS1_ib",
                &[Parameter::Structure, Parameter::Pointer, Parameter::Input, Parameter::Input, Parameter::Input][..],
            ),
            ("_Z4noneP6__halfm", &[Parameter::Pointer, Parameter::Input]),
            ("_Z4nonev", &[]),
        ] {
            let types = cpp_name::parameters(symbol).unwrap();
            assert_eq!(
                types.iter().map(|name| Parameter::from_type(name)).collect::<Vec<_>>(),
                expected,
                "{symbol}: {types:?}"
            );
        }
        assert_eq!(cpp_name::parameters("triton_red_fused_add_0"), None);
    }

    #[test]
    fn pointers_are_found_in_parameters_and_what_is_not_mapped_is_left_out() {
        let (pointer, mut structure) = (0x7000_usize, [0_usize; WORDS]);
        structure[1] = 0x8000;
        let parameters = [(&raw const pointer).cast(), (&raw const structure).cast(), std::ptr::without_provenance(8)];
        let found = words(&Arguments::Each(parameters.as_ptr()), "kernel");
        assert!(found.contains(&0x7000) && found.contains(&0x8000));
        // void kernel(float const*, Pair)
        let found = words(&Arguments::Each(parameters.as_ptr()), "_Z6kernelPKf4Pair");
        assert!(!found.contains(&0x7000) && found.contains(&0x8000));
        // void kernel(float*, long)
        assert_eq!(words(&Arguments::Each(parameters.as_ptr()), "_Z6kernelPfl"), [0x7000]);
        let packed = [3_usize, 0x9000];
        assert_eq!(words(&Arguments::Packed(packed.as_ptr().cast(), 16), "kernel"), [3, 0x9000]);
        assert!(words(&Arguments::Packed(std::ptr::null(), 16), "kernel").is_empty());
    }
}
