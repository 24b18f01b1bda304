//! Which operator produced a NaN or an Inf from finite numbers, for the sanitizer `finite`.

use std::ffi::c_void;

use protocol::ids::SiteId;

use crate::boundary::gap;
use crate::compute::bytes::{Bytes, of_result, tensors};
use crate::compute::cxx::{Device, IValue};
use crate::compute::layout::tag;
use crate::compute::libtorch::torch;
use crate::compute::mapping::names;
use crate::compute::object::{self, Tensor};
use crate::compute::operator::{Kind, Operator};
use crate::sanitizer::finite::{self, Count, Format};

/// Numbers of a tensor.
#[derive(Clone, Debug)]
struct Numbers {
    bytes: Bytes,
    format: Format,
}

impl Numbers {
    fn from_tensor(tensor: Tensor) -> Option<Self> {
        Some(Self { bytes: Bytes::from_tensor(tensor)?, format: finite::format_of(tensor.data_type())? })
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
    /// Whether non-finite results are intended, or were already in arguments that the operator may overwrite.
    is_tainted: bool,
    inputs: Vec<Numbers>,
    written: Vec<Numbers>,
}

impl NonFinite {
    /// The numbers an operator computes with; `None` if nobody wants to know.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue]) -> Option<Self> {
        (!gap::is_muted())
            .then(|| Self::look(operator, arguments, |tensor| tensor.device().kind == Device::CUDA))
            .flatten()
    }

    /// The same for an operator in a CUDA graph, whose arguments are views of GPU memory.
    pub(super) fn in_graph(operator: &'static Operator, arguments: &[IValue]) -> Option<Self> {
        Self::look(operator, arguments, |_| true)
    }

    fn look(operator: &'static Operator, arguments: &[IValue], is_gpus: impl Fn(Tensor) -> bool) -> Option<Self> {
        if !finite::is_wanted() {
            return None;
        }
        let mut found = Self { operator, is_tainted: false, inputs: Vec::new(), written: Vec::new() };
        let schema = operator.schema();
        for ((kind, slot), written) in schema.arguments.iter().zip(arguments).zip(&schema.written) {
            // `masked_fill_(mask, -inf)` is meant, and so is a division by 0 (as RAdam's first steps do).
            found.is_tainted |= *kind == Kind::Other && is_meant(slot, &operator.name);
            for tensor in tensors(*kind, slot) {
                let Some(numbers) = Numbers::from_tensor(tensor) else { continue };
                if !written {
                    found.inputs.push(numbers);
                    continue;
                }
                found.is_tainted = found.is_tainted || numbers.count().is_any();
                if is_gpus(tensor) {
                    found.written.push(numbers);
                }
            }
        }
        Some(found)
    }

    /// Called when the operator is done, with its results; its arguments still exist.
    pub(super) fn end(self, results: &[IValue]) {
        let results = &results[..self.counted(results.len())];
        if let Some(made) = self.made(results.iter().flat_map(of_result)) {
            finite::made(&self.operator.name, made);
        }
    }

    /// The same in a graph, for an operator captured at `site`.
    pub(super) fn end_in_graph(self, site: SiteId, results: &[Tensor]) {
        let results = &results[..self.counted(results.len())];
        if let Some(made) = self.made(results.iter().copied()) {
            finite::made_at(site, &self.operator.name, made);
        }
    }

    /// How many of `results` are examined.
    fn counted(&self, results: usize) -> usize {
        if names::keeps_logarithms(&self.operator.name) { results.min(1) } else { results }
    }

    /// What it produced that is not finite, although its input is.
    fn made(&self, results: impl Iterator<Item = Tensor>) -> Option<Count> {
        if self.is_tainted {
            return None;
        }
        let results = results.filter_map(Numbers::from_tensor);
        let made = self.written.iter().cloned().chain(results).map(|numbers| numbers.count()).find(Count::is_any)?;
        (!self.inputs.iter().any(|numbers| numbers.count().is_any())).then_some(made)
    }
}

/// Whether a number in the call itself causes such results.
fn is_meant(slot: &IValue, name: &str) -> bool {
    let number = |slot: &IValue| match slot.tag {
        tag::DOUBLE => Some(f64::from_bits(slot.payload)),
        tag::INT => Some(slot.payload as i64 as f64),
        _ => None,
    };
    if slot.tag == torch().layout.tags.list {
        // SAFETY: the argument keeps its list alive.
        let divisors = unsafe { object::list_items(slot.payload as *mut c_void) };
        return names::divides_by_list(name) && divisors.iter().filter_map(number).any(|number| number == 0.0);
    }
    number(slot).is_some_and(|number| !number.is_finite())
}
