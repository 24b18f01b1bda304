//! Where other ranks reach this process with data connections: one listening socket per process, and the connections that
//! have arrived but have not been claimed yet.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, MutexGuard, Weak};

use super::channel::Channel;
use super::connect::prepare;
use super::greeter::{self, Door};
use super::hello::Route;
use super::inbox::Inbox;
use super::trust::Trust;
use super::wire::{HEADER, ONE_SIDED_CHANNEL, WELCOME};
use crate::lock::Mutex;
use crate::threads;
use crate::wake::Wake;

/// How many failed or departed ranks are remembered; a connection for an earlier one waits until its deadline.
const REMEMBERED: usize = 1024;
/// The process's data socket.
pub(crate) struct Listener {
    /// `tcp:HOST:PORT` or `unix:@NAME`.
    pub(crate) address: String,
    pub(crate) trust: Trust,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arrived: HashMap<Route, Channel>,
    /// What to wake when a connection arrives, by communicator and rank.
    waiting: HashMap<(u64, u32), Weak<Wake>>,
    /// The inboxes that take puts and signals.
    inboxes: HashMap<(u64, u32), Weak<Inbox>>,
    /// What to send to connections for a rank that has failed or left.
    closed: HashMap<(u64, u32), Vec<u8>>,
    /// The keys of `closed`, oldest first.
    order: VecDeque<(u64, u32)>,
}

/// What to listen on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope {
    /// This host only: an abstract unix socket.
    Host,
    /// Reachable under this address.
    Network(IpAddr),
}

impl Listener {
    /// Opens the socket and accepts in a thread for the rest of the process's life.
    pub(crate) fn open(scope: Scope, trust: Trust) -> io::Result<Arc<Self>> {
        match scope {
            Scope::Host => {
                let name = format!("ftest-data-{}-{:016x}", std::process::id(), crate::unique::random_u64()?);
                let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
                socket.set_nonblocking(true)?;
                // The system does not check who owns an abstract name.
                let own_user_only = trust.token().is_empty();
                let listener = Self::new(format!("unix:@{name}"), trust);
                listener.serve(HostDoor { socket, own_user_only })?;
                Ok(listener)
            }
            Scope::Network(host) => {
                let socket = TcpListener::bind((host, 0))?;
                socket.set_nonblocking(true)?;
                let listener = Self::new(format!("tcp:{}", socket.local_addr()?), trust);
                listener.serve(socket)?;
                Ok(listener)
            }
        }
    }

    fn new(address: String, trust: Trust) -> Arc<Self> {
        Arc::new(Self { address, trust, state: Mutex::default() })
    }

    fn serve(self: &Arc<Self>, door: impl Door) -> io::Result<()> {
        let listener = Arc::clone(self);
        let keep = move || greeter::keep(&door, &*listener);
        threads::start("ftest-data", keep).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// From now on, `wake` is rung when a connection for `rank` of `communicator` arrives.
    pub(crate) fn watch(&self, communicator: u64, rank: u32, wake: &Arc<Wake>) {
        let mut state = self.lock();
        state.waiting.insert((communicator, rank), Arc::downgrade(wake));
        wake.ring();
    }

    /// From now on, `inbox` takes the puts and signals for `rank` of `communicator`, including those that came before.
    pub(crate) fn take_puts(&self, communicator: u64, rank: u32, inbox: &Arc<Inbox>) {
        let mut state = self.lock();
        state.inboxes.insert((communicator, rank), Arc::downgrade(inbox));
        let mine = |route: &Route| {
            route.communicator == communicator && route.to == rank && route.channel == ONE_SIDED_CHANNEL
        };
        let early: Vec<Route> = state.arrived.keys().copied().filter(mine).collect();
        for route in early {
            if let Some(stream) = state.arrived.remove(&route) {
                serve_puts(Arc::clone(inbox), stream, route.from);
            }
        }
    }

    /// The communicator's rank is gone.
    pub(crate) fn forget(&self, communicator: u64, rank: u32) {
        let mut state = self.lock();
        state.waiting.remove(&(communicator, rank));
        state.inboxes.remove(&(communicator, rank));
    }

    /// The connection for `route`, once it has arrived.
    pub(crate) fn claim(&self, route: Route) -> Option<Channel> {
        self.lock().arrived.remove(&route)
    }

    /// Connections for `rank` get `notice` from now on.
    pub(crate) fn close(&self, communicator: u64, rank: u32, notice: Vec<u8>) {
        let mut state = self.lock();
        state.waiting.remove(&(communicator, rank));
        state.inboxes.remove(&(communicator, rank));
        let mine = |route: &Route| route.communicator == communicator && route.to == rank;
        let early: Vec<Route> = state.arrived.keys().copied().filter(mine).collect();
        for route in early {
            if let Some(stream) = state.arrived.remove(&route) {
                stream.last_words(&notice);
            }
        }
        if state.closed.insert((communicator, rank), notice).is_none() {
            state.order.push_back((communicator, rank));
        }
        if state.order.len() > REMEMBERED
            && let Some(oldest) = state.order.pop_front()
        {
            state.closed.remove(&oldest);
        }
    }
}

impl greeter::Host for Listener {
    fn address(&self) -> &str {
        &self.address
    }

    fn trust(&self) -> &Trust {
        &self.trust
    }

    /// Registers a connection and welcomes its other end, or sends it the reason why it will not be taken.
    fn admit(&self, stream: Channel, route: Route) {
        let mut state = self.lock();
        if let Some(notice) = state.closed.get(&(route.communicator, route.to)) {
            return stream.last_words(notice);
        }
        // Sent before anything that our rank may send, because the rank cannot have the connection yet.
        welcome(&stream);
        let inbox = state.inboxes.get(&(route.communicator, route.to)).and_then(Weak::upgrade);
        if let Some(inbox) = inbox.filter(|_| route.channel == ONE_SIDED_CHANNEL) {
            return serve_puts(inbox, stream, route.from);
        }
        state.arrived.insert(route, stream);
        if let Some(wake) = state.waiting.get(&(route.communicator, route.to)).and_then(Weak::upgrade) {
            wake.ring();
        }
    }
}

/// Takes puts and signals in a separate thread. If there is none, the connection closes, and the other end takes us for lost.
fn serve_puts(inbox: Arc<Inbox>, stream: Channel, from: u32) {
    let serve = move || inbox.serve(stream, from);
    let _ = threads::start("ftest-puts", serve);
}

/// A new connection has room for the welcome; if it has ended, that shows at the first use.
fn welcome(stream: &Channel) {
    let mut welcome = [0; HEADER];
    welcome[..4].copy_from_slice(&WELCOME.to_le_bytes());
    stream.last_words(&welcome);
}

impl Door for TcpListener {
    fn next(&self) -> io::Result<OwnedFd> {
        let (stream, _) = self.accept()?;
        prepare(&stream)?;
        Ok(stream.into())
    }
}

/// The abstract socket of a process that only this host can reach.
struct HostDoor {
    socket: UnixListener,
    own_user_only: bool,
}

impl AsRawFd for HostDoor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl Door for HostDoor {
    fn next(&self) -> io::Result<OwnedFd> {
        let (stream, _) = self.socket.accept()?;
        // SAFETY: no preconditions.
        if self.own_user_only && user_of(&stream)? != unsafe { libc::geteuid() } {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(stream.into())
    }
}

/// The user of the process at the other end.
fn user_of(stream: &UnixStream) -> io::Result<libc::uid_t> {
    let mut peer = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: 0 };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: plain system call on an open socket; the result is a live struct of the given size.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut bytes,
        )
    };
    if result != 0 { Err(io::Error::last_os_error()) } else { Ok(peer.uid) }
}

#[cfg(test)]
mod tests;
