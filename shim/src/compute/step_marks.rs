//! The steps of a training program on the modeled clock: `step_marks.py` looks at PyTorch's profiler, its NVTX ranges and its
//! optimizers, and says where steps begin and end.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::OnceLock;

use protocol::report::StepMark;

use crate::device::work::clock;
use crate::process::python::{Asked, guarded};
use crate::report::time;

const PYTHON: &str = include_str!("step_marks.py");

static ASKED: Asked = Asked::new();

/// Called to look for PyTorch again later.
static LATER: OnceLock<fn()> = OnceLock::new();

/// Called when PyTorch is in the process: from now on, its steps are marked. Calls `later` if it is too early for that.
pub(super) fn watch(later: fn()) {
    if clock::is_modeled() {
        LATER.get_or_init(|| later);
        ASKED.once(install);
    }
}

/// Runs `step_marks.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("mark", mark as *const () as usize),
        ("installed", installed as *const () as usize),
        ("later", look_later as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when steps are marked.
extern "C" fn installed() {
    ASKED.installed();
}

/// PyTorch is still being imported.
extern "C" fn look_later() {
    guarded(|| LATER.get().inspect(|later| later()));
}

/// A step begins or ends, as one of these says.
extern "C" fn mark(by: c_uint, is_begin: bool) {
    guarded(|| {
        let marks = [StepMark::Profiler, StepMark::Nvtx, StepMark::Optimizer];
        if let Some(by) = marks.get(by as usize) {
            time::mark(*by, is_begin);
        }
    });
}
