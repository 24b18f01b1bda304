//! How a rank stops: it aborts, revokes or leaves, and the others learn the reason.

use std::sync::atomic::Ordering;

use protocol::ids::Rank;
use protocol::record::ErrorCode;

use super::Communicator;
use crate::failure::Failure;

impl Communicator {
    /// `ncclCommAbort`: whatever runs or waits fails, here and on the other ranks.
    pub fn abort(&self) {
        let detail = format!("rank {} aborted the communicator", self.rank);
        let (why, reason) = self.stop(ErrorCode::Aborted, &detail);
        self.leave_as(true, why, &reason);
    }

    /// `ncclCommRevoke`: whatever runs or waits on this rank fails, and it takes part in no further operations. It may still
    /// split, shrink and grow the communicator. The other ranks are not notified, because they revoke, too.
    pub fn revoke(&self) {
        if self.revoked.swap(true, Ordering::AcqRel) {
            return;
        }
        self.stop(ErrorCode::Revoked, &format!("rank {} revoked the communicator", self.rank));
    }

    /// True once this rank has revoked it: the failure then does not prevent a split, shrink or grow.
    pub fn revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// The first half of a shrink with `NCCL_SHRINK_ABORT`: whatever runs or waits fails, here and on the other ranks.
    pub fn stop_to_shrink(&self) {
        self.stop(ErrorCode::Aborted, &format!("rank {} aborted the communicator to shrink it", self.rank));
    }

    /// Ends this rank's part in all operations. Returns the reason given to the others.
    fn stop(&self, code: ErrorCode, detail: &str) -> (ErrorCode, String) {
        let earlier = {
            let mut held = self.failure.lock();
            let earlier = held.clone();
            held.get_or_insert_with(|| Failure::new(code, detail));
            earlier
        };
        // What failed before is the reason, even if the others do not know it yet.
        let (why, reason) = match earlier.filter(|failure| failure.code != ErrorCode::Revoked) {
            Some(failure) => (failure.code, format!("rank {} failed: {}", self.rank, failure.detail)),
            None => (code, detail.to_owned()),
        };
        self.lose(self.rank, why, &reason);
        self.hang_up(why, &reason);
        match code {
            ErrorCode::Revoked => self.journal.stopped(self.id, Rank(self.rank), code, detail),
            _ => self.journal.stopped(self.id, Rank(self.rank), why, &reason),
        }
        (why, reason)
    }

    /// Notifies the others that this rank will not come, except for a revoke.
    fn hang_up(&self, code: ErrorCode, detail: &str) {
        let idle = self.running.try_lock();
        self.carrier().stop(&self.context(0), code, detail, idle.is_some());
    }

    /// `ncclCommDestroy`: this rank takes no further part. Call it when its operations are complete.
    pub fn leave(&self) {
        let detail = format!("rank {} left the communicator", self.rank);
        self.leave_as(false, ErrorCode::RankLost, &detail);
        self.failure
            .lock()
            .get_or_insert(Failure::new(ErrorCode::UnknownCommunicator, "the communicator was destroyed"));
    }

    fn leave_as(&self, aborted: bool, code: ErrorCode, detail: &str) {
        if self.left.swap(true, Ordering::AcqRel) {
            return;
        }
        self.measure();
        self.hang_up(code, detail);
        self.journal.left(self.id, Rank(self.rank), aborted.then(|| (code, detail.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use protocol::datatype::{Datatype, Operation};
    use protocol::ids::SiteId;
    use protocol::message::SharedFile;

    use super::*;
    use crate::arena::Arena;
    use crate::call::Call;
    use crate::process::{Participant, Process};
    use crate::settings::Settings;

    fn join(process: &Arc<Process>, arena: &Arena, rank: u32) -> Arc<Communicator> {
        let file = SharedFile { fd: arena.fd(), length: arena.length() as u64 };
        let site = SiteId::default();
        let participant =
            Participant { global_rank: rank, device: 0, gpu: u64::from(rank), arena: Some(file), site, is_only: false };
        process.init_communicator(b"the same id", 2, rank, participant).unwrap()
    }

    /// A program sees its rank's failure a moment before the other ranks do, and may abort in that moment.
    #[test]
    fn an_abort_passes_on_the_failure_that_came_before() {
        for force_sockets in [false, true] {
            let timeout = Duration::from_secs(20);
            let process = Process::join(Settings { force_sockets, timeout, ..Settings::default() }).unwrap();
            let arenas = [0, 1].map(|_| Arena::create("test arena", 1 << 20).unwrap());
            let failure = std::thread::scope(|scope| {
                let first = scope.spawn(|| {
                    let communicator = join(&process, &arenas[0], 0);
                    assert_eq!(communicator.shared.get().is_none(), force_sockets);
                    let failure = Failure::new(ErrorCode::InjectedRankFailure, "the link is cut");
                    *communicator.failure.lock() = Some(failure);
                    communicator.abort();
                    communicator
                });
                let second = join(&process, &arenas[1], 1);
                let failure = second.run(&[Call::new(Operation::Barrier, 0, Datatype::Uint8)]).unwrap_err();
                first.join().unwrap();
                failure
            });
            assert_eq!(failure.code, ErrorCode::InjectedRankFailure, "{failure}");
            assert!(failure.detail.contains("rank 0 failed: the link is cut"), "{failure}");
        }
    }
}
