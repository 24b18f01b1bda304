//! An operator on the timeline of its stream: the name of its kernel, the type it computes with, bytes and operations.

use super::cxx::{Device, IValue};
use super::layout::tag;
use super::libtorch::torch;
use super::object::{Form, Tensor};
use super::operator::{Kind, Operator};
use super::products::{self, Flops, Products};
use super::value::Value;
use super::{current, object};
use crate::device::work::stream::Stream;
use crate::device::work::timeline::{self, Element, Kind as WorkKind, Place, Running, Work, product_kernel};

/// An operator under way that somebody asks about.
pub(super) struct Timed {
    running: Option<Running>,
    products: Products,
    /// Storages of the arguments: a result in one of them is no further memory.
    storages: Vec<usize>,
    writes: bool,
}

impl Timed {
    /// Called before the operator computes on the GPU `index`, in its current stream. `None` if nobody asks.
    #[inline]
    pub(super) fn begin(operator: &Operator, arguments: &[IValue], index: i8) -> Option<Self> {
        let stream = timeline::is_wanted().then(|| current::stream(index))??;
        Self::on(&stream, operator, arguments, |tensor| tensor.device().kind == Device::CUDA)
    }

    /// The same for a node of a graph, whose arguments are views of the GPU's memory.
    pub(super) fn of_node(stream: &Stream, operator: &Operator, arguments: &[Value]) -> Option<Self> {
        let raw = || arguments.iter().map(Value::raw).collect::<Vec<_>>();
        timeline::is_wanted().then(raw).and_then(|raw| Self::on(stream, operator, &raw, |_| true))
    }

    fn on(
        stream: &Stream,
        operator: &Operator,
        arguments: &[IValue],
        is_on_gpu: impl Fn(Tensor) -> bool,
    ) -> Option<Self> {
        let tensors = tensors(operator, arguments);
        let products = Products::find(operator, arguments);
        let describe = || describe(operator, &tensors, products, stream.device, is_on_gpu);
        let running = timeline::begin(timeline::submit(stream, describe))?;
        let storages = tensors.iter().map(|(tensor, _)| tensor.storage().data()).collect();
        let writes = tensors.iter().any(|(_, is_written)| *is_written);
        Some(Self { running: Some(running), products, storages, writes })
    }

    /// Called when it has computed, with its results.
    pub(super) fn end(mut self, results: &[IValue]) {
        let Some(mut running) = self.running.take() else { return };
        let results: Vec<Tensor> = flat(results).into_iter().filter(|tensor| has_storage(*tensor)).collect();
        let is_fresh = |tensor: &&Tensor| !self.storages.contains(&tensor.storage().data());
        let fresh: u64 = results.iter().filter(is_fresh).map(|tensor| bytes(*tensor)).sum();
        // What gives parts of its arguments only looks at shapes.
        if !self.writes && fresh == 0 && !results.is_empty() {
            return running.discard();
        }
        running.complete(|work| {
            work.bytes += fresh;
            if let (Flops::PerOutput(flops), Some(output)) = (self.products.flops, results.first()) {
                work.flops = flops.saturating_mul(output.elements() as u64);
            }
        });
    }
}

impl Drop for Timed {
    /// An operator that throws does no work.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.discard();
        }
    }
}

fn describe(
    operator: &Operator,
    tensors: &[(Tensor, bool)],
    products: Products,
    device: u32,
    is_on_gpu: impl Fn(Tensor) -> bool,
) -> Work {
    let place = |tensor: Tensor| if is_on_gpu(tensor) { Place::Device(device) } else { Place::Pageable };
    let base = operator.base_name();
    if operator.is_copy
        && let [(to, _), (from, _), ..] = *tensors
        && is_on_gpu(to) != is_on_gpu(from)
    {
        return Work::copy(place(from), place(to), bytes(from));
    }
    if let ("_local_scalar_dense", [(from, _)]) = (base, tensors) {
        return Work::copy(place(*from), Place::Pageable, bytes(*from));
    }
    let first = tensors.iter().find(|(tensor, _)| is_on_gpu(*tensor));
    let element = first.and_then(|(tensor, _)| element(tensor.data_type()));
    let name = match (products::is_gemm(base), element) {
        (true, Some(element)) => product_kernel(element).to_owned(),
        _ => {
            let named = first.map_or(String::new(), |(tensor, _)| format!("<{}>", type_name(tensor.data_type())));
            format!("at::native::{base}{named}")
        }
    };
    let moved = |(tensor, is_written): &(Tensor, bool)| bytes(*tensor) * (1 + u64::from(*is_written));
    Work {
        element,
        flops: match products.flops {
            Flops::Known(flops) => flops,
            Flops::PerOutput(_) => 0,
        },
        bytes: tensors.iter().map(moved).sum(),
        form: products.form,
        kind: WorkKind::Operator { is_backward: is_backward_thread() },
        ..Work::library(name)
    }
}

/// Whether this is a thread of the backward pass, in which PyTorch's engine calls operators without Python. Its name is
/// `pt_autograd_` and a number (`torch/csrc/autograd/engine.cpp`).
fn is_backward_thread() -> bool {
    thread_local! {
        static IS: bool = {
            let mut name = [0u8; 16];
            // SAFETY: the kernel writes at most 16 bytes.
            unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
            name.starts_with(b"pt_autograd")
        };
    }
    IS.with(|is| *is)
}

/// The tensors among the arguments, and whether the operator writes them.
fn tensors(operator: &Operator, arguments: &[IValue]) -> Vec<(Tensor, bool)> {
    let schema = operator.schema();
    let given = schema.arguments.iter().zip(&schema.written).zip(arguments);
    let given = given.filter(|((kind, _), _)| matches!(kind, Kind::Tensor | Kind::Tensors));
    given
        .flat_map(|((_, written), slot)| flat(std::slice::from_ref(slot)).into_iter().map(|tensor| (tensor, *written)))
        .filter(|(tensor, _)| has_storage(*tensor))
        .collect()
}

/// The tensors in values, including those in lists.
fn flat(values: &[IValue]) -> Vec<Tensor> {
    let mut tensors = Vec::new();
    for value in values {
        if value.tag == torch().layout.tags.list {
            // SAFETY: the value holds its list.
            let items = unsafe { object::list_items(value.payload as *mut std::ffi::c_void) };
            tensors.extend(items.iter().filter_map(Tensor::in_slot));
        } else if value.tag == tag::TENSOR {
            tensors.extend(Tensor::in_slot(value));
        }
    }
    tensors
}

/// Sparse tensors have none; their parts are arguments of the operators that compute.
fn has_storage(tensor: Tensor) -> bool {
    matches!(tensor.form(), Some(Form::Plain | Form::Quantized))
}

/// Bytes of its elements.
fn bytes(tensor: Tensor) -> u64 {
    tensor.elements() as u64 * object::element_bytes(tensor.data_type()).unwrap_or(1) as u64
}

/// The arithmetic of a `c10::ScalarType`. Whether PyTorch lets products of float32 use TF32 is not known here.
fn element(data_type: u16) -> Option<Element> {
    Some(match data_type {
        0 | 1 => Element::Int8,
        5 => Element::Fp16,
        6 | 9 => Element::Fp32,
        7 | 10 => Element::Fp64,
        15 => Element::Bf16,
        23..=26 => Element::Fp8,
        _ => return None,
    })
}

/// Its C++ type, as kernels of PyTorch have it among their template arguments.
fn type_name(data_type: u16) -> &'static str {
    match data_type {
        0 => "unsigned char",
        1 => "signed char",
        2 => "short",
        3 => "int",
        4 => "long",
        5 => "c10::Half",
        6 => "float",
        7 => "double",
        8 => "c10::complex<c10::Half>",
        9 => "c10::complex<float>",
        10 => "c10::complex<double>",
        11 => "bool",
        15 => "c10::BFloat16",
        23 => "c10::Float8_e5m2",
        24 => "c10::Float8_e4m3fn",
        _ => "other",
    }
}
