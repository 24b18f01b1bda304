//! Python code that `ftest exec` brings to a program with PyTorch (`FTEST_AFTER_TORCH`). Python finds it by PYTHONPATH, unless the
//! program was started without that: then it runs from here, as soon as PyTorch's libraries are loaded.

use std::ffi::{OsStr, OsString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use protocol::env::AFTER_TORCH;

use crate::process::python::{Asked, guarded, start};

const PYTHON: &str = include_str!("after_torch.py");

static ASKED: Asked = Asked::new();

/// The directories, separated by colons.
fn directories() -> Option<&'static OsStr> {
    static DIRECTORIES: OnceLock<Option<OsString>> = OnceLock::new();
    DIRECTORIES.get_or_init(|| std::env::var_os(AFTER_TORCH.name).filter(|list| !list.is_empty())).as_deref()
}

/// Called when a library with GPU code is loaded.
pub(super) fn watch() {
    if directories().is_some() {
        ASKED.once(install);
    }
}

/// Called when PyTorch is known to be in the process: whoever reads the directories learns that the code should have run.
pub(super) fn note() {
    for directory in directories().into_iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b':')) {
        let name = format!("loaded-{}", std::process::id());
        // A directory that is gone has no reader.
        let _ = std::fs::write(Path::new(OsStr::from_bytes(directory)).join(name), b"");
    }
}

/// Runs the code in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    // SAFETY: Python calls this function with the GIL held.
    guarded(|| unsafe { start(PYTHON, &[]) });
    0
}
