//! `fgpu` on real GPUs (`FAKEGPU_MODE=passthrough` and `hybrid`): which libraries are preloaded, and what is refused.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use protocol::{env, real_cuda};
use runner::execute::launch::environment::Environment;
use runner::host::install::Install;
use runner::host::plain_path;

/// An exit code and the reason.
pub(super) type Trouble = (i32, String);

/// A bad option or variable.
pub(super) fn usage(error: impl ToString) -> Trouble {
    (2, error.to_string())
}

/// A missing part or a system error.
pub(super) fn infra(error: impl ToString) -> Trouble {
    (3, error.to_string())
}

/// The word of `FAKEGPU_MODE`, in lower case; empty where it is not set.
pub(super) fn mode(environment: &Environment) -> String {
    environment.get(env::MODE.name).unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

/// Names the real libcuda of mode `hybrid` by its whole path, wherever the command goes from here.
pub(super) fn cuda(environment: &mut Environment) -> Result<(), Trouble> {
    let given = |name: &str| environment.get(name).map(|value| value.to_string_lossy().into_owned());
    let tried = real_cuda::candidates(given);
    let Some(found) = tried.iter().find(|file| file.is_file()) else {
        let tried: Vec<String> = tried.iter().map(|file| file.display().to_string()).collect();
        return Err(usage(format!(
            "FAKEGPU_MODE=hybrid: the real GPU computes, and there is no libcuda of NVIDIA's driver; set {} to its directory (looked for {})",
            env::REAL_CUDA_LIB_DIR.name,
            tried.join(", ")
        )));
    };
    let file = std::path::absolute(found).map_err(infra)?;
    environment.set(env::REAL_CUDA_LIB_DIR.name, file.parent().unwrap_or(&file));
    Ok(())
}

/// `proxy` or `passthrough` if `FAKEGPU_DIST_MODE` is one of those, the modes that use the real NCCL.
pub(super) fn dist_mode(environment: &Environment) -> Option<&'static str> {
    let mode = environment.get(env::DIST_MODE.name)?.to_string_lossy().to_ascii_lowercase();
    ["proxy", "passthrough"].into_iter().find(|known| *known == mode)
}

/// The library to preload on real GPUs: in `proxy` mode ours, which forwards to the real NCCL; in `passthrough` mode the NCCL
/// that the user names, if any; otherwise nothing.
pub(super) fn nccl(environment: &Environment) -> Result<Option<PathBuf>, Trouble> {
    let library = nccl_file(environment)?;
    library.map(|library| plain_path::for_loader(&library).map_err(usage)).transpose()
}

fn nccl_file(environment: &Environment) -> Result<Option<PathBuf>, Trouble> {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let named = given(env::REAL_NCCL_PATH.name).map(PathBuf::from);
    if let Some(file) = named.as_ref().filter(|file| !file.is_file()) {
        return Err(usage(format!("{}={}: no such file", env::REAL_NCCL_PATH.name, file.display())));
    }
    match dist_mode(environment) {
        Some("proxy") if given(env::COORDINATOR_ADDR.name).is_none() => Err(usage(format!(
            "FAKEGPU_DIST_MODE=proxy needs a coordinator; start fakegpu-coordinator and give its address (--coordinator-addr, {})",
            env::COORDINATOR_ADDR.name
        ))),
        Some("proxy") => Install::find().proxy().map(Some).map_err(infra),
        Some(_) => named.map(std::path::absolute).transpose().map_err(infra),
        None if given(env::DIST_MODE.name).is_some_and(|mode| mode.eq_ignore_ascii_case("simulate")) => {
            Err(usage(format!(
                "FAKEGPU_DIST_MODE=simulate with FAKEGPU_MODE={}: the simulated NCCL cannot reach the memory of real GPUs; use proxy or passthrough",
                mode(environment)
            )))
        }
        None => Ok(None),
    }
}

/// Preloads `library`, in front of an NCCL that is preloaded already: the first one gets the calls. What else is there stays first, as
/// sanitizers must.
pub(super) fn preload_nccl(environment: &mut Environment, library: &Path) {
    let present = environment.get("LD_PRELOAD").unwrap_or_default();
    let mut entries: Vec<&OsStr> = present
        .as_bytes()
        .split(|byte| b": ".contains(byte))
        .filter(|entry| !entry.is_empty())
        .map(OsStr::from_bytes)
        .collect();
    let is_nccl =
        |entry: &&OsStr| Path::new(entry).file_name().is_some_and(|name| name.as_bytes().starts_with(b"libnccl"));
    let place = entries.iter().position(is_nccl).unwrap_or(entries.len());
    entries.insert(place, library.as_os_str());
    environment.set("LD_PRELOAD", entries.join(OsStr::new(":")));
}
