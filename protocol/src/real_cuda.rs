//! Where to find the real libcuda that mode `hybrid` forwards to. The library that loads it asks for this, and so does `fgpu`
//! before, to report what is missing.

use std::path::PathBuf;

use crate::env;

/// Where systems keep the driver's library. WSL's comes first: if there is one, only it reaches the GPU.
const SYSTEM: [&str; 6] = [
    "/usr/lib/wsl/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib",
];
const NAME: &str = "libcuda.so.1";

/// The files that are tried, in order, given the values of variables. If the user names a directory, only the file in it.
pub fn candidates(lookup: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    match lookup(env::REAL_CUDA_LIB_DIR.name).filter(|value| !value.is_empty()) {
        Some(directory) => vec![PathBuf::from(directory).join(NAME)],
        None => SYSTEM.iter().map(|directory| PathBuf::from(directory).join(NAME)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_named_is_the_only_one_tried() {
        let with = |value: Option<&'static str>| candidates(|_| value.map(str::to_owned));
        assert_eq!(with(Some("/opt/driver")), [PathBuf::from("/opt/driver/libcuda.so.1")]);
        assert_eq!((with(Some("")).len(), with(None).len()), (SYSTEM.len(), SYSTEM.len()));
    }
}
