//! Operators in CUDA graphs. While a stream captures, an operator computes once, to determine the shapes of its results; the
//! capture restores memory at its end. The node keeps views of the arguments by their addresses, as a kernel would, and each
//! launch computes again and leaves the results at the same addresses.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use super::asserts::Violation;
use super::current::{self, CurrentDevice};
use super::cxx::{Device, IValue};
use super::generator::Drawing;
use super::host::Inside;
use super::layout::tag;
use super::libtorch::torch;
use super::mapping::names;
use super::method::Method;
use super::object::{self, Form, Storage, Tensor};
use super::operator::{Kind, Operator};
use super::timeline::Timed;
use super::value::{Arguments, Value};
use super::waits::host_waits;
use super::watch::{Captured, Replay};
use super::{exception, view};
use crate::boundary::gap;
use crate::device;
use crate::device::graph::capture::{self, Capture, Hidden};
use crate::device::graph::structure::{Operation, Work};
use crate::device::state::error_names::string;
use crate::device::work::running;
use crate::device::work::stream::Stream;

/// An operator being added to the graph that the current stream captures.
pub(super) struct Recording {
    capture: Arc<Capture>,
    stream: Arc<Stream>,
    index: i8,
}

/// What is kept of an operator's arguments while it computes.
pub(super) struct Kept {
    arguments: Vec<Value>,
    captured: Captured,
    hidden: Hidden,
}

impl Recording {
    /// `None` if the current stream of GPU `index` does not capture. Throws PyTorch's error if the stream must not be used
    /// now.
    pub(super) fn begin(index: i8) -> Option<Self> {
        if !capture::is_any() || capture::is_hidden() || gap::is_muted() {
            return None;
        }
        let stream = current::stream(index)?;
        match capture::for_stream(&stream) {
            Ok(capture) => capture.map(|capture| Self { capture, stream, index }),
            Err(error) => fail(error),
        }
    }

    /// Throws for an operator that is not allowed in a capture, or not supported in one.
    pub(super) fn admit(&self, operator: &'static Operator, arguments: &[IValue]) {
        if host_waits(operator, arguments) {
            self.capture.invalidate();
            fail(CudaError::CAPTURE_UNSUPPORTED);
        }
        let is_plain = |tensor: Tensor| matches!(tensor.form(), Some(Form::Plain | Form::Quantized));
        let all_plain = tensors_of(operator, arguments).into_iter().all(is_plain);
        if !all_plain {
            self.capture.invalidate();
            gap::record(Library::Torch, &operator.name, "a sparse tensor in a CUDA graph");
            exception::not_implemented(&format!(
                "{}: a sparse tensor in a CUDA graph is not supported on the simulated GPU (a gap of ftest, not of the program)",
                operator.name
            ));
        }
    }

    /// Called before the operator computes: records memory.
    pub(super) fn keep(&self, operator: &'static Operator, arguments: &[IValue]) -> Kept {
        self.capture.rehearse(|undo| {
            for tensor in tensors_of(operator, arguments) {
                if tensor.device().kind == Device::CUDA {
                    let storage = tensor.storage();
                    // SAFETY: the bytes of a live storage; a GPU's memory is this process's.
                    unsafe { undo.keep(storage.data(), storage.bytes()) };
                }
            }
        });
        let hidden = Hidden::begin();
        Kept {
            arguments: arguments.iter().map(Value::to_keep).collect(),
            captured: Captured::begin(operator, arguments, self.index),
            hidden,
        }
    }

    /// Called after the operator has computed, with its results: makes the node.
    pub(super) fn add(self, operator: &'static Operator, method: Method, kept: Kept, results: &[IValue]) {
        let Kept { arguments, captured, hidden } = kept;
        drop(hidden);
        let mut viewer = Viewer::default();
        let arguments: Vec<Value> = operator
            .schema()
            .arguments
            .iter()
            .zip(arguments)
            .map(|(kind, value)| viewer.argument(*kind, value))
            .collect();
        let results = flat(results);
        let outputs: Vec<Option<Output>> = results.iter().map(|tensor| viewer.output(*tensor)).collect();
        self.capture.rehearse(|undo| {
            outputs.iter().flatten().for_each(|output| undo.fresh(output.storage.data(), output.storage.bytes()));
        });
        let replay = captured.end(&results);
        let own = match method {
            Method::Filled(_) => results.iter().filter_map(|tensor| viewer.tensor(*tensor)).collect(),
            _ => Vec::new(),
        };
        let node = Node {
            operator,
            method,
            index: self.index,
            places: viewer.views.iter().map(|(_, view)| (*view, view.storage().data())).collect(),
            arguments,
            outputs,
            own,
            replay,
        };
        if let Err(error) = self.capture.add(&[&self.stream], Operation::Work(Arc::new(node))) {
            fail(error);
        }
    }
}

/// CUDA's error, as PyTorch words it.
fn fail(error: CudaError) -> ! {
    let text = string(error.0);
    // SAFETY: a constant C string.
    let text = unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy();
    exception::fail(&format!("CUDA error: {text}"))
}

/// The tensors among the arguments.
fn tensors_of(operator: &Operator, arguments: &[IValue]) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for (kind, slot) in operator.schema().arguments.iter().zip(arguments) {
        if matches!(kind, Kind::Tensor | Kind::Tensors) {
            tensors.extend(flat(std::slice::from_ref(slot)));
        }
    }
    tensors
}

/// The tensors in values, including those in lists.
fn flat(values: &[IValue]) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for value in values {
        if value.tag == torch().layout.tags.list {
            // SAFETY: the value holds its list.
            let items = unsafe { object::list_items(value.payload as *mut c_void) };
            tensors.extend(items.iter().filter_map(Tensor::in_slot));
        } else {
            tensors.extend(Tensor::in_slot(value));
        }
    }
    tensors
}

/// Makes CPU tensors over the memory of GPU tensors, which they do not keep alive.
#[derive(Default)]
struct Viewer {
    /// Storages and their twins.
    twins: Vec<(Storage, Storage)>,
    views: Vec<(Tensor, Tensor)>,
}

impl Viewer {
    /// The view of a GPU tensor, with a reference for the caller.
    fn tensor(&mut self, tensor: Tensor) -> Option<Value> {
        if tensor.device().kind != Device::CUDA {
            return None;
        }
        let known = self.views.iter().find(|(original, _)| *original == tensor).map(|(_, view)| *view);
        let view = known.unwrap_or_else(|| {
            let storage = tensor.storage();
            let twin = self.twins.iter().find(|(original, _)| *original == storage).map(|(_, twin)| *twin);
            let twin = twin.unwrap_or_else(|| {
                let twin = storage.twin();
                self.twins.push((storage, twin));
                twin
            });
            let view = view::on_twin(tensor, twin);
            self.views.push((tensor, view));
            view
        });
        // SAFETY: a live tensor: `views` has a reference until the end.
        unsafe { object::retain(view.0) };
        Some(Value::own(IValue::new(tag::TENSOR, view.0 as u64)))
    }

    fn argument(&mut self, kind: Kind, value: Value) -> Value {
        match kind {
            Kind::Tensor => match value.tensor() {
                Some(tensor) => self.tensor(tensor).unwrap_or(value),
                None => value,
            },
            Kind::Tensors if value.is_list() => {
                let list = value.into_raw();
                // SAFETY: the node's own list by now: nobody else had it, and the call that it was made for is over.
                for item in unsafe { object::list_items(list.payload as *mut c_void) } {
                    if let Some(view) = Tensor::in_slot(item).and_then(|tensor| self.tensor(tensor)) {
                        drop(Value::own(std::mem::replace(item, view.into_raw())));
                    }
                }
                Value::own(list)
            }
            Kind::Device => Value::on_cpu(value),
            _ => value,
        }
    }

    /// Where a result has to be; `None` if it is an argument or a view of one.
    fn output(&mut self, tensor: Tensor) -> Option<Output> {
        let storage = tensor.storage();
        let is_argument = self.twins.iter().any(|(_, twin)| twin.data() == storage.data());
        if tensor.device().kind != Device::CUDA || is_argument || storage.bytes() == 0 {
            return None;
        }
        let twin = storage.twin();
        let view = view::on_twin(tensor, twin);
        let view = Value::own(IValue::new(tag::TENSOR, view.0 as u64));
        Some(Output { view, storage: Twin(twin) })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        // SAFETY: the references that it got when they were made.
        unsafe {
            self.views.iter().for_each(|(_, view)| object::release(view.0));
            self.twins.iter().for_each(|(_, twin)| object::release(twin.0));
        }
    }
}

/// A storage that we hold a reference to.
struct Twin(Storage);

impl std::ops::Deref for Twin {
    type Target = Storage;

    fn deref(&self) -> &Storage {
        &self.0
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // SAFETY: our reference.
        unsafe { object::release(self.0.0) };
    }
}

/// A result: a view of its place at capture time.
struct Output {
    view: Value,
    storage: Twin,
}

impl Output {
    /// Puts a result there. False if it has another shape.
    fn take(&self, result: Tensor) -> bool {
        let Some(view) = self.view.tensor() else { return false };
        let storage = result.storage();
        let is_same = result.sizes_and_strides() == view.sizes_and_strides()
            && result.storage_offset() == view.storage_offset()
            && result.data_type() == view.data_type()
            && storage.bytes() == self.storage.bytes();
        if is_same {
            let bytes = storage.bytes();
            // SAFETY: both storages have so many bytes, of the CPU and of a GPU's memory.
            unsafe { std::ptr::copy(storage.data() as *const u8, self.storage.data() as *mut u8, bytes) };
            return true;
        }
        if result.sizes_and_strides().0 != view.sizes_and_strides().0 {
            return false;
        }
        // SAFETY: a live tensor; the value has a reference of its own.
        unsafe { object::retain(result.0) };
        let from = Value::own(IValue::new(tag::TENSOR, result.0 as u64));
        drop(super::value::call(names::COPY, [self.view.clone(), from, Value::bool(false)]));
        true
    }
}

/// An operator in a graph.
struct Node {
    operator: &'static Operator,
    method: Method,
    index: i8,
    arguments: Vec<Value>,
    /// Views, and the addresses of their bytes.
    places: Vec<(Tensor, usize)>,
    /// An entry per result.
    outputs: Vec<Option<Output>>,
    /// The results of an operator that fills what PyTorch's own kernel lays out.
    own: Vec<Value>,
    replay: Replay,
}

// SAFETY: libtorch counts references atomically, and launches change nothing of a node but the memory of the graph.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Work for Node {
    fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        let gpu = device::get(i32::from(self.index))?;
        self.replay.submit(self.operator, stream.lane());
        stream.synchronize();
        gpu.alive()?;
        let _device = CurrentDevice::become_(self.index);
        let _running = running::start(gpu);
        let _inside = Inside::begin();
        let timed = Timed::of_node(stream, self.operator, &self.arguments);
        let replayed = self.replay.begin(self.operator, || self.arguments.iter().map(Value::raw).collect());
        let is_done = match exception::caught(|| self.compute()) {
            Ok(is_done) => is_done,
            Err(why) => {
                let arguments = self.taken(self.arguments.iter().cloned().map(Value::into_raw).collect());
                let violation = Violation::find(&arguments, &why);
                if let Some(violation) = violation {
                    violation.report(self.operator, gpu);
                    return Ok(());
                }
                let why = why.lines().next().unwrap_or_default();
                eprintln!("fakegpu: device {}: {} in a CUDA graph: {why}", gpu.ordinal, self.operator.name);
                // A kernel would have asserted it.
                gpu.fail(CudaError::ASSERT);
                return Err(CudaError::ASSERT);
            }
        };
        if let Some(timed) = timed {
            let outputs: Vec<IValue> = self.outputs.iter().flatten().map(|output| output.view.raw()).collect();
            timed.end(&outputs);
        }
        let results = || self.outputs.iter().flatten().filter_map(|output| output.view.tensor()).collect();
        self.replay.end(replayed, results);
        self.operator.calls.fetch_add(1, Ordering::Relaxed);
        if is_done {
            return Ok(());
        }
        gap::record(
            Library::Torch,
            &self.operator.name,
            "gives results of another shape when its CUDA graph is launched",
        );
        Err(CudaError::LAUNCH_FAILURE)
    }

    fn name(&self) -> &str {
        &self.operator.name
    }
}

impl Node {
    /// False if something has a different shape than at capture time.
    fn compute(&self) -> bool {
        let mut values: Vec<IValue> = self.arguments.iter().cloned().map(Value::into_raw).collect();
        // Random numbers go on from where the generator is now, as they do without a graph.
        let drawing = self.draw(&mut values);
        let results: Vec<Value> = match (self.method, self.operator.cpu) {
            (Method::Filled(body), _) => {
                body(&self.taken(values), &self.own);
                Vec::new()
            }
            (Method::Mapped(body), _) => body(self.taken(values)),
            (Method::Random(body), _) => {
                let generator = drawing.as_ref().map_or(Value::NONE, |drawing| Value::own(drawing.argument()));
                body(self.taken(values), generator)
            }
            // SAFETY: the arguments were made for the operator's schema, with CPU tensors for CUDA tensors.
            _ => unsafe { self.operator.on_cpu(&values) }.into_iter().map(Value::own).collect(),
        };
        drop(drawing);
        if matches!(self.method, Method::Filled(_)) {
            return self.is_in_place();
        }
        let raw: Vec<IValue> = results.into_iter().map(Value::into_raw).collect();
        let tensors = flat(&raw);
        let fits = tensors.len() == self.outputs.len()
            && tensors
                .iter()
                .zip(&self.outputs)
                .all(|(tensor, output)| output.as_ref().is_none_or(|output| output.take(*tensor)));
        raw.into_iter().map(Value::own).for_each(drop);
        fits && self.is_in_place()
    }

    fn taken(&self, values: Vec<IValue>) -> Arguments {
        Arguments::new(self.operator, self.index, values)
    }

    /// Whether the views still refer to the captured memory.
    fn is_in_place(&self) -> bool {
        self.places.iter().all(|(view, place)| view.storage().data() == *place)
    }

    fn draw(&self, values: &mut [IValue]) -> Option<Drawing> {
        let Some(place) = self.operator.schema().arguments.iter().position(|kind| *kind == Kind::Generator) else {
            return matches!(self.method, Method::Random(_)).then(|| Drawing::begin(None, self.index));
        };
        let slot = &mut values[place];
        let given = (slot.tag == torch().layout.tags.generator).then_some(slot.payload as *mut c_void);
        let drawing = Drawing::begin(given, self.index);
        drop(Value::own(std::mem::replace(slot, drawing.argument())));
        Some(drawing)
    }
}
