//! The tensors of a training program after each step of an optimizer, for relations between runs (`FTEST_TENSORS`): Python names
//! them (`training.py`), they are summed up here (`summary`), and each process writes a file.

mod summary;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use abi::library::Library;
use dataplane::lock::Mutex;
use dataplane::site;
use protocol::step_record::{Line, MOST_BYTES, Part, StepRecord, TensorRecord, TensorRole};
use summary::Shard;

use crate::boundary::gap;
use crate::call_site;
use crate::device::work::stream;
use crate::process::python::guarded;
use crate::process::{python, rank};
use crate::settings;

const PYTHON: &str = include_str!("training.py");

/// The most dimensions of a tensor; PyTorch has as many.
const MOST_DIMENSIONS: usize = 64;

#[derive(Default)]
struct State {
    /// The tensors of the step that is being recorded.
    tensors: Vec<TensorRecord>,
    /// How many bytes were written.
    written: u64,
    /// Whether nothing more is written.
    is_over: bool,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Whether Python was asked to install `training.py`.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Called to look for PyTorch again later.
static LATER: Mutex<Option<fn()>> = Mutex::new(None);

/// Called when PyTorch is in the process: from now on, its optimizers are watched, if the case compares tensors. Calls `later` if
/// it is too early for that.
pub(super) fn watch(later: fn()) {
    if directory().is_none() || IS_ASKED.swap(true, Ordering::AcqRel) {
        return;
    }
    *LATER.lock() = Some(later);
    if python::call_soon(install) == Some(false) {
        refused("Python takes no more calls");
    }
}

fn directory() -> Option<&'static str> {
    settings::get().ok()?.tensors.as_deref()
}

/// Runs `training.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("wait", stream::wait as *const () as usize),
        ("tensor", tensor as *const () as usize),
        ("end", end as *const () as usize),
        ("refuse", refuse as *const () as usize),
        ("later", later as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    if !guarded(|| unsafe { python::start(PYTHON, &functions) }) {
        guarded(|| refused("Python refuses the code that looks at optimizers"));
    }
    0
}

/// PyTorch is still being imported.
extern "C" fn later() {
    guarded(|| {
        IS_ASKED.store(false, Ordering::Release);
        if let Some(later) = *LATER.lock() {
            later();
        }
    });
}

/// The next tensor of a step: its role (a number in the order of [`TensorRole`]), name and datatype, the address of this rank's
/// shard, and for each of so many dimensions the size of the whole tensor, where the shard starts, its size and its stride.
unsafe extern "C" fn tensor(
    role: c_uint,
    name: *const c_char,
    dtype: *const c_char,
    address: usize,
    dimensions: usize,
    sizes: *const u64,
) {
    guarded(|| {
        let role = role_of(role).unwrap_or(TensorRole::Parameter);
        if dimensions > MOST_DIMENSIONS {
            return write(&Line::Refused { role: Some(role), why: "a tensor has too many dimensions".to_owned() });
        }
        // SAFETY: Python's strings, and an array of four numbers for each dimension.
        let (name, dtype, sizes) = unsafe {
            let text = |pointer| CStr::from_ptr(pointer).to_string_lossy().into_owned();
            (text(name), text(dtype), std::slice::from_raw_parts(sizes, 4 * dimensions))
        };
        let [whole, offset, shape, strides] = [0, 1, 2, 3].map(|part| &sizes[part * dimensions..][..dimensions]);
        let shard = Shard { address, whole, offset, shape, strides };
        // SAFETY: PyTorch holds a tensor with these elements, and a GPU's memory is this process's.
        let Some(summary) = (unsafe { summary::summarize(&name, &dtype, &shard) }) else {
            let why = format!("`{name}` has the datatype {dtype}");
            return write(&Line::Refused { role: Some(role), why });
        };
        let part = (whole != shape).then(|| Part { offset: offset.to_vec(), shape: shape.to_vec() });
        let record = TensorRecord { role, name, dtype, shape: whole.to_vec(), part, summary };
        STATE.lock().get_or_insert_default().tensors.push(record);
    });
}

/// The role with this number; `None` for all of them.
fn role_of(number: c_uint) -> Option<TensorRole> {
    [TensorRole::Gradient, TensorRole::Optimizer, TensorRole::Parameter].get(number as usize).copied()
}

/// Called when the step is complete: the number of its optimizer, and how many steps that has made.
extern "C" fn end(optimizer: c_uint, step: u64) {
    guarded(|| {
        let site = call_site::of_python().and_then(site::find);
        let tensors = std::mem::take(&mut STATE.lock().get_or_insert_default().tensors);
        write(&Line::Step(StepRecord { rank: rank(), optimizer, step, site, tensors }));
    });
}

/// Called with what cannot be compared, and why.
unsafe extern "C" fn refuse(role: c_uint, why: *const c_char) {
    guarded(|| {
        // SAFETY: Python's string.
        let why = unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned();
        if role_of(role).is_none() {
            STATE.lock().get_or_insert_default().tensors.clear();
        }
        write(&Line::Refused { role: role_of(role), why });
    });
}

fn refused(why: &str) {
    write(&Line::Refused { role: None, why: why.to_owned() });
}

/// Appends a line to this process's file. What does not fit is said there.
fn write(line: &Line) {
    let Some(directory) = directory() else { return };
    let mut state = STATE.lock();
    let state = state.get_or_insert_default();
    if state.is_over {
        return;
    }
    let append = |text: &[u8]| -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let path = Path::new(directory).join(format!("{}.jsonl", std::process::id()));
        OpenOptions::new().append(true).create(true).open(path)?.write_all(text)
    };
    let text = |line: &Line| serde_json::to_vec(line).map(|text| [&text[..], b"\n"].concat()).unwrap_or_default();
    let mut bytes = text(line);
    state.written += bytes.len() as u64;
    if state.written > MOST_BYTES {
        state.is_over = true;
        let after = if let Line::Step(record) = line { format!(" before step {}", record.step) } else { String::new() };
        let why = format!("a process records at most {} MiB, which were full{after}", MOST_BYTES >> 20);
        bytes = text(&Line::Refused { role: None, why });
    }
    if let Err(error) = append(&bytes) {
        state.is_over = true;
        gap::record(Library::Torch, "compared: tensors", &error.to_string());
    }
}
