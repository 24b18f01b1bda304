//! A communicator's order of operations, as seen by the program.

use std::sync::Arc;
use std::time::Instant;

use protocol::record::ErrorCode;

use super::Communicator;
use crate::call::Call;
use crate::failure::Failure;

/// A place in a communicator's order of operations, taken when the program issues one.
pub struct Ticket {
    communicator: Arc<Communicator>,
    number: u64,
}

impl Ticket {
    pub(super) fn new(communicator: &Arc<Communicator>) -> Self {
        Self { communicator: Arc::clone(communicator), number: communicator.turns.issue() }
    }

    /// Waits for its turn and runs `calls`, as [`Communicator::run`].
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn run(self, calls: &[Call]) -> Result<(), Failure> {
        let communicator = &self.communicator;
        if !communicator.turns.wait(self.number, Instant::now() + communicator.settings.timeout) {
            if let Some(failure) = communicator.failure() {
                return Err(failure);
            }
            let detail = format!(
                "rank {} waited {} ms for its own earlier operations on the communicator",
                communicator.rank,
                communicator.settings.timeout.as_millis()
            );
            let failure = Failure::new(ErrorCode::TimeoutWaitingForCollective, detail);
            communicator.failure.lock().get_or_insert(failure.clone());
            return Err(failure);
        }
        communicator.execute(calls)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.communicator.turns.finish(self.number);
    }
}
