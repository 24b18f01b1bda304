//! One-sided operations: a rank writes into another's registered memory and signals it; that rank waits for signals and makes
//! no call that belongs to the write. Through shared memory the writer does everything; over sockets a thread of the target
//! takes what comes and answers, so that a put that is complete has arrived.
//!
//! Windows are known by their number: the n-th that a rank registered with the communicator belongs to the n-th of the others.

mod run;

use std::collections::HashMap;

use protocol::datatype::Operation;

use crate::call::Place;

pub(crate) use crate::shared::segment::board::WINDOWS;
pub(crate) use crate::sockets::inbox::Inbox;
pub(crate) use crate::sockets::put_link::{Caller, Link};
pub(crate) use run::{Way, run, shown_window};

/// Connections on which puts and signals travel.
pub(crate) const CHANNEL: u8 = 3;

/// Another rank's window, as it registered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerWindow {
    /// Its first byte in a memory file; not valid for memory outside the arenas.
    pub place: Place,
    /// Its first byte in the owner's process.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

/// What outlives one operation.
#[derive(Default)]
pub(crate) struct Memory {
    /// Signals of each rank that were waited for.
    consumed: HashMap<u32, u64>,
    /// Operations on each rank.
    counted: HashMap<(Operation, u32), u64>,
    /// Connections that this rank made.
    links: HashMap<u32, Link>,
}
