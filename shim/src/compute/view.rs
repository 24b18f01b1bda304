//! CUDA tensors seen as CPU tensors, and back. A view is a second `TensorImpl` over a second `StorageImpl` with the same
//! bytes: a storage knows its device, and tensors that a CPU kernel derives from a view take theirs from there.

use super::cxx::{Device, IValue, Integers};
use super::layout::tag;
use super::libtorch::torch;
use super::mapping::names;
use super::object::{self, Form, Storage, Tensor};
use super::operator;
use super::value::Value;
use crate::device::memory::address;

/// Makes a CPU tensor over the bytes of a CUDA tensor; the caller owns it. `twin` is the CPU storage over them.
pub(super) fn on_twin(tensor: Tensor, twin: Storage) -> Tensor {
    let view = on_cpu(tensor);
    // SAFETY: the reference that the copy has to the tensor's own storage is exchanged for one to the twin.
    unsafe {
        object::retain(twin.0);
        object::release(view.exchange_storage(twin).0);
    }
    view
}

/// CPU tensors over the memory of `values`, as far as those are CUDA tensors. Nobody has seen those yet, so the kernel
/// that computes them may replace their memory; call [`adopt_replaced`] afterwards.
pub(super) fn results(values: &[Value]) -> Vec<Value> {
    values.iter().map(|value| over(value, Storage::replaceable_twin)).collect()
}

/// Transfers memory that replaced that of `seen`, made by [`results`], to `values`.
pub(super) fn adopt_replaced(values: &[Value], seen: &[Value]) {
    for (value, view) in values.iter().zip(seen) {
        let (Some(tensor), Some(view)) = (value.tensor(), view.tensor()) else { continue };
        if tensor != view && !view.storage().is_borrowed() {
            tensor.storage().exchange_bytes(view.storage());
        }
    }
}

fn over(value: &Value, twin_of: fn(Storage) -> Storage) -> Value {
    let Some(tensor) = value.tensor().filter(|tensor| tensor.device().kind == Device::CUDA) else {
        return value.clone();
    };
    let twin = twin_of(tensor.storage());
    let view = on_twin(tensor, twin);
    // SAFETY: the reference that came with the twin; the view has its own.
    unsafe { object::release(twin.0) };
    Value::own(IValue::new(tag::TENSOR, view.0 as u64))
}

/// Moves the memory of `source` to `target`, a fresh result, if both have the same element order; otherwise does nothing
/// and returns false.
pub(super) fn replace(target: Tensor, source: Tensor) -> bool {
    let (to, from) = (target.storage(), source.storage());
    let fits = to.is_replaceable()
        && to.bytes() == from.bytes()
        && target.data_type() == source.data_type()
        && target.sizes_and_strides() == source.sizes_and_strides()
        && target.storage_offset() == 0
        && source.storage_offset() == 0
        && object::is_sole(from.0)
        && !from.is_borrowed()
        && is_gpus(from);
    if fits {
        to.exchange_bytes(from);
    }
    fits
}

/// A CPU tensor with the same storage or parts as a CUDA tensor; the caller owns it and replaces those.
pub(super) fn on_cpu(tensor: Tensor) -> Tensor {
    let view = tensor.shallow_copy();
    let keys = &torch().layout.keys;
    view.set_keys((tensor.keys() & !keys.only_cuda & !keys.above) | (keys.dense_cpu & keys.only_cpu));
    view.set_device(Device::CPU);
    view
}

/// Turns a CPU kernel's result into a CUDA tensor of `device`; takes a reference and returns one. `above` are the keys above
/// the backend that must be added to the result, because it was made from a view, which has none.
pub(super) fn promote(tensor: Tensor, device: Device, above: u64) -> Tensor {
    let Some(form) = tensor.form().filter(|_| tensor.device() == Device::CPU) else { return tensor };
    let has_storage = matches!(form, Form::Plain | Form::Quantized);
    if has_storage {
        let storage = tensor.storage();
        if !is_gpus(storage) && form == Form::Plain {
            return copied(tensor, device);
        }
        if storage.device() == Device::CPU {
            storage.belong_to(device);
        }
    }
    let keys = &torch().layout.keys;
    let result_keys = ((tensor.keys() | above) & !keys.only_cpu) | keys.only_cuda;
    let result = if object::is_sole(tensor.0) || !has_storage {
        tensor
    } else {
        let copy = tensor.shallow_copy();
        // SAFETY: the reference that was handed over.
        unsafe { object::release(tensor.0) };
        copy
    };
    result.set_keys(result_keys);
    result.set_device(device);
    result
}

/// True if the bytes are in GPU memory, or there are none.
fn is_gpus(storage: Storage) -> bool {
    storage.data() == 0 || address::locate(storage.data()).is_some()
}

/// A CUDA tensor with the values of a CPU tensor that keeps its own memory.
fn copied(tensor: Tensor, device: Device) -> Tensor {
    let torch = torch();
    let (sizes, strides) = tensor.sizes_and_strides();
    let integers = |list: &[i64]| Integers { data: list.as_ptr(), length: list.len() };
    let mut result = std::ptr::null_mut();
    // SAFETY: sizes and strides of a live tensor; the current GPU is the operator's.
    unsafe {
        (torch.symbols.empty_strided)(
            &raw mut result,
            integers(sizes),
            integers(strides),
            torch.cuda_allocator(),
            torch.layout.keys.dense_cuda,
            tensor.data_type() as i8,
        );
    }
    let result = Tensor(result);
    debug_assert_eq!(result.device(), device);
    let twin = result.storage().twin();
    let target = on_twin(result, twin);
    let arguments = [
        IValue::new(tag::TENSOR, target.0 as u64),
        IValue::new(tag::TENSOR, tensor.0 as u64),
        IValue::new(torch.layout.tags.boolean, 0),
    ];
    // SAFETY: copy_(self, src, non_blocking) of two CPU tensors, whose references it takes; the result is owned here.
    unsafe {
        for value in operator::named(names::COPY).on_cpu(&arguments) {
            object::release(value.payload as *mut _);
        }
        object::release(twin.0);
    }
    result
}
