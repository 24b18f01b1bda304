//! One connection of a mesh and what is queued on it: chunks out and in, the welcome before them and the notice after them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use protocol::record::ErrorCode;

use super::MessageId;
use crate::failure::code_of;
use crate::sockets::channel::Channel;
use crate::sockets::path::Path;
use crate::sockets::wire::{DATA, HEADER, KNOCKS, MAX_NOTICE, NOTICE, WELCOME};

/// One connection to another rank, or what is waiting for it to be made.
#[derive(Default)]
pub(super) struct Link {
    stream: Option<Channel>,
    /// The other end has the connection. Nothing is sent before that: what has been sent counts as done, so it must arrive.
    welcomed: bool,
    /// Connections that ended before they were welcomed.
    knocks: u32,
    /// When the other end became known to be gone.
    bereft: Option<Instant>,
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

pub(super) enum Bytes {
    Own(Vec<u8>),
    Raw(*mut u8, usize),
}

// SAFETY: raw ranges are buffers of the running operation, which its caller keeps alive on whatever thread runs it.
unsafe impl Send for Bytes {}

impl Bytes {
    pub(super) fn len(&self) -> usize {
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

/// Why a connection is of no use any more.
pub(super) enum LinkError {
    Notice(ErrorCode, String),
    Closed(io::Error),
}

impl Link {
    pub(super) fn is_busy(&self) -> bool {
        !self.out.is_empty() || !self.incoming.is_empty()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// The measurements of the connection, if it is over a network.
    pub(super) fn path(&self) -> Option<Path> {
        self.stream.as_ref().and_then(|stream| Path::measure(stream.socket()))
    }

    /// Takes a connection. One that this rank made has yet to be welcomed by the other end; one that came has been welcomed.
    pub(super) fn attach(&mut self, stream: Channel, made: bool) {
        (self.stream, self.welcomed, self.bereft) = (Some(stream), !made, None);
        (self.header_length, self.chunk_left, self.notice) = (0, 0, None);
    }

    pub(super) fn push_out(&mut self, id: MessageId, bytes: Bytes) {
        self.out.push_back(Outgoing { id, bytes, position: 0 });
    }

    pub(super) fn push_in(&mut self, id: MessageId, bytes: Bytes) {
        self.incoming.push_back(Incoming { id, bytes, position: 0 });
    }

    /// Drops what is queued.
    pub(super) fn clear(&mut self) {
        self.out.clear();
        self.incoming.clear();
    }

    /// What to poll for, if there is anything to send or receive.
    pub(super) fn interest(&self) -> Option<libc::pollfd> {
        let fd = self.stream.as_ref()?.fd();
        let mut events = 0;
        if self.welcomed && !self.out.is_empty() {
            events |= libc::POLLOUT;
        }
        if !self.incoming.is_empty() || (!self.welcomed && !self.out.is_empty()) {
            events |= libc::POLLIN;
        }
        (events != 0).then_some(libc::pollfd { fd, events, revents: 0 })
    }

    /// How long something that the other end sent before it left may still arrive. The end of the connection comes after it, but
    /// not while a process that the rank forked holds the connection; hence the limit.
    pub(super) fn open_until(&mut self, patience: Duration) -> Option<Instant> {
        if self.stream.is_none() || self.incoming.is_empty() {
            return None;
        }
        Some(*self.bereft.get_or_insert_with(Instant::now) + patience)
    }

    /// Sends the last words on this connection, unless they would be taken for payload.
    pub(super) fn say(&self, notice: &[u8]) {
        if let (Some(stream), None) = (&self.stream, self.out_header) {
            stream.last_words(notice);
        }
    }

    /// Moves what can be moved. A connection that ended before it was welcomed is given up, and may be made again.
    pub(super) fn advance(&mut self, chunk: usize, done: &mut BTreeMap<MessageId, Vec<u8>>) -> Result<bool, LinkError> {
        match self.drive(chunk, done) {
            Err(LinkError::Closed(_)) if !self.welcomed && self.knocks < KNOCKS => {
                (self.stream, self.header_length) = (None, 0);
                self.knocks += 1;
                Ok(true)
            }
            other => other,
        }
    }

    fn drive(&mut self, chunk: usize, done: &mut BTreeMap<MessageId, Vec<u8>>) -> Result<bool, LinkError> {
        if !self.is_busy() {
            return Ok(false);
        }
        let Some(stream) = self.stream.take() else { return Ok(false) };
        let moved = self.drive_over(&stream, chunk, done);
        self.stream = Some(stream);
        moved
    }

    fn drive_over(
        &mut self,
        stream: &Channel,
        chunk: usize,
        done: &mut BTreeMap<MessageId, Vec<u8>>,
    ) -> Result<bool, LinkError> {
        if !self.welcomed {
            self.read_header(stream)?;
            if !self.welcomed {
                return Ok(false);
            }
        }
        let read = self.read(stream, done)?;
        let written = match self.write(stream, chunk, done) {
            Ok(written) => written,
            Err(error) => {
                // A peer that failed may have said why before it closed.
                self.expect_notice(stream)?;
                return Err(LinkError::Closed(error));
            }
        };
        Ok(read || written)
    }

    fn write(&mut self, stream: &Channel, chunk: usize, done: &mut BTreeMap<MessageId, Vec<u8>>) -> io::Result<bool> {
        let mut moved = false;
        while let Some(message) = self.out.front_mut() {
            let left = message.bytes.len() - message.position;
            let (header_left, payload_left) = *self.out_header.get_or_insert((HEADER, left.min(chunk)));
            if header_left + payload_left > 0 {
                let length = payload_left as u32;
                let mut header = [0; HEADER];
                header[..4].copy_from_slice(&DATA.to_le_bytes());
                header[4..].copy_from_slice(&length.to_le_bytes());
                // SAFETY: the position is within the message.
                let payload = unsafe { message.bytes.base().add(message.position) };
                let parts =
                    [(header[HEADER - header_left..].as_ptr(), header_left), (payload.cast_const(), payload_left)];
                // SAFETY: both parts are live and readable for their lengths.
                let Some(sent) = unsafe { stream.send(parts) }? else { return Ok(moved) };
                moved = true;
                let of_header = sent.min(header_left);
                let of_payload = sent - of_header;
                message.position += of_payload;
                self.out_header = Some((header_left - of_header, payload_left - of_payload));
                if (header_left, payload_left) != (of_header, of_payload) {
                    continue;
                }
            }
            if message.position == message.bytes.len() {
                // A message is done once it is in the socket: it arrives even if this process ends.
                if !stream.flush()? {
                    return Ok(moved);
                }
                let message = self.out.pop_front().expect("the front was just looked at");
                done.insert(message.id, Vec::new());
            }
            self.out_header = None;
        }
        Ok(moved)
    }

    fn read(&mut self, stream: &Channel, done: &mut BTreeMap<MessageId, Vec<u8>>) -> Result<bool, LinkError> {
        let mut moved = false;
        while !self.incoming.is_empty() {
            if self.chunk_left == 0 {
                match self.read_header(stream)? {
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
            let got = unsafe { stream.receive(target, self.chunk_left) };
            let Some(got) = got.map_err(LinkError::Closed)? else { return Ok(moved) };
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

    /// Reads up to the next chunk of data, or the welcome; false if no chunk has come yet.
    fn read_header(&mut self, stream: &Channel) -> Result<bool, LinkError> {
        loop {
            if let Some(text) = &mut self.notice {
                let mut rest = vec![0; MAX_NOTICE + 4];
                // SAFETY: the buffer has the given length.
                let got = unsafe { stream.receive(rest.as_mut_ptr(), rest.len()) };
                let Some(got) = got.map_err(LinkError::Closed)? else { return Ok(false) };
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
            let got = unsafe { stream.receive(room.as_mut_ptr(), room.len()) };
            let Some(got) = got.map_err(LinkError::Closed)? else { return Ok(false) };
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
                WELCOME if !self.welcomed => {
                    self.welcomed = true;
                    return Ok(false);
                }
                NOTICE => self.notice = Some(Vec::new()),
                _ => {
                    let error = io::Error::new(
                        io::ErrorKind::InvalidData,
                        "received bytes that are not a chunk of this protocol",
                    );
                    return Err(LinkError::Closed(error));
                }
            }
        }
    }

    /// After a failed write: the notice, if the peer left one.
    fn expect_notice(&mut self, stream: &Channel) -> Result<(), LinkError> {
        if self.chunk_left == 0 {
            match self.read_header(stream) {
                Err(notice @ LinkError::Notice(..)) => return Err(notice),
                Ok(_) | Err(LinkError::Closed(_)) => {}
            }
        }
        Ok(())
    }
}
