//! The real NCCL: found once, opened alongside this library, and asked for its functions by name.

use std::path::PathBuf;
use std::sync::OnceLock;

use abi::nccl;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use protocol::env;

use crate::trouble;

/// Where systems keep NCCL. `FAKEGPU_REAL_NCCL_PATH` and conda's directory come first.
const SYSTEM: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/local/nccl/lib", "/usr/lib64"];

/// The files that are tried, in order; if the user names one, only that one.
pub(crate) fn candidates(lookup: impl Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let given = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(file) = given(env::REAL_NCCL_PATH.name) {
        return vec![file];
    }
    let conda = given("CONDA_PREFIX").map(|prefix| prefix.join("lib"));
    let directories = conda.into_iter().chain(SYSTEM.map(PathBuf::from));
    directories.map(|directory| directory.join("libnccl.so.2")).collect()
}

fn open() -> Result<Library, String> {
    let mut tried = Vec::new();
    for file in candidates(|name| std::env::var(name).ok()) {
        // By its path, and with its own symbols before ours: its calls must not come back to this library.
        // SAFETY: NCCL may be loaded at any time, from any thread.
        match unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL | libc::RTLD_DEEPBIND) } {
            // SAFETY: only the address is used.
            Ok(library) if unsafe { library.get::<*const u8>(b"fakegpu_nccl_proxy\0") }.is_ok() => {
                tried.push(format!("{}: that is this library itself", file.display()));
            }
            Ok(library) => return Ok(library),
            Err(error) => tried.push(format!("{}: {error}", file.display())),
        }
    }
    Err(format!(
        "the real NCCL, which {}=proxy needs, cannot be loaded: set {} to its file (tried {})",
        env::DIST_MODE.name,
        env::REAL_NCCL_PATH.name,
        tried.join("; ")
    ))
}

/// The function `name` of the real library.
///
/// # Errors
/// An `ncclResult_t`; the last error says why.
///
/// # Safety
/// `F` is the type that NCCL's header declares for `name`.
pub(crate) unsafe fn function<F: Copy>(name: &str) -> Result<F, u32> {
    static REAL: OnceLock<Result<Library, String>> = OnceLock::new();
    let library = REAL.get_or_init(open).as_ref().map_err(|error| trouble::refuse(nccl::SYSTEM, error))?;
    // SAFETY: promised by the caller.
    unsafe { library.get::<F>(name.as_bytes()) }.map(|found| *found).map_err(|_| {
        trouble::refuse(nccl::INVALID_USAGE, &format!("the real NCCL at {} has no {name}", env::REAL_NCCL_PATH.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_is_the_only_one_tried() {
        let with = |pairs: &[(&str, &str)]| {
            candidates(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        let named = ("FAKEGPU_REAL_NCCL_PATH", "/opt/libnccl.so.2.30");
        assert_eq!(with(&[named, ("CONDA_PREFIX", "/conda")]), [PathBuf::from("/opt/libnccl.so.2.30")]);
        assert_eq!(with(&[("CONDA_PREFIX", "/conda")])[0], PathBuf::from("/conda/lib/libnccl.so.2"));
        assert_eq!(with(&[("FAKEGPU_REAL_NCCL_PATH", "")]).len(), SYSTEM.len());
    }
}
