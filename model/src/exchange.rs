//! What goes into a cluster and what comes out of it.

use protocol::ids::Rank;
use protocol::message::{ProcessInfo, ToCoordinator, ToRank};
use protocol::record::{ErrorCode, OperationRecord};

/// A connection, numbered by the acceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A process sent an acceptable hello.
    Joined {
        /// Its connection, new.
        connection: ConnectionId,
        /// The process behind it.
        info: ProcessInfo,
    },
    /// A process that joined sent a message.
    Message {
        /// Its connection.
        connection: ConnectionId,
        /// The message.
        message: ToCoordinator,
    },
    /// A connection closed.
    Disconnected {
        /// Which.
        connection: ConnectionId,
        /// Why, when the coordinator closed it: "sent a malformed frame".
        reason: Option<String>,
    },
    /// Nothing arrived over a connection anymore, so it was closed.
    Unreachable {
        /// Which.
        connection: ConnectionId,
    },
    /// Operations that a process completed but did not report itself, because it died. Those that it did report are skipped.
    LeftBehind {
        /// Its connection, which is about to close.
        connection: ConnectionId,
        /// The completed operations, in the order of completion.
        records: Vec<OperationRecord>,
    },
    /// The process that was started as a rank ended, as its parent observed. It need not have joined.
    RankEnded {
        /// Place in the launch.
        rank: Rank,
        /// The process.
        pid: u32,
        /// "ended with exit code 7": completes a sentence about the rank.
        how: String,
    },
    /// Time passed: [`Cluster::deadline`](crate::cluster::Cluster::deadline) may have expired.
    Tick,
}

/// Something to do outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a message.
    Send {
        /// The connection that it goes to.
        connection: ConnectionId,
        /// What.
        message: ToRank,
    },
    /// Close a connection that broke the rules; `Disconnected` follows with the same reason.
    Close {
        /// Which.
        connection: ConnectionId,
        /// One sentence.
        reason: String,
    },
}

/// Sends a message.
pub(crate) fn send(out: &mut Vec<Output>, connection: ConnectionId, message: ToRank) {
    out.push(Output::Send { connection, message });
}

/// Closes the connection of a peer that broke the rules.
pub(crate) fn close(out: &mut Vec<Output>, connection: ConnectionId, reason: String) {
    out.push(Output::Close { connection, reason });
}

/// Answers request `request` with a failure.
pub(crate) fn refuse(out: &mut Vec<Output>, connection: ConnectionId, request: u64, code: ErrorCode, detail: String) {
    send(out, connection, ToRank::RequestFailed { request, code, detail });
}
