//! What PyTorch's CPU operators touch while a copy to host memory is still in flight. PyTorch calls us before each operator, like
//! its profiler, but only while a copy is in flight, so a program that waits pays nothing.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use dataplane::lock::Mutex;
use dataplane::threads;

use super::bytes::{Bytes, tensors};
use super::cxx::{Device, IValue, OperatorHandle, OperatorName};
use super::layout::{at, tag};
use super::libtorch::torch;
use super::mapping::names;
use super::object::{self, Tensor};
use super::operator::{self, Operator};
use super::symbols::{Libraries, Symbols};
use crate::sanitizer::races;

/// `at::RecordFunctionCallback::start_`: writes a `std::unique_ptr` to a place given by the caller, and returns that
/// place.
type Start = unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> *mut *mut c_void;

/// `at::RecordFunctionCallback`
#[repr(C)]
struct Callback {
    start: Start,
    end: *const c_void,
    probability: f64,
    /// Enabled `at::RecordScope`s; operators are the first.
    scopes: [bool; 10],
    needs_inputs: bool,
    needs_outputs: bool,
    needs_ids: bool,
}

impl Callback {
    fn new(start: Start) -> Self {
        let mut scopes = [false; 10];
        scopes[0] = true;
        let (needs_inputs, end) = (true, std::ptr::null());
        Self { start, end, probability: 1.0, scopes, needs_inputs, needs_outputs: false, needs_ids: false }
    }
}

/// PyTorch's functions for such calls.
#[derive(Clone, Copy)]
struct Functions {
    /// `at::addGlobalCallback(RecordFunctionCallback)`
    add: unsafe extern "C-unwind" fn(Callback) -> u64,
    /// `at::removeCallback(CallbackHandle)`
    remove: unsafe extern "C-unwind" fn(u64),
    /// `at::disableCallback(CallbackHandle)`
    disable: unsafe extern "C-unwind" fn(u64),
    /// `at::reenableCallback(CallbackHandle)`
    enable: unsafe extern "C-unwind" fn(u64),
    /// `at::_ops::equal::call(Tensor const&, Tensor const&)`
    equal: unsafe extern "C-unwind" fn(*const *mut c_void, *const *mut c_void) -> bool,
}

impl Functions {
    fn find(libraries: &Libraries) -> Option<Self> {
        let find = |name| libraries.torch_cpu.symbol(name);
        // SAFETY: the mangled names give the functions' types.
        unsafe {
            Some(Self {
                add: std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(Callback) -> u64>(find(
                    c"_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE",
                )?),
                remove: std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(u64)>(find(
                    c"_ZN2at14removeCallbackEm",
                )?),
                disable: std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(u64)>(find(
                    c"_ZN2at15disableCallbackEm",
                )?),
                enable: std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn(u64)>(find(
                    c"_ZN2at16reenableCallbackEm",
                )?),
                equal: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C-unwind" fn(*const *mut c_void, *const *mut c_void) -> bool,
                >(find(c"_ZN2at4_ops5equal4callERKNS_6TensorES4_")?),
            })
        }
    }
}

/// Where an `at::RecordFunction` keeps the fields we need, in words.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// The operator's schema, followed by which of two kinds of name it is.
    schema: usize,
    /// Address and number of the arguments.
    arguments: usize,
}

/// `std::variant<std::string, std::reference_wrapper<FunctionSchema>>`: its index comes after room for a string.
const KIND: usize = 4;

/// Number of words of the object that are examined; it has more.
const WORDS: usize = 40;

struct Watch {
    functions: Functions,
    places: Places,
    handle: u64,
}

static WATCH: OnceLock<Watch> = OnceLock::new();

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static PROBE: Cell<Option<Probe>> = const { Cell::new(None) };
    static LAST: Cell<(Step, usize)> = const { Cell::new((Step::Other, 0)) };
}

/// What the probe looks for, and what it found.
#[derive(Clone, Copy)]
struct Probe {
    schema: usize,
    tensor: usize,
    places: Option<Places>,
}

/// Until dropped, operators that this thread calls are parts of a GPU operator, whose stream orders them.
pub(super) struct Inside(bool);

impl Inside {
    pub(super) fn begin() -> Self {
        Self(INSIDE.replace(true))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(self.0);
    }
}

/// From now on, operators are examined while a copy is in flight.
///
/// # Errors
/// What this PyTorch lacks, or has elsewhere.
pub(super) fn watch(libraries: &Libraries, symbols: &Symbols, scalar: *mut c_void) -> Result<(), &'static str> {
    let functions = Functions::find(libraries).ok_or("this PyTorch does not let its operators be observed")?;
    let handle = operator::handle(symbols, names::EQUAL).ok_or("this PyTorch has no aten::equal")?;
    let places = probe(functions, handle, scalar).ok_or("at::RecordFunction has another layout")?;
    // SAFETY: PyTorch's functions. The callback lives as long as the process.
    let handle = unsafe {
        let handle = (functions.add)(Callback::new(begins));
        (functions.disable)(handle);
        handle
    };
    let _ = WATCH.set(Watch { functions, places, handle });
    races::when_something_comes(|| {
        if let Some(Watch { functions, handle, .. }) = WATCH.get() {
            // SAFETY: PyTorch's function, for a callback that is registered.
            unsafe { (functions.enable)(*handle) };
        }
    });
    Ok(())
}

/// Compares a tensor with itself, and finds where that call is described. Runs in its own thread, so that no mode of the program
/// sees it.
fn probe(functions: Functions, handle: OperatorHandle, scalar: *mut c_void) -> Option<Places> {
    let (schema, tensor) = (handle.entry as usize + at::SCHEMA, scalar as usize);
    let run = move || {
        PROBE.set(Some(Probe { schema, tensor, places: None }));
        let tensor = tensor as *mut c_void;
        // SAFETY: PyTorch's functions; a `Tensor` is a pointer to a live tensor.
        unsafe {
            let added = (functions.add)(Callback::new(probed));
            (functions.equal)(&raw const tensor, &raw const tensor);
            (functions.remove)(added);
        }
        PROBE.take()?.places
    };
    threads::start("ftest-probe", run).ok()?.join().ok()?
}

/// Before an operator, during the probe.
unsafe extern "C" fn probed(context: *mut *mut c_void, record: *const c_void) -> *mut *mut c_void {
    /// Arguments lie in the frame that has the record.
    const NEAR: usize = 4096;
    // SAFETY: where the caller wants its pointer.
    unsafe { context.write(std::ptr::null_mut()) };
    let Some(mut probe) = PROBE.get().filter(|probe| probe.places.is_none()) else { return context };
    // SAFETY: the object is longer.
    let words = unsafe { std::slice::from_raw_parts(record.cast::<usize>(), WORDS) };
    let is_schema = |place: &usize| words[*place] == probe.schema && words[place + KIND] & 0xff == 1;
    let is_list = |place: &usize| {
        let list = words[*place];
        words[place + 1] == 2 && list.is_multiple_of(align_of::<IValue>()) && list.abs_diff(record as usize) < NEAR && {
            // SAFETY: on this thread's stack.
            let values = unsafe { std::slice::from_raw_parts(list as *const IValue, 2) };
            values.iter().all(|value| value.tag == tag::TENSOR && value.payload as usize == probe.tensor)
        }
    };
    let schema = (1..WORDS - KIND).find(is_schema);
    probe.places = schema.and_then(|schema| {
        let arguments = (schema + KIND..WORDS - 1).find(is_list)?;
        Some(Places { schema, arguments })
    });
    PROBE.set(Some(probe));
    context
}

/// Before an operator.
unsafe extern "C" fn begins(context: *mut *mut c_void, record: *const c_void) -> *mut *mut c_void {
    // SAFETY: where the caller wants its pointer.
    unsafe { context.write(std::ptr::null_mut()) };
    let Some(Watch { functions, places, handle }) = WATCH.get() else { return context };
    if !races::is_something_coming() {
        // SAFETY: PyTorch's function; it may be called from a callback.
        unsafe { (functions.disable)(*handle) };
    } else if !INSIDE.get() {
        // SAFETY: the object is longer, and has what the probe found.
        let (words, values) = unsafe {
            let words = std::slice::from_raw_parts(record.cast::<usize>(), WORDS);
            let list = words[places.arguments] as *const IValue;
            let count = if list.is_null() { 0 } else { words[places.arguments + 1] };
            (words, std::slice::from_raw_parts(if count == 0 { std::ptr::dangling() } else { list }, count))
        };
        // A name that is a string is not an operator's.
        if words[places.schema + KIND] & 0xff == 1 {
            let entry = words[places.schema] - at::SCHEMA;
            // No panic gets to PyTorch.
            let _ = catch_unwind(AssertUnwindSafe(|| look(entry, values)));
        }
    }
    context
}

/// Examines the operator of an entry, whose arguments are on top of `values`.
fn look(entry: usize, values: &[IValue]) {
    let Some(touched) = values.iter().find_map(coming) else { return };
    // SAFETY: an entry of the dispatcher begins with the operator's name, and is never removed.
    let known = known(entry, || unsafe { (*(entry as *const OperatorName)).text() });
    if is_listed(known.step, touched) {
        let (address, bytes) = Bytes::from_tensor(touched).map_or((0, 0), |bytes| bytes.hull());
        return races::host_touches("Tensor.tolist", address, bytes, false);
    }
    let Some(operator) = known.touches else { return };
    let schema = operator.schema();
    let Some(below) = values.len().checked_sub(schema.arguments.len()) else { return };
    let arguments = || schema.arguments.iter().zip(&values[below..]).zip(&schema.written);
    // What takes tensors of a GPU, too, is its stream's.
    let is_gpus = |tensor: Tensor| tensor.device().kind == Device::CUDA;
    if arguments().any(|((kind, slot), _)| tensors(*kind, slot).any(is_gpus)) {
        return;
    }
    for ((kind, slot), written) in arguments() {
        for (address, bytes) in tensors(*kind, slot).filter_map(Bytes::from_tensor).map(|bytes| bytes.hull()) {
            if races::is_coming(address, bytes) {
                races::host_touches(&operator.name, address, bytes, *written);
            }
        }
    }
}

/// The tensor of a value into which a copy is in flight.
fn coming(value: &IValue) -> Option<Tensor> {
    let is_coming = |tensor: &Tensor| {
        tensor.device().kind != Device::CUDA
            && Bytes::from_tensor(*tensor)
                .map(|bytes| bytes.hull())
                .is_some_and(|(address, bytes)| races::is_coming(address, bytes))
    };
    if value.tag == torch().layout.tags.list {
        // SAFETY: the call's owner keeps the list alive.
        let items = unsafe { object::list_items(value.payload as *mut c_void) };
        return items.iter().filter_map(Tensor::in_slot).find(is_coming);
    }
    Tensor::in_slot(value).filter(is_coming)
}

/// `tolist` reads without an operator, but calls two before that, with the tensor itself. `numpy(force=True)` calls the same two,
/// after `to`, and reads nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Other,
    Moved,
    Conjugated,
    Negated,
}

/// Whether this step is the second of `tolist`.
fn is_listed(step: Step, tensor: Tensor) -> bool {
    let tensor = tensor.0 as usize;
    let last = LAST.get();
    let after_moving = step == Step::Conjugated && last == (Step::Moved, tensor);
    LAST.set((if after_moving { Step::Other } else { step }, tensor));
    step == Step::Negated && last == (Step::Conjugated, tensor)
}

/// What is known about an operator.
#[derive(Clone, Copy)]
struct Known {
    step: Step,
    /// `None` for an operator that touches no bytes of its arguments: views, and operators that call others.
    touches: Option<&'static Operator>,
}

fn known(entry: usize, name: impl FnOnce() -> String) -> Known {
    static KNOWN: Mutex<Option<HashMap<usize, Known>>> = Mutex::new(None);
    if let Some(known) = KNOWN.lock().get_or_insert_default().get(&entry) {
        return *known;
    }
    let name = name();
    let step = match name.split('.').next().unwrap_or_default() {
        names::RESOLVE_CONJ => Step::Conjugated,
        names::RESOLVE_NEG => Step::Negated,
        name if names::MOVING.contains(&name) => Step::Moved,
        _ => Step::Other,
    };
    let known = Known { step, touches: reader(&name) };
    KNOWN.lock().get_or_insert_default().insert(entry, known);
    known
}

/// An operator with its own CPU kernel, which reads or writes the bytes of its arguments.
fn reader(name: &str) -> Option<&'static Operator> {
    let symbols = &torch().symbols;
    let has_kernel = || {
        let handle = operator::handle(symbols, name)?;
        operator::kernel(symbols, &handle, torch().layout.keys.cpu)
    };
    // The one of copies is for all devices.
    let touches = names::has_twin(name) && (name == names::COPY || has_kernel().is_some());
    touches.then(|| Operator::find(name)).flatten().map(|operator| &*Box::leak(Box::new(operator)))
}
