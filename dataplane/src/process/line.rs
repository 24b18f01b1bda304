//! The line to the coordinator: one connection or, on a network, as many as it takes when connections are reset. What was sent but not
//! confirmed is sent again over the next one, and both sides count what they received, so nothing is lost or arrives twice.

use std::io;
use std::net::IpAddr;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use protocol::frame;
use protocol::message::{Role, ToCoordinator, ToRank};
use protocol::resumption::{Kept, RETURN_WITHIN, SessionKey, Taken, is_reset};

use crate::lock::{Condvar, Mutex};
use crate::process::dial::{Answered, Caller, read_message};
use crate::process::stream::Stream;

/// The pause between two attempts to reconnect.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes that may wait for the next connection before records have to.
const MOST_WAITING: usize = 4 << 20;

/// Both ends of the line, for all threads.
pub(super) struct Line {
    out: Mutex<Out>,
    /// Notified when there is a new connection, or when there will be none.
    changed: Condvar,
    caller: Mutex<Caller>,
    /// Identifies this session to the coordinator when it reconnects. `None` if it cannot.
    key: Option<SessionKey>,
}

/// The end that sends.
pub(super) struct Out {
    pub(super) stream: Stream,
    lasts: bool,
    kept: Kept,
    /// Whether the stream is broken, so that nothing is written to it any more.
    is_broken: bool,
    /// Whether sending found the stream reset. Reading then sees an ordinary end.
    was_reset: bool,
    /// Whether nothing more will be sent.
    is_finished: bool,
    /// Whether there will be no other connection.
    is_over: bool,
}

/// The end that listens, for one thread.
pub(super) struct Ear {
    stream: Stream,
    buffer: Vec<u8>,
    taken: Taken,
}

impl Out {
    /// Sends a frame, or keeps it for the next connection. False when it is lost.
    pub(super) fn say(&mut self, frame: Vec<u8>) -> bool {
        let sent = self.write(&frame);
        if self.lasts {
            self.kept.push(frame);
        }
        sent || self.lasts
    }

    /// Reading notices a broken connection as well, and reconnects.
    fn write(&mut self, frame: &[u8]) -> bool {
        if self.is_broken {
            return false;
        }
        let written = self.stream.write_all(frame);
        if let Err(error) = &written {
            self.is_broken = self.lasts;
            self.was_reset = is_reset(error);
        }
        written.is_ok()
    }
}

impl Line {
    /// The line over a connection that `caller` made and that was welcomed. With a `key` it survives resets.
    pub(super) fn over(caller: Caller, answered: Answered, key: Option<SessionKey>) -> io::Result<(Self, Ear)> {
        let Answered { stream, rest, .. } = answered;
        let mut ear = Ear { stream: stream.try_clone()?, buffer: rest, taken: Taken::default() };
        // The welcome.
        ear.taken.take();
        let out = Out {
            stream,
            lasts: key.is_some(),
            kept: Kept::default(),
            is_broken: false,
            was_reset: false,
            is_finished: false,
            is_over: false,
        };
        Ok((Self { out: Mutex::new(out), changed: Condvar::new(), caller: Mutex::new(caller), key }, ear))
    }

    /// The sending end, locked.
    pub(super) fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock()
    }

    /// Our address as the coordinator's host sees it, on tcp.
    pub(super) fn local(&self) -> Option<IpAddr> {
        self.out().stream.local()
    }

    /// While the connection is broken and a lot is queued, waits until there is a new one or will be none.
    pub(super) fn wait_for_room(&self) {
        let out = self.out();
        let is_full = |out: &mut Out| out.is_broken && !out.is_over && out.kept.bytes() > MOST_WAITING;
        drop(self.changed.wait_while(out, is_full));
    }

    /// Ends our half of the connection. Returns whether it takes time to arrive, because the other end may be on another host.
    pub(super) fn say_no_more(&self) -> bool {
        let mut out = self.out();
        out.is_finished = true;
        let said = !out.is_broken && out.stream.say_no_more();
        said || out.lasts
    }

    /// After reading failed with `error`: reconnects if the connection was reset and both ends may still be alive.
    ///
    /// # Errors
    /// `error`, or why there is no other connection: the line is over.
    pub(super) fn mend(&self, ear: &mut Ear, error: io::Error) -> io::Result<()> {
        let mended = match self.key.filter(|_| is_reset(&error) || self.out().was_reset) {
            Some(key) => self.connect_again(ear, key),
            None => Err(error),
        };
        if mended.is_err() {
            self.out().is_over = true;
        }
        self.changed.notify_all();
        mended
    }

    fn connect_again(&self, ear: &mut Ear, key: SessionKey) -> io::Result<()> {
        let until = Instant::now() + RETURN_WITHIN;
        self.out().is_broken = true;
        let mut caller = self.caller.lock();
        let hello = caller.hello(Role::Returning { session: key, received: ear.taken.count() });
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match caller.call(left, |_| hello.clone()) {
                Ok(Answered { stream, answer: ToRank::Resumed { received }, rest, .. }) => {
                    if self.resume(ear, stream, received)? {
                        ear.buffer = rest;
                        return Ok(());
                    }
                }
                Ok(Answered { answer: ToRank::Refused { reason }, .. }) => {
                    return Err(io::Error::other(format!(
                        "the connection was reset, and not taken up again: {reason}"
                    )));
                }
                Ok(Answered { answer, .. }) => {
                    let detail = format!("the coordinator answered a return with {}", answer.kind());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, detail));
                }
                // Whatever resets connections may refuse new ones, too.
                Err(_) => std::thread::sleep(PAUSE.min(until.saturating_duration_since(Instant::now()))),
            }
        }
    }

    /// Continues over `stream`, whose other end has `received` messages. False if it broke as well.
    fn resume(&self, ear: &mut Ear, stream: Stream, received: u64) -> io::Result<bool> {
        let mut out = self.out();
        out.kept.confirm(received).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))?;
        ear.stream = stream.try_clone()?;
        let old = std::mem::replace(&mut out.stream, stream);
        drop(old);
        let Out { stream, kept, .. } = &mut *out;
        if kept.frames().try_for_each(|frame| stream.write_all(frame)).is_err() {
            return Ok(false);
        }
        if out.is_finished {
            out.stream.say_no_more();
        }
        (out.is_broken, out.was_reset) = (false, false);
        Ok(true)
    }
}

impl Ear {
    /// The next message. Call [`Self::take`] once it has been acted upon.
    pub(super) fn next(&mut self, line: &Line) -> io::Result<ToRank> {
        loop {
            match read_message(&mut self.stream, &mut self.buffer)? {
                ToRank::Received { count } => {
                    let confirmed = line.out().kept.confirm(count);
                    confirmed.map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))?;
                }
                message => return Ok(message),
            }
        }
    }

    /// Counts a message, and confirms the count from time to time.
    pub(super) fn take(&mut self, line: &Line) {
        self.taken.take();
        if line.key.is_some()
            && let Some(count) = self.taken.due()
        {
            line.out().write(&frame::encode(&ToCoordinator::Received { count }));
        }
    }
}
