//! Connecting to the coordinator: the hello, its answer, and how often to try.

use std::io;
use std::time::{Duration, Instant};

use protocol::frame;
use protocol::message::{Role, ToCoordinator, ToRank, VERSION};
use protocol::secrecy::Secret;

use crate::operation::timing::monotonic_ns;
use crate::process::stream::Stream;
use crate::settings::Address;
use crate::sockets::wire::KNOCKS;

/// The coordinator's address and this process's credentials.
pub(super) struct Caller {
    pub(super) address: Address,
    pub(super) token: String,
    /// Derived from the token when it is first needed, which is if the coordinator is on another host.
    pub(super) secret: Option<Secret>,
}

/// A connection whose hello was answered.
pub(super) struct Answered {
    pub(super) stream: Stream,
    pub(super) answer: ToRank,
    /// When the hello was sent, ns of this host's monotonic clock.
    pub(super) asked_ns: u64,
    /// Bytes that arrived after the answer.
    pub(super) rest: Vec<u8>,
}

impl Caller {
    /// Connects, sends the `hello` for the connection, and returns the answer. If the connection ends before any answer, it is made
    /// again within `patience`: too many connections without a hello may have evicted it at the coordinator.
    pub(super) fn call(
        &mut self,
        patience: Duration,
        mut hello: impl FnMut(&Stream) -> ToCoordinator,
    ) -> io::Result<Answered> {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let until = Instant::now() + patience;
        let mut knocks = 0;
        loop {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let stream = Stream::connect(&self.address, left)?;
            stream.set_read_timeout(Some(left))?;
            let mut rest = Vec::new();
            let answer = stream.secure(&self.token, &mut self.secret).and_then(|mut stream| {
                let asked_ns = monotonic_ns();
                stream.write_all(&frame::encode(&hello(&stream)))?;
                read_message(&mut stream, &mut rest).map(|answer| (stream, answer, asked_ns))
            });
            match answer {
                Ok((stream, answer, asked_ns)) => {
                    stream.set_read_timeout(None)?;
                    return Ok(Answered { stream, answer, asked_ns, rest });
                }
                Err(error)
                    if matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
                        && rest.is_empty()
                        && knocks < KNOCKS
                        && Instant::now() < until =>
                {
                    knocks += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The hello of `role`.
    pub(super) fn hello(&self, role: Role) -> ToCoordinator {
        ToCoordinator::Hello { version: VERSION, token: self.token.clone(), role }
    }
}

/// The next message; `buffer` holds what has arrived of it, and afterwards the bytes that follow it.
pub(super) fn read_message(stream: &mut Stream, buffer: &mut Vec<u8>) -> io::Result<ToRank> {
    let mut piece = [0; 16 * 1024];
    loop {
        let decoded = frame::decode(buffer, frame::MAX_TO_RANK);
        if let Some(message) = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))? {
            return Ok(message);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(got) => buffer.extend_from_slice(&piece[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
