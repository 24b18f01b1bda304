//! Which bytes an operator touches and in which streams, for the sanitizer.

use super::current;
use super::cxx::{Device, IValue};
use super::mapping::names;
use super::object::{self, Form, Tensor};
use super::operator::{Kind, Operator};
use super::torch;
use crate::boundary::gap;
use crate::sanitizer::races::{self, Access, Lane};

/// A tensor with more rows that are apart is not looked at: it would cost more than its operator.
const ROWS: usize = 256;

/// An operator under way.
pub(super) struct Accesses {
    operator: &'static Operator,
    lanes: Vec<Lane>,
    ranges: Vec<Access>,
    host_waits: bool,
}

impl Accesses {
    /// What an operator on the GPU `index` does with its arguments; None where nobody wants to know.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue], index: i8) -> Option<Self> {
        if !races::are_wanted() || gap::is_muted() {
            return None;
        }
        let mut accesses =
            Self { operator, lanes: Vec::new(), ranges: Vec::new(), host_waits: names::waits(&operator.name) };
        accesses.enter(index);
        let schema = operator.schema();
        let mut has_cpu = false;
        for ((kind, slot), written) in schema.arguments.iter().zip(arguments).zip(&schema.written) {
            for tensor in tensors(*kind, slot) {
                if tensor.device().kind == Device::CUDA {
                    accesses.enter(tensor.device().index);
                    ranges(tensor, *written, &mut accesses.ranges);
                } else {
                    has_cpu |= !tensor.is_wrapped_number();
                }
                // A mask becomes as many indices as it has ones, which the host has to know.
                accesses.host_waits |= *kind == Kind::Tensors
                    && names::takes_indices_of_cpu(&operator.name)
                    && matches!(tensor.data_type(), object::BYTE | object::BOOL);
            }
        }
        if operator.name == names::COPY {
            let does_not_block = arguments.get(2).is_some_and(|slot| slot.payload & 1 == 1);
            accesses.host_waits |= has_cpu && !does_not_block;
        }
        Some(accesses)
    }

    /// The operator is done, with these results.
    pub(super) fn end(mut self, results: &[IValue]) {
        let arguments = self.ranges.len();
        for slot in results {
            let kind = if slot.tag == torch().layout.tags.list { Kind::Tensors } else { Kind::Tensor };
            for tensor in
                tensors(kind, slot).filter(|tensor| tensor.device().kind == Device::CUDA && has_bytes(*tensor))
            {
                let start = tensor.storage().data();
                // An argument, or a view of one.
                let is_argument = |range: &Access| (range.address..range.address + range.bytes).contains(&start);
                if !self.ranges[..arguments].iter().any(is_argument) {
                    ranges(tensor, true, &mut self.ranges);
                }
            }
        }
        races::work(&self.lanes, &self.operator.name, &self.ranges);
        if self.host_waits {
            self.lanes.iter().for_each(|lane| races::host_waited_for(*lane));
        }
    }

    fn enter(&mut self, index: i8) {
        let Some(lane) = current::stream(index).map(|stream| stream.lane()) else { return };
        if !self.lanes.contains(&lane) {
            self.lanes.push(lane);
        }
    }
}

fn tensors(kind: Kind, slot: &IValue) -> impl Iterator<Item = Tensor> {
    let items: &[IValue] = match kind {
        Kind::Tensor => std::slice::from_ref(slot),
        // SAFETY: the call's owner keeps the list alive.
        Kind::Tensors if slot.tag == torch().layout.tags.list => unsafe {
            object::list_items(slot.payload as *mut std::ffi::c_void)
        },
        _ => &[],
    };
    items.iter().filter_map(Tensor::in_slot)
}

/// Whether it has a storage of its own: a sparse tensor only has parts.
fn has_bytes(tensor: Tensor) -> bool {
    matches!(tensor.form(), Some(Form::Plain | Form::Quantized)) && tensor.elements() > 0
}

/// Adds the bytes of a tensor; of those with parts, and of those in too many pieces, none.
fn ranges(tensor: Tensor, writes: bool, into: &mut Vec<Access>) {
    if !has_bytes(tensor) {
        return;
    }
    let Some(element) = object::element_bytes(tensor.data_type()) else { return };
    let base = tensor.storage().data();
    if base == 0 {
        return;
    }
    let start = base + tensor.storage_offset() as usize * element;
    let (sizes, strides) = tensor.sizes_and_strides();
    let (run, apart) = pieces(sizes, strides);
    let rows: usize = apart.iter().map(|(size, _)| *size).product();
    if rows > ROWS {
        return;
    }
    for row in 0..rows {
        let (mut rest, mut offset) = (row, 0);
        for (size, stride) in &apart {
            offset += rest % size * stride;
            rest /= size;
        }
        into.push(Access { address: start + offset * element, bytes: run * element, writes });
    }
}

/// A strided tensor as pieces without holes: their length in elements, and the dimensions (size, stride) along which they are
/// apart.
fn pieces(sizes: &[i64], strides: &[i64]) -> (usize, Vec<(usize, usize)>) {
    let dimensions = sizes.iter().zip(strides).filter(|(size, stride)| **size > 1 && **stride > 0);
    let mut dimensions: Vec<(usize, usize)> =
        dimensions.map(|(size, stride)| (*size as usize, *stride as usize)).collect();
    dimensions.sort_by_key(|(_, stride)| *stride);
    let mut run = 1;
    let mut inner = 0;
    for (size, stride) in &dimensions {
        if *stride > run {
            break;
        }
        run += (size - 1) * stride;
        inner += 1;
    }
    (run, dimensions.split_off(inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_by_table() {
        for (sizes, strides, run, apart) in [
            (&[2, 3][..], &[3, 1][..], 6, &[][..]),
            (&[2, 3], &[1, 2], 6, &[]),
            (&[], &[], 1, &[]),
            (&[4, 1, 3], &[3, 99, 1], 12, &[]),
            // Expanded.
            (&[5, 3], &[0, 1], 3, &[]),
            // Columns.
            (&[4, 2], &[10, 1], 2, &[(4, 10)]),
            (&[4], &[2], 1, &[(4, 2)]),
            (&[3, 4, 2], &[100, 10, 1], 2, &[(4, 10), (3, 100)]),
            // Windows that overlap.
            (&[5, 3], &[1, 1], 7, &[]),
        ] {
            assert_eq!(pieces(sizes, strides), (run, apart.to_vec()), "{sizes:?} {strides:?}");
        }
    }
}
