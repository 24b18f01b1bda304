//! Operations whose bytes are moved by the real NCCL: the ranks only exchange descriptors, so that differences are found.

use super::Communicator;
use crate::call::{Buffer, Call};
use crate::failure::Failure;
use crate::operation::descriptor::{self, Descriptor};
use crate::operation::timing::Timing;
use protocol::datatype::{Datatype, Operation};
use protocol::record::ErrorCode;

type Bytes = [u8; Descriptor::BYTES];

/// A descriptor at `buffer`, as the call that moves it.
fn travels(call: &Call, operation: Operation, send: *mut u8, receive: *mut u8) -> Call {
    let bytes = Call::new(operation, Descriptor::BYTES as u64, Datatype::Uint8);
    let (send, receive) = (Buffer::host(send), Buffer::host(receive));
    let carries = Some(call.operation);
    let ready_ns = call.ready_ns;
    Call { ready_ns, peer: call.peer, send, receive, site: call.site, issue: call.issue, carries, ..bytes }
}

/// A rank's description of its call. It contains no addresses of the program: its buffers are on a GPU, and nothing here
/// dereferences them.
fn describe(call: &Call, sequence: u64) -> Bytes {
    let call = Call { scalar: None, send: Buffer::NONE, receive: Buffer::NONE, ..*call };
    Descriptor::new(&call, sequence).to_bytes()
}

impl Communicator {
    /// Every rank announces its call and receives those of the others.
    pub(super) fn agree(&self, sequence: u64, call: &Call) -> Result<Timing, Failure> {
        let context = self.context(sequence);
        let mut own = describe(call, sequence);
        let mut all = vec![[0; Descriptor::BYTES]; self.members.len()];
        let traveling = travels(call, Operation::AllGather, own.as_mut_ptr(), all.as_mut_ptr().cast());
        let timing = self.carrier().collective(&context, &traveling)?;
        let calls: Vec<Descriptor> = all.into_iter().map(Descriptor::from_bytes).collect();
        descriptor::compare(&context, &calls)?;
        Ok(timing)
    }

    /// A sender describes its message, and the receiver compares that with what it expects.
    pub(super) fn agree_on_transfers(&self, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let mut said: Vec<Bytes> = calls.iter().map(|call| describe(call, 0)).collect();
        let traveling: Vec<Call> = calls
            .iter()
            .zip(&mut said)
            .map(|(call, said)| travels(call, call.operation, said.as_mut_ptr(), said.as_mut_ptr()))
            .collect();
        let timings = self.carrier().transfers(&self.context(0), &traveling)?;
        for (call, said) in calls.iter().zip(said).filter(|(call, _)| call.operation == Operation::Recv) {
            let sent = Descriptor::from_bytes(said);
            let peer = call.peer.unwrap_or(0);
            let differs = if sent.datatype != call.datatype.code() {
                ErrorCode::DtypeMismatch
            } else if sent.count != call.count {
                ErrorCode::CountMismatch
            } else {
                continue;
            };
            let datatype = Datatype::from_code(sent.datatype).map_or("?", Datatype::name);
            let detail = format!(
                "{} sent {} elements of {datatype}, {} receives {} of {}",
                self.context(0).name(peer),
                sent.count,
                self.context(0).name(self.rank),
                call.count,
                call.datatype
            );
            return Err(Failure::new(differs, detail).blaming(vec![peer]));
        }
        Ok(timings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Participant, Process};
    use crate::settings::Settings;
    use protocol::datatype::ReductionOp;
    use protocol::ids::{Rank, SiteId};

    /// Runs a list of calls on each of two ranks whose buffers are addresses that must not be dereferenced. A rank without calls aborts.
    fn run(calls: [Vec<Call>; 2]) -> [Result<(), Failure>; 2] {
        let settings = Settings { keeps_books: true, ..Settings::default() };
        let process = &Process::join(settings).unwrap();
        let results: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0u32..)
                .zip(calls)
                .map(|(rank, calls)| {
                    scope.spawn(move || {
                        let (gpu, site) = (rank.into(), SiteId::default());
                        let participant =
                            Participant { global_rank: rank, device: rank, gpu, arena: None, site, is_only: false };
                        let communicator = process.init_communicator(b"books", 2, rank, participant).unwrap();
                        assert_eq!(communicator.transport(), protocol::record::BufferTransport::ProxyOnly);
                        if calls.is_empty() {
                            communicator.abort();
                            return Ok(());
                        }
                        communicator.run(&calls)
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        results.try_into().unwrap()
    }

    fn call(operation: Operation, count: u64, peer: Option<u32>) -> Call {
        let nowhere = Buffer::host(std::ptr::without_provenance_mut(16));
        let mut call = Call::new(operation, count, Datatype::Float32);
        (call.send, call.receive, call.peer) = (nowhere, nowhere, peer);
        call.reduction = (operation == Operation::AllReduce).then_some(ReductionOp::Sum);
        call
    }

    #[test]
    fn what_agrees_passes_and_touches_no_buffer() {
        let large = || vec![call(Operation::AllReduce, 1 << 30, None), call(Operation::AllGather, 9, None)];
        assert_eq!(run([large(), large()]), [Ok(()), Ok(())]);
        let transfers = [vec![call(Operation::Send, 5, Some(1))], vec![call(Operation::Recv, 5, Some(0))]];
        assert_eq!(run(transfers), [Ok(()), Ok(())]);
    }

    #[test]
    fn a_collective_that_nobody_joins_has_the_name_that_the_program_knows() {
        let [failed, _] = run([vec![call(Operation::AllReduce, 4, None)], Vec::new()]);
        let detail = failed.unwrap_err().detail;
        assert!(detail.starts_with("all_reduce (collective 1) needs rank 1"), "{detail}");
    }

    #[test]
    fn what_differs_is_named() {
        let differs = run([vec![call(Operation::AllReduce, 4, None)], vec![call(Operation::AllReduce, 5, None)]]);
        for result in differs {
            let failure = result.unwrap_err();
            assert_eq!(failure.code, ErrorCode::CountMismatch);
            assert!(failure.detail.contains("rank 1") && failure.detail.contains("count 5"), "{failure}");
        }
        let differs = run([vec![call(Operation::AllReduce, 4, None)], vec![call(Operation::AllGather, 4, None)]]);
        assert!(differs.iter().all(|result| result.as_ref().unwrap_err().code == ErrorCode::CollectiveTypeMismatch));
        let differs = run([vec![call(Operation::Send, 5, Some(1))], vec![call(Operation::Recv, 7, Some(0))]]);
        let failure = differs[1].as_ref().unwrap_err();
        assert_eq!((failure.code, &*failure.culprits), (ErrorCode::CountMismatch, &[Rank(0)][..]));
        assert_eq!(failure.detail, "rank 0 sent 5 elements of float32, rank 1 receives 7 of float32");
    }
}
