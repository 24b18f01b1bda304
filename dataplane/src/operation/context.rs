//! What a transport gets for an operation, and the failures it returns.

use std::io;
use std::time::{Duration, Instant};

use protocol::datatype::Operation;
use protocol::message::{Member, UNREACHABLE_AFTER};
use protocol::record::ErrorCode;

use crate::failure::{Failure, name_ranks};
use crate::losses::Losses;
use crate::operation::history::OpHistory;
use crate::sockets::path::Path;

/// The communicator and its current state, as seen by an operation.
pub(crate) struct OpContext<'a> {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) members: &'a [Member],
    /// The nodes of the members, by rank; empty if the cluster is not known.
    pub(crate) nodes: &'a [String],
    /// Position of the collective, from 1; 0 for transfers.
    pub(crate) sequence: u64,
    pub(crate) deadline: Instant,
    pub(crate) timeout: Duration,
    /// Ranks that will not come again.
    pub(crate) losses: &'a Losses,
    /// Where transfers record that they are done while others of their group are not.
    pub(crate) history: &'a OpHistory,
}

impl OpContext<'_> {
    /// "rank 2", with its global rank if that differs. No process id, so that messages are the same from run to run.
    pub(crate) fn name(&self, rank: u32) -> String {
        match self.members.get(rank as usize) {
            Some(member) if member.global_rank.0 != rank => format!("rank {rank} (global rank {})", member.global_rank),
            _ => format!("rank {rank}"),
        }
    }

    /// How long an operation waits for other ranks, as messages show it.
    pub(crate) fn timeout_ms(&self) -> u128 {
        self.timeout.as_millis()
    }

    /// The deadline for ranks that have been at work since `moment`.
    pub(crate) fn deadline_from(&self, moment: Instant) -> Instant {
        moment + self.timeout
    }

    /// The failure of `what` if `lost` will not come, with the reason given by the first of them.
    pub(crate) fn lost(&self, what: &str, lost: &[u32], reason: Option<(ErrorCode, String)>) -> Failure {
        let (code, reason) = reason.unwrap_or((ErrorCode::RankLost, "it is gone".to_owned()));
        let names: Vec<String> = lost.iter().map(|rank| self.name(*rank)).collect();
        let failure = Failure::new(code, format!("{what} needs {}, which will not arrive: {reason}", names.join(", ")));
        // Which rank does not reach which other is said by the rank that noticed it.
        if code == ErrorCode::Unreachable { failure } else { failure.blaming(lost.to_vec()) }
    }

    /// The failure of `what`, which needs `rank`, after the connection to that rank ended.
    pub(crate) fn closed(&self, what: &str, rank: u32, error: &io::Error) -> Failure {
        if error.kind() != io::ErrorKind::TimedOut {
            let reason = format!("its connection failed: {error}");
            return self.lost(what, &[rank], Some((ErrorCode::RankLost, reason)));
        }
        let seconds = UNREACHABLE_AFTER.as_secs();
        let reason = match self.link(rank) {
            Some((own, other)) => {
                format!("nothing came from {other} for {seconds} s: the link between {own} and {other} is down")
            }
            None => format!("nothing came from it for {seconds} s"),
        };
        self.lost(what, &[rank], Some((ErrorCode::Unreachable, reason))).blaming(vec![rank])
    }

    /// This rank's node and that of `rank`, where they are apart.
    pub(crate) fn link(&self, rank: u32) -> Option<(&str, &str)> {
        let (own, other) = (self.nodes.get(self.rank as usize)?, self.nodes.get(rank as usize)?);
        (own != other).then_some((own, other))
    }

    /// The end of a sentence about waiting for `rank` in vain: the link to it carried something when the time was up, so it is slow.
    pub(crate) fn slow(&self, rank: u32, path: &Path) -> String {
        let Some((own, other)) = self.link(rank) else { return String::new() };
        let (milliseconds, kilobytes) = (path.round_trip_us / 1000, path.bytes_per_s / 1000);
        format!(
            "; the link between {own} and {other} is slow: bytes were on their way, {milliseconds} ms there and back, at {kilobytes} kB/s"
        )
    }

    /// The failure of a collective that `missing` did not join in time.
    pub(crate) fn late(&self, operation: Operation, missing: Vec<u32>) -> Failure {
        let detail = format!(
            "rank {} waited {} ms in {operation} (collective {}) for {}",
            self.rank,
            self.timeout_ms(),
            self.sequence,
            name_ranks(&missing)
        );
        Failure::new(ErrorCode::TimeoutWaitingForCollective, detail).blaming(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::stage::Stage;

    #[test]
    fn a_silent_connection_names_the_link_and_another_its_error() {
        let stage = Stage::new(3);
        let nodes = ["node0", "node1", "node1"].map(str::to_owned);
        let of = |own: u32, other: u32, nodes, kind: io::ErrorKind| {
            let context = OpContext { nodes, ..stage.context(own, Duration::from_secs(1)) };
            let failure = context.closed("all_reduce", other, &kind.into());
            (failure.code, failure.culprits.iter().map(|rank| rank.0).collect::<Vec<u32>>(), failure.detail)
        };
        let (code, culprits, detail) = of(0, 1, &nodes, io::ErrorKind::TimedOut);
        assert_eq!((code, culprits), (ErrorCode::Unreachable, vec![1]));
        assert!(
            detail.contains("nothing came from node1 for 10 s: the link between node0 and node1 is down"),
            "{detail}"
        );
        assert!(of(1, 2, &nodes, io::ErrorKind::TimedOut).2.ends_with("nothing came from it for 10 s"));
        assert!(of(0, 1, &[], io::ErrorKind::TimedOut).2.ends_with("nothing came from it for 10 s"));
        let (code, culprits, detail) = of(0, 1, &nodes, io::ErrorKind::ConnectionReset);
        assert_eq!((code, culprits), (ErrorCode::RankLost, vec![1]));
        assert!(detail.contains("its connection failed"), "{detail}");
        // A rank that is told by another one blames nobody, because the other one does.
        let told = stage.context(2, Duration::from_secs(1));
        let told = told.lost("all_reduce", &[0], Some((ErrorCode::Unreachable, "rank 0 gave up".to_owned())));
        assert_eq!(told.culprits, []);
    }
}
