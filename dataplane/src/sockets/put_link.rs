//! A connection over which this rank puts and signals. The welcome comes first, then each request goes out with its payload and
//! one answer comes back.

use std::io;
use std::time::{Duration, Instant};

use protocol::record::ErrorCode;

use super::channel::Channel;
use super::hello::Route;
use super::request::{DONE, REFUSED, Request};
use super::trust::Trust;
use super::wire::{HEADER, HELD_PATIENCE, KNOCKS, MAX_NOTICE, NOTICE, ONE_SIDED_CHANNEL, REASON_PATIENCE, WELCOME};
use crate::failure::{Failure, code_of};
use crate::operation::context::OpContext;
use crate::operation::one_sided;

/// A connection that this rank made.
pub(crate) struct Link {
    stream: Channel,
    /// The other end has the connection. No request is sent before that.
    welcomed: bool,
    /// The part of an answer that has arrived.
    answer: Vec<u8>,
}

/// What this rank announces to the ranks it connects to.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) communicator: u64,
    pub(crate) trust: &'a Trust,
}

/// Why an exchange ended.
enum Stop {
    Refused(ErrorCode, String),
    Notice(ErrorCode, String),
    Closed(io::Error),
}

/// Connects to `peer`, which has yet to welcome the connection.
pub(crate) fn connect(caller: &Caller, context: &OpContext, what: &str, peer: u32) -> Result<Link, Failure> {
    let route = Route { communicator: caller.communicator, to: peer, from: context.rank, channel: ONE_SIDED_CHANNEL };
    let left = context.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let address = &context.members[peer as usize].data_address;
    let stream = super::connect::connect(address, caller.trust, route, left);
    stream
        .map(|stream| Link { stream, welcomed: false, answer: Vec::new() })
        .map_err(|error| stopped(context, what, peer, Stop::Closed(error)))
}

/// Sends a request with its payload and waits for the answer.
///
/// # Safety
/// `payload` is readable for the request's bytes.
pub(crate) unsafe fn exchange(
    caller: &Caller,
    context: &OpContext,
    what: &str,
    (peer, link): (u32, &mut Link),
    request: Request,
    payload: *const u8,
) -> Result<(), Failure> {
    let head = request.to_bytes();
    let total = head.len() + request.bytes as usize;
    let (mut sent, mut knocks) = (0, 0);
    let mut gone_since = None;
    loop {
        context.losses.wake().clear();
        // Checked before the connection: what a rank answered before it left is there by the time its loss is known.
        let gone = gone(context, what, peer);
        let mut moved = false;
        if link.welcomed && sent == total {
            link.stream.flush().map_err(|error| stopped(context, what, peer, Stop::Closed(error)))?;
        }
        if link.welcomed && sent < total {
            // SAFETY: the caller's promise.
            match unsafe { send(&link.stream, &head, payload, request.bytes as usize, sent) } {
                Ok(more) => (sent, moved) = (sent + more, more > 0),
                // The reason may have come before the end.
                Err(error) => {
                    let stop = link.receive().err().unwrap_or(Stop::Closed(error));
                    return Err(stopped(context, what, peer, stop));
                }
            }
        }
        let welcomed = link.welcomed;
        match link.receive() {
            Ok(true) => return Ok(()),
            Ok(false) => moved |= link.welcomed != welcomed,
            Err(Stop::Closed(_)) if !link.welcomed && knocks < KNOCKS => {
                knocks += 1;
                *link = connect(caller, context, what, peer)?;
                continue;
            }
            Err(stop) => return Err(stopped(context, what, peer, stop)),
        }
        if moved {
            continue;
        }
        let mut until = context.deadline;
        if let Err(failure) = gone {
            // The end of the connection, after the answer, does not come while a process that the rank forked holds it.
            let open = *gone_since.get_or_insert_with(Instant::now) + HELD_PATIENCE;
            if !link.welcomed || context.losses.why(context.rank).is_some() || Instant::now() >= open {
                return Err(failure);
            }
            until = until.min(open);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() && until == context.deadline {
            return Err(one_sided::late(context, what, peer));
        }
        let is_sending = link.welcomed && (sent < total || link.stream.wants_room());
        let events = if is_sending { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
        sleep(context, &[(link, events)], left);
    }
}

/// Fails if `peer` hung up on an idle connection, with the reason. A connection that was not welcomed is made again.
pub(crate) fn is_alive(
    caller: &Caller,
    context: &OpContext,
    what: &str,
    (peer, link): (u32, &mut Link),
) -> Result<(), Failure> {
    for _ in 0..KNOCKS {
        match link.receive() {
            Ok(_) => return Ok(()),
            Err(Stop::Closed(_)) if !link.welcomed => *link = connect(caller, context, what, peer)?,
            Err(stop) => return Err(stopped(context, what, peer, stop)),
        }
    }
    let error = io::Error::new(io::ErrorKind::ConnectionAborted, "it ended before it was welcomed");
    Err(stopped(context, what, peer, Stop::Closed(error)))
}

/// The failure when this rank or `peer` is known to be lost.
pub(crate) fn gone(context: &OpContext, what: &str, peer: u32) -> Result<(), Failure> {
    if let Some((code, detail)) = context.losses.why(context.rank) {
        return Err(Failure::new(code, detail).blaming(vec![context.rank]));
    }
    match context.losses.why(peer) {
        Some(reason) => Err(context.lost(what, &[peer], Some(reason))),
        None => Ok(()),
    }
}

/// Sleeps until one of `links` is ready, someone rings, or for `time`.
pub(crate) fn sleep(context: &OpContext, links: &[(&Link, i16)], time: Duration) {
    let mut polled = vec![libc::pollfd { fd: context.losses.wake().fd(), events: libc::POLLIN, revents: 0 }];
    let entry = |(link, events): &(&Link, i16)| libc::pollfd { fd: link.stream.fd(), events: *events, revents: 0 };
    polled.extend(links.iter().map(entry));
    let milliseconds = i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX);
    // SAFETY: the array is live and has the given length.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
}

/// Sends what is left after `sent`.
///
/// # Safety
/// `payload` is readable for `bytes`.
unsafe fn send(link: &Channel, head: &[u8], payload: *const u8, bytes: usize, sent: usize) -> io::Result<usize> {
    let (of_head, of_payload) = (sent.min(head.len()), sent.saturating_sub(head.len()));
    let parts =
        [(head[of_head..].as_ptr(), head.len() - of_head), (payload.wrapping_add(of_payload), bytes - of_payload)];
    // SAFETY: both parts are live and readable for their lengths.
    Ok(unsafe { link.send(parts) }?.unwrap_or(0))
}

impl Link {
    /// Takes what has come; true if it is the answer that a request is done.
    fn receive(&mut self) -> Result<bool, Stop> {
        loop {
            let answer = &self.answer;
            let word =
                |at: usize| answer.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes")));
            if let (Some(tag), Some(length)) = (word(0), word(4)) {
                match tag {
                    WELCOME if !self.welcomed => {
                        self.welcomed = true;
                        self.answer.clear();
                        continue;
                    }
                    DONE => {
                        self.answer.clear();
                        return Ok(true);
                    }
                    NOTICE | REFUSED if answer.len() >= HEADER + (length as usize).min(MAX_NOTICE + 4) => {
                        let detail = String::from_utf8_lossy(answer.get(HEADER + 4..).unwrap_or_default()).into_owned();
                        let code = code_of(word(HEADER).unwrap_or(0));
                        let stop = if tag == REFUSED { Stop::Refused } else { Stop::Notice };
                        return Err(stop(code, detail));
                    }
                    NOTICE | REFUSED => {}
                    _ => {
                        return Err(Stop::Closed(io::Error::new(io::ErrorKind::InvalidData, "not a valid answer")));
                    }
                }
            }
            let mut room = [0u8; 512];
            let wanted = if answer.len() < HEADER { HEADER - answer.len() } else { room.len() };
            // SAFETY: the buffer has the given length.
            let got = unsafe { self.stream.receive(room.as_mut_ptr(), wanted) };
            match got.map_err(Stop::Closed)? {
                None => return Ok(false),
                Some(0) => return Err(Stop::Closed(io::ErrorKind::UnexpectedEof.into())),
                Some(got) => self.answer.extend_from_slice(&room[..got]),
            }
        }
    }
}

/// The failure for a stopped exchange. What the coordinator knows about the other end is more useful than the connection's error,
/// and comes a moment later.
fn stopped(context: &OpContext, what: &str, peer: u32, stop: Stop) -> Failure {
    match stop {
        Stop::Refused(code, detail) => {
            let culprit = if code == ErrorCode::InvalidArgument { context.rank } else { peer };
            Failure::new(code, format!("{what}: {detail}")).blaming(vec![culprit])
        }
        Stop::Notice(code, detail) => context.lost(what, &[peer], Some((code, detail))),
        Stop::Closed(error) => {
            let deadline = Instant::now() + REASON_PATIENCE;
            loop {
                context.losses.wake().clear();
                if let Err(failure) = gone(context, what, peer) {
                    return failure;
                }
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return context.closed(what, peer, &error);
                }
                context.losses.wake().wait(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use std::sync::Arc;

    use super::*;
    use crate::operation::stage::Stage;
    use crate::sockets::inbox::Inbox;
    use crate::sockets::listener::{Listener, Scope};
    use crate::wake::Wake;

    #[test]
    fn a_request_travels_as_it_is() {
        for request in
            [Request { window: Some(3), offset: 1 << 40, bytes: 17 }, Request { window: None, offset: 0, bytes: 0 }]
        {
            assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
        }
        assert_eq!(Request::from_bytes(&[0; Request::BYTES]), None);
    }

    /// A put over a connection between what look like two hosts, with more data than the sockets can buffer.
    #[test]
    fn a_put_arrives_under_tls() {
        const BYTES: usize = 3 << 20;
        let host = std::net::IpAddr::from([127, 0, 0, 2]);
        let trust = Trust::with_keys("secret".to_owned()).unwrap();
        let listener = Listener::open(Scope::Network(host), trust).unwrap();
        let inbox = Inbox::new(Arc::new(Wake::new().unwrap()), Duration::from_secs(10));
        let mut window = vec![0u8; BYTES];
        let number = inbox.register(window.as_mut_ptr() as usize, BYTES as u64);
        listener.take_puts(1, 1, &inbox);
        let stage = Stage::with_addresses(&["", &listener.address]);
        let context = stage.context(0, Duration::from_secs(60));
        let caller = Caller { communicator: 1, trust: &listener.trust };
        let mut link = connect(&caller, &context, "a put", 1).unwrap();
        for seed in 1..4 {
            let payload: Vec<u8> = (0..BYTES).map(|at| (at * 31 / 7 + seed) as u8).collect();
            let put = Request { window: Some(number), offset: 0, bytes: BYTES as u64 };
            // SAFETY: the payload has the given length.
            unsafe { exchange(&caller, &context, "a put", (1, &mut link), put, payload.as_ptr()) }.unwrap();
            assert!(window == payload);
        }
        let beyond = Request { window: Some(number), offset: BYTES as u64, bytes: 8 };
        // SAFETY: the payload has the given length.
        let refused = unsafe { exchange(&caller, &context, "a put", (1, &mut link), beyond, [0; 8].as_ptr()) };
        assert_eq!(refused.unwrap_err().code, ErrorCode::InvalidArgument);
        assert_eq!(inbox.received(0), 3);
    }

    /// A rank that has all its signals leaves, and the coordinator's word that it left may be seen before its last answer.
    #[test]
    fn an_answer_counts_although_the_loss_of_its_rank_is_known_first() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let stage = Stage::new(2);
        let trust = Trust::default();
        let caller = Caller { communicator: 1, trust: &trust };
        let context = stage.context(0, Duration::from_secs(60));
        let mut link = Link { stream: Channel::plain(ours.into()).unwrap(), welcomed: false, answer: Vec::new() };
        let word = |tag: u32| [tag.to_le_bytes(), [0; 4]].concat();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.write_all(&word(WELCOME)).unwrap();
                theirs.read_exact(&mut [0; Request::BYTES]).unwrap();
                stage.losses().note(1, ErrorCode::RankLost, "rank 1 exited");
                std::thread::sleep(Duration::from_millis(100));
                theirs.write_all(&word(DONE)).unwrap();
            });
            let signal = Request { window: None, offset: 0, bytes: 0 };
            // SAFETY: a signal has no payload.
            let answer = unsafe { exchange(&caller, &context, "a signal", (1, &mut link), signal, std::ptr::null()) };
            assert_eq!(answer, Ok(()));
        });
    }
}
