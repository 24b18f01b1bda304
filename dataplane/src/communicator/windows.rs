//! Windows, and the operations on them.

use protocol::datatype::Operation;
use protocol::record::ErrorCode;

use crate::call::{Buffer, Call};
use crate::communicator::{Communicator, Running};
use crate::failure::Failure;
use crate::fault;
use crate::one_sided::{self, PeerWindow};
use crate::operation::context::Timing;

impl Communicator {
    /// Registers `bytes` at `buffer` as the next window; its number, from 1.
    ///
    /// # Errors
    /// `System` when too many are registered.
    pub fn register_window(&self, buffer: Buffer, bytes: u64) -> Result<u64, Failure> {
        let number = self.inbox.register(buffer.address as usize, bytes);
        let window = PeerWindow { place: buffer.place.unwrap_or_default(), address: buffer.address as u64, bytes };
        if let Some(segment) = self.segment.get() {
            if !segment.board().post(self.rank(), number, &window) {
                self.inbox.deregister(number);
                let detail = format!("{} windows are registered, which is the most at one time", one_sided::WINDOWS);
                return Err(Failure::new(ErrorCode::System, detail));
            }
            // Who waits for it looks again.
            (0..self.size()).for_each(|rank| segment.ring_bell(rank));
        }
        Ok(number)
    }

    /// Forgets a window.
    pub fn deregister_window(&self, number: u64) {
        if let Some(segment) = self.segment.get() {
            segment.board().withdraw(self.rank(), number);
        }
        self.inbox.deregister(number);
    }

    /// Window `number` of rank `peer`, which may not have registered it yet: waits for it. `None` when the ranks do not map
    /// each other's memory.
    ///
    /// # Errors
    /// A lost rank or the deadline.
    pub fn peer_window(&self, number: u64, peer: u32) -> Result<Option<PeerWindow>, Failure> {
        let Some(segment) = self.segment.get() else { return Ok(None) };
        let context = self.context(0);
        let what = format!("window {number}");
        one_sided::shown_window(segment, &context, &what, peer, number, context.deadline).map(Some)
    }

    /// The first of `calls`, or all waits that they begin with.
    pub(super) fn one_sided(&self, running: &mut Running, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let waits = calls.iter().take_while(|call| call.operation == Operation::WaitSignal).count();
        let calls = &calls[..waits.max(1)];
        for call in calls {
            call.check(self.rank, self.size())?;
        }
        if !self.faults.is_empty() {
            let failure = || self.failure();
            fault::before_transfers(&self.faults, &self.site(&failure), &mut running.counted, calls)?;
        }
        self.history.begin(0, calls);
        let lost = |rank| self.why_lost(rank);
        let Running { shared, one_sided, .. } = running;
        let mut way = match self.segment.get() {
            Some(segment) => one_sided::Way::Shared(segment, &mut shared.mappings),
            None => one_sided::Way::Sockets(one_sided::Caller {
                communicator: self.id.0,
                token: &self.settings.token,
                wake: &self.wake,
                lost: &lost,
            }),
        };
        one_sided::run(&mut way, &self.inbox, one_sided, &self.context(0), calls)
    }
}
