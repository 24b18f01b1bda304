//! Operators that are postponed on purpose (`schedule`). The bridge computes an operator when it is called; on a GPU its stream gets
//! to it later. A postponed one also computes, but its writes are taken back and applied when the stream gets to it. A reader in
//! another stream that does not wait finds the old contents. If something that the operator reads is overwritten before then, it
//! would have computed with the new contents, so its results are 0xFF, which is NaN in every floating-point type.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh64::xxh64;

use crate::boundary::gap;
use crate::compute::bytes::{Bytes, of_result, tensors};
use crate::compute::current;
use crate::compute::cxx::{Device, IValue};
use crate::compute::object::Tensor;
use crate::compute::operator::Operator;
use crate::compute::waits::host_waits;
use crate::device::work::stream::{self, Stream};
use crate::process::delay;

/// A tensor in more pieces is not tracked.
const ROWS: usize = 4096;
/// An operator that touches more bytes is not postponed.
const MOST: usize = 256 << 20;
/// The content of fresh memory before it is written.
const GARBAGE: u8 = 0xff;

/// An operator under way whose writes will be postponed.
pub(super) struct Postponed {
    delay: Duration,
    stream: Arc<Stream>,
    /// Where the memory of the arguments starts and ends.
    storages: Vec<(usize, usize)>,
    /// Bytes that are only read.
    read: Vec<Piece>,
    /// Bytes that are written, and their previous content.
    written: Vec<(Piece, Box<[u8]>)>,
}

#[derive(Clone, Copy)]
struct Piece {
    address: usize,
    bytes: usize,
}

impl Piece {
    fn touches(self, other: Self) -> bool {
        self.address < other.address + other.bytes && other.address < self.address + self.bytes
    }

    /// What is there.
    fn contents(&self) -> &[u8] {
        // SAFETY: bytes of a live tensor of a GPU, or of one that was live when its stream was given what uses it: device memory is
        // mapped as long as the process lives. Who writes meanwhile has a race, and gets any of the bytes.
        unsafe { std::slice::from_raw_parts(self.address as *const u8, self.bytes) }
    }

    /// Puts `bytes` there.
    fn put(self, bytes: &[u8]) {
        // SAFETY: as above; `bytes` is as long.
        unsafe { std::ptr::copy(bytes.as_ptr(), self.address as *mut u8, self.bytes) };
    }

    fn put_garbage(self) {
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(self.address as *mut u8, GARBAGE, self.bytes) };
    }
}

impl Postponed {
    /// Called before an operator computes on the GPU `index`; `None` if it is not to be postponed.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue], index: i8) -> Option<Self> {
        if gap::is_muted() {
            return None;
        }
        let delay = delay::draw(delay::Moment::Operator)?;
        // The host waits for what these give.
        if host_waits(operator, arguments) {
            return None;
        }
        let stream = current::stream(index)?;
        let mut this = Self { delay, stream, storages: Vec::new(), read: Vec::new(), written: Vec::new() };
        let mut touched = 0;
        let schema = operator.schema();
        for ((kind, slot), written) in schema.arguments.iter().zip(arguments).zip(&schema.written) {
            for tensor in tensors(*kind, slot).filter(|tensor| tensor.device().kind == Device::CUDA) {
                let pieces = pieces(tensor);
                if !pieces.is_empty() {
                    let storage = tensor.storage();
                    this.storages.push((storage.data(), storage.data() + storage.bytes()));
                }
                for piece in pieces {
                    touched += piece.bytes;
                    if touched > MOST {
                        return None;
                    }
                    if *written {
                        this.written.push((piece, piece.contents().into()));
                    } else {
                        this.read.push(piece);
                    }
                }
            }
        }
        Some(this)
    }

    /// Called after the operator has computed, with its results.
    pub(super) fn end(self, results: &[IValue]) {
        let Self { delay, stream, storages, read, written } = self;
        let mut after: Vec<(Piece, Box<[u8]>)> = Vec::new();
        for tensor in results.iter().flat_map(of_result) {
            let start = tensor.storage().data();
            // An argument, or a view of one.
            if storages.iter().any(|(from, to)| (*from..*to).contains(&start)) {
                continue;
            }
            for piece in pieces(tensor) {
                after.push((piece, piece.contents().into()));
                piece.put_garbage();
            }
        }
        after.extend(written.iter().map(|(piece, _)| (*piece, piece.contents().into())));
        written.iter().for_each(|(piece, before)| piece.put(before));
        // Not what it writes, too. Of normalizations the schema does not say that they write their statistics.
        let is_only_read = |piece: &Piece| !after.iter().any(|(other, _)| piece.touches(*other));
        let read: Vec<(Piece, u64)> =
            read.into_iter().filter(is_only_read).map(|piece| (piece, xxh64(piece.contents(), 0))).collect();
        let task = move || {
            std::thread::sleep(delay);
            let is_same = read.iter().all(|(piece, hash)| xxh64(piece.contents(), 0) == *hash);
            for (piece, bytes) in &after {
                if is_same {
                    piece.put(bytes);
                } else {
                    piece.put_garbage();
                }
            }
        };
        stream::enqueue(&stream, Box::new(task));
    }
}

/// The bytes of a tensor; empty if it has too many pieces.
fn pieces(tensor: Tensor) -> Vec<Piece> {
    let bytes = Bytes::from_tensor(tensor).filter(|bytes| bytes.rows() <= ROWS);
    let pieces = bytes.iter().flat_map(Bytes::pieces);
    pieces.map(|(address, bytes)| Piece { address, bytes }).collect()
}
