//! `fgpu` on real GPUs (`FAKEGPU_MODE=passthrough`): which NCCL library is preloaded, and what is refused.

use std::path::PathBuf;

use protocol::env;

use crate::execute::launch::environment::Environment;
use crate::host::install::Install;

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

/// `proxy` or `passthrough` if `FAKEGPU_DIST_MODE` is one of those, the modes that use the real NCCL.
pub(super) fn dist_mode(environment: &Environment) -> Option<&'static str> {
    let mode = environment.get(env::DIST_MODE.name)?.to_string_lossy().to_ascii_lowercase();
    ["proxy", "passthrough"].into_iter().find(|known| *known == mode)
}

/// The library to preload on real GPUs: in `proxy` mode ours, which forwards to the real NCCL; in `passthrough` mode the NCCL
/// that the user names, if any; otherwise nothing.
pub(super) fn nccl(environment: &Environment) -> Result<Option<PathBuf>, Trouble> {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let named = given(env::REAL_NCCL_PATH.name).map(PathBuf::from);
    if let Some(file) = named.as_ref().filter(|file| !file.is_file()) {
        return Err(usage(format!("{}={}: no such file", env::REAL_NCCL_PATH.name, file.display())));
    }
    match dist_mode(environment) {
        Some("proxy") if given(env::COORDINATOR_ADDR.name).is_none() => Err(usage(format!(
            "FAKEGPU_DIST_MODE=proxy: a coordinator keeps the books; start fakegpu-coordinator and give its address (--coordinator-addr, {})",
            env::COORDINATOR_ADDR.name
        ))),
        Some("proxy") => Install::find().proxy().map(Some).map_err(infra),
        Some(_) => named.map(std::path::absolute).transpose().map_err(infra),
        None if given(env::DIST_MODE.name).is_some_and(|mode| mode.eq_ignore_ascii_case("simulate")) => Err(usage(
            "FAKEGPU_DIST_MODE=simulate with FAKEGPU_MODE=passthrough: the simulated NCCL cannot reach the memory of real GPUs; use proxy or passthrough",
        )),
        None => Ok(None),
    }
}
