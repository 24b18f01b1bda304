//! Where other ranks reach this process with data connections: one listening socket per process, and the connections that
//! have come but that nobody has asked for yet.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::one_sided::{self, Inbox};
use crate::send;
use crate::wake::Wake;

/// How long a stranger may take to say who it is.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
const MAGIC: u32 = 0x6674_6461;
/// Ranks that failed or left and are remembered; who comes for an earlier one waits until its deadline.
const REMEMBERED: usize = 1024;
/// Longest token that is compared.
const MAX_TOKEN: usize = 1024;
/// How much the kernel may hold of what goes to another process of this host, bytes. What fits the caches with that of all other
/// connections costs a tenth less than what the kernel would choose; between hosts its choice is the right one.
const SEND_BUFFER: libc::c_int = 256 << 10;

/// What a data connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Route {
    pub(crate) communicator: u64,
    /// Rank of the listening side.
    pub(crate) to: u32,
    /// Rank of the connecting side.
    pub(crate) from: u32,
    pub(crate) channel: u8,
}

/// The process's data socket.
pub(crate) struct Listener {
    /// `tcp:HOST:PORT` or `unix:@NAME`.
    pub(crate) address: String,
    token: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arrived: HashMap<Route, OwnedFd>,
    /// Whom to tell of an arrival, by communicator and rank.
    waiting: HashMap<(u64, u32), Weak<Wake>>,
    /// Who takes puts and signals.
    inboxes: HashMap<(u64, u32), Weak<Inbox>>,
    /// What to tell those who come for a rank that has failed or left.
    closed: HashMap<(u64, u32), Vec<u8>>,
    told: HashSet<Route>,
    /// The keys of `closed`, the oldest first.
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
    pub(crate) fn open(scope: Scope, token: String) -> io::Result<Arc<Self>> {
        match scope {
            Scope::Host => {
                let name = format!("ftest-data-{}-{:016x}", std::process::id(), crate::unique::random_u64()?);
                let socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
                let listener = Self::new(format!("unix:@{name}"), token);
                listener.serve(move || socket.accept().map(|(stream, _)| Stream::Unix(stream)))?;
                Ok(listener)
            }
            Scope::Network(host) => {
                let socket = TcpListener::bind((host, 0))?;
                let listener = Self::new(format!("tcp:{}", socket.local_addr()?), token);
                listener.serve(move || socket.accept().map(|(stream, _)| Stream::Tcp(stream)))?;
                Ok(listener)
            }
        }
    }

    fn new(address: String, token: String) -> Arc<Self> {
        Arc::new(Self { address, token, state: Mutex::default() })
    }

    fn serve(self: &Arc<Self>, accept: impl Fn() -> io::Result<Stream> + Send + 'static) -> io::Result<()> {
        let listener = Arc::clone(self);
        let serve = move || loop {
            match accept() {
                Ok(stream) => {
                    let listener = Arc::clone(&listener);
                    // A stranger that says nothing must not keep the others waiting, hence a thread for each greeting.
                    let greet = move || {
                        let _ = listener.greet(stream);
                    };
                    let _ = std::thread::Builder::new().name("ftest-greet".to_owned()).spawn(greet);
                }
                // Out of descriptors: those who wait have deadlines, and the kernel keeps the connection queued.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        std::thread::Builder::new().name("ftest-data".to_owned()).spawn(serve).map(drop)
    }

    fn greet(&self, mut stream: Stream) -> io::Result<()> {
        if let Stream::Tcp(stream) = &stream {
            prepare(stream)?;
        }
        stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
        let refused = || io::Error::new(io::ErrorKind::PermissionDenied, "not of this run");
        let mut head = [0; 6];
        stream.read_exact(&mut head)?;
        let magic = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let length = usize::from(u16::from_le_bytes([head[4], head[5]]));
        if magic != MAGIC || length > MAX_TOKEN {
            return Err(refused());
        }
        let mut token = vec![0; length];
        stream.read_exact(&mut token)?;
        let differences = token.iter().zip(self.token.as_bytes()).fold(0, |sum, (a, b)| sum | (a ^ b));
        if token.len() != self.token.len() || differences != 0 {
            return Err(refused());
        }
        let mut body = [0; 17];
        stream.read_exact(&mut body)?;
        stream.set_read_timeout(None)?;
        let word = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("four bytes"));
        let route = Route {
            communicator: u64::from_le_bytes(body[..8].try_into().expect("eight bytes")),
            to: word(8),
            from: word(12),
            channel: body[16],
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notice) = state.closed.get(&(route.communicator, route.to)).cloned() {
            if state.told.insert(route) {
                send::last_words(&stream, &notice);
            }
            return Ok(());
        }
        let inbox = state.inboxes.get(&(route.communicator, route.to)).and_then(Weak::upgrade);
        if let Some(inbox) = inbox.filter(|_| route.channel == one_sided::CHANNEL) {
            drop(state);
            inbox.serve(stream.into(), route.from);
            return Ok(());
        }
        state.arrived.insert(route, stream.into());
        if let Some(wake) = state.waiting.get(&(route.communicator, route.to)).and_then(Weak::upgrade) {
            wake.ring();
        }
        Ok(())
    }

    /// From now on, `wake` is rung when a connection for `rank` of `communicator` comes.
    pub(crate) fn watch(&self, communicator: u64, rank: u32, wake: &Arc<Wake>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.insert((communicator, rank), Arc::downgrade(wake));
        wake.ring();
    }

    /// From now on, `inbox` takes the puts and signals for `rank` of `communicator`; those that came before as well.
    pub(crate) fn take_puts(&self, communicator: u64, rank: u32, inbox: &Arc<Inbox>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inboxes.insert((communicator, rank), Arc::downgrade(inbox));
        let mine = |route: &Route| {
            route.communicator == communicator && route.to == rank && route.channel == one_sided::CHANNEL
        };
        let early: Vec<Route> = state.arrived.keys().copied().filter(mine).collect();
        for route in early {
            let Some(stream) = state.arrived.remove(&route) else { continue };
            let inbox = Arc::clone(inbox);
            let serve = move || inbox.serve(stream, route.from);
            // Without the thread the connection closes, which its other end takes for our loss.
            let _ = std::thread::Builder::new().name("ftest-puts".to_owned()).spawn(serve);
        }
    }

    /// The communicator's rank is no more.
    pub(crate) fn forget(&self, communicator: u64, rank: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.remove(&(communicator, rank));
        state.inboxes.remove(&(communicator, rank));
    }

    /// The connection for `route`, once it has come.
    pub(crate) fn claim(&self, route: Route) -> Option<OwnedFd> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).arrived.remove(&route)
    }

    /// Those who come for `rank` from now on are told `notice`.
    pub(crate) fn close(&self, communicator: u64, rank: u32, notice: Vec<u8>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.remove(&(communicator, rank));
        state.inboxes.remove(&(communicator, rank));
        let mine = |route: &Route| route.communicator == communicator && route.to == rank;
        let early: Vec<Route> = state.arrived.keys().copied().filter(mine).collect();
        for route in early {
            if let Some(stream) = state.arrived.remove(&route) {
                send::last_words(stream, &notice);
            }
        }
        if state.closed.insert((communicator, rank), notice).is_none() {
            state.order.push_back((communicator, rank));
        }
        if state.order.len() > REMEMBERED
            && let Some(oldest) = state.order.pop_front()
        {
            state.closed.remove(&oldest);
            state.told.retain(|route| (route.communicator, route.to) != oldest);
        }
    }
}

/// Connects to another rank's data socket and says what for.
pub(crate) fn connect(address: &str, token: &str, route: Route, timeout: Duration) -> io::Result<OwnedFd> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{address}` is no data address"));
    let mut stream = if let Some(name) = address.strip_prefix("unix:@") {
        Stream::Unix(UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?)
    } else if let Some(target) = address.strip_prefix("tcp:") {
        let target = target.to_socket_addrs()?.next().ok_or_else(invalid)?;
        let stream = TcpStream::connect_timeout(&target, timeout)?;
        prepare(&stream)?;
        Stream::Tcp(stream)
    } else {
        return Err(invalid());
    };
    stream.write_all(&hello(token, route))?;
    Ok(stream.into())
}

/// What a connecting side says first.
fn hello(token: &str, route: Route) -> Vec<u8> {
    let mut hello = Vec::with_capacity(32 + token.len());
    hello.extend_from_slice(&MAGIC.to_le_bytes());
    hello.extend_from_slice(&(token.len() as u16).to_le_bytes());
    hello.extend_from_slice(token.as_bytes());
    hello.extend_from_slice(&route.communicator.to_le_bytes());
    hello.extend_from_slice(&route.to.to_le_bytes());
    hello.extend_from_slice(&route.from.to_le_bytes());
    hello.push(route.channel);
    hello
}

/// Sets what a data connection needs.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if stream.local_addr()?.ip() == stream.peer_addr()?.ip() {
        let bytes = SEND_BUFFER;
        // SAFETY: plain system call on an open socket; the option is a live integer of the size said.
        let result = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_SNDBUF,
                (&raw const bytes).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Either kind of stream.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(buffer),
            Self::Tcp(stream) => stream.write(buffer),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl From<Stream> for OwnedFd {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Unix(stream) => stream.into(),
            Stream::Tcp(stream) => stream.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::tests::raises_sigpipe;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn route(from: u32) -> Route {
        Route { communicator: 7, to: 9, from, channel: 0 }
    }

    #[test]
    fn who_came_and_hung_up_does_no_harm() {
        let listener = Listener::open(Scope::Host, "token".to_owned()).unwrap();
        let wake = Arc::new(Wake::new().unwrap());
        listener.watch(7, 9, &wake);
        wake.clear();
        drop(connect(&listener.address, "token", route(0), DEADLINE).unwrap());
        wake.wait(DEADLINE);
        assert!(listener.state.lock().unwrap().arrived.contains_key(&route(0)), "it came");
        assert!(!raises_sigpipe(|| listener.close(7, 9, b"gone".to_vec())));

        // Who comes later is told as well.
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(&hello("token", route(1))).unwrap();
        drop(theirs);
        assert!(!raises_sigpipe(|| drop(listener.greet(Stream::Unix(ours)))));
        assert!(listener.state.lock().unwrap().told.contains(&route(1)), "it was told");
    }
}
