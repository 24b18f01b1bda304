//! Which tensors an operator's slots hold, and which bytes belong to them.

use std::ffi::c_void;

use super::cxx::{Device, IValue};
use super::libtorch::torch;
use super::object::{self, Form, Tensor};
use super::operator::Kind;

/// The bytes of a tensor that has its own storage: pieces of equal length.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    start: usize,
    /// Bytes of an element.
    element: usize,
    /// Elements of a piece.
    run: usize,
    /// (size, stride) of the dimensions along which the pieces are separate, smallest stride first.
    apart: Vec<(usize, usize)>,
}

impl Bytes {
    /// `None` for tensors with parts, without elements, or of an unknown type.
    pub(super) fn from_tensor(tensor: Tensor) -> Option<Self> {
        if !has_bytes(tensor) {
            return None;
        }
        let element = object::element_bytes(tensor.data_type())?;
        let base = tensor.storage().data();
        let (sizes, strides) = tensor.sizes_and_strides();
        let (run, apart) = split(sizes, strides);
        (base != 0).then(|| Self { start: base + tensor.storage_offset() as usize * element, element, run, apart })
    }

    /// How many pieces.
    pub(super) fn rows(&self) -> usize {
        self.apart.iter().map(|(size, _)| *size).product()
    }

    /// Address and length of each.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.rows()).map(|row| {
            let (mut rest, mut offset) = (row, 0);
            for (size, stride) in &self.apart {
                offset += rest % size * stride;
                rest /= size;
            }
            (self.start + offset * self.element, self.run * self.element)
        })
    }

    /// The range from the first to the last, including gaps.
    pub(super) fn hull(&self) -> (usize, usize) {
        let last: usize = self.apart.iter().map(|(size, stride)| (size - 1) * stride).sum();
        (self.start, (last + self.run) * self.element)
    }
}

/// The tensors in an argument.
pub(super) fn tensors(kind: Kind, slot: &IValue) -> impl Iterator<Item = Tensor> {
    let items: &[IValue] = match kind {
        Kind::Tensor => std::slice::from_ref(slot),
        // SAFETY: the call's owner keeps the list alive.
        Kind::Tensors if slot.tag == torch().layout.tags.list => unsafe {
            object::list_items(slot.payload as *mut c_void)
        },
        _ => &[],
    };
    items.iter().filter_map(Tensor::in_slot)
}

/// The GPU tensors in a result, as far as they have bytes.
pub(super) fn of_result(slot: &IValue) -> impl Iterator<Item = Tensor> {
    let kind = if slot.tag == torch().layout.tags.list { Kind::Tensors } else { Kind::Tensor };
    with_parts(tensors(kind, slot)).filter(|tensor| tensor.device().kind == Device::CUDA && has_bytes(*tensor))
}

/// The tensors and, for sparse ones, their parts.
pub(super) fn with_parts(tensors: impl Iterator<Item = Tensor>) -> impl Iterator<Item = Tensor> {
    tensors.flat_map(|tensor| {
        let parts = tensor.form().map_or(&[][..], Form::members);
        std::iter::once(tensor).chain(parts.iter().map(move |part| tensor.member(*part)))
    })
}

/// Whether it has its own storage: a sparse tensor only has parts.
pub(super) fn has_bytes(tensor: Tensor) -> bool {
    matches!(tensor.form(), Some(Form::Plain | Form::Quantized)) && tensor.elements() > 0
}

/// A strided tensor as pieces without holes: their length in elements, and the dimensions (size, stride) along which they are
/// separate.
fn split(sizes: &[i64], strides: &[i64]) -> (usize, Vec<(usize, usize)>) {
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
    fn runs_by_table() {
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
            assert_eq!(split(sizes, strides), (run, apart.to_vec()), "{sizes:?} {strides:?}");
        }
    }
}
