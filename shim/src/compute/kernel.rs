//! What runs in place of CUDA kernels: the CPU kernel of the same operator, on views of the arguments.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use abi::library::Library;

use super::allocator::Redirect;
use super::asserts::Violation;
use super::current::{self, CurrentDevice};
use super::cxx::{Device, IValue, OperatorHandle, Stack};
use super::generator::{Drawing, Unmoved};
use super::graphed::Recording;
use super::host::Inside;
use super::libtorch::torch;
use super::method::Method;
use super::object::{self, Tensor};
use super::operator::{Kernel, Kind, Operator};
use super::timeline::Timed;
use super::value::{Arguments, Value};
use super::views::Views;
use super::waits::host_waits;
use super::watch::Watch;
use super::{exception, sums, view};
use crate::boundary::gap;
use crate::device;
use crate::device::graph::capture::{self, Hidden};
use crate::device::work::{clock, running, stream};
use crate::settings::blocking;

/// The object that libtorch passes to [`compute`]: a `c10::OperatorKernel` followed by the operator.
#[repr(C)]
pub(super) struct Functor {
    table: *const *const c_void,
    references: AtomicU64,
    pub(super) operator: &'static Operator,
    pub(super) method: Method,
}

unsafe extern "C-unwind" fn nothing(_this: *mut c_void) {}

unsafe extern "C-unwind" fn refuse(_this: *mut c_void) -> bool {
    false
}

/// Makes the object for one operator; it is never freed.
pub(super) fn functor(operator: &'static Operator, method: Method) -> *mut c_void {
    // Two words before the table (offset to top, type), then destructors, release_resources and the three about Python
    // objects, and spare places for virtual functions that a version may add.
    let mut table: [*const c_void; 12] = [nothing as *const c_void; 12];
    table[0] = std::ptr::null();
    table[1] = torch().symbols.kernel_type;
    table[7] = refuse as *const c_void;
    let table = &Box::leak(Box::new(table))[2];
    // Far from zero, so that no count of references ever ends it.
    let references = AtomicU64::new(1 << 20 | 1 << 52);
    let functor = Functor { table, references, operator, method };
    Box::into_raw(Box::new(functor)).cast()
}

/// What the arguments imply about devices.
#[derive(Clone, Copy)]
pub(super) struct Placement {
    /// The GPU that computes.
    pub(super) device: i8,
    /// Whether PyTorch has to be asked if the devices are compatible.
    pub(super) is_mixed: bool,
    /// Whether any of the tensors is not a plain one.
    pub(super) has_special: bool,
}

pub(super) fn place(operator: &Operator, arguments: &[IValue]) -> Placement {
    let mut devices = Devices { device: None, is_mixed: false, has_special: false };
    for (kind, slot) in operator.schema().arguments.iter().zip(arguments) {
        match kind {
            Kind::Tensor => devices.tensor(slot),
            Kind::Tensors if slot.tag == torch().layout.tags.list => {
                // SAFETY: the argument keeps its list alive.
                unsafe { object::list_items(slot.payload as *mut c_void) }.iter().for_each(|item| devices.tensor(item));
            }
            Kind::Device if slot.tag == torch().layout.tags.device && devices.device.is_none() => {
                let [_, index, ..] = slot.payload.to_ne_bytes();
                devices.device = (index as i8 >= 0).then_some(index as i8);
            }
            _ => {}
        }
    }
    let device = devices.device.unwrap_or_else(|| device::current().map_or(0, |device| device.ordinal as i8));
    Placement { device, is_mixed: devices.is_mixed, has_special: devices.has_special }
}

/// The devices of an operator's arguments.
struct Devices {
    device: Option<i8>,
    is_mixed: bool,
    has_special: bool,
}

impl Devices {
    fn tensor(&mut self, slot: &IValue) {
        let Some(tensor) = Tensor::in_slot(slot) else { return };
        let device = tensor.device();
        if device.kind != Device::CUDA {
            self.is_mixed |= !tensor.is_wrapped_number();
            return;
        }
        self.has_special |= tensor.form().is_none();
        match self.device {
            None => self.device = Some(device.index),
            Some(known) => self.is_mixed |= known != device.index,
        }
    }
}

/// The kernel of every operator that the bridge implements.
///
/// # Safety
/// libtorch calls it with the object of [`functor`] and a stack that ends with the operator's arguments.
pub(super) unsafe extern "C-unwind" fn compute(
    functor: *mut c_void,
    handle: *const OperatorHandle,
    keys: u64,
    stack: *mut Stack,
) {
    // SAFETY: the object of `functor`, which lives forever.
    let Functor { operator, method, .. } = unsafe { &*functor.cast::<Functor>() };
    let _inside = Inside::begin();
    // SAFETY: the stack is the caller's and ours until we return.
    let values: &[IValue] = unsafe { (*stack).items() };
    let below = values.len() - operator.schema().arguments.len();
    let arguments = &values[below..];
    let placement = place(operator, arguments);
    let target = Device { kind: Device::CUDA, index: placement.device };
    let call = Call { operator, method: *method, handle, keys, target };
    let recording = call.admit(arguments, placement);
    let _device = CurrentDevice::become_(target.index);
    // What the stream of a recording is given goes into the graph: there is nothing to wait for.
    if recording.is_none() {
        call.wait(arguments, placement.is_mixed);
        sums::follow(operator, arguments);
    }
    if let Some(cuda) = call.copies_bytes(arguments) {
        // SAFETY: PyTorch's kernel, with its own arguments.
        return unsafe { cuda.call(handle, keys, stack) };
    }
    match recording {
        // SAFETY: the stack ends with the arguments.
        Some(recording) => unsafe { call.record(recording, stack, below) },
        // SAFETY: as above.
        None => unsafe { call.run(stack, below, placement.is_mixed) },
    }
}

/// An operator being called.
pub(super) struct Call {
    pub(super) operator: &'static Operator,
    pub(super) method: Method,
    pub(super) handle: *const OperatorHandle,
    pub(super) keys: u64,
    pub(super) target: Device,
}

impl Call {
    /// Throws for what cannot be computed, or what PyTorch refuses; returns the recording if the current stream captures.
    pub(super) fn admit(&self, arguments: &[IValue], placement: Placement) -> Option<Recording> {
        let Self { operator, method, handle, keys, .. } = *self;
        if let Method::Gap = method {
            missing(operator);
        }
        if placement.has_special {
            special(operator);
        }
        let recording = Recording::begin(placement.device);
        if let Some(recording) = &recording {
            recording.admit(operator, arguments);
        }
        if placement.is_mixed && !matches!(method, Method::Filled(_)) {
            let _hidden = recording.is_some().then(Hidden::begin);
            check(operator, handle, keys, arguments, method);
        }
        if let (Some(generator), Some(cuda)) = (given_generator(operator, arguments), operator.cuda)
            && !Drawing::is_cuda(generator, placement.device)
        {
            // Throws PyTorch's own error.
            trial(cuda, handle, keys, arguments);
            missing(operator);
        }
        recording
    }

    /// Pending work of the GPUs that it uses happens first.
    pub(super) fn wait(&self, arguments: &[IValue], is_mixed: bool) {
        if is_mixed {
            wait_for_all(self.operator, arguments);
        } else {
            wait_for_streams(self.target.index);
        }
        if let Ok(device) = device::get(i32::from(self.target.index))
            && device.fails_later()
            && host_waits(self.operator, arguments)
        {
            device.synchronized();
            check_device(device);
        }
    }

    /// PyTorch's own kernel, if the operator copies bytes and needs no other.
    fn copies_bytes(&self, arguments: &[IValue]) -> Option<Kernel> {
        let cuda = self.operator.cuda.filter(|_| matches!(self.method, Method::Copy))?;
        is_copy_of_bytes(arguments).then_some(cuda)
    }

    /// Computes once and adds it to the graph that the stream captures.
    ///
    /// # Safety
    /// The stack ends with the operator's arguments, from `below` up.
    unsafe fn record(&self, recording: Recording, stack: *mut Stack, below: usize) {
        // SAFETY: by the caller.
        let kept = recording.keep(self.operator, unsafe { &(*stack).items()[below..] });
        // SAFETY: by the caller.
        drop(unsafe { self.perform(stack, below, false) });
        // SAFETY: the results are where the arguments were.
        recording.add(self.operator, self.method, kept, unsafe { &(*stack).items()[below..] });
    }

    /// Computes under the eyes of the sanitizers.
    ///
    /// # Safety
    /// The stack ends with the operator's arguments, from `below` up.
    unsafe fn run(&self, stack: *mut Stack, below: usize, is_mixed: bool) {
        // SAFETY: by the caller.
        let arguments = unsafe { &(*stack).items()[below..] };
        let watch = Watch::begin(self.operator, arguments, self.target.index, is_mixed);
        let timed = Timed::begin(self.operator, arguments, self.target.index);
        // Asked before the arguments leave the stack.
        let waits = clock::is_modeled() && host_waits(self.operator, arguments);
        // SAFETY: by the caller. What it gives keeps the arguments.
        let _views = unsafe { self.perform(stack, below, true) };
        // SAFETY: the results are where the arguments were.
        let results = unsafe { &(*stack).items()[below..] };
        if let Some(timed) = timed {
            timed.end(results);
        }
        if waits {
            current::stream(self.target.index).inspect(|stream| stream.host_waited());
        }
        watch.end(results);
        self.operator.calls.fetch_add(1, Ordering::Relaxed);
        if self.operator.asserts
            && let Ok(device) = device::get(i32::from(self.target.index))
        {
            check_device(device);
        }
    }

    /// Computes: takes the arguments off the stack, from `below` up, and puts the results there. With `is_live`, assertions of the
    /// kernel count: one that is captured runs later.
    ///
    /// # Safety
    /// The stack ends with the operator's arguments.
    pub(super) unsafe fn perform(&self, stack: *mut Stack, below: usize, is_live: bool) -> Views {
        let Self { operator, method, handle, keys, target } = *self;
        // SAFETY: by the caller.
        let values = unsafe { (*stack).items() };
        let own = match (method, operator.cuda) {
            (Method::Filled(_), Some(cuda)) => {
                // While its state belongs to a capture, the generator cannot be put back.
                let _generator = (!capture::is_hidden()).then(|| Unmoved::keep(target.index));
                let _shown = Hidden::pause();
                trial(cuda, handle, keys, &values[below..])
            }
            _ => Vec::new(),
        };
        let mut views = Views::make(operator, &mut values[below..]);
        let drawing = draw(operator, method, &mut values[below..], target.index);
        let redirect = Redirect::begin();
        let running = device::get(i32::from(target.index)).ok().map(running::start);
        match (method, operator.cpu) {
            (Method::Filled(body), _) => {
                let fill = |arguments: Arguments| {
                    let seen = view::results(&own);
                    body(&arguments, &seen);
                    view::adopt_replaced(&own, &seen);
                    own
                };
                // SAFETY: the arguments are on top of the stack.
                unsafe { replace(operator, target.index, stack, below, fill) };
            }
            // SAFETY: the arguments are on top of the stack.
            (Method::Mapped(body), _) => unsafe { replace(operator, target.index, stack, below, body) },
            (Method::Random(body), _) => {
                let generator = drawing.as_ref().map_or(Value::NONE, |drawing| Value::own(drawing.argument()));
                // SAFETY: the arguments are on top of the stack.
                unsafe { replace(operator, target.index, stack, below, |arguments| body(arguments, generator)) };
            }
            // SAFETY: the arguments are as libtorch gave them, with CPU tensors for CUDA tensors.
            (_, Some(kernel)) if operator.asserts => unsafe { self.assert(kernel, stack, below, is_live) },
            // SAFETY: as above.
            (_, Some(kernel)) => unsafe { kernel.call(handle, torch().layout.keys.dense_cpu, stack) },
            (_, None) => missing(operator),
        }
        drop(running);
        views.adopt_changes();
        // Results of PyTorch's own kernel are where that put them.
        if !matches!(method, Method::Filled(_)) {
            // SAFETY: as above.
            let results = unsafe { &mut (*stack).items()[below..] };
            views.results(results, target);
        }
        drop(redirect);
        drop(drawing);
        views
    }
}

impl Call {
    /// Calls the CPU's kernel. Where a GPU's would assert, it gets arguments that it accepts, and the device fails later.
    ///
    /// # Safety
    /// The stack ends with the operator's arguments, from `below` up, with CPU tensors for CUDA tensors.
    unsafe fn assert(&self, kernel: Kernel, stack: *mut Stack, below: usize, is_live: bool) {
        let Self { operator, handle, target, .. } = *self;
        // SAFETY: by the caller.
        let call = move || unsafe { kernel.call(handle, torch().layout.keys.dense_cpu, stack) };
        // SAFETY: by the caller.
        let arguments: Vec<Value> = unsafe { &(*stack).items()[below..] }.iter().map(Value::another).collect();
        let Err(error) = exception::caught(call) else { return };
        let given = arguments.iter().cloned().map(Value::into_raw).collect();
        let violation = Violation::find(&Arguments::new(operator, target.index, given), &error);
        let arguments = match &violation {
            Some(violation) => violation.repaired(operator, arguments),
            // The host refuses them on a GPU, too: the second call throws what the first one did.
            None => arguments,
        };
        // SAFETY: the stack is ours, and what the kernel left of its arguments is released in their place.
        unsafe {
            (*stack).items()[below..].iter().for_each(object::release_value);
            (*stack).end = (*stack).begin.add(below);
            arguments.into_iter().for_each(|value| (*stack).push(value.into_raw()));
        }
        call();
        if let (Some(violation), true, Ok(device)) = (violation, is_live, device::get(i32::from(target.index))) {
            violation.report(operator, device);
            if blocking::launches_block() {
                device.synchronized();
            }
        }
    }
}

/// Takes the arguments off the stack, from `below` up, and puts the results of `body` there.
///
/// # Safety
/// The stack holds the operator's arguments from there on.
pub(super) unsafe fn replace(
    operator: &'static Operator,
    device: i8,
    stack: *mut Stack,
    below: usize,
    body: impl FnOnce(Arguments) -> Vec<Value>,
) {
    // SAFETY: by the caller; the arguments are taken over, so the stack ends below them.
    let arguments = unsafe {
        let arguments = (*stack).items()[below..].to_vec();
        (*stack).end = (*stack).begin.add(below);
        arguments
    };
    for value in body(Arguments::new(operator, device, arguments)) {
        // SAFETY: the stack is ours.
        unsafe { (*stack).push(value.into_raw()) };
    }
}

/// For an operator that nothing here computes: NotImplementedError, and a gap.
pub(super) fn missing(operator: &'static Operator) -> ! {
    gap::record(Library::Torch, &operator.name, "");
    exception::not_implemented(&format!(
        "{}: this operator has no CPU kernel that could compute it on the simulated GPU (a gap of ftest, not of the program)",
        operator.name
    ))
}

/// Refuses a tensor of a kind that has no view.
fn special(operator: &'static Operator) -> ! {
    gap::record(Library::Torch, &operator.name, "");
    exception::not_implemented(&format!(
        "{}: an argument is neither a strided nor a sparse tensor, which the simulated GPU does not support",
        operator.name
    ))
}

/// Lets PyTorch's own CUDA kernel check arguments on several devices: it throws its own error if they are incompatible. Its
/// results are discarded.
fn check(operator: &Operator, handle: *const OperatorHandle, keys: u64, arguments: &[IValue], method: Method) {
    // A GPU's tensor takes indices from the CPU; the reverse is an error.
    let takes_indices = operator.takes_indices_of_cpu;
    let own = arguments.first().and_then(Tensor::in_slot).map(|tensor| tensor.device());
    let is_free = matches!(method, Method::Copy) || (takes_indices && goes_with_cpu(operator, arguments, own));
    let Some(cuda) = operator.cuda.filter(|_| !is_free) else { return };
    trial(cuda, handle, keys, arguments);
}

/// True if `own` is a GPU, and every tensor is on that GPU or on the CPU.
fn goes_with_cpu(operator: &Operator, arguments: &[IValue], own: Option<Device>) -> bool {
    let fits = |slot: &IValue| {
        Tensor::in_slot(slot).is_none_or(|tensor| tensor.device().kind != Device::CUDA || Some(tensor.device()) == own)
    };
    own.is_some_and(|own| own.kind == Device::CUDA)
        && operator.schema().arguments.iter().zip(arguments).all(|(kind, slot)| match kind {
            Kind::Tensor => fits(slot),
            Kind::Tensors if slot.tag == torch().layout.tags.list => {
                // SAFETY: the argument keeps its list alive.
                unsafe { object::list_items(slot.payload as *mut c_void) }.iter().all(fits)
            }
            _ => true,
        })
}

/// Runs PyTorch's own CUDA kernel, whose launches do not count as gaps, and returns its results.
pub(super) fn trial(cuda: Kernel, handle: *const OperatorHandle, keys: u64, arguments: &[IValue]) -> Vec<Value> {
    struct Trial(Stack);
    impl Drop for Trial {
        fn drop(&mut self) {
            self.0.items().iter().for_each(object::release_value);
            self.0.free();
        }
    }
    let mut trial = Trial(Stack::new());
    // Declared last, so that it ends before the references are given back.
    let _muted = gap::Muted::begin();
    for value in arguments {
        object::retain_value(value);
        trial.0.push(*value);
    }
    // SAFETY: PyTorch's kernel, with references of its own to its own arguments.
    unsafe { cuda.call(handle, keys, &raw mut trial.0) };
    trial.0.items().iter().inspect(|value| object::retain_value(value)).copied().map(Value::own).collect()
}

/// The generator among the arguments.
fn given_generator(operator: &Operator, arguments: &[IValue]) -> Option<*mut c_void> {
    let place = operator.schema().arguments.iter().position(|kind| *kind == Kind::Generator)?;
    let slot = &arguments[place];
    (slot.tag == torch().layout.tags.generator).then_some(slot.payload as *mut c_void)
}

/// A random operator draws from its CUDA generator argument, or from the GPU's default one.
fn draw(operator: &Operator, method: Method, arguments: &mut [IValue], index: i8) -> Option<Drawing> {
    let Some(place) = operator.schema().arguments.iter().position(|kind| *kind == Kind::Generator) else {
        return matches!(method, Method::Random(_)).then(|| Drawing::begin(None, index));
    };
    let slot = &mut arguments[place];
    let given = (slot.tag == torch().layout.tags.generator).then_some(slot.payload as *mut c_void);
    let drawing = Drawing::begin(given, index);
    let generator = drawing.argument();
    let before = std::mem::replace(slot, generator);
    object::release_value(&before);
    Some(drawing)
}

/// True if PyTorch's `copy_` needs no kernel: same datatype, and both contiguous.
pub(super) fn is_copy_of_bytes(arguments: &[IValue]) -> bool {
    let [to, from, ..] = arguments else { return false };
    let (Some(to), Some(from)) = (Tensor::in_slot(to), Tensor::in_slot(from)) else { return false };
    // Bits for lazily conjugated or negated tensors are functionality keys; tensors that differ in them need a kernel.
    let above_backend = |tensor: Tensor| {
        let keys = &torch().layout.keys;
        tensor.keys() & !(keys.above | keys.only_cpu | keys.only_cuda)
    };
    let plain = torch().layout.keys.dense_cpu & torch().layout.keys.dense_cuda;
    to.is_plain()
        && from.is_plain()
        && to.data_type() == from.data_type()
        && to.is_contiguous()
        && from.is_contiguous()
        && to.sizes_and_strides().0 == from.sizes_and_strides().0
        && above_backend(to) == plain
        && above_backend(from) == plain
}

/// [`wait_for_streams`] for every GPU among the arguments.
fn wait_for_all(operator: &Operator, arguments: &[IValue]) {
    for (kind, slot) in operator.schema().arguments.iter().zip(arguments) {
        if let (Kind::Tensor, Some(tensor)) = (kind, Tensor::in_slot(slot))
            && tensor.device().kind == Device::CUDA
        {
            let _device = CurrentDevice::become_(tensor.device().index);
            wait_for_streams(tensor.device().index);
        }
    }
}

/// Pending work of the GPU's current stream happens first.
fn wait_for_streams(index: i8) {
    let Ok(device) = device::get(i32::from(index)) else { return };
    if stream::is_quiet(device) && device.alive().is_ok() {
        return;
    }
    if let Some(stream) = current::stream(index) {
        stream.settle();
    }
    check_device(device);
}

/// Throws PyTorch's error for a device that failed.
fn check_device(device: &device::Device) {
    if let Err(error) = device.alive() {
        exception::cuda(error);
    }
}
