//! What `ftest exec --assume balanced` says of choices among numbers that nobody computed: experts, tokens and other things are chosen
//! equally often. So a program that asks how many tokens each expert got has the memory of a balanced step.

use super::bytes::{Bytes, of_result};
use super::cxx::IValue;
use super::object::Tensor;
use crate::sanitizer::known::{self, Origin};
use crate::settings;

/// Results with more elements are left as they are.
const MOST: i64 = 4 << 20;

/// Operators that choose along the last dimension, and the place of the indices among their results.
const CHOOSING: &[(&str, usize)] = &[("argmax", 0), ("argsort", 0), ("multinomial", 0), ("sort", 1), ("topk", 1)];

/// A choice that an operator is about to make.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Where the indices will be.
    place: usize,
    /// Among how many things each row chooses.
    among: i64,
    rows: i64,
}

impl Choice {
    /// The choice of the operator `name`, if it is to be balanced.
    pub(super) fn of_operator(name: &str, arguments: &[IValue]) -> Option<Self> {
        if !settings::get().is_ok_and(|settings| settings.assumes_balance) {
            return None;
        }
        let (_, place) = CHOOSING.iter().find(|(known, _)| *known == name)?;
        let operand = arguments.first().and_then(Tensor::in_slot)?;
        let among = operand.sizes_and_strides().0.last().copied().filter(|among| *among > 0)?;
        Some(Self { place: *place, among, rows: operand.elements() / among })
    }

    /// Writes the indices among the operator's results: one row goes on where the one before ended.
    pub(super) fn make(self, results: &[IValue]) {
        let Self { place, among, rows } = self;
        let Some(indices) = results.get(place).and_then(|slot| of_result(slot).next()) else { return };
        let elements = indices.elements();
        // A row chooses nothing twice, and along another dimension there are not that many rows.
        let is_along_last = rows > 0 && elements % rows == 0 && elements / rows <= among;
        if elements > MOST || !is_along_last || indices.words().is_none() {
            return;
        }
        indices.write_integers(&(0..elements).map(|element| element % among).collect::<Vec<_>>());
        for (address, bytes) in Bytes::from_tensor(indices).iter().flat_map(Bytes::pieces) {
            known::put(address, bytes, Origin::Known);
        }
    }
}
