//! For which operators the host waits until the GPU is done.

use super::bytes::tensors;
use super::cxx::{Device, IValue};
use super::object;
use super::operator::{Kind, Operator};

/// Whether the host waits for the stream in an operator: for a number, for the size of a result, or for a copy.
pub(super) fn host_waits(operator: &Operator, arguments: &[IValue]) -> bool {
    if operator.waits {
        return true;
    }
    let takes_masks = operator.takes_indices_of_cpu;
    let copies = operator.is_copy && !does_not_block(arguments);
    (takes_masks || copies)
        && operator.schema().arguments.iter().zip(arguments).any(|(kind, slot)| {
            tensors(*kind, slot).any(|tensor| {
                // A mask becomes as many indices as it has ones, which the host has to know.
                let is_mask = *kind == Kind::Tensors && matches!(tensor.data_type(), object::BYTE | object::BOOL);
                let is_on_host = tensor.device().kind != Device::CUDA && !tensor.is_wrapped_number();
                (takes_masks && is_mask) || (copies && is_on_host)
            })
        })
}

/// `non_blocking` of a copy.
pub(super) fn does_not_block(arguments: &[IValue]) -> bool {
    arguments.get(2).is_some_and(|slot| slot.payload & 1 == 1)
}
