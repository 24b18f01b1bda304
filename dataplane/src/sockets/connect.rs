//! Connections to other ranks' data sockets.

use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::message::{PROBE_EVERY, UNREACHABLE_AFTER};
use protocol::secrecy::{self, BetweenRanks};
use rustls::ClientConnection;

use super::channel::Channel;
use super::hello::{Route, hello};
use super::trust::Trust;
use super::wire::KNOCKS;

/// How much data for another process on this host the kernel may buffer, bytes. An amount that fits the caches together with all
/// other connections' costs a tenth less than the kernel's own choice; between hosts its choice is the right one.
const SEND_BUFFER: libc::c_int = 256 << 10;

/// Connects to another rank's data socket and sends the connection's purpose. The other end answers with
/// [`WELCOME`](super::wire::WELCOME), or with a notice: only what is sent after a welcome is sure to arrive.
pub(crate) fn connect(address: &str, trust: &Trust, route: Route, timeout: Duration) -> io::Result<Channel> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, format!("`{address}` is not a data address"));
    if let Some(name) = address.strip_prefix("unix:@") {
        let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        stream.write_all(&hello(address, trust.token(), route, false))?;
        Channel::plain(stream.into())
    } else if let Some(target) = address.strip_prefix("tcp:") {
        let target = target.to_socket_addrs()?.next().ok_or_else(invalid)?;
        let until = Instant::now() + timeout.min(UNREACHABLE_AFTER);
        let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let mut knocks = 0;
        loop {
            let mut stream = TcpStream::connect_timeout(&target, left())?;
            prepare(&stream)?;
            let keys = trust.keys().filter(|_| is_far(&stream));
            stream.write_all(&hello(address, trust.token(), route, keys.is_some()))?;
            let Some(keys) = keys else { return Channel::plain(stream.into()) };
            match secure(stream, keys, left()) {
                // Too many connections without a hello may have evicted it.
                Err(error) if is_end(&error) && knocks < KNOCKS => knocks += 1,
                secured => return secured,
            }
        }
    } else {
        Err(invalid())
    }
}

/// Whether the other end of a connection is on another host.
pub(crate) fn is_far(stream: &TcpStream) -> bool {
    let ends = stream.local_addr().and_then(|local| Ok((local.ip(), stream.peer_addr()?.ip())));
    ends.is_ok_and(|(local, peer)| local != peer)
}

/// Performs the TLS handshake, waiting for it.
fn secure(mut stream: TcpStream, keys: &BetweenRanks, timeout: Duration) -> io::Result<Channel> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut tls = ClientConnection::new(Arc::clone(&keys.client), secrecy::server_name()).map_err(io::Error::other)?;
    while tls.is_handshaking() || tls.wants_write() {
        tls.complete_io(&mut stream).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
    }
    Channel::secured(stream.into(), tls.into())
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Sets the options that a data connection needs.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if !is_far(stream) {
        set_option(stream, libc::SOL_SOCKET, libc::SO_SNDBUF, SEND_BUFFER)?;
        return Ok(());
    }
    notice_silence(stream)
}

/// Makes the connection fail with `TimedOut` when its other end has not answered anything for [`UNREACHABLE_AFTER`], whether
/// anything is sent or not.
pub(crate) fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    let (seconds, patience) = (PROBE_EVERY.as_secs(), UNREACHABLE_AFTER);
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, seconds as libc::c_int),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, seconds as libc::c_int),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, patience.as_millis() as libc::c_int),
    ] {
        set_option(stream, level, option, value)?;
    }
    Ok(())
}

fn set_option(socket: &impl AsRawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: plain system call on an open socket; the option is a live integer of the given size.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), bytes) };
    if result != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
