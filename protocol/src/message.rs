//! Messages between a rank process (or a control client) and the coordinator.
//!
//! One persistent connection per process. Requests carry a number chosen by the sender that the answer repeats.
//! Tensor bytes never travel here: ranks move them themselves and report what they did as [`OperationRecord`]s.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::activity::Activity;
use crate::backlog::Backlog;
use crate::fault::FaultRecord;
use crate::ids::{CommunicatorId, Rank, Sequence, SiteId};
use crate::plan::ClusterPlan;
use crate::record::{ErrorCode, FailureRecord, HoldingRecord, OperationRecord, PathRecord};
use crate::resumption::SessionKey;
use crate::site::CallSite;

/// Version of this wire format; a different one is refused at `Hello`.
pub const VERSION: u32 = 15;

/// A process on another host that has not answered for this long counts as gone: its machine is, or the way there. Packets that
/// are lost for less time are retransmitted by tcp.
pub const UNREACHABLE_AFTER: Duration = Duration::from_secs(10);

/// How often an idle connection probes its other end.
pub const PROBE_EVERY: Duration = Duration::from_secs(2);

/// How long a stranger may take to send its hello to the coordinator or a rank's data socket before its connection is closed.
pub const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// What the coordinator receives. `Hello` is always first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToCoordinator {
    /// Opens the connection.
    Hello {
        /// [`VERSION`] of the sender.
        version: u32,
        /// The run's token; empty if the run has none.
        token: String,
        /// The sender.
        role: Role,
    },
    /// `ncclCommInitRank`: answered by `CommunicatorFormed` once all `size` ranks asked with the same id.
    InitCommunicator {
        /// Number repeated by the answer.
        request: u64,
        /// The 128 bytes of the unique id.
        unique_id: Vec<u8>,
        /// Number of ranks of the communicator.
        size: u32,
        /// Rank of the sender in the communicator.
        rank: Rank,
        /// How the others reach this rank.
        member: Member,
    },
    /// `ncclCommSplit`: answered once every rank of the parent asked.
    SplitCommunicator {
        /// Number repeated by the answer.
        request: u64,
        /// The parent.
        parent: CommunicatorId,
        /// Position among the parent's splits, from 1: matches the ranks' calls.
        sequence: Sequence,
        /// Rank of the sender in the parent.
        rank: Rank,
        /// `None` is `NCCL_SPLIT_NOCOLOR`: takes part and gets no communicator.
        color: Option<u32>,
        /// Order among equal colors; ties go by parent rank.
        key: i32,
        /// How the others reach this rank in the child.
        member: Member,
    },
    /// The sender left a communicator, orderly or by abort.
    LeaveCommunicator {
        /// Which.
        communicator: CommunicatorId,
        /// Rank of the sender in it.
        rank: Rank,
        /// For `ncclCommAbort`, which wakes the others with an error: `Aborted` or the sender's earlier failure, and a sentence
        /// about it.
        aborted: Option<(ErrorCode, String)>,
    },
    /// Operations this process completed since the last such message.
    Completed {
        /// The completed operations, in the order of completion.
        records: Vec<OperationRecord>,
    },
    /// An operation failed on this process.
    Failed {
        /// What went wrong.
        failure: FailureRecord,
    },
    /// Answer to `Flush`, after the `Completed` that it asked for.
    Flushed {
        /// Number of the flush.
        request: u64,
    },
    /// The process ends on purpose.
    Goodbye,
    /// Control: write the report, notify everyone, end. Answered by `ShuttingDown`.
    Shutdown,
    /// Control: answered by `Status`.
    QueryStatus,
    /// Answer to `Inquire`, after the `Completed` that it asked for.
    Active {
        /// Number of the inquiry.
        request: u64,
        /// Every communicator that the process holds, once for each of its ranks there.
        activities: Vec<Activity>,
    },
    /// Control: ask every process which operation it is in; answered by `Diagnosis`.
    Diagnose {
        /// The run is about to be ended: the result goes into the report.
        last: bool,
    },
    /// A fault of the case is about to fire: answered by `FaultNoted`.
    FaultFires {
        /// Number repeated by the answer.
        request: u64,
        /// Which, and where.
        record: FaultRecord,
    },
    /// `ncclCommShrink`: answered once every rank of the parent that is not excluded asked.
    ShrinkCommunicator {
        /// Number repeated by the answer.
        request: u64,
        /// The parent.
        parent: CommunicatorId,
        /// Position among the parent's shrinks without these ranks, from 1; failed ones do not count.
        sequence: Sequence,
        /// Rank of the sender in the parent.
        rank: Rank,
        /// Ranks of the parent that are left out.
        excluded: Vec<Rank>,
        /// `NCCL_SHRINK_ABORT`: the sender ended its operations on the parent first.
        abort: bool,
        /// How the others reach this rank in the child.
        member: Member,
    },
    /// `ncclCommGrow`: answered once all `size` ranks asked, those of the parent and the new ones.
    GrowCommunicator {
        /// Number repeated by the answer.
        request: u64,
        /// The parent; new ranks know it from the unique id.
        parent: CommunicatorId,
        /// Position among the parent's grows, from 1; failed ones do not count.
        sequence: Sequence,
        /// Number of ranks of the child.
        size: u32,
        /// Rank of the sender in the child; ranks of the parent keep theirs.
        rank: Rank,
        /// How the others reach this rank in the child.
        member: Member,
    },
    /// `ncclCommRevoke`: the sender stays a member and takes part in no more operations. The others are not notified.
    RevokeCommunicator {
        /// Which.
        communicator: CommunicatorId,
        /// Rank of the sender in it.
        rank: Rank,
    },
    /// The sender could not join a communicator, for a local reason: no other process was involved.
    JoinFailed {
        /// Its place in the launch.
        rank: Rank,
        /// One sentence.
        why: String,
    },
    /// Control: the process that was started as a rank ended. Not answered.
    RankEnded {
        /// Its place in the launch.
        rank: Rank,
        /// The process.
        pid: u32,
        /// "ended with exit code 7": completes a sentence about the rank.
        how: String,
    },
    /// A place in the sender's program, sent before the first message that refers to it by number.
    Site {
        /// Its number.
        id: SiteId,
        /// Where it is.
        site: CallSite,
    },
    /// The sender's copy of what should be the same on every rank of a group. Not answered.
    Holds(HoldingRecord),
    /// How many messages of its session the sender has got; not counted itself. Not answered.
    Received {
        /// The number of them in all.
        count: u64,
    },
    /// What was measured between a rank and others of a communicator. The last word counts. Not answered.
    Paths {
        /// Which.
        communicator: CommunicatorId,
        /// Rank of the sender in it.
        rank: Rank,
        /// One for each rank on another node to which it has a connection.
        paths: Vec<PathRecord>,
    },
}

/// Who opened a connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Role {
    /// A process that is one or several ranks.
    Process(ProcessInfo),
    /// A tool that only asks questions.
    Control,
    /// A process of another host, which makes its connection again if it is reset.
    Distant {
        /// The process.
        info: ProcessInfo,
        /// The key by which it is known when it returns.
        session: SessionKey,
    },
    /// A [`Self::Distant`] process whose connection was reset: answered by `Resumed`.
    Returning {
        /// Its session.
        session: SessionKey,
        /// How many messages it has got.
        received: u64,
    },
}

/// A rank process, as it sees itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// Process id on its host.
    pub pid: u32,
    /// Global rank, from `RANK`, if the launcher set it.
    pub rank: Option<Rank>,
    /// World size, from `WORLD_SIZE`, if the launcher set it.
    pub world_size: Option<u32>,
    /// Program name, for messages.
    pub program: String,
    /// Where the coordinator finds operations that the process completed but did not report before it died.
    pub backlog: Option<Backlog>,
}

/// How the other ranks of a communicator reach one of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Position in the whole launch: reports book traffic on it.
    pub global_rank: Rank,
    /// Device ordinal in its process.
    pub device: u32,
    /// Process id on its host.
    pub pid: u32,
    /// Identity of the host (boot id and pid namespace): equal hosts can map each other's memory through `/proc`.
    pub host: String,
    /// File descriptor, in that process, of the device's memory arena; `None` forces sockets.
    pub arena: Option<SharedFile>,
    /// File descriptor, in that process, of the control segment it offers (used when it is rank 0).
    pub control: Option<SharedFile>,
    /// Where it accepts data connections: `tcp:HOST:PORT` or `unix:@NAME` (abstract).
    pub data_address: String,
    /// Where its program asked for the communicator; the number has a meaning only for the coordinator.
    pub site: SiteId,
    /// PCI address of its GPU as NCCL prints it in hexadecimal (domain, bus, device, function): equal on one host for one GPU.
    pub gpu: u64,
    /// Its process brings no other rank of the same communicator while this one waits. False where that is not certain: the
    /// process has several GPUs, and the call is in a group with others, returns before the communicator has formed, or is made
    /// by one of several threads.
    pub is_only: bool,
}

/// Ranks that share a GPU, and NCCL's sentence about the first two. NCCL refuses a communicator that has any ("Duplicate GPU
/// detected", ncclInvalidUsage); it compares hosts and PCI addresses.
pub fn shared_gpu<'a>(members: impl IntoIterator<Item = (Rank, &'a Member)>) -> Option<(Vec<Rank>, String)> {
    let mut ranks_of: BTreeMap<(&str, u64), Vec<Rank>> = BTreeMap::new();
    for (rank, member) in members {
        ranks_of.entry((&member.host, member.gpu)).or_default().push(rank);
    }
    ranks_of.retain(|_, ranks| ranks.len() > 1);
    let ((_, gpu), first) = ranks_of.iter().min_by_key(|(_, ranks)| ranks.iter().min().copied())?;
    let (mut pair, mut all) = (first.clone(), ranks_of.values().flatten().copied().collect::<Vec<Rank>>());
    pair.sort_unstable();
    all.sort_unstable();
    let detail = format!("Duplicate GPU detected : rank {} and rank {} both on CUDA device {gpu:x}", pair[0], pair[1]);
    Some((all, detail))
}

/// A reading of the clock of the coordinator's host, by which ranks on other hosts report their times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The host's boot id: processes with the same boot id share a monotonic clock. Empty if it is unknown.
    pub boot: String,
    /// Its monotonic clock, us.
    pub now_us: u64,
}

impl Clock {
    /// What to add to times by another host's monotonic clock to get times by this one, ns. `boot` is that host's boot id; its
    /// clock read `asked_ns` when the process asked for this clock and `answered_ns` when the answer arrived. The error is at
    /// most half of the time between. Exactly 0 on the same host.
    pub fn offset_ns(&self, boot: &str, asked_ns: u64, answered_ns: u64) -> i64 {
        if self.boot.is_empty() || self.boot == boot {
            return 0;
        }
        let there = i128::from(self.now_us) * 1000;
        let here = (i128::from(asked_ns) + i128::from(answered_ns)) / 2;
        i64::try_from(there - here).unwrap_or(0)
    }
}

/// A memory file of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// File descriptor number in the owner.
    pub fd: i32,
    /// Length in bytes.
    pub length: u64,
}

/// What a process receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToRank {
    /// `Hello` is accepted.
    Welcome {
        /// [`VERSION`] of the coordinator.
        version: u32,
        /// The cluster, if the coordinator was given one.
        cluster: Option<ClusterPlan>,
        /// When it was sent.
        clock: Box<Clock>,
    },
    /// `Hello` is refused; the connection closes.
    Refused {
        /// One sentence.
        reason: String,
    },
    /// The communicator exists.
    CommunicatorFormed {
        /// Which request this answers.
        request: u64,
        /// Its identity in the run.
        communicator: CommunicatorId,
        /// The receiver's rank in it.
        rank: Rank,
        /// All members, in rank order.
        members: Vec<Member>,
    },
    /// The split is done and the receiver's color was none.
    NoCommunicator {
        /// Which request this answers.
        request: u64,
    },
    /// A request cannot be fulfilled.
    RequestFailed {
        /// Which request this answers.
        request: u64,
        /// Kind of failure.
        code: ErrorCode,
        /// One sentence for people.
        detail: String,
    },
    /// A member of a communicator is gone or has aborted it.
    MemberLost {
        /// Which communicator.
        communicator: CommunicatorId,
        /// Its rank there.
        rank: Rank,
        /// `RankLost`, `Unreachable` or `Aborted`.
        code: ErrorCode,
        /// One sentence: "rank 2 (pid 4711, node1) ended unexpectedly".
        detail: String,
    },
    /// Send what is complete, followed by `Flushed`.
    Flush {
        /// Number to repeat.
        request: u64,
    },
    /// The coordinator shuts down cleanly, which is not an error for a process that is not supervised.
    ShuttingDown,
    /// Answer to `QueryStatus`: a JSON document.
    Status {
        /// The document.
        json: String,
    },
    /// Report what this process is doing: `Active`.
    Inquire {
        /// Number to repeat.
        request: u64,
    },
    /// Answer to `Diagnose`: what ranks wait for, a JSON document.
    Diagnosis {
        /// A [`Diagnosis`](crate::diagnosis::Diagnosis).
        json: String,
    },
    /// Answer to `FaultFires`.
    FaultNoted {
        /// Which request this answers.
        request: u64,
        /// This fault was not reported before: it does not fire again for a restarted rank.
        first: bool,
    },
    /// The process that started the run is gone, and so is every other process that would end this one.
    RunLost,
    /// As [`ToCoordinator::Received`].
    Received {
        /// The number of them in all.
        count: u64,
    },
    /// The connection takes the place of the one that was reset. Not counted.
    Resumed {
        /// How many messages of the session the coordinator has got.
        received: u64,
    },
}

impl ToRank {
    /// The kind of message, for the error about an unexpected one.
    pub fn kind(&self) -> &'static str {
        match self {
            ToRank::Welcome { .. } => "a welcome",
            ToRank::Refused { .. } => "a refusal",
            ToRank::CommunicatorFormed { .. } => "a communicator",
            ToRank::NoCommunicator { .. } => "no communicator",
            ToRank::RequestFailed { .. } => "a request that failed",
            ToRank::MemberLost { .. } => "a lost member",
            ToRank::Flush { .. } => "a request to flush",
            ToRank::ShuttingDown => "its end",
            ToRank::Status { .. } => "a status",
            ToRank::Inquire { .. } => "an inquiry",
            ToRank::Diagnosis { .. } => "a diagnosis",
            ToRank::FaultNoted { .. } => "a fault that was noted",
            ToRank::RunLost => "the end of its run",
            ToRank::Received { .. } => "a confirmation",
            ToRank::Resumed { .. } => "a resumption",
        }
    }
}
