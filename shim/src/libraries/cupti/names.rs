//! The numbers of CUDA's functions in CUPTI (`CUpti_runtime_api_trace_cbid`, `CUpti_driver_api_trace_cbid`), by name and back.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::LazyLock;

use abi::library::Library;

/// `CUPTI_CB_DOMAIN_DRIVER_API` and `CUPTI_CB_DOMAIN_RUNTIME_API`
pub(super) const DRIVER_DOMAIN: u32 = 1;
pub(super) const RUNTIME_DOMAIN: u32 = 2;

/// Names in the order of their numbers, from 1 up.
struct Names {
    names: Vec<CString>,
    /// By the name without the version at its end: the first and the last number.
    numbers: HashMap<&'static str, (u32, u32)>,
}

static DRIVER: LazyLock<Names> = LazyLock::new(|| Names::read(include_str!("driver.txt"), false));
static RUNTIME: LazyLock<Names> = LazyLock::new(|| Names::read(include_str!("runtime.txt"), true));

impl Names {
    fn read(text: &'static str, has_versions: bool) -> Self {
        let mut numbers: HashMap<&'static str, (u32, u32)> = HashMap::new();
        let mut names = Vec::new();
        for (name, number) in text.split_whitespace().zip(1..) {
            let base = if has_versions { name.rsplit_once("_v").map_or(name, |(base, _)| base) } else { name };
            numbers.entry(base).or_insert((number, number)).1 = number;
            names.push(CString::new(name).unwrap_or_default());
        }
        Self { names, numbers }
    }
}

/// The number of an exported function of the runtime or the driver; `None` for those that CUPTI does not know.
pub(super) fn number(library: Library, name: &str, is_13: bool) -> Option<u32> {
    if library == Library::CudaDriver {
        return DRIVER.numbers.get(name).map(|(_, last)| *last);
    }
    // A function that CUDA 13 changed has its old number in CUDA 12, unless called by its new name.
    match RUNTIME.numbers.get(name) {
        Some((first, last)) => Some(if is_13 { *last } else { *first }),
        None => {
            let without = name.replace("_v2", "").replace("_v3", "");
            RUNTIME.numbers.get(&*without).map(|(_, last)| *last)
        }
    }
}

/// The name of a number.
pub(super) fn name(domain: u32, number: u32) -> Option<&'static CStr> {
    let names = match domain {
        DRIVER_DOMAIN => &DRIVER.names,
        RUNTIME_DOMAIN => &RUNTIME.names,
        _ => return None,
    };
    names.get((number as usize).checked_sub(1)?).map(CString::as_c_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_by_table() {
        for (library, exported, is_13, expected) in [
            (Library::CudaRuntime, "cudaLaunchKernel", false, Some(211)),
            (Library::CudaRuntime, "cudaLaunchKernel_ptsz", true, Some(214)),
            (Library::CudaRuntime, "cudaMemcpyAsync", true, Some(41)),
            (Library::CudaRuntime, "cudaGetDeviceProperties", false, Some(4)),
            (Library::CudaRuntime, "cudaGetDeviceProperties", true, Some(440)),
            (Library::CudaRuntime, "cudaGetDeviceProperties_v2", false, Some(440)),
            (Library::CudaRuntime, "cudaNothing", true, None),
            (Library::CudaDriver, "cuLaunchKernel", false, Some(307)),
            (Library::CudaDriver, "cuLaunchKernelEx", true, Some(652)),
        ] {
            assert_eq!(number(library, exported, is_13), expected, "{exported}");
        }
        assert_eq!(name(RUNTIME_DOMAIN, 211), Some(c"cudaLaunchKernel_v7000"));
        assert_eq!((name(DRIVER_DOMAIN, 1), name(DRIVER_DOMAIN, 0), name(3, 1)), (Some(c"cuInit"), None, None));
    }
}
