//! Direct connections between ranks, made when first needed, and the engine that drives many messages over them at once
//! with one `poll`. Payloads are cut into chunks, each after an eight-byte header.

mod link;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::ids::Rank;
use protocol::record::{ErrorCode, PathRecord};

use super::connect::connect;
use super::hello::Route;
use super::listener::Listener;
use super::path::Path;
use super::wire::{HELD_PATIENCE, REASON_PATIENCE, notice};
use crate::failure::Failure;
use crate::operation::context::OpContext;
use crate::refusal;
use crate::wake::Wake;

use crate::sockets::mesh::link::{Bytes, Link, LinkError};

/// Identifies a message within a [`Mesh`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageId(u64);

/// The connections of one rank of a communicator.
pub(crate) struct Mesh {
    communicator: u64,
    chunk: usize,
    listener: Arc<Listener>,
    links: BTreeMap<(u32, u8), Link>,
    next: u64,
    done: BTreeMap<MessageId, Vec<u8>>,
    /// Ranks that an operation waited for in vain while the network was carrying something to or from them.
    slow: BTreeSet<u32>,
    /// The others know that this rank will not come back.
    closed: bool,
    /// A reduction's scratch memory, kept for the next one: fresh memory costs more than the copy into it.
    pub(crate) scratch: Vec<u8>,
}

impl Mesh {
    pub(crate) fn new(communicator: u64, chunk: usize, listener: Arc<Listener>) -> Self {
        Self {
            communicator,
            chunk: chunk.clamp(1, u32::MAX as usize),
            listener,
            links: BTreeMap::new(),
            next: 0,
            done: BTreeMap::new(),
            slow: BTreeSet::new(),
            closed: false,
            scratch: Vec::new(),
        }
    }

    fn id(&mut self) -> MessageId {
        self.next += 1;
        MessageId(self.next)
    }

    /// Queues the caller's bytes for `peer`.
    ///
    /// # Safety
    /// The range stays readable and unchanged until the message is done or [`Self::clear`] was called.
    pub(crate) unsafe fn send(&mut self, peer: u32, channel: u8, base: *const u8, length: usize) -> MessageId {
        self.queue_out(peer, channel, Bytes::Raw(base.cast_mut(), length))
    }

    /// Queues a message for `peer`.
    pub(crate) fn send_own(&mut self, peer: u32, channel: u8, bytes: Vec<u8>) -> MessageId {
        self.queue_out(peer, channel, Bytes::Own(bytes))
    }

    fn queue_out(&mut self, peer: u32, channel: u8, bytes: Bytes) -> MessageId {
        let id = self.id();
        if bytes.len() == 0 {
            self.done.insert(id, Vec::new());
        } else {
            self.links.entry((peer, channel)).or_default().push_out(id, bytes);
        }
        id
    }

    /// Expects `length` bytes from `peer` in the caller's buffer.
    ///
    /// # Safety
    /// The range stays writable and unused until the message is done or [`Self::clear`] was called.
    pub(crate) unsafe fn receive(&mut self, peer: u32, channel: u8, base: *mut u8, length: usize) -> MessageId {
        self.queue_in(peer, channel, Bytes::Raw(base, length))
    }

    /// Expects `length` bytes from `peer`; [`Self::taken`] returns them.
    pub(crate) fn receive_own(&mut self, peer: u32, channel: u8, length: usize) -> MessageId {
        self.queue_in(peer, channel, Bytes::Own(vec![0; length]))
    }

    fn queue_in(&mut self, peer: u32, channel: u8, bytes: Bytes) -> MessageId {
        let id = self.id();
        if bytes.len() == 0 {
            self.done.insert(id, Vec::new());
        } else {
            self.links.entry((peer, channel)).or_default().push_in(id, bytes);
        }
        id
    }

    pub(crate) fn is_done(&self, id: MessageId) -> bool {
        self.done.contains_key(&id)
    }

    /// The bytes of a finished message that we hold ourselves; empty for others.
    pub(crate) fn taken(&mut self, id: MessageId) -> Vec<u8> {
        self.done.remove(&id).unwrap_or_default()
    }

    /// Whether nothing is queued.
    fn idle(&self) -> bool {
        !self.links.values().any(Link::is_busy)
    }

    /// Ranks that something queued goes to or comes from, in order.
    fn needed(&self) -> Vec<u32> {
        self.links.iter().filter(|(_, link)| link.is_busy()).map(|(key, _)| key.0).collect()
    }

    /// Drops everything queued: the buffers of a failed operation are no longer ours.
    pub(crate) fn clear(&mut self) {
        self.links.values_mut().for_each(Link::clear);
        self.done.clear();
    }

    /// Drives everything queued to its end.
    pub(crate) fn finish(&mut self, context: &OpContext) -> Result<(), Stop> {
        while !self.idle() {
            self.step(context)?;
        }
        Ok(())
    }

    /// Moves what can be moved; sleeps when nothing can.
    pub(crate) fn step(&mut self, context: &OpContext) -> Result<(), Stop> {
        match self.advance(context) {
            // When a connection closes, what the coordinator knows about the other end is more useful than the connection's
            // error, and comes a moment later.
            Err(Stop::Closed(peer, error)) => match self.reason(context, peer) {
                Some(reason) => Err(Stop::Lost(peer, Some(reason))),
                None => Err(Stop::Closed(peer, error)),
            },
            other => other,
        }
    }

    /// Why `peer` was lost, if that becomes known soon.
    fn reason(&self, context: &OpContext, peer: u32) -> Option<(ErrorCode, String)> {
        let deadline = Instant::now() + REASON_PATIENCE;
        loop {
            context.losses.wake().clear();
            let left = deadline.saturating_duration_since(Instant::now());
            match context.losses.why(peer) {
                None if !left.is_zero() => context.losses.wake().wait(left),
                reason => return reason,
            }
        }
    }

    fn advance(&mut self, context: &OpContext) -> Result<(), Stop> {
        context.losses.wake().clear();
        // Checked before the connections: what a rank sent before it left is on them by the time its loss is known, and still
        // counts.
        let gone = self.needed().into_iter().find_map(|peer| context.losses.why(peer).map(|reason| (peer, reason)));
        self.connect(context)?;
        let mut moved = false;
        for (key, link) in &mut self.links {
            moved |= link.advance(self.chunk, &mut self.done).map_err(|error| match error {
                LinkError::Notice(code, detail) => Stop::Lost(key.0, Some((code, detail))),
                LinkError::Closed(error) => Stop::Closed(key.0, error),
            })?;
        }
        if moved {
            return Ok(());
        }
        if let Some(reason) = context.losses.why(context.rank) {
            return Err(Stop::Lost(context.rank, Some(reason)));
        }
        let mut until = context.deadline;
        if let Some((peer, reason)) = gone {
            let links = self.links.iter_mut().filter(|(key, _)| key.0 == peer);
            let open = links.filter_map(|(_, link)| link.open_until(HELD_PATIENCE)).max();
            match open.filter(|open| *open > Instant::now()) {
                Some(open) => until = until.min(open),
                None => return Err(Stop::Lost(peer, Some(reason))),
            }
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() && until == context.deadline {
            let mut missing = self.needed();
            missing.dedup();
            let paths = missing.iter().filter_map(|peer| Some((*peer, self.path(context, *peer)?)));
            let slow: Vec<(u32, Path)> = paths.filter(|(_, path)| path.is_busy(context.timeout)).collect();
            self.slow.extend(slow.iter().map(|(peer, _)| *peer));
            return Err(Stop::Late(missing, slow));
        }
        self.sleep(context.losses.wake(), i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX));
        Ok(())
    }

    /// The measurements of the connections to `peer`, which is on another node.
    fn path(&self, context: &OpContext, peer: u32) -> Option<Path> {
        context.link(peer)?;
        let links = self.links.range((peer, 0)..=(peer, u8::MAX));
        links.filter_map(|(_, link)| link.path()).reduce(Path::and)
    }

    /// The measurements so far.
    pub(crate) fn paths(&self, context: &OpContext) -> Vec<PathRecord> {
        let record = |peer: u32| {
            let Path { round_trip_us, least_us, bytes_per_s, resent, .. } = self.path(context, peer)?;
            let is_late = self.slow.contains(&peer);
            Some(PathRecord { peer: Rank(peer), round_trip_us, least_us, bytes_per_s, resent, is_late })
        };
        (0..context.size).filter_map(record).collect()
    }

    /// Makes the connections that queued messages need. The lower rank connects, the higher one accepts.
    fn connect(&mut self, context: &OpContext) -> Result<(), Stop> {
        for ((peer, channel), link) in &mut self.links {
            if link.is_connected() || !link.is_busy() {
                continue;
            }
            let made = context.rank < *peer;
            let stream = if made {
                let route = Route { communicator: self.communicator, to: *peer, from: context.rank, channel: *channel };
                let left = context.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                let address = &context.members[*peer as usize].data_address;
                let stream = connect(address, &self.listener.trust, route, left).map_err(|error| {
                    // Only to explain refusals: the failure is that the other rank cannot be reached.
                    refusal::explain(&format!("cannot connect to {}", context.name(*peer)), &error);
                    Stop::Closed(*peer, error)
                })?;
                Some(stream)
            } else {
                let route = Route { communicator: self.communicator, to: context.rank, from: *peer, channel: *channel };
                self.listener.claim(route)
            };
            if let Some(stream) = stream {
                link.attach(stream, made);
            }
        }
        Ok(())
    }

    fn sleep(&self, wake: &Wake, timeout_ms: i32) {
        let mut polled = vec![libc::pollfd { fd: wake.fd(), events: libc::POLLIN, revents: 0 }];
        polled.extend(self.links.values().filter_map(Link::interest));
        // SAFETY: the array is live and has the given length.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    }

    /// Closes the connections of one channel, which must be idle.
    pub(crate) fn hang_up(&mut self, channel: u8) {
        self.links.retain(|key, _| key.1 != channel);
        self.done.clear();
    }

    /// Announces to all ranks that this one will not come back, and closes all connections. The first reason stays.
    pub(crate) fn close(&mut self, context: &OpContext, code: ErrorCode, detail: &str) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let notice = notice(code, detail);
        self.listener.close(self.communicator, context.rank, notice.clone());
        for peer in context.rank + 1..context.size {
            // Ranks that would wait for us to connect. This is best effort: the coordinator notifies them too.
            self.links.entry((peer, 0)).or_default();
        }
        for ((peer, channel), link) in &mut self.links {
            if !link.is_connected() && context.rank < *peer {
                let route = Route { communicator: self.communicator, to: *peer, from: context.rank, channel: *channel };
                let address = &context.members[*peer as usize].data_address;
                if let Ok(stream) = connect(address, &self.listener.trust, route, Duration::from_millis(200)) {
                    link.attach(stream, true);
                }
            }
            link.say(&notice);
        }
        self.links.clear();
        self.done.clear();
    }
}

/// Why the engine stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A rank will not come, for the reason it or the coordinator gave.
    Lost(u32, Option<(ErrorCode, String)>),
    /// A connection ended or could not be made.
    Closed(u32, io::Error),
    /// These ranks kept us waiting too long; followed by the paths that were carrying something when the time was up.
    Late(Vec<u32>, Vec<(u32, Path)>),
}

impl Stop {
    /// The failure of `what`, which stopped like this.
    pub(crate) fn failure(self, context: &OpContext, what: &str, late: impl FnOnce(Vec<u32>) -> Failure) -> Failure {
        match self {
            Self::Lost(rank, Some((code, detail))) if rank == context.rank => {
                Failure::new(code, detail).blaming(vec![rank])
            }
            Self::Lost(rank, reason) => context.lost(what, &[rank], reason),
            Self::Closed(rank, error) => context.closed(what, rank, &error),
            Self::Late(missing, slow) => {
                let mut failure = late(missing);
                failure.detail.extend(slow.iter().map(|(peer, path)| context.slow(*peer, path)));
                failure
            }
        }
    }
}

#[cfg(test)]
mod tests;
