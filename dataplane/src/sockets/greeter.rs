//! Judges connections to a data socket: one thread for a bounded number of strangers. Until its hello is judged, a connection
//! costs a descriptor and some bytes, for at most ten seconds; if there are too many, the one that has waited longest is dropped.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use protocol::env;
use protocol::message::HELLO_DEADLINE;
use rustls::ServerConnection;

use super::channel::{Channel, Raw};
use super::connect::is_far;
use super::hello::{self, Route};
use super::socket::progress;
use super::trust::Trust;

/// The most connections without a hello at one time. A rank sends its hello at once, so only an attack reaches this.
pub(crate) const CROWD: usize = 64;
/// Connections accepted before the others are looked at again.
const BATCH: usize = 64;
/// How long to stop accepting when the process is out of descriptors and no stranger holds any.
const PAUSE: Duration = Duration::from_millis(20);
/// A listening socket of either kind.
pub(crate) trait Door: AsRawFd + Send + 'static {
    /// The next connection, ready for use. Does not wait.
    fn next(&self) -> io::Result<OwnedFd>;
}

/// What the greeter works for.
pub(crate) trait Host {
    /// Where it listens.
    fn address(&self) -> &str;

    /// What the senders of hellos must have.
    fn trust(&self) -> &Trust;

    /// Takes a connection whose hello was accepted.
    fn admit(&self, channel: Channel, route: Route);
}

/// A connection that has not finished its hello or its handshake.
struct Stranger {
    stream: OwnedFd,
    hello: Vec<u8>,
    /// The handshake that follows a good hello.
    shaking: Option<(Route, Box<ServerConnection>)>,
    until: Instant,
}

/// The judgement on a stranger after it has sent more.
enum Judgement {
    Unfinished,
    Refused,
    Welcome(Route, Option<Box<ServerConnection>>),
}

/// Accepts and judges for the rest of the process's life. Needs a separate thread; the door must not block.
pub(crate) fn keep(door: &impl Door, host: &impl Host) {
    let mut pending: VecDeque<Stranger> = VecDeque::new();
    let mut closed_until: Option<Instant> = None;
    loop {
        closed_until = closed_until.filter(|until| *until > Instant::now());
        let ready = wait(closed_until.is_none().then(|| door.as_raw_fd()), closed_until, &pending);
        for at in ready.into_iter().rev() {
            look(at, &mut pending, host);
        }
        pending.retain(|stranger| stranger.until > Instant::now());
        if closed_until.is_none() && !accept(door, &mut pending, host) {
            closed_until = Some(Instant::now() + PAUSE);
        }
    }
}

/// Sleeps until a connection or bytes arrive, or the time is up; returns the positions of connections with bytes, ascending.
fn wait(door: Option<RawFd>, closed_until: Option<Instant>, pending: &VecDeque<Stranger>) -> Vec<usize> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // `poll` ignores a negative descriptor.
    let mut polled = vec![entry(door.unwrap_or(-1))];
    polled.extend(pending.iter().map(|stranger| entry(stranger.stream.as_raw_fd())));
    let due = pending.front().map(|oldest| oldest.until).into_iter().chain(closed_until).min();
    let timeout = due.map_or(-1, |due| {
        i32::try_from(due.saturating_duration_since(Instant::now()).as_millis() + 1).unwrap_or(i32::MAX)
    });
    // SAFETY: the array is live and has the given length.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
    (0..pending.len()).filter(|at| polled[at + 1].revents != 0).collect()
}

/// Reads from the stranger at `at`, which stays pending only while its hello is unfinished.
fn look(at: usize, pending: &mut VecDeque<Stranger>, host: &impl Host) {
    let Some(stranger) = pending.get_mut(at) else { return };
    let judgement = judge(stranger, host);
    if matches!(judgement, Judgement::Unfinished) {
        return;
    }
    let Some(stranger) = pending.remove(at) else { return };
    if let Judgement::Welcome(route, tls) = judgement {
        let channel = match tls {
            Some(tls) => Channel::secured(stranger.stream, (*tls).into()),
            None => Channel::plain(stranger.stream),
        };
        // A socket that cannot be prepared closes.
        if let Ok(channel) = channel {
            host.admit(channel, route);
        }
    }
}

/// Accepts connections. False when the process has no descriptor for them.
fn accept(door: &impl Door, pending: &mut VecDeque<Stranger>, host: &impl Host) -> bool {
    for _ in 0..BATCH {
        match door.next() {
            Ok(stream) => {
                let until = Instant::now() + HELLO_DEADLINE;
                pending.push_back(Stranger { stream, hello: Vec::new(), shaking: None, until });
                // Most connections have sent their hello by the time they are accepted.
                look(pending.len() - 1, pending, host);
                if pending.len() > CROWD {
                    dismiss_oldest(pending, host);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            // Out of descriptors: strangers are closed first; after that, waiting connections have a deadline.
            Err(error) if is_shortage(&error) => {
                if !dismiss_oldest(pending, host) {
                    return false;
                }
            }
            // The connection ended while it waited.
            Err(_) => {}
        }
    }
    true
}

/// Drops the stranger that has waited longest, unless it has sent its hello meanwhile. False if there is none.
fn dismiss_oldest(pending: &mut VecDeque<Stranger>, host: &impl Host) -> bool {
    let before = pending.len();
    look(0, pending, host);
    if pending.len() == before {
        pending.pop_front();
    }
    before > 0
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Reads what has arrived of a hello, not a byte beyond it, and then what has arrived of a handshake.
fn judge(stranger: &mut Stranger, host: &impl Host) -> Judgement {
    loop {
        if stranger.shaking.is_some() {
            return shake(stranger);
        }
        let Some(length) = hello::length_of(&stranger.hello) else { return Judgement::Refused };
        if stranger.hello.len() == length && length > hello::HEAD {
            let trust = host.trust();
            let Some((route, is_secured)) = hello::read(&stranger.hello, host.address(), trust.token()) else {
                return Judgement::Refused;
            };
            match (trust.keys(), is_secured) {
                (Some(keys), true) => match ServerConnection::new(Arc::clone(&keys.server)) {
                    Ok(tls) => stranger.shaking = Some((route, Box::new(tls))),
                    Err(_) => return Judgement::Refused,
                },
                // With this proof it is a rank of this run.
                (Some(_), false) if comes_from_afar(&stranger.stream) => return disagrees(is_secured),
                (None, true) => return disagrees(is_secured),
                (_, false) => return Judgement::Welcome(route, None),
            }
            continue;
        }
        let mut room = [0; hello::MOST];
        let wanted = length - stranger.hello.len();
        // SAFETY: `length_of` returns no more than the room holds.
        let got =
            unsafe { libc::recv(stranger.stream.as_raw_fd(), room.as_mut_ptr().cast(), wanted, libc::MSG_DONTWAIT) };
        match progress(got) {
            Ok(None) => return Judgement::Unfinished,
            Ok(Some(0)) | Err(_) => return Judgement::Refused,
            Ok(Some(got)) => stranger.hello.extend_from_slice(&room[..got]),
        }
    }
}

/// Refuses a rank that does not encrypt as this process does, and says so once: all that the rank learns is that the connection
/// ended.
fn disagrees(is_secured: bool) -> Judgement {
    static SAID: AtomicBool = AtomicBool::new(false);
    if SAID.swap(true, Ordering::Relaxed) {
        return Judgement::Refused;
    }
    let (theirs, ours) = if is_secured { ("encrypts", "does not") } else { ("does not encrypt", "does") };
    let _ = writeln!(
        io::stderr(),
        "fakegpu: refused the connection of a rank that {theirs} data between hosts, while this one {ours}: set {} alike on all ranks",
        env::STAGING_TLS.name
    );
    Judgement::Refused
}

/// Advances a handshake as far as possible.
fn shake(stranger: &mut Stranger) -> Judgement {
    let Some((route, mut tls)) = stranger.shaking.take() else { return Judgement::Refused };
    let mut socket = Raw(stranger.stream.as_raw_fd());
    loop {
        while tls.wants_write() {
            // A new connection has room for everything that this side sends.
            if tls.write_tls(&mut socket).is_err() {
                return Judgement::Refused;
            }
        }
        if !tls.is_handshaking() {
            return Judgement::Welcome(route, Some(tls));
        }
        match tls.read_tls(&mut socket) {
            Ok(0) => return Judgement::Refused,
            Ok(_) => {
                if tls.process_new_packets().is_err() {
                    // This tells the other end why.
                    let _ = tls.write_tls(&mut socket);
                    return Judgement::Refused;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                stranger.shaking = Some((route, tls));
                return Judgement::Unfinished;
            }
            Err(_) => return Judgement::Refused,
        }
    }
}

/// Whether the other end is on another host. False for a socket that is not tcp.
fn comes_from_afar(stream: &OwnedFd) -> bool {
    stream.try_clone().is_ok_and(|twin| is_far(&TcpStream::from(twin)))
}
