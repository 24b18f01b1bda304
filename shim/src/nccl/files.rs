//! Files of several ranks: `files.py` looks at what PyTorch saves and loads, and the journal tells the runner, which compares the
//! ranks.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use dataplane::site;
use protocol::file_access::{FileAccess, Noted};
use protocol::ids::SiteId;
use protocol::launcher::Launcher;

use crate::call_site;
use crate::process::python::{Asked, guarded};
use crate::report::journal;
use crate::settings::{self, Clock};

const PYTHON: &str = include_str!("files.py");

/// The most accesses of a process that are compared with those of other ranks.
const MOST: usize = 1000;

static ASKED: Asked = Asked::new();

/// Called when a communicator is about to form: from now on, files are watched, if this is Python.
pub(super) fn watch() {
    ASKED.once(install);
}

/// Runs `files.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("here", here as *const () as usize),
        ("accessed", accessed as *const () as usize),
        ("most", MOST),
        ("sleeps", usize::from(settings::get().is_ok_and(|settings| settings.clock != Clock::Modeled))),
        ("installed", installed as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when files are watched.
extern "C" fn installed() {
    ASKED.installed();
}

/// The line of the program that Python runs.
extern "C" fn here() -> c_uint {
    guarded(|| call_site::of_python().map_or(0, |site| site.0))
}

/// Called after an access that began at a line, with the rest of it as JSON.
unsafe extern "C" fn accessed(line: c_uint, json: *const c_char) {
    guarded(|| {
        // SAFETY: Python's string.
        let json = unsafe { CStr::from_ptr(json) }.to_bytes();
        let launcher = Launcher::read_or_task(|name| std::env::var(name).ok());
        let (Some(rank), Ok(noted)) = (launcher.rank, serde_json::from_slice::<Noted>(json)) else { return };
        let node = launcher.local_world_size.filter(|ranks| *ranks > 0).map_or(0, |ranks| rank.0 / ranks);
        journal::note_file(FileAccess { rank, node, site: site::find(SiteId(line)), noted });
    });
}
