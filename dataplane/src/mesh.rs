//! Direct connections between ranks, made when first needed, and the engine that drives many messages over them at once
//! with one `poll`. Payloads are cut into chunks, each behind an eight-byte header.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::message::ErrorCode;

use crate::failure::{Failure, code_of, number_of};
use crate::listener::{self, Listener, Route};
use crate::refusal;
use crate::send;
use crate::transport::Scene;
use crate::wake::Wake;

const DATA: u32 = 0x6174_6164;
/// Begins a notice: the kind of failure and a sentence.
pub(crate) const NOTICE: u32 = 0x6c69_6166;
/// Bytes of a tag and a length.
pub(crate) const HEADER: usize = 8;
/// How long to wait for the reason of a connection's end.
pub(crate) const REASON_PATIENCE: Duration = Duration::from_millis(500);
/// How long a connection of a rank that is gone may still be on its way through our listener.
const ARRIVAL_PATIENCE: Duration = Duration::from_millis(250);
/// Longest sentence in a notice, bytes.
pub(crate) const MAX_NOTICE: usize = 4096;

/// Identifies a message within a [`Mesh`] until [`Mesh::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MessageId(u64);

/// Why a rank will not come again, as far as this process knows.
pub(crate) type Lost<'a> = &'a dyn Fn(u32) -> Option<(ErrorCode, String)>;

/// The connections of one rank of a communicator.
pub(crate) struct Mesh {
    communicator: u64,
    token: String,
    chunk: usize,
    listener: Arc<Listener>,
    pub(crate) wake: Arc<Wake>,
    links: BTreeMap<(u32, u8), Link>,
    next: u64,
    done: BTreeMap<MessageId, Vec<u8>>,
    /// The others were told that this rank will not come again.
    closed: bool,
    /// What a reduction sets aside, kept for the next one: fresh memory costs more than the copy into it.
    pub(crate) scratch: Vec<u8>,
}

#[derive(Default)]
struct Link {
    stream: Option<OwnedFd>,
    out: VecDeque<Outgoing>,
    /// Part of the current chunk not yet written: header bytes left and payload bytes left.
    out_header: Option<(usize, usize)>,
    incoming: VecDeque<Incoming>,
    header: [u8; HEADER],
    header_length: usize,
    /// Payload bytes of the current chunk not yet read.
    chunk_left: usize,
    notice: Option<Vec<u8>>,
}

struct Outgoing {
    id: MessageId,
    bytes: Bytes,
    position: usize,
}

struct Incoming {
    id: MessageId,
    bytes: Bytes,
    position: usize,
}

enum Bytes {
    Own(Vec<u8>),
    Raw(*mut u8, usize),
}

// SAFETY: raw ranges are buffers of the running operation, which its caller keeps alive on whatever thread runs it.
unsafe impl Send for Bytes {}

impl Bytes {
    fn len(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Raw(_, length) => *length,
        }
    }

    fn base(&mut self) -> *mut u8 {
        match self {
            Self::Own(bytes) => bytes.as_mut_ptr(),
            Self::Raw(base, _) => *base,
        }
    }
}

impl Mesh {
    pub(crate) fn new(
        communicator: u64,
        token: String,
        chunk: usize,
        listener: Arc<Listener>,
        wake: Arc<Wake>,
    ) -> Self {
        Self {
            communicator,
            token,
            chunk: chunk.clamp(1, u32::MAX as usize),
            listener,
            wake,
            links: BTreeMap::new(),
            next: 0,
            done: BTreeMap::new(),
            closed: false,
            scratch: Vec::new(),
        }
    }

    fn id(&mut self) -> MessageId {
        self.next += 1;
        MessageId(self.next)
    }

    /// Queues bytes of the caller's for `peer`.
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
            self.links.entry((peer, channel)).or_default().out.push_back(Outgoing { id, bytes, position: 0 });
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

    /// Expects `length` bytes from `peer`, to be had from [`Self::taken`].
    pub(crate) fn receive_own(&mut self, peer: u32, channel: u8, length: usize) -> MessageId {
        self.queue_in(peer, channel, Bytes::Own(vec![0; length]))
    }

    fn queue_in(&mut self, peer: u32, channel: u8, bytes: Bytes) -> MessageId {
        let id = self.id();
        if bytes.len() == 0 {
            self.done.insert(id, Vec::new());
        } else {
            self.links.entry((peer, channel)).or_default().incoming.push_back(Incoming { id, bytes, position: 0 });
        }
        id
    }

    pub(crate) fn is_done(&self, id: MessageId) -> bool {
        self.done.contains_key(&id)
    }

    /// The bytes of a done message of our own; empty for others.
    pub(crate) fn taken(&mut self, id: MessageId) -> Vec<u8> {
        self.done.remove(&id).unwrap_or_default()
    }

    /// True when nothing is queued.
    fn idle(&self) -> bool {
        self.links.values().all(|link| link.out.is_empty() && link.incoming.is_empty())
    }

    /// Ranks that something queued goes to or comes from, sorted.
    fn needed(&self) -> Vec<u32> {
        let busy = |link: &Link| !link.out.is_empty() || !link.incoming.is_empty();
        self.links.iter().filter(|(_, link)| busy(link)).map(|(key, _)| key.0).collect()
    }

    /// Drops everything queued: the buffers of a failed operation are no longer ours.
    pub(crate) fn clear(&mut self) {
        for link in self.links.values_mut() {
            link.out.clear();
            link.incoming.clear();
        }
        self.done.clear();
    }

    /// Drives everything queued to its end.
    pub(crate) fn finish(&mut self, scene: &Scene, lost: Lost) -> Result<(), Stop> {
        while !self.idle() {
            self.step(scene, lost)?;
        }
        Ok(())
    }

    /// Moves what can be moved; sleeps when nothing can.
    pub(crate) fn step(&mut self, scene: &Scene, lost: Lost) -> Result<(), Stop> {
        match self.advance(scene, lost) {
            // What the coordinator knows of a closed connection's other end says more than the connection, and comes a
            // moment later.
            Err(Stop::Closed(peer, error)) => match self.reason(peer, lost) {
                Some(reason) => Err(Stop::Lost(peer, Some(reason))),
                None => Err(Stop::Closed(peer, error)),
            },
            other => other,
        }
    }

    /// Why `peer` is lost, if that becomes known soon.
    fn reason(&self, peer: u32, lost: Lost) -> Option<(ErrorCode, String)> {
        let deadline = Instant::now() + REASON_PATIENCE;
        loop {
            self.wake.clear();
            let left = deadline.saturating_duration_since(Instant::now());
            match lost(peer) {
                None if !left.is_zero() => {
                    self.sleep_until_woken(i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX))
                }
                reason => return reason,
            }
        }
    }

    fn sleep_until_woken(&self, timeout_ms: i32) {
        let mut polled = libc::pollfd { fd: self.wake.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live entry.
        unsafe { libc::poll(&raw mut polled, 1, timeout_ms) };
    }

    fn advance(&mut self, scene: &Scene, lost: Lost) -> Result<(), Stop> {
        self.wake.clear();
        // Asked before the connections are: what a rank sent before it left is there by the time its loss is known, and
        // still counts.
        let gone = self.needed().into_iter().find_map(|peer| lost(peer).map(|reason| (peer, reason)));
        self.connect(scene)?;
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
        if let Some(reason) = lost(scene.rank) {
            return Err(Stop::Lost(scene.rank, Some(reason)));
        }
        if let Some((peer, reason)) = gone {
            return if self.arrives(scene, peer)? { Ok(()) } else { Err(Stop::Lost(peer, Some(reason))) };
        }
        let left = scene.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let mut missing = self.needed();
            missing.dedup();
            return Err(Stop::Late(missing));
        }
        self.sleep(i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX));
        Ok(())
    }

    /// Waits for a connection that `peer`, which is gone, may have made and filled before it left: a small message needs
    /// nothing of its receiver. True when one came.
    fn arrives(&mut self, scene: &Scene, peer: u32) -> Result<bool, Stop> {
        let deadline = Instant::now() + ARRIVAL_PATIENCE;
        let awaited =
            |mesh: &Self| mesh.links.iter().filter(|(key, link)| key.0 == peer && link.expects_a_connection()).count();
        let before = awaited(self);
        if peer >= scene.rank || before == 0 {
            return Ok(false);
        }
        loop {
            self.wake.clear();
            self.connect(scene)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if awaited(self) < before || left.is_zero() {
                return Ok(awaited(self) < before);
            }
            self.sleep_until_woken(i32::try_from(left.as_millis() + 1).unwrap_or(i32::MAX));
        }
    }

    /// Makes the connections that queued messages need. The lower rank connects, the higher one is connected to.
    fn connect(&mut self, scene: &Scene) -> Result<(), Stop> {
        for ((peer, channel), link) in &mut self.links {
            if link.stream.is_some() || (link.out.is_empty() && link.incoming.is_empty()) {
                continue;
            }
            let stream = if scene.rank < *peer {
                let route = Route { communicator: self.communicator, to: *peer, from: scene.rank, channel: *channel };
                let left = scene.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                let address = &scene.members[*peer as usize].data_address;
                let stream = listener::connect(address, &self.token, route, left).map_err(|error| {
                    // Only for who listens: what is told of it is that the other cannot be reached.
                    refusal::explain(&format!("cannot connect to {}", scene.name(*peer)), &error);
                    Stop::Closed(*peer, error)
                })?;
                Some(stream)
            } else {
                let route = Route { communicator: self.communicator, to: scene.rank, from: *peer, channel: *channel };
                self.listener.claim(route)
            };
            if let Some(stream) = stream {
                nonblocking(&stream).map_err(|error| Stop::Closed(*peer, error))?;
                link.stream = Some(stream);
            }
        }
        Ok(())
    }

    fn sleep(&self, timeout_ms: i32) {
        let mut polled = vec![libc::pollfd { fd: self.wake.fd(), events: libc::POLLIN, revents: 0 }];
        for link in self.links.values() {
            let Some(stream) = &link.stream else { continue };
            let mut events = 0;
            if !link.out.is_empty() {
                events |= libc::POLLOUT;
            }
            if !link.incoming.is_empty() {
                events |= libc::POLLIN;
            }
            if events != 0 {
                polled.push(libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 });
            }
        }
        // SAFETY: the array is live and as long as said.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout_ms) };
    }

    /// Closes the connections of one channel, which must be idle.
    pub(crate) fn hang_up(&mut self, channel: u8) {
        self.links.retain(|key, _| key.1 != channel);
        self.done.clear();
    }

    /// Tells everybody that this rank will not come again, and closes all connections. The first reason stays.
    pub(crate) fn close(&mut self, scene: &Scene, code: ErrorCode, detail: &str) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let notice = notice(code, detail);
        self.listener.close(self.communicator, scene.rank, notice.clone());
        for peer in scene.rank + 1..scene.size {
            // Those who would wait for us to connect; best effort, the coordinator tells them too.
            self.links.entry((peer, 0)).or_default();
        }
        for ((peer, channel), link) in &mut self.links {
            if link.stream.is_none() && scene.rank < *peer {
                let route = Route { communicator: self.communicator, to: *peer, from: scene.rank, channel: *channel };
                let address = &scene.members[*peer as usize].data_address;
                link.stream = listener::connect(address, &self.token, route, Duration::from_millis(200)).ok();
            }
            if let (Some(stream), None) = (&link.stream, link.out_header) {
                send::last_words(stream, &notice);
            }
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
    /// These ranks kept us waiting too long.
    Late(Vec<u32>),
}

impl Stop {
    /// The failure of `what`, which stopped like this.
    pub(crate) fn failure(self, scene: &Scene, what: &str, late: impl FnOnce(Vec<u32>) -> Failure) -> Failure {
        match self {
            Self::Lost(rank, Some((code, detail))) if rank == scene.rank => {
                Failure::new(code, detail).blaming(vec![rank])
            }
            Self::Lost(rank, reason) => scene.lost(what, &[rank], reason),
            Self::Closed(rank, error) => {
                scene.lost(what, &[rank], Some((ErrorCode::RankLost, format!("its connection failed: {error}"))))
            }
            Self::Late(missing) => late(missing),
        }
    }
}

enum LinkError {
    Notice(ErrorCode, String),
    Closed(io::Error),
}

/// A notice as it travels.
pub(crate) fn notice(code: ErrorCode, detail: &str) -> Vec<u8> {
    let length = (0..=detail.len().min(MAX_NOTICE)).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(HEADER + 4 + length);
    bytes.extend_from_slice(&NOTICE.to_le_bytes());
    bytes.extend_from_slice(&(length as u32 + 4).to_le_bytes());
    bytes.extend_from_slice(&number_of(code).to_le_bytes());
    bytes.extend_from_slice(&detail.as_bytes()[..length]);
    bytes
}

impl Link {
    /// Something is to come and there is no connection yet that it could come through.
    fn expects_a_connection(&self) -> bool {
        self.stream.is_none() && !self.incoming.is_empty()
    }

    fn advance(&mut self, chunk: usize, done: &mut BTreeMap<MessageId, Vec<u8>>) -> Result<bool, LinkError> {
        let Some(fd) = self.stream.as_ref().map(AsRawFd::as_raw_fd) else { return Ok(false) };
        let read = self.read(fd, done)?;
        let written = match self.write(fd, chunk, done) {
            Ok(written) => written,
            Err(error) => {
                // A peer that failed may have said why before it closed.
                self.expect_notice(fd)?;
                return Err(LinkError::Closed(error));
            }
        };
        Ok(read || written)
    }

    fn write(&mut self, fd: i32, chunk: usize, done: &mut BTreeMap<MessageId, Vec<u8>>) -> io::Result<bool> {
        let mut moved = false;
        while let Some(message) = self.out.front_mut() {
            let left = message.bytes.len() - message.position;
            let (header_left, payload_left) = *self.out_header.get_or_insert((HEADER, left.min(chunk)));
            let length = payload_left as u32;
            let mut header = [0; HEADER];
            header[..4].copy_from_slice(&DATA.to_le_bytes());
            header[4..].copy_from_slice(&length.to_le_bytes());
            // SAFETY: the position is within the message.
            let payload = unsafe { message.bytes.base().add(message.position) };
            let parts = [
                libc::iovec { iov_base: header[HEADER - header_left..].as_mut_ptr().cast(), iov_len: header_left },
                libc::iovec { iov_base: payload.cast(), iov_len: payload_left },
            ];
            // SAFETY: all-zero is a value of this plain C struct.
            let mut envelope: libc::msghdr = unsafe { std::mem::zeroed() };
            envelope.msg_iov = parts.as_ptr().cast_mut();
            envelope.msg_iovlen = parts.len() as _;
            // SAFETY: both parts are live and readable for their lengths.
            let sent = unsafe { libc::sendmsg(fd, &raw const envelope, libc::MSG_NOSIGNAL) };
            let Some(sent) = progress(sent)? else { return Ok(moved) };
            moved = true;
            let of_header = sent.min(header_left);
            let of_payload = sent - of_header;
            message.position += of_payload;
            self.out_header = Some((header_left - of_header, payload_left - of_payload));
            if header_left == of_header && payload_left == of_payload {
                self.out_header = None;
                if message.position == message.bytes.len() {
                    let message = self.out.pop_front().expect("the front was just looked at");
                    done.insert(message.id, Vec::new());
                }
            }
        }
        Ok(moved)
    }

    fn read(&mut self, fd: i32, done: &mut BTreeMap<MessageId, Vec<u8>>) -> Result<bool, LinkError> {
        let mut moved = false;
        while !self.incoming.is_empty() {
            if self.chunk_left == 0 {
                match self.read_header(fd)? {
                    true => moved = true,
                    false => return Ok(moved),
                }
            }
            let message = self.incoming.front_mut().expect("the queue is not empty");
            let room = message.bytes.len() - message.position;
            if self.chunk_left > room {
                let error =
                    io::Error::new(io::ErrorKind::InvalidData, "a chunk is longer than the message it belongs to");
                return Err(LinkError::Closed(error));
            }
            // SAFETY: the position is within the message.
            let target = unsafe { message.bytes.base().add(message.position) };
            // SAFETY: the chunk fits the rest of the message, as just checked.
            let got = unsafe { libc::recv(fd, target.cast(), self.chunk_left, 0) };
            let Some(got) = progress(got).map_err(LinkError::Closed)? else { return Ok(moved) };
            if got == 0 {
                return Err(LinkError::Closed(io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            moved = true;
            self.chunk_left -= got;
            message.position += got;
            if message.position == message.bytes.len() {
                let message = self.incoming.pop_front().expect("the front was just looked at");
                let bytes = if let Bytes::Own(bytes) = message.bytes { bytes } else { Vec::new() };
                done.insert(message.id, bytes);
            }
        }
        Ok(moved)
    }

    /// Reads up to the next chunk of data; false when it has not come yet.
    fn read_header(&mut self, fd: i32) -> Result<bool, LinkError> {
        loop {
            if let Some(text) = &mut self.notice {
                let mut rest = vec![0; MAX_NOTICE + 4];
                // SAFETY: the buffer is as long as said.
                let got = unsafe { libc::recv(fd, rest.as_mut_ptr().cast(), rest.len(), 0) };
                let Some(got) = progress(got).map_err(LinkError::Closed)? else { return Ok(false) };
                text.extend_from_slice(&rest[..got]);
                let expected = u32::from_le_bytes(self.header[4..].try_into().expect("four bytes")) as usize;
                if got > 0 && text.len() < expected {
                    continue;
                }
                let number = text.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                let detail = String::from_utf8_lossy(text.get(4..).unwrap_or_default()).into_owned();
                return Err(LinkError::Notice(code_of(number), detail));
            }
            let room = &mut self.header[self.header_length..];
            // SAFETY: the range is what is left of the header.
            let got = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), 0) };
            let Some(got) = progress(got).map_err(LinkError::Closed)? else { return Ok(false) };
            if got == 0 {
                return Err(LinkError::Closed(io::Error::from(io::ErrorKind::UnexpectedEof)));
            }
            self.header_length += got;
            if self.header_length < HEADER {
                continue;
            }
            self.header_length = 0;
            let word = |at: usize| u32::from_le_bytes(self.header[at..at + 4].try_into().expect("four bytes"));
            match word(0) {
                DATA => {
                    self.chunk_left = word(4) as usize;
                    return Ok(true);
                }
                NOTICE => self.notice = Some(Vec::new()),
                _ => {
                    let error = io::Error::new(io::ErrorKind::InvalidData, "what came is not a chunk of this protocol");
                    return Err(LinkError::Closed(error));
                }
            }
        }
    }

    /// After a failed write: the notice, if the peer left one.
    fn expect_notice(&mut self, fd: i32) -> Result<(), LinkError> {
        if self.chunk_left == 0 {
            match self.read_header(fd) {
                Err(notice @ LinkError::Notice(..)) => return Err(notice),
                Ok(_) | Err(LinkError::Closed(_)) => {}
            }
        }
        Ok(())
    }
}

/// What a nonblocking call did: `None` when it would have to wait.
pub(crate) fn progress(result: isize) -> io::Result<Option<usize>> {
    if result >= 0 {
        return Ok(Some(result as usize));
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

/// Makes a connection answer instead of wait.
pub(crate) fn nonblocking(stream: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain system calls on a descriptor we own.
    let result = unsafe {
        let flags = libc::fcntl(stream.as_raw_fd(), libc::F_GETFL);
        libc::fcntl(stream.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
