//! What operators do with uninitialized memory, for the sanitizer `init`.

use crate::boundary::gap;
use crate::compute::bytes::{Bytes, of_result, tensors, with_parts};
use crate::compute::cxx::{Device, IValue};
use crate::compute::mapping::names;
use crate::compute::mapping::reads::{self, Part};
use crate::compute::object::Tensor;
use crate::compute::operator::Operator;
use crate::sanitizer::init::{self, Needs, Read};

/// A tensor in more pieces is not examined piece by piece.
const ROWS: usize = 4096;

/// An operator under way.
pub(super) struct Unwritten {
    operator: &'static Operator,
    reads: Vec<Read>,
    written: Vec<Bytes>,
    /// Copies between GPUs: from, to.
    copies: Vec<(Bytes, Bytes)>,
}

impl Unwritten {
    /// Records what an operator does with its arguments; `None` if nobody wants to know.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue]) -> Option<Self> {
        if !init::is_wanted() {
            return None;
        }
        let mut unwritten = Self { operator, reads: Vec::new(), written: Vec::new(), copies: Vec::new() };
        let schema = operator.schema();
        if operator.name == names::COPY || operator.name == names::COPY_ALL {
            let of = |place: usize| {
                tensors(schema.arguments[place], &arguments[place]).map(bytes).collect::<Option<Vec<_>>>()
            };
            if let (Some(to), Some(from)) = (of(0), of(1)) {
                unwritten.copies = from.into_iter().zip(to).collect();
                return Some(unwritten);
            }
        }
        for (place, (kind, slot)) in schema.arguments.iter().zip(arguments).enumerate() {
            let written = schema.written[place];
            // What PyTorch's own kernel computes only to be thrown away is not read.
            let part = if gap::is_muted() { Part::Nothing } else { reads::part_read(operator, arguments, place) };
            for tensor in with_parts(tensors(*kind, slot)).filter(|tensor| tensor.device().kind == Device::CUDA) {
                let Some(bytes) = Bytes::from_tensor(tensor) else { continue };
                unwritten.read(&bytes, part);
                if written {
                    unwritten.written.push(bytes);
                }
            }
        }
        Some(unwritten)
    }

    /// Its reads, to be checked whenever it runs.
    pub(super) fn into_reads(self) -> Vec<Read> {
        self.reads
    }

    /// Called when the operator is done, with its results; its arguments still exist.
    pub(super) fn end(self, results: &[IValue]) {
        init::read(&self.operator.name, &self.reads);
        if !self.copies.is_empty() {
            return self.copies.iter().for_each(|(from, to)| carry(from, to));
        }
        // Before the results, which may be views of what is written only in part.
        self.written.iter().for_each(write);
        let is_view = |bytes: &Bytes| {
            let (start, _) = bytes.hull();
            let mut pieces = self.reads.iter().flat_map(|read| &read.pieces);
            pieces.any(|(address, bytes)| (*address..address + bytes).contains(&start))
        };
        for bytes in results.iter().flat_map(of_result).filter_map(Bytes::from_tensor) {
            if !is_view(&bytes) {
                write(&bytes);
            }
        }
    }

    fn read(&mut self, bytes: &Bytes, part: Part) {
        let needs = match part {
            Part::Nothing => return,
            Part::Picked => Needs::Any,
            Part::All => Needs::All,
        };
        if bytes.rows() <= ROWS {
            self.reads.push(Read { pieces: bytes.pieces().collect(), needs });
        } else {
            let (address, bytes) = bytes.hull();
            self.reads.push(Read::line(address, bytes, Needs::Any));
        }
    }
}

/// The bytes of a GPU tensor.
fn bytes(tensor: Tensor) -> Option<Bytes> {
    Some(tensor).filter(|tensor| tensor.device().kind == Device::CUDA).and_then(Bytes::from_tensor)
}

fn write(bytes: &Bytes) {
    if bytes.rows() <= ROWS {
        bytes.pieces().for_each(|(address, bytes)| init::written(address, bytes));
    } else {
        // Also what is between the pieces, of which no finding must come.
        let (address, bytes) = bytes.hull();
        init::written(address, bytes);
    }
}

/// For a copy with a different type or order: entirely uninitialized memory stays uninitialized.
fn carry(from: &Bytes, to: &Bytes) {
    let (address, bytes) = from.hull();
    match init::is_unwritten(address, bytes) {
        Some(site) if to.rows() <= ROWS => {
            to.pieces().for_each(|(address, bytes)| init::carried(address, bytes, site));
        }
        _ => write(to),
    }
}
