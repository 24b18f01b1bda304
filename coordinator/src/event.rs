//! What sessions report to the driver.

use model::exchange::ConnectionId;
use protocol::message::{ProcessInfo, ToCoordinator, ToRank};
use tokio::sync::mpsc;

/// What happened on one connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// A hello was accepted. The driver sends through `outbound`; dropping it ends the session.
    Opened { connection: ConnectionId, opener: Opener, outbound: mpsc::Sender<ToRank> },
    /// The peer said something.
    Received { connection: ConnectionId, message: ToCoordinator },
    /// The connection is over; `reason` when its peer broke the rules.
    Closed { connection: ConnectionId, reason: Option<String> },
    /// The connection is over because nothing comes over it any more.
    Unreachable { connection: ConnectionId },
}

/// The process that opened a connection.
#[derive(Debug)]
pub(crate) enum Opener {
    Process(ProcessInfo),
    Control,
}
