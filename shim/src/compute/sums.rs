//! Copies of sums over ranks, for the sanitizer `replicas`: gradients that are averaged in a buffer and copied back.

use super::bytes::{Bytes, tensors};
use super::cxx::{Device, IValue};
use super::mapping::names;
use super::object::Tensor;
use super::operator::{Kind, Operator};
use crate::sanitizer::averaged;

/// Follows what an operator is about to copy.
pub(super) fn follow(operator: &'static Operator, arguments: &[IValue]) {
    if !averaged::is_wanted() {
        return;
    }
    let kind = match operator.name.as_str() {
        names::COPY => Kind::Tensor,
        names::COPY_ALL => Kind::Tensors,
        _ => return,
    };
    let [to, from, ..] = arguments else { return };
    for (to, from) in tensors(kind, to).zip(tensors(kind, from)) {
        if let (Some((to, length)), Some((from, given))) = (whole(to), whole(from))
            && length == given
        {
            averaged::copied(to, from, length);
        }
    }
}

/// Address and length of a GPU tensor, if it is one piece.
fn whole(tensor: Tensor) -> Option<(usize, usize)> {
    let bytes = Bytes::from_tensor(tensor).filter(|_| tensor.device().kind == Device::CUDA)?;
    (bytes.rows() == 1).then(|| bytes.hull())
}
