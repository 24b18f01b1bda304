//! Replicas, for the sanitizer of that name: tensors that should be identical on several ranks are hashed here around each
//! optimizer step, and compared by the coordinator. Only Python knows which tensors those are; `replicas.py` enumerates them.

mod holdings;

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use abi::cuda::CudaResult;
use abi::library::Library;
use dataplane::call::Call;
use dataplane::lock::Mutex;
use holdings::{Step, Tensor};
use protocol::datatype;
use protocol::ids::Rank;

use crate::boundary::gap;
use crate::call_site;
use crate::device::graph::structure::{Operation, Work};
use crate::device::graph::{capture, exec};
use crate::device::work::stream::{self, Stream};
use crate::process::python;
use crate::process::python::guarded;
use crate::sanitizer::averaged;

const PYTHON: &str = include_str!("replicas.py");

/// Name of the gap for a check that is not made.
const NAME: &str = "sanitize: replicas";

/// Tensors of the group that is being enumerated.
static TENSORS: Mutex<Vec<Tensor>> = Mutex::new(Vec::new());

/// The check is not made: a gap where the case asked for it.
fn unchecked(why: &str) {
    if averaged::is_asked() {
        gap::record(Library::Torch, NAME, why);
    }
}

/// Called when these calls are launched on a communicator of `size` ranks.
pub(super) fn launched(calls: &[Call], rank: u32, size: u32, ranks: impl Fn() -> Vec<Rank>) {
    if averaged::is_wanted() {
        for call in calls.iter().filter(|call| call.operation == datatype::Operation::AllReduce) {
            let mut ranks = ranks();
            ranks.sort_unstable();
            averaged::note(call.receive.address as usize, call.receive_bytes(rank, size), ranks);
        }
    }
}

/// Whether Python was asked to install `replicas.py`. If PyTorch was not imported yet, the next occasion asks again.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Called when a communicator is about to form, or a graph that may contain a step is about to be captured: from now on,
/// PyTorch's optimizers are watched, if this is Python. The main thread installs that when it next runs Python, which is before
/// any step with data from the communicator, and before a step that it captures.
pub(super) fn watch() {
    if !averaged::is_wanted() || IS_ASKED.swap(true, Ordering::AcqRel) {
        return;
    }
    if python::call_soon(install) == Some(false) {
        unchecked("Python takes no more calls");
    }
}

/// A capture, with [`watch`].
pub(crate) fn capturing<T>(begin: impl FnOnce() -> T) -> T {
    watch();
    begin()
}

/// Runs `replicas.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("wait", stream::wait as *const () as usize),
        ("tensor", tensor as *const () as usize),
        ("reduced", reduced as *const () as usize),
        ("end", end as *const () as usize),
        ("refuse", refuse as *const () as usize),
        ("captured", captured as *const () as usize),
        ("watch", watch_launches as *const () as usize),
        ("compares_all", usize::from(averaged::is_asked())),
    ];
    // SAFETY: Python calls this function with the GIL held.
    if !guarded(|| unsafe { python::start(PYTHON, &functions) }) {
        unchecked("Python refuses it");
    } else if AROUND_LAUNCH.get().is_none() {
        IS_ASKED.store(false, Ordering::Release);
    }
    0
}

/// An optimizer's step in a CUDA graph, after its last node.
struct Captured(usize);

impl Work for Captured {
    fn issue(&self, _stream: &Arc<Stream>) -> CudaResult {
        Ok(())
    }

    fn name(&self) -> &str {
        "optimizer step"
    }

    fn mark(&self) -> Option<usize> {
        Some(self.0)
    }
}

/// Called when the stream has captured a step of the optimizer with this number.
extern "C" fn captured(stream: usize, optimizer: usize) {
    guarded(|| {
        // A capture that fails says so to the program.
        if let Ok(stream) = stream::resolve(stream)
            && let Ok(Some(capture)) = capture::for_stream(&stream)
        {
            let _ = capture.add(&[&stream], Operation::Work(Arc::new(Captured(optimizer))));
        }
    });
}

/// Python's callback around a launch: the number of an optimizer, and whether the launch is over.
type AroundLaunch = unsafe extern "C" fn(usize, bool);

static AROUND_LAUNCH: OnceLock<AroundLaunch> = OnceLock::new();

/// From now on, calls `around` for launches, including those through the raw handle of a graph, and in any thread:
/// Python takes its lock itself.
extern "C" fn watch_launches(around: AroundLaunch) {
    let _ = AROUND_LAUNCH.set(around);
    exec::watch(|optimizer, stream, is_over| {
        guarded(|| {
            let around = AROUND_LAUNCH.get().filter(|_| is_python_there());
            if let Some(around) = around {
                stream.synchronize();
                // SAFETY: Python keeps the function as long as it is there.
                unsafe { around(optimizer, is_over) };
            }
        });
    });
}

/// Whether Python can still be called: it is initialized, and not about to end.
fn is_python_there() -> bool {
    // SAFETY: CPython's C API gives the function's type, and it may be called at any time.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"Py_IsInitialized".as_ptr());
        !symbol.is_null() && transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol)() != 0
    }
}

/// The next tensor of a group.
unsafe extern "C" fn tensor(name: *const c_char, address: usize, bytes: usize, is_constant: bool, is_on_gpu: bool) {
    guarded(|| {
        // SAFETY: Python's string, and the bytes of a tensor that it holds.
        let (name, hash) = unsafe { (CStr::from_ptr(name), (!is_on_gpu).then(|| holdings::hash(address, bytes))) };
        let name = name.to_string_lossy().into_owned();
        TENSORS.lock().push(Tensor { name, address, bytes, is_constant, hash });
    });
}

/// The ranks of the all_reduce that these bytes went through; returns how many, 0 for none.
unsafe extern "C" fn reduced(address: usize, bytes: usize, ranks: *mut c_uint, room: usize) -> usize {
    guarded(|| {
        let known = averaged::used(address, bytes).filter(|known| known.len() <= room).unwrap_or_default();
        for (place, rank) in known.iter().enumerate() {
            // SAFETY: there is room for as many.
            unsafe { ranks.add(place).write(rank.0) };
        }
        known.len()
    })
}

/// Called when the group is complete: this is what `rank` holds after that many steps, when the work of the stream of the current
/// device is done; -1 if it is.
unsafe extern "C" fn end(
    rank: c_uint,
    ranks: *const c_uint,
    count: usize,
    number: u64,
    is_local: bool,
    stream: c_longlong,
) {
    guarded(|| {
        // SAFETY: an array of Python's.
        let ranks = unsafe { std::slice::from_raw_parts(ranks, count) };
        let (rank, group): (_, Vec<Rank>) = (Rank(rank), ranks.iter().copied().map(Rank).collect());
        if number > 0 {
            averaged::step();
        }
        let tensors = std::mem::take(&mut *TENSORS.lock());
        if !group.contains(&rank) {
            return unchecked("ranks have other numbers than torchrun gave them");
        }
        let site = call_site::of_python().unwrap_or_default();
        let step = Step { rank, group, number, site, is_local, tensors };
        // SAFETY: the program frees a tensor in the order of the stream, as it would one that a kernel reads.
        let report = move || unsafe { holdings::report(step) };
        match usize::try_from(stream).ok().and_then(|handle| stream::resolve(handle).ok()) {
            // The injected delays of streams are for the program's own work.
            Some(stream) if !stream.is_idle() => stream::enqueue(&stream, Box::new(report)),
            _ => report(),
        }
    });
}

/// Called when Python reports a problem: the check is not made.
unsafe extern "C" fn refuse(why: *const c_char) {
    guarded(|| {
        // SAFETY: Python's string.
        let why = unsafe { CStr::from_ptr(why) }.to_string_lossy();
        TENSORS.lock().clear();
        unchecked(&why);
    });
}
