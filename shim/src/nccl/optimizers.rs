//! Optimizers that step parameters without gradients, while a model has gradients that no optimizer uses: `optimizers.py` looks for
//! them after the steps of PyTorch's optimizers, and each is a finding.

use std::ffi::{CStr, c_char, c_int, c_void};

use protocol::finding::FindingKind;

use crate::process::python::{Asked, guarded};
use crate::process::rank;
use crate::report::finding;

const PYTHON: &str = include_str!("optimizers.py");

static ASKED: Asked = Asked::new();

/// Called when a communicator is about to form: from now on, optimizers are watched, if this is Python.
pub(super) fn watch() {
    ASKED.once(install);
}

/// Runs `optimizers.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [("dead", dead as *const () as usize), ("installed", installed as *const () as usize)];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when optimizers are watched.
extern "C" fn installed() {
    ASKED.installed();
}

/// Called after a step: how many parameters the optimizer has, and a parameter that has a gradient instead.
unsafe extern "C" fn dead(count: *const c_char, other: *const c_char) {
    guarded(|| {
        // SAFETY: Python's strings.
        let [count, other] = [count, other].map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        let who = rank().map_or_else(|| "the process".to_owned(), |rank| format!("rank {rank}"));
        let sentence = format!(
            "{who} steps an optimizer none of whose parameters ({count}) ever had a gradient, while {other} has one, which no optimizer \
             has"
        );
        finding::record(FindingKind::DeadParameters, "optimizer.step", None, sentence);
    });
}
