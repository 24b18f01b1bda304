//! The steps of optimizers and the samples that each is made on, for relations between runs (`FTEST_STEPS`): `steps.py` watches
//! PyTorch's data loaders and optimizers, and each process writes a file.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use abi::library::Library;
use dataplane::lock::Mutex;
use dataplane::site;
use protocol::sampled_step::{Line, SampledStep};

use crate::boundary::gap;
use crate::call_site;
use crate::process::python::{Asked, guarded};
use crate::process::rank;
use crate::settings;

const PYTHON: &str = include_str!("steps.py");

static ASKED: Asked = Asked::new();

/// The samples of the step that is being recorded.
static SAMPLES: Mutex<Vec<i64>> = Mutex::new(Vec::new());

/// Called when PyTorch is in the process: from now on, steps and samples are noted, if the case compares them.
pub(super) fn watch() {
    if directory().is_some() {
        ASKED.once(install);
    }
}

fn directory() -> Option<&'static str> {
    settings::get().ok()?.steps.as_deref()
}

/// Runs `steps.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("samples", samples as *const () as usize),
        ("step", step as *const () as usize),
        ("refuse", refuse as *const () as usize),
        ("installed", installed as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when data loaders and optimizers are watched.
extern "C" fn installed() {
    ASKED.installed();
}

/// The indices of the samples that were taken since the step before.
unsafe extern "C" fn samples(indices: *const c_longlong, count: usize) {
    guarded(|| {
        // SAFETY: Python's array of so many numbers.
        let indices = unsafe { std::slice::from_raw_parts(indices, count) };
        *SAMPLES.lock() = indices.to_vec();
    });
}

/// Called after a step: the number of its optimizer, and how many steps that has made.
extern "C" fn step(optimizer: c_uint, step: u64) {
    guarded(|| {
        let site = call_site::of_python().and_then(site::find);
        let samples = std::mem::take(&mut *SAMPLES.lock());
        write(&Line::Step(SampledStep { rank: rank(), optimizer, step, site, samples }));
    });
}

/// Called with why the samples of a data loader cannot be told.
unsafe extern "C" fn refuse(why: *const c_char) {
    guarded(|| {
        // SAFETY: Python's string.
        let why = unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned();
        write(&Line::Refused { why });
    });
}

/// Appends a line to this process's file.
fn write(line: &Line) {
    let Some(directory) = directory() else { return };
    let append = || -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        fs::create_dir_all(directory)?;
        let path = Path::new(directory).join(format!("{}.jsonl", std::process::id()));
        OpenOptions::new().append(true).create(true).open(path)?.write_all(&text)
    };
    if let Err(error) = append() {
        gap::record(Library::Torch, "compared: steps", &error.to_string());
    }
}
