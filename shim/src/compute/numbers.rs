//! Which operator made a NaN or an Inf of finite numbers, for the sanitizer `finite`.

use super::bytes::{Bytes, of_result, tensors};
use super::cxx::{Device, IValue};
use super::layout::tag;
use super::mapping::names;
use super::object::Tensor;
use super::operator::{Kind, Operator};
use crate::boundary::gap;
use crate::sanitizer::finite::{self, Count, Format};

/// Numbers of a tensor.
#[derive(Clone, Debug)]
struct Numbers {
    bytes: Bytes,
    format: Format,
}

impl Numbers {
    fn of(tensor: Tensor) -> Option<Self> {
        Some(Self { bytes: Bytes::of(tensor)?, format: Format::of(tensor.data_type())? })
    }

    fn count(&self) -> Count {
        // SAFETY: the bytes of a tensor that is alive; a GPU's memory is this process's, and its operator's stream was waited for.
        let counts = self.bytes.pieces().map(|(address, bytes)| unsafe { self.format.count(address, bytes) });
        counts.fold(Count::default(), Count::and)
    }
}

/// An operator under way.
pub(super) struct NonFinite {
    operator: &'static Operator,
    /// Those that the operator may overwrite are looked at before.
    is_tainted: bool,
    inputs: Vec<Numbers>,
    written: Vec<Numbers>,
}

impl NonFinite {
    /// What an operator computes with; None where nobody wants to know.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue]) -> Option<Self> {
        if !finite::is_wanted() || gap::is_muted() {
            return None;
        }
        let mut found = Self { operator, is_tainted: false, inputs: Vec::new(), written: Vec::new() };
        let schema = operator.schema();
        for ((kind, slot), written) in schema.arguments.iter().zip(arguments).zip(&schema.written) {
            // `masked_fill_(mask, -inf)` is meant.
            found.is_tainted |=
                *kind == Kind::Other && slot.tag == tag::DOUBLE && !f64::from_bits(slot.payload).is_finite();
            for tensor in tensors(*kind, slot) {
                let Some(numbers) = Numbers::of(tensor) else { continue };
                if !written {
                    found.inputs.push(numbers);
                    continue;
                }
                found.is_tainted = found.is_tainted || numbers.count().is_any();
                if tensor.device().kind == Device::CUDA {
                    found.written.push(numbers);
                }
            }
        }
        Some(found)
    }

    /// The operator is done, with these results; its arguments are still there.
    pub(super) fn end(self, results: &[IValue]) {
        if self.is_tainted {
            return;
        }
        // What else attention returns is for its backward pass, where -inf is the weight of what is masked.
        let results = if names::is_attention(&self.operator.name) { &results[..results.len().min(1)] } else { results };
        let results = results.iter().flat_map(of_result).filter_map(Numbers::of);
        let made = self.written.iter().cloned().chain(results).map(|numbers| numbers.count()).find(Count::is_any);
        let Some(made) = made else { return };
        if !self.inputs.iter().any(|numbers| numbers.count().is_any()) {
            finite::made(&self.operator.name, made);
        }
    }
}
