//! Judges who connects to a data socket: one thread for a bounded crowd of strangers. Until its hello is judged, a connection
//! costs a descriptor and some bytes, for at most ten seconds; when there are too many, the one that has waited longest goes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::frame::MAX_TOKEN;

use crate::sockets::listener::{Listener, Route};
use crate::sockets::mesh::progress;

/// How long a stranger may take to say who it is.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);
/// Strangers that are heard at one time. A rank says hello at once: only a hostile crowd gets this large.
pub(crate) const CROWD: usize = 64;
/// Connections accepted before the others are looked at again.
const BATCH: usize = 64;
/// How long not to accept when the process is out of descriptors and no stranger holds any.
const PAUSE: Duration = Duration::from_millis(20);
const MAGIC: u32 = 0x6674_6461;
/// Magic and length of the token.
const HEAD: usize = 6;
/// What follows the token.
const BODY: usize = 17;

/// A listening socket of either kind.
pub(crate) trait Door: AsRawFd + Send + 'static {
    /// The next connection, ready for use. Does not wait.
    fn next(&self) -> io::Result<OwnedFd>;
}

/// A connection that has not said all of its hello.
struct Stranger {
    stream: OwnedFd,
    hello: Vec<u8>,
    until: Instant,
}

/// What comes of a stranger that said more.
enum Judgement {
    Unfinished,
    Refused,
    Welcome(Route),
}

/// Accepts and judges for the rest of the process's life. For a thread of its own; the door must not block.
pub(crate) fn keep(door: &impl Door, listener: &Arc<Listener>) {
    let mut crowd: VecDeque<Stranger> = VecDeque::new();
    let mut closed_until: Option<Instant> = None;
    loop {
        closed_until = closed_until.filter(|until| *until > Instant::now());
        let ready = wait(closed_until.is_none().then(|| door.as_raw_fd()), closed_until, &crowd);
        for at in ready.into_iter().rev() {
            look(at, &mut crowd, listener);
        }
        crowd.retain(|stranger| stranger.until > Instant::now());
        if closed_until.is_none() && !accept(door, &mut crowd, listener) {
            closed_until = Some(Instant::now() + PAUSE);
        }
    }
}

/// Sleeps until somebody knocks or speaks, or a time is up; positions in the crowd of those who spoke, ascending.
fn wait(door: Option<RawFd>, closed_until: Option<Instant>, crowd: &VecDeque<Stranger>) -> Vec<usize> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // A negative descriptor is passed over.
    let mut polled = vec![entry(door.unwrap_or(-1))];
    polled.extend(crowd.iter().map(|stranger| entry(stranger.stream.as_raw_fd())));
    let due = crowd.front().map(|oldest| oldest.until).into_iter().chain(closed_until).min();
    let timeout = due.map_or(-1, |due| {
        i32::try_from(due.saturating_duration_since(Instant::now()).as_millis() + 1).unwrap_or(i32::MAX)
    });
    // SAFETY: the array is live and as long as said.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    (0..crowd.len()).filter(|at| polled[at + 1].revents != 0).collect()
}

/// Hears the stranger at `at`; it stays in the crowd only while its hello is not finished.
fn look(at: usize, crowd: &mut VecDeque<Stranger>, listener: &Arc<Listener>) {
    let Some(stranger) = crowd.get_mut(at) else { return };
    let judgement = hear(stranger, listener.token());
    if matches!(judgement, Judgement::Unfinished) {
        return;
    }
    let Some(stranger) = crowd.remove(at) else { return };
    if let Judgement::Welcome(route) = judgement {
        listener.admit(stranger.stream, route);
    }
}

/// Takes those who knock. False when the process has no descriptor for them.
fn accept(door: &impl Door, crowd: &mut VecDeque<Stranger>, listener: &Arc<Listener>) -> bool {
    for _ in 0..BATCH {
        match door.next() {
            Ok(stream) => {
                let until = Instant::now() + HELLO_DEADLINE;
                crowd.push_back(Stranger { stream, hello: Vec::new(), until });
                // Most have said hello before they are accepted.
                look(crowd.len() - 1, crowd, listener);
                if crowd.len() > CROWD {
                    dismiss_oldest(crowd, listener);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            // Out of descriptors: those of strangers come first, then who waits has a deadline.
            Err(error) if is_shortage(&error) => {
                if !dismiss_oldest(crowd, listener) {
                    return false;
                }
            }
            // The connection ended while it waited.
            Err(_) => {}
        }
    }
    true
}

/// Lets the stranger go that has waited longest, unless it has said hello meanwhile. False when there is none.
fn dismiss_oldest(crowd: &mut VecDeque<Stranger>, listener: &Arc<Listener>) -> bool {
    let before = crowd.len();
    look(0, crowd, listener);
    if crowd.len() == before {
        crowd.pop_front();
    }
    before > 0
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Reads what has come of a hello and no byte behind it.
fn hear(stranger: &mut Stranger, token: &str) -> Judgement {
    loop {
        let Some(length) = length_of(&stranger.hello) else { return Judgement::Refused };
        if stranger.hello.len() == length && length > HEAD {
            return judge(&stranger.hello, token);
        }
        let mut room = [0; HEAD + MAX_TOKEN + BODY];
        let wanted = length - stranger.hello.len();
        // SAFETY: `length_of` gives no more than the room holds.
        let got =
            unsafe { libc::recv(stranger.stream.as_raw_fd(), room.as_mut_ptr().cast(), wanted, libc::MSG_DONTWAIT) };
        match progress(got) {
            Ok(None) => return Judgement::Unfinished,
            Ok(Some(0)) | Err(_) => return Judgement::Refused,
            Ok(Some(got)) => stranger.hello.extend_from_slice(&room[..got]),
        }
    }
}

/// Bytes of a hello that begins like this: of its head while that is not all there. `None`: it is no hello.
fn length_of(hello: &[u8]) -> Option<usize> {
    let Some(head) = hello.first_chunk::<HEAD>() else { return Some(HEAD) };
    let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let token = usize::from(u16::from_le_bytes([head[4], head[5]]));
    (magic == MAGIC && token <= MAX_TOKEN).then_some(HEAD + token + BODY)
}

/// Judges a whole hello, in a time that does not depend on where a token differs.
fn judge(hello: &[u8], token: &str) -> Judgement {
    let (given, body) = hello[HEAD..].split_at(hello.len() - HEAD - BODY);
    let differences = given.iter().zip(token.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
    if given.len() != token.len() || differences != 0 {
        return Judgement::Refused;
    }
    let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
    Judgement::Welcome(Route {
        communicator: u64::from_le_bytes(body[..8].try_into().expect("eight bytes")),
        to: word(8),
        from: word(12),
        channel: body[16],
    })
}

/// What a connecting side says first.
pub(crate) fn hello(token: &str, route: Route) -> Vec<u8> {
    let mut hello = Vec::with_capacity(HEAD + token.len() + BODY);
    hello.extend_from_slice(&MAGIC.to_le_bytes());
    hello.extend_from_slice(&(token.len() as u16).to_le_bytes());
    hello.extend_from_slice(token.as_bytes());
    hello.extend_from_slice(&route.communicator.to_le_bytes());
    hello.extend_from_slice(&route.to.to_le_bytes());
    hello.extend_from_slice(&route.from.to_le_bytes());
    hello.push(route.channel);
    hello
}
