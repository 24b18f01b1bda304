//! The transport through memory that all ranks of a communicator map.

mod collectives;
mod combined;
mod mapping;
mod one_sided;
mod reach;
mod segment;
mod transfers;

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::message::Member;
use protocol::record::{BufferTransport, ErrorCode};

use crate::arena::Arena;
use crate::call::{Buffer, Call};
use crate::failure::Failure;
use crate::lock::Mutex;
use crate::operation::context::OpContext;
use crate::operation::one_sided::{Counts, PeerWindow, run};
use crate::operation::timing::Timing;
use crate::transport::Transport;
use collectives::Collectives;
use one_sided::{SharedPath, shown_window};
use segment::{Segment, WINDOWS};

/// One rank's view of a communicator's shared memory.
pub(crate) struct Shared {
    rank: u32,
    size: u32,
    segment: Segment,
    /// Number of windows that this rank registered so far.
    registered: AtomicU64,
    running: Mutex<Running>,
}

/// State that only the running operation touches.
struct Running {
    collectives: Collectives,
    one_sided: Counts,
}

impl Shared {
    /// Bytes of the memory file that a rank of at most `size` offers.
    pub(crate) fn bytes(size: u32) -> usize {
        Segment::bytes(size)
    }

    /// Rank 0's segment, if this process can map it and everybody else's memory; and `offered`, unless it became that
    /// segment.
    pub(crate) fn map(rank: u32, members: &[Member], offered: Arena) -> (Option<Self>, Option<Arena>) {
        let size = members.len() as u32;
        let over = |segment| Self {
            rank,
            size,
            segment,
            registered: AtomicU64::new(0),
            running: Mutex::new(Running { collectives: Collectives::new(), one_sided: Counts::default() }),
        };
        // Whether a process may open another's files depends on the users and privileges of both. If each can open those of the next
        // rank, around to the first, all can open those of all, and nobody has to look at every rank.
        let next = &members[(rank as usize + 1) % members.len()];
        let fd = next.control.map_or(-1, |file| file.fd);
        let path = format!("/proc/{}/fd/{fd}", next.pid);
        if std::fs::OpenOptions::new().read(true).write(true).open(path).is_err() {
            return (None, Some(offered));
        }
        if rank == 0 {
            return (Some(over(Segment::found(offered, size))), None);
        }
        let host = &members[0];
        let fd = host.control.map_or(-1, |file| file.fd);
        (Segment::join(host.pid, fd, size).ok().map(over), Some(offered))
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock()
    }
}

impl Transport for Shared {
    fn kind(&self) -> BufferTransport {
        BufferTransport::SharedMemory
    }

    fn collective(&self, context: &OpContext, call: &Call) -> Result<Timing, Failure> {
        self.running().collectives.run(&self.segment, context, call)
    }

    fn transfers(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        transfers::run(&self.segment, &mut self.running().collectives.mappings, context, calls)
    }

    fn one_sided(&self, context: &OpContext, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let Running { collectives, one_sided } = &mut *self.running();
        let mut path = SharedPath { segment: &self.segment, mappings: &mut collectives.mappings };
        run(&mut path, one_sided, context, calls)
    }

    fn register_window(&self, buffer: Buffer, bytes: u64) -> Result<u64, Failure> {
        let number = self.registered.fetch_add(1, Ordering::Relaxed) + 1;
        let window = PeerWindow { place: buffer.place.unwrap_or_default(), address: buffer.address as u64, bytes };
        if !self.segment.board().post(self.rank, number, &window) {
            let detail = format!("{WINDOWS} windows are registered, which is the most at one time");
            return Err(Failure::new(ErrorCode::System, detail));
        }
        // A rank that waits for this window looks again.
        (0..self.size).for_each(|rank| self.segment.ring_bell(rank));
        Ok(number)
    }

    fn deregister_window(&self, number: u64) {
        self.segment.board().withdraw(self.rank, number);
    }

    fn peer_window(&self, context: &OpContext, number: u64, peer: u32) -> Result<Option<PeerWindow>, Failure> {
        shown_window(&self.segment, context, &format!("window {number}"), peer, number).map(Some)
    }

    fn lose(&self, rank: u32, code: ErrorCode, detail: &str) {
        // It keeps the first reason, too, and learns here of one that aborted and then ended.
        self.segment.lose(rank, code, detail);
    }

    fn fail(&self, _: &OpContext, code: ErrorCode, detail: &str) {
        self.segment.lose(self.rank, code, detail);
    }

    fn stop(&self, _: &OpContext, code: ErrorCode, detail: &str, _: bool) {
        self.segment.lose(self.rank, code, detail);
    }
}
