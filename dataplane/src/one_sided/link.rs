//! A connection over which this rank puts and signals: the request with its payload there, one answer back.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use protocol::message::ErrorCode;

use super::CHANNEL;
use crate::failure::{Failure, code_of};
use crate::listener::{self, Route};
use crate::mesh::{HEADER, Lost, MAX_NOTICE, NOTICE, REASON_PATIENCE, nonblocking, progress};
use crate::transport::Scene;
use crate::wake::Wake;

const PUT: u32 = 0x2174_7570;
const SIGNAL: u32 = 0x6769_7321;
/// Answers a request that is done.
pub(super) const DONE: u32 = 0x656e_6f64;
/// Answers a request that cannot be done; otherwise like a notice.
pub(super) const REFUSED: u32 = 0x2165_6f6e;

/// What a rank asks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// `None` for a signal alone.
    pub(super) window: Option<u64>,
    pub(super) offset: u64,
    /// Of the payload, which follows.
    pub(super) bytes: u64,
}

impl Request {
    pub(super) const BYTES: usize = 32;

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let tag = if self.window.is_some() { PUT } else { SIGNAL };
        bytes[..4].copy_from_slice(&tag.to_le_bytes());
        for (at, number) in [(8, self.window.unwrap_or(0)), (16, self.offset), (24, self.bytes)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// What [`Self::to_bytes`] wrote, or none.
    pub(super) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let tag = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
        match tag {
            PUT => Some(Self { window: Some(number(8)), offset: number(16), bytes: number(24) }),
            SIGNAL => Some(Self { window: None, offset: 0, bytes: 0 }),
            _ => None,
        }
    }
}

/// Who this rank is to those it connects to.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) communicator: u64,
    pub(crate) token: &'a str,
    pub(crate) wake: &'a Wake,
    pub(crate) lost: Lost<'a>,
}

/// Why an exchange ended.
enum Stop {
    Refused(ErrorCode, String),
    Notice(ErrorCode, String),
    Closed(io::Error),
}

/// Connects to `peer`.
pub(super) fn connect(caller: &Caller, scene: &Scene, what: &str, peer: u32) -> Result<OwnedFd, Failure> {
    let route = Route { communicator: caller.communicator, to: peer, from: scene.rank, channel: CHANNEL };
    let left = scene.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let address = &scene.members[peer as usize].data_address;
    let stream = listener::connect(address, caller.token, route, left);
    stream
        .and_then(|stream| nonblocking(&stream).map(|()| stream))
        .map_err(|error| stopped(caller, scene, what, peer, Stop::Closed(error)))
}

/// Sends a request with its payload and waits for the answer.
///
/// # Safety
/// `payload` is readable for the request's bytes.
pub(super) unsafe fn exchange(
    caller: &Caller,
    scene: &Scene,
    what: &str,
    (peer, link): (u32, &OwnedFd),
    request: Request,
    payload: *const u8,
) -> Result<(), Failure> {
    let head = request.to_bytes();
    let total = head.len() + request.bytes as usize;
    let (mut sent, mut answer) = (0, Vec::new());
    loop {
        caller.wake.clear();
        let mut moved = false;
        if sent < total {
            // SAFETY: the caller's promise.
            match unsafe { send(link, &head, payload, request.bytes as usize, sent) } {
                Ok(more) => (sent, moved) = (sent + more, more > 0),
                // The reason may have come before the end.
                Err(error) => {
                    let stop = receive(link, &mut answer).err().unwrap_or(Stop::Closed(error));
                    return Err(stopped(caller, scene, what, peer, stop));
                }
            }
        }
        match receive(link, &mut answer) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(stop) => return Err(stopped(caller, scene, what, peer, stop)),
        }
        if moved {
            continue;
        }
        gone(caller, scene, what, peer)?;
        let left = scene.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late(scene, what, peer));
        }
        let events = if sent < total { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        sleep(caller, &[(link, events)], left);
    }
}

/// Whether `peer` hung up on an idle connection, and why.
pub(super) fn is_alive(
    caller: &Caller,
    scene: &Scene,
    what: &str,
    (peer, link): (u32, &OwnedFd),
) -> Result<(), Failure> {
    match receive(link, &mut Vec::new()) {
        Ok(_) => Ok(()),
        Err(stop) => Err(stopped(caller, scene, what, peer, stop)),
    }
}

/// The failure when this rank or `peer` is known to be lost.
pub(super) fn gone(caller: &Caller, scene: &Scene, what: &str, peer: u32) -> Result<(), Failure> {
    if let Some((code, detail)) = (caller.lost)(scene.rank) {
        return Err(Failure::new(code, detail).blaming(vec![scene.rank]));
    }
    match (caller.lost)(peer) {
        Some(reason) => Err(scene.lost(what, &[peer], Some(reason))),
        None => Ok(()),
    }
}

/// The failure at the deadline.
pub(super) fn late(scene: &Scene, what: &str, peer: u32) -> Failure {
    let detail = format!("rank {} waited {} ms for rank {peer}: {what}", scene.rank, scene.timeout_ms());
    Failure::new(ErrorCode::TimeoutWaitingForP2p, detail).blaming(vec![peer])
}

/// Sleeps until one of `links` is ready, somebody rings, or for `time`.
pub(super) fn sleep(caller: &Caller, links: &[(&OwnedFd, i16)], time: Duration) {
    let mut polled = vec![libc::pollfd { fd: caller.wake.fd(), events: libc::POLLIN, revents: 0 }];
    let entry = |(link, events): &(&OwnedFd, i16)| libc::pollfd { fd: link.as_raw_fd(), events: *events, revents: 0 };
    polled.extend(links.iter().map(entry));
    let milliseconds = i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX);
    // SAFETY: the array is live and as long as said.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
}

/// Sends what is left behind `sent`.
///
/// # Safety
/// `payload` is readable for `bytes`.
unsafe fn send(link: &OwnedFd, head: &[u8], payload: *const u8, bytes: usize, sent: usize) -> io::Result<usize> {
    let (of_head, of_payload) = (sent.min(head.len()), sent.saturating_sub(head.len()));
    let parts = [
        libc::iovec { iov_base: head[of_head..].as_ptr().cast_mut().cast(), iov_len: head.len() - of_head },
        libc::iovec { iov_base: payload.wrapping_add(of_payload).cast_mut().cast(), iov_len: bytes - of_payload },
    ];
    // SAFETY: all-zero is a value of this plain C struct.
    let mut envelope: libc::msghdr = unsafe { std::mem::zeroed() };
    envelope.msg_iov = parts.as_ptr().cast_mut();
    envelope.msg_iovlen = parts.len() as _;
    // SAFETY: both parts are live and readable for their lengths.
    let result = unsafe { libc::sendmsg(link.as_raw_fd(), &raw const envelope, libc::MSG_NOSIGNAL) };
    Ok(progress(result)?.unwrap_or(0))
}

/// Takes what has come; true when it is the answer that a request is done.
fn receive(link: &OwnedFd, answer: &mut Vec<u8>) -> Result<bool, Stop> {
    loop {
        let word =
            |at: usize| answer.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes")));
        if let (Some(tag), Some(length)) = (word(0), word(4)) {
            match tag {
                DONE => return Ok(true),
                NOTICE | REFUSED if answer.len() >= HEADER + (length as usize).min(MAX_NOTICE + 4) => {
                    let detail = String::from_utf8_lossy(answer.get(HEADER + 4..).unwrap_or_default()).into_owned();
                    let code = code_of(word(HEADER).unwrap_or(0));
                    return Err(if tag == REFUSED { Stop::Refused(code, detail) } else { Stop::Notice(code, detail) });
                }
                NOTICE | REFUSED => {}
                _ => return Err(Stop::Closed(io::Error::new(io::ErrorKind::InvalidData, "an answer that is none"))),
            }
        }
        let mut room = [0u8; 512];
        let wanted = if answer.len() < HEADER { HEADER - answer.len() } else { room.len() };
        // SAFETY: the buffer is as long as said.
        let got = unsafe { libc::recv(link.as_raw_fd(), room.as_mut_ptr().cast(), wanted, 0) };
        match progress(got).map_err(Stop::Closed)? {
            None => return Ok(false),
            Some(0) => return Err(Stop::Closed(io::ErrorKind::UnexpectedEof.into())),
            Some(got) => answer.extend_from_slice(&room[..got]),
        }
    }
}

/// The failure of what stopped. What the coordinator knows of the other end says more than its connection, and comes a moment
/// later.
fn stopped(caller: &Caller, scene: &Scene, what: &str, peer: u32, stop: Stop) -> Failure {
    match stop {
        Stop::Refused(code, detail) => {
            let culprit = if code == ErrorCode::InvalidArgument { scene.rank } else { peer };
            Failure::new(code, format!("{what}: {detail}")).blaming(vec![culprit])
        }
        Stop::Notice(code, detail) => scene.lost(what, &[peer], Some((code, detail))),
        Stop::Closed(error) => {
            let deadline = Instant::now() + REASON_PATIENCE;
            loop {
                caller.wake.clear();
                if let Err(failure) = gone(caller, scene, what, peer) {
                    return failure;
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    let reason = (ErrorCode::RankLost, format!("its connection failed: {error}"));
                    return scene.lost(what, &[peer], Some(reason));
                }
                caller.wake.wait(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_travels_as_it_is() {
        for request in
            [Request { window: Some(3), offset: 1 << 40, bytes: 17 }, Request { window: None, offset: 0, bytes: 0 }]
        {
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(Request::from_bytes(&[0; Request::BYTES]), None);
    }
}
