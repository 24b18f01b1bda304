//! What a relation between two runs changes inside a program (`FTEST_RELATION`): `relation.py` does it where the program makes a
//! data loader or a DistributedDataParallel, and the journal tells the runner that something was changed.

use std::ffi::{c_int, c_void};

use crate::process::python::{Asked, guarded};
use crate::report::journal;
use crate::settings::{self, Relation};

const PYTHON: &str = include_str!("relation.py");

static ASKED: Asked = Asked::new();

/// Called when PyTorch is in the process: from now on, the program is changed, if this is the run of such a relation.
pub(super) fn watch() {
    if wanted().is_some() {
        ASKED.once(install);
    }
}

fn wanted() -> Option<Relation> {
    settings::get().ok()?.relation
}

/// Runs `relation.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("is_workers", usize::from(wanted() == Some(Relation::Workers))),
        ("changed", changed as *const () as usize),
        ("installed", installed as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when the program will be changed.
extern "C" fn installed() {
    ASKED.installed();
}

/// Called when the program was changed.
extern "C" fn changed() {
    guarded(journal::note_change);
}
