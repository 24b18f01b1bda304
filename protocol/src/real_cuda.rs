//! Where the real libcuda is that mode `hybrid` forwards to: asked by what loads it, and before by `fgpu`, which says what is missing.

use std::path::PathBuf;

use crate::env;

/// Where systems keep the driver's library. That of WSL comes first, where there is one: it alone reaches the GPU.
const SYSTEM: [&str; 6] = [
    "/usr/lib/wsl/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib",
];
const NAME: &str = "libcuda.so.1";

/// The files that are tried, in order, given the values of variables; in a directory that the user names, only that one.
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
