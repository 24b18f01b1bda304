//! A communicator's order of operations, as seen by the program.

use std::sync::Arc;
use std::time::Instant;

use protocol::ready::Ready;
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

    /// Waits for its turn and runs `calls`, as [`Communicator::run`]. Returns which rank was ready last, and when
    /// ([`Call::ready_ns`]).
    ///
    /// # Errors
    /// As [`Communicator::run`].
    pub fn run(self, calls: &[Call]) -> Result<Ready, Failure> {
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

#[cfg(test)]
mod tests {
    use protocol::datatype::{Datatype, Operation, ReductionOp};
    use protocol::ids::SiteId;

    use crate::call::{Buffer, Call};
    use crate::process::{Participant, Process};
    use crate::settings::Settings;

    /// When the last rank was ready, and which that was, as each of two ranks learns it from these operations.
    fn latest(forces_sockets: bool, operations: [Operation; 2], bytes: usize, ready_ns: [u64; 2]) -> [(u64, u32); 2] {
        let process = &Process::join(Settings { force_sockets: forces_sockets, ..Settings::default() }).unwrap();
        let run = |rank: u32| {
            let participant = Participant {
                global_rank: rank,
                device: rank,
                gpu: rank.into(),
                arena: None,
                site: SiteId::default(),
                is_only: false,
            };
            let communicator = process.init_communicator(b"ready", 2, rank, participant).unwrap();
            let mut memory = vec![0u8; bytes];
            let mut call = Call::new(operations[rank as usize], bytes as u64, Datatype::Uint8);
            call.reduction = Some(ReductionOp::Sum);
            call.peer = Some(1 - rank);
            call.send = Buffer::host(memory.as_mut_ptr());
            call.receive = call.send;
            call.ready_ns = ready_ns[rank as usize];
            let last = communicator.ticket().run(&[call]).unwrap();
            (last.ns, last.rank)
        };
        std::thread::scope(|scope| {
            let ranks = [0, 1].map(|rank| scope.spawn(move || run(rank)));
            ranks.map(|rank| rank.join().unwrap())
        })
    }

    #[test]
    fn ranks_learn_when_the_last_of_them_was_ready() {
        let collective = [Operation::AllReduce; 2];
        let transfer = [Operation::Send, Operation::Recv];
        for forces_sockets in [false, true] {
            for bytes in [16, 1 << 17] {
                assert_eq!(latest(forces_sockets, collective, bytes, [7, 40]), [(40, 1); 2]);
                assert_eq!(latest(forces_sockets, collective, bytes, [70, 40]), [(70, 0); 2]);
                // A small message leaves its sender before the receiver is ready.
                let sender = if bytes == 16 { (7, 0) } else { (40, 1) };
                assert_eq!(latest(forces_sockets, transfer, bytes, [7, 40]), [sender, (40, 1)], "{bytes}");
                assert_eq!(latest(forces_sockets, transfer, bytes, [70, 40]), [(70, 0); 2], "{bytes}");
            }
        }
    }
}
