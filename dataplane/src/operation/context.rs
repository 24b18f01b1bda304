//! What a transport is given for an operation and what it answers.

use std::io;
#[cfg(test)]
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::datatype::Operation;
use protocol::message::{Member, UNREACHABLE_AFTER};
use protocol::record::ErrorCode;

use crate::failure::{Failure, name_ranks};
use crate::losses::Losses;
use crate::operation::history::OpHistory;
#[cfg(test)]
use crate::wake::Wake;

/// The communicator and the moment, as an operation sees them.
pub(crate) struct OpContext<'a> {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) members: &'a [Member],
    /// Their nodes, by rank; none where the cluster is not known.
    pub(crate) nodes: &'a [String],
    /// Position of the collective, from 1; 0 for transfers.
    pub(crate) sequence: u64,
    pub(crate) deadline: Instant,
    pub(crate) timeout: Duration,
    /// Ranks that will not come again.
    pub(crate) losses: &'a Losses,
    /// Where transfers note that they are done, while others of their group are not.
    pub(crate) history: &'a OpHistory,
}

/// How long an operation waited for others and how long it moved bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    pub(crate) wait_us: f64,
    pub(crate) execute_us: f64,
    /// By the machine's monotonic clock, ns.
    pub(crate) ended_ns: u64,
    /// For send and recv: which transfer of the ordered pair, from 1.
    pub(crate) transfer: u64,
}

impl OpContext<'_> {
    /// "rank 2", with its place in the launch where that differs. No process id: sentences are the same from run to run.
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

    /// Until when to wait for ranks that are at work since `moment`.
    pub(crate) fn deadline_from(&self, moment: Instant) -> Instant {
        moment + self.timeout
    }

    /// The failure of `what` when `lost` will not come, for the reason the first of them gave.
    pub(crate) fn lost(&self, what: &str, lost: &[u32], reason: Option<(ErrorCode, String)>) -> Failure {
        let (code, reason) = reason.unwrap_or((ErrorCode::RankLost, "it is gone".to_owned()));
        let names: Vec<String> = lost.iter().map(|rank| self.name(*rank)).collect();
        let failure = Failure::new(code, format!("{what} needs {}, which will not come: {reason}", names.join(", ")));
        // Who does not reach whom, the rank says that noticed it.
        if code == ErrorCode::Unreachable { failure } else { failure.blaming(lost.to_vec()) }
    }

    /// The failure of `what`, which needs `rank`, to which the connection ended.
    pub(crate) fn closed(&self, what: &str, rank: u32, error: &io::Error) -> Failure {
        if error.kind() != io::ErrorKind::TimedOut {
            let reason = format!("its connection failed: {error}");
            return self.lost(what, &[rank], Some((ErrorCode::RankLost, reason)));
        }
        let seconds = UNREACHABLE_AFTER.as_secs();
        let reason = match (self.nodes.get(self.rank as usize), self.nodes.get(rank as usize)) {
            (Some(own), Some(other)) if own != other => {
                format!("nothing came from {other} for {seconds} s: the link between {own} and {other} is down")
            }
            _ => format!("nothing came from it for {seconds} s"),
        };
        self.lost(what, &[rank], Some((ErrorCode::Unreachable, reason))).blaming(vec![rank])
    }

    /// The failure of a collective that `missing` did not come to in time.
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

/// The timing of an operation that began at `start`, had everybody at `met` and is done now. `transfer` as in [`Timing`].
pub(crate) fn timing(start: Instant, met: Instant, transfer: u64) -> Timing {
    let wait_us = microseconds(start, met);
    Timing { wait_us, execute_us: microseconds(met, Instant::now()), ended_ns: monotonic_ns(), transfer }
}

/// The clock behind [`Instant`], which all processes of a machine share.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written to, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Microseconds between two moments.
fn microseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e6
}

/// A communicator's ranks in this process, for tests of one way of moving bytes.
#[cfg(test)]
pub(crate) struct Stage {
    members: Vec<Member>,
    history: OpHistory,
    losses: Losses,
}

#[cfg(test)]
impl Stage {
    pub(crate) fn of(size: u32) -> Self {
        let member = |rank| Member {
            global_rank: protocol::ids::Rank(rank),
            device: 0,
            pid: std::process::id(),
            host: String::new(),
            arena: None,
            control: None,
            data_address: String::new(),
            site: protocol::ids::SiteId::default(),
            gpu: u64::from(rank),
        };
        let losses = Losses::new(Arc::new(Wake::new().unwrap()));
        Self { members: (0..size).map(member).collect(), history: OpHistory::default(), losses }
    }

    /// Ranks that will not come again.
    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    /// What `rank` sees, which waits for `timeout` from now on.
    pub(crate) fn context(&self, rank: u32, timeout: Duration) -> OpContext<'_> {
        let (members, losses, history) = (&self.members, &self.losses, &self.history);
        let size = members.len() as u32;
        OpContext {
            rank,
            size,
            members,
            nodes: &[],
            sequence: 1,
            deadline: Instant::now() + timeout,
            timeout,
            losses,
            history,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_names_the_link_and_another_its_error() {
        let stage = Stage::of(3);
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
        // Whoever is told by another blames nobody: that one does.
        let told = stage.context(2, Duration::from_secs(1));
        let told = told.lost("all_reduce", &[0], Some((ErrorCode::Unreachable, "rank 0 gave up".to_owned())));
        assert_eq!(told.culprits, []);
    }
}
