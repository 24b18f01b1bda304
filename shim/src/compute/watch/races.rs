//! Which bytes an operator touches, and in which streams, for the sanitizer `races`.

use protocol::ids::SiteId;

use crate::boundary::gap;
use crate::call_site;
use crate::compute::bytes::{Bytes, has_bytes, of_result, tensors};
use crate::compute::current;
use crate::compute::cxx::{Device, IValue};
use crate::compute::forward;
use crate::compute::object::Tensor;
use crate::compute::operator::Operator;
use crate::compute::waits::{does_not_block, host_waits};
use crate::device::memory;
use crate::sanitizer::forward::During;
use crate::sanitizer::owner::Line;
use crate::sanitizer::races::{self, Access, Lane};

/// A tensor with more separate rows is not examined: it would cost more than its operator.
const ROWS: usize = 256;

/// An operator under way.
pub(super) struct Accesses {
    operator: &'static Operator,
    lanes: Vec<Lane>,
    ranges: Vec<Access>,
    host_waits: bool,
    /// Pinned memory that it fills without anyone waiting for it.
    brings: Option<(usize, usize)>,
    /// The line that calls it.
    site: SiteId,
    /// Its results are allocated there.
    _line: Line,
    _forward: During,
}

impl Accesses {
    /// Records what an operator on the GPU `index` does with its arguments; `None` if nobody wants to know.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue], index: i8) -> Option<Self> {
        if !races::are_wanted() || gap::is_muted() {
            return None;
        }
        let site = call_site::of_this_thread().unwrap_or_default();
        let forward = During::begin(forward::line_of(operator, site));
        let mut accesses = Self {
            operator,
            lanes: Vec::new(),
            ranges: Vec::new(),
            host_waits: host_waits(operator, arguments),
            brings: None,
            site,
            _line: Line::begin(site, &operator.name),
            _forward: forward,
        };
        accesses.enter(index);
        let schema = operator.schema();
        for ((kind, slot), written) in schema.arguments.iter().zip(arguments).zip(&schema.written) {
            for tensor in tensors(*kind, slot) {
                if tensor.device().kind == Device::CUDA {
                    accesses.enter(tensor.device().index);
                    accesses.touch(tensor, *written);
                }
            }
        }
        if operator.is_copy && does_not_block(arguments) {
            accesses.fills_pinned(arguments);
        }
        Some(accesses)
    }

    /// The bytes it touches, including these results, and the line that calls it.
    pub(super) fn ranges(mut self, results: &[Tensor]) -> (SiteId, Vec<Access>) {
        self.touch_fresh(results.iter().copied());
        (self.site, self.ranges)
    }

    /// The operator is done, with these results.
    pub(super) fn end(mut self, results: &[IValue]) {
        self.touch_fresh(results.iter().flat_map(of_result));
        races::work_at(self.site, &self.lanes, &self.operator.name, &self.ranges);
        if let (Some((address, bytes)), [first, ..]) = (self.brings, &self.lanes[..]) {
            races::brings(*first, address, bytes);
        }
        if self.host_waits {
            self.lanes.iter().for_each(|lane| races::host_waited_for(*lane));
        }
    }

    fn touch_fresh(&mut self, results: impl Iterator<Item = Tensor>) {
        let arguments = self.ranges.len();
        for tensor in results.filter(|tensor| tensor.device().kind == Device::CUDA && has_bytes(*tensor)) {
            let start = tensor.storage().data();
            // An argument, or a view of one.
            let is_argument = |range: &Access| (range.address..range.address + range.bytes).contains(&start);
            if !self.ranges[..arguments].iter().any(is_argument) {
                self.touch(tensor, true);
            }
        }
    }

    /// A copy that does not block writes to pinned memory in its stream's order.
    fn fills_pinned(&mut self, arguments: &[IValue]) {
        let target = arguments.first().and_then(Tensor::in_slot).filter(|tensor| tensor.device().kind != Device::CUDA);
        let Some(target) = target else { return };
        let Some((address, bytes)) = Bytes::from_tensor(target).map(|bytes| bytes.hull()) else { return };
        if memory::locate_host(address).is_some() {
            self.lanes.iter().for_each(|lane| races::writes_to_host(*lane, address, bytes));
            self.touch(target, true);
            self.brings = Some((address, bytes));
        }
    }

    /// Adds the bytes of a tensor; nothing for tensors with parts or in too many pieces.
    fn touch(&mut self, tensor: Tensor, writes: bool) {
        let Some(bytes) = Bytes::from_tensor(tensor).filter(|bytes| bytes.rows() <= ROWS) else { return };
        self.ranges.extend(bytes.pieces().map(|(address, bytes)| Access { address, bytes, writes }));
    }

    fn enter(&mut self, index: i8) {
        let Some(lane) = current::stream(index).map(|stream| stream.lane()) else { return };
        if !self.lanes.contains(&lane) {
            self.lanes.push(lane);
        }
    }
}
