//! Windows, and the operations on them.

use protocol::datatype::Operation;

use crate::call::{Buffer, Call};
use crate::communicator::{Communicator, Running};
use crate::failure::Failure;
use crate::fault;
use crate::operation::one_sided::PeerWindow;
use crate::operation::timing::Timing;

impl Communicator {
    /// Registers `bytes` at `buffer` as the next window; returns its number, from 1.
    ///
    /// # Errors
    /// `System` if too many are registered.
    pub fn register_window(&self, buffer: Buffer, bytes: u64) -> Result<u64, Failure> {
        self.carrier().register_window(buffer, bytes)
    }

    /// Forgets a window.
    pub fn deregister_window(&self, number: u64) {
        self.carrier().deregister_window(number);
    }

    /// Window `number` of rank `peer`; waits if it is not registered yet. `None` if the ranks do not map each other's
    /// memory.
    ///
    /// # Errors
    /// A lost rank or the deadline.
    pub fn peer_window(&self, number: u64, peer: u32) -> Result<Option<PeerWindow>, Failure> {
        self.carrier().peer_window(&self.context(0), number, peer)
    }

    /// Runs the first of `calls`, or all leading waits.
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
        self.carrier().one_sided(&self.context(0), calls)
    }
}
