//! What runs in place of CUDA kernels while nothing computes (`FAKEGPU_COMPUTE=skip`): PyTorch's own kernel, which allocates and
//! launches what is not executed. The numbers of small operators are computed all the same if those that go into them are known, since
//! the host may read them: masks, indices, counts. Everything else that is written counts as unknown from then on.

use std::cell::Cell;
use std::ffi::c_void;

use super::assumed::Choice;
use super::bytes::{Bytes, of_result, tensors, with_parts};
use super::current::{self, CurrentDevice};
use super::cxx::{Device, IValue, OperatorHandle, Stack};
use super::generator::Unmoved;
use super::kernel::{self, Call, Functor, Placement};
use super::mapping::reads::{self, Part};
use super::method::Method;
use super::object::{self, Tensor};
use super::operator::{Kernel, Operator};
use super::timeline::Timed;
use super::value::Value;
use crate::call_site;
use crate::device::graph::capture;
use crate::device::work::clock;
use crate::device::work::timeline::Within;
use crate::sanitizer::known::{self, Origin, Reader, Reading, Use};

/// Operators with more bytes of floating-point numbers than this are not computed.
const MOST_REAL: usize = 8 << 20;
/// The same for integers and conditions, by which programs decide.
const MOST_EXACT: usize = 32 << 20;
/// The same for operators whose work grows faster than their operands.
const MOST_HEAVY: usize = 64 << 10;
/// A tensor in more pieces counts as its whole range.
const ROWS: usize = 4096;

/// Operators whose work grows faster than their operands, by how their names begin.
const HEAVY: &[&str] = &[
    "_addmm",
    "_cdist",
    "_convolution",
    "_fft",
    "_flash",
    "_grouped_mm",
    "_efficient",
    "_linalg",
    "_scaled",
    "_thnn",
    "addbmm",
    "addmm",
    "addmv",
    "baddbmm",
    "bmm",
    "cholesky",
    "convolution",
    "conv_",
    "cudnn_",
    "grid_sampler",
    "linalg_",
    "lu_",
    "mm",
    "mv",
    "slow_conv",
    "triangular_solve",
];

/// Operators whose results have sizes that depend on numbers: PyTorch's kernel would read them before they are computed.
const SIZED_BY_NUMBERS: &[&str] = &[
    "_index_put_impl_",
    "_unique",
    "_unique2",
    "bincount",
    "equal",
    "histc",
    "index",
    "index_put",
    "index_put_",
    "masked_scatter",
    "masked_scatter_",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "repeat_interleave",
    "unique_consecutive",
    "unique_dim",
];

/// In-place operators that replace all of their first argument.
const OVERWRITING: &[&str] = &[
    "_foreach_copy_",
    "_foreach_zero_",
    "bernoulli_",
    "cauchy_",
    "copy_",
    "exponential_",
    "fill_",
    "geometric_",
    "log_normal_",
    "normal_",
    "random_",
    "uniform_",
    "zero_",
];

thread_local! {
    /// Whether PyTorch's kernel runs only to show what its results look like.
    static IS_TRIAL: Cell<bool> = const { Cell::new(false) };
}

struct Trial(bool);

impl Trial {
    fn begin() -> Self {
        Self(IS_TRIAL.replace(true))
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        IS_TRIAL.set(self.0);
    }
}

/// What an operator does with the GPU's memory.
#[derive(Default)]
struct Footprint {
    real: usize,
    exact: usize,
    reads: Vec<Bytes>,
    written: Vec<Bytes>,
    storages: Vec<usize>,
}

impl Footprint {
    fn of_arguments(operator: &'static Operator, arguments: &[IValue]) -> Self {
        let mut footprint = Self::default();
        let schema = operator.schema();
        for (place, (kind, slot)) in schema.arguments.iter().zip(arguments).enumerate() {
            let part = reads::part_read(operator, arguments, place);
            for tensor in with_parts(tensors(*kind, slot)).filter(|tensor| tensor.device().kind == Device::CUDA) {
                let Some(bytes) = Bytes::from_tensor(tensor) else { continue };
                footprint.count(tensor, &bytes);
                footprint.storages.push(tensor.storage().data());
                let is_written = schema.written[place];
                let keeps_some = operator.base_name().ends_with('_') && !OVERWRITING.contains(&operator.base_name());
                let is_read = if is_written { keeps_some } else { part != Part::Nothing };
                // Gradients are assumed to be finite, so that a scaled loss trains.
                if is_written && schema.place("found_inf") != Some(place) {
                    footprint.written.push(bytes.clone());
                }
                if is_read {
                    footprint.reads.push(bytes);
                }
            }
        }
        footprint
    }

    fn count(&mut self, tensor: Tensor, bytes: &Bytes) {
        let (_, length) = bytes.hull();
        *(if object::is_real(tensor.data_type()) { &mut self.real } else { &mut self.exact }) += length;
    }

    /// Adds the results that are not among the arguments.
    fn add_results(&mut self, results: &[IValue]) {
        for tensor in results.iter().flat_map(of_result) {
            if let Some(bytes) = Bytes::from_tensor(tensor)
                && !self.storages.contains(&tensor.storage().data())
            {
                self.count(tensor, &bytes);
                self.written.push(bytes);
            }
        }
    }

    fn is_small(&self, operator: &'static Operator) -> bool {
        let is_heavy = HEAVY.iter().any(|heavy| operator.base_name().starts_with(heavy));
        if is_heavy { self.real + self.exact <= MOST_HEAVY } else { self.real <= MOST_REAL && self.exact <= MOST_EXACT }
    }

    /// The origin of what it reads that is not known, as [`known::unknown`] has it.
    fn unknown(&self) -> Option<Option<Origin>> {
        known::unknown(self.reads.iter().flat_map(pieces))
    }

    /// What it writes is as `origin` says.
    fn put(&self, origin: Origin) {
        self.written.iter().flat_map(pieces).for_each(|(address, bytes)| known::put(address, bytes, origin));
    }
}

fn pieces(bytes: &Bytes) -> Vec<(usize, usize)> {
    if bytes.rows() <= ROWS { bytes.pieces().collect() } else { vec![bytes.hull()] }
}

/// The kernel of every operator while nothing computes.
///
/// # Safety
/// libtorch calls it with the object of [`kernel::functor`] and a stack that ends with the operator's arguments.
pub(super) unsafe extern "C-unwind" fn skim(
    functor: *mut c_void,
    handle: *const OperatorHandle,
    keys: u64,
    stack: *mut Stack,
) {
    // SAFETY: the object of `functor`, which lives forever.
    let Functor { operator, method, .. } = unsafe { &*functor.cast::<Functor>() };
    let Some(cuda) = operator.cuda else { kernel::missing(operator) };
    if IS_TRIAL.get() {
        // SAFETY: PyTorch's kernel, with its own arguments.
        return unsafe { cuda.call(handle, keys, stack) };
    }
    // SAFETY: the stack is the caller's and ours until we return.
    let values: &[IValue] = unsafe { (*stack).items() };
    let below = values.len() - operator.schema().arguments.len();
    let arguments = &values[below..];
    // A profiler sees PyTorch's kernels; on the modeled clock, the operator has its time. A copy is timed where it is made.
    let placement = kernel::place(operator, arguments);
    let moves = moves_bytes(operator, *method, arguments);
    let is_timed = clock::is_modeled() && !operator.waits && !moves;
    if is_timed
        && !capture::is_any()
        && let Some(stream) = current::stream(placement.device)
    {
        // Its time begins after what its stream still waits for, as that of other ranks.
        stream.settle();
    }
    let timed = is_timed.then(|| Timed::begin(operator, arguments, placement.device)).flatten();
    let _within = timed.is_some().then(Within::begin);
    let target = Device { kind: Device::CUDA, index: placement.device };
    let call = Call { operator, method: *method, handle, keys, target };
    if moves {
        let _reading = Reading::begin(reader(operator, arguments));
        // The copies within are followed.
        // SAFETY: PyTorch's kernel, with its own arguments.
        unsafe { cuda.call(handle, keys, stack) };
    } else {
        // SAFETY: as above.
        unsafe { run(&call, cuda, placement, stack, below) };
    }
    if let Some(timed) = timed {
        // SAFETY: the results are where the arguments were.
        timed.end(unsafe { &(*stack).items()[below..] });
    }
}

/// Computes, or lets PyTorch's kernel, `cuda`, launch what is not executed.
///
/// # Safety
/// The stack ends with the operator's arguments, from `below` up.
unsafe fn run(call: &Call, cuda: Kernel, placement: Placement, stack: *mut Stack, below: usize) {
    let Call { operator, method, handle, keys, .. } = *call;
    // SAFETY: by the caller.
    let arguments = unsafe { &(*stack).items()[below..] };
    let mut footprint = Footprint::of_arguments(operator, arguments);
    let unknown = footprint.unknown();
    let can_compute = !matches!(method, Method::Gap)
        && !placement.has_special
        && !capture::is_any()
        && footprint.is_small(operator)
        && unknown.is_none();
    if !can_compute || operator.base_name() == "_local_scalar_dense" {
        let choice = Choice::of_operator(operator.base_name(), arguments);
        {
            let _reading = Reading::begin(Reader { source: unknown.flatten(), ..reader(operator, arguments) });
            // SAFETY: as above.
            unsafe { cuda.call(handle, keys, stack) };
        }
        // SAFETY: the results are where the arguments were.
        let results = unsafe { &(*stack).items()[below..] };
        footprint.add_results(results);
        footprint.put(skipped(operator));
        return choice.into_iter().for_each(|choice| choice.make(results));
    }
    if !SIZED_BY_NUMBERS.contains(&operator.base_name()) {
        let own = {
            let _trial = Trial::begin();
            let _generator = Unmoved::keep(placement.device);
            kernel::trial(cuda, handle, keys, arguments)
        };
        let results: Vec<IValue> = own.iter().map(Value::raw).collect();
        let mut whole = Footprint::of_arguments(operator, arguments);
        whole.add_results(&results);
        if !whole.is_small(operator) {
            // SAFETY: the arguments are on top of the stack.
            unsafe { kernel::replace(operator, placement.device, stack, below, |_| own) };
            return whole.put(skipped(operator));
        }
    }
    // SAFETY: the stack ends with the arguments.
    unsafe { compute(call, placement, stack, below) };
    // SAFETY: the results are where the arguments were.
    footprint.add_results(unsafe { &(*stack).items()[below..] });
    footprint.put(Origin::Known);
}

/// Computes as the bridge does.
///
/// # Safety
/// The stack ends with the operator's arguments, from `below` up.
unsafe fn compute(call: &Call, placement: Placement, stack: *mut Stack, below: usize) {
    // SAFETY: by the caller.
    let arguments = unsafe { &(*stack).items()[below..] };
    call.admit(arguments, placement);
    let _device = CurrentDevice::become_(placement.device);
    call.wait(arguments, placement.is_mixed);
    // SAFETY: by the caller.
    drop(unsafe { call.perform(stack, below, true) });
}

fn skipped(operator: &'static Operator) -> Origin {
    Origin::Skipped(&operator.name, call_site::of_python().unwrap_or_default())
}

/// An operator that may read on the host.
fn reader(operator: &'static Operator, arguments: &[IValue]) -> Reader {
    Reader { name: &operator.name, purpose: purpose(operator, arguments), source: None }
}

/// What the host does with what this operator reads there.
fn purpose(operator: &'static Operator, arguments: &[IValue]) -> Use {
    let source = match operator.base_name() {
        "_local_scalar_dense" => arguments.first(),
        "copy_" => arguments.get(1),
        _ => None,
    };
    let is_real = source.and_then(Tensor::in_slot).is_some_and(|tensor| object::is_real(tensor.data_type()));
    if is_real { Use::Real } else { Use::Exact }
}

/// Whether it only copies, in pieces that are followed one by one.
fn moves_bytes(operator: &'static Operator, method: Method, arguments: &[IValue]) -> bool {
    let is_gpus = |slot: &IValue| Tensor::in_slot(slot).is_some_and(|tensor| tensor.device().kind == Device::CUDA);
    operator.is_copy
        && matches!(method, Method::Copy)
        && (!arguments.iter().take(2).all(is_gpus) || kernel::is_copy_of_bytes(arguments))
}
