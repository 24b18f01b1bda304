//! The bytes of the connection to the coordinator: a socket file, tcp on this host, or TLS over tcp.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::secrecy::{self, Secret};
use rustls::ClientConnection;

use crate::lock::Mutex;
use crate::settings::Address;
use crate::sockets::connect::notice_silence;

/// One end of the connection. One copy reads while another writes.
pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Arc<Tls>),
}

/// TLS over tcp. A sender holds `turn`, so that data encrypted first is sent first; nobody waits for the network while holding
/// `state`.
pub(super) struct Tls {
    socket: TcpStream,
    turn: Mutex<()>,
    state: Mutex<ClientConnection>,
}

impl Stream {
    pub(super) fn connect(address: &Address, timeout: Duration) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
            Address::Tcp(host) => {
                let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the host has no address");
                let deadline = Instant::now() + timeout;
                for target in host.to_socket_addrs()? {
                    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
                    match TcpStream::connect_timeout(&target, left) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            notice_silence(&stream)?;
                            return Ok(Self::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Adds TLS if the coordinator is not on this host's loopback interface and the run has a token. `secret` is derived from the
    /// token, earlier or here.
    pub(super) fn secure(self, token: &str, secret: &mut Option<Secret>) -> io::Result<Self> {
        let socket = match self {
            Self::Tcp(socket) if !token.is_empty() && !socket.peer_addr()?.ip().to_canonical().is_loopback() => socket,
            other => return Ok(other),
        };
        Tls::over(socket, secret.get_or_insert_with(|| Secret::from_token(token))).map(|tls| Self::Tls(Arc::new(tls)))
    }

    pub(super) fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Tls(tls) => Ok(Self::Tls(Arc::clone(tls))),
        }
    }

    pub(super) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Tls(tls) => tls.socket.set_read_timeout(timeout),
        }
    }

    /// Whether something between the hosts may reset it while both ends are there. Over the loopback interface, nothing does.
    pub(super) fn crosses_network(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    pub(super) fn local(&self) -> Option<IpAddr> {
        let socket = match self {
            Self::Unix(_) => return None,
            Self::Tcp(stream) => stream,
            Self::Tls(tls) => &tls.socket,
        };
        socket.local_addr().ok().map(|address| address.ip())
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }

    /// Ends our sending side if the other end may be on another host. False if it is not.
    pub(super) fn say_no_more(&self) -> bool {
        match self {
            Self::Unix(_) => false,
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write).is_ok(),
            Self::Tls(tls) => {
                let farewell = tls.send(|state| {
                    state.send_close_notify();
                    Ok(())
                });
                farewell.and_then(|()| tls.socket.shutdown(Shutdown::Write)).is_ok()
            }
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(stream) => send_all(stream, bytes),
            Self::Tcp(stream) => send_all(stream, bytes),
            // The library keeps no more than some pieces.
            Self::Tls(tls) => {
                bytes.chunks(16 << 10).try_for_each(|piece| tls.send(|state| state.writer().write_all(piece)))
            }
        }
    }
}

impl Tls {
    fn over(mut socket: TcpStream, secret: &Secret) -> io::Result<Self> {
        let config = secret.client().map_err(io::Error::other)?;
        let mut state = ClientConnection::new(config, secrecy::server_name()).map_err(io::Error::other)?;
        while state.is_handshaking() {
            state.complete_io(&mut socket)?;
        }
        Ok(Self { socket, turn: Mutex::default(), state: Mutex::new(state) })
    }

    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // This is no more than the library takes in before it has to be read out.
        let mut arrived = [0; 4 << 10];
        loop {
            match self.state.lock().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            let count = (&self.socket).read(&mut arrived)?;
            let mut arrived = &arrived[..count];
            let answers = {
                let mut state = self.state.lock();
                // This runs once at the end of the stream, too, and the next read of the library reports that.
                loop {
                    state.read_tls(&mut arrived)?;
                    state.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    if arrived.is_empty() {
                        break state.wants_write();
                    }
                }
            };
            if answers {
                self.send(|_| Ok(()))?;
            }
        }
    }

    /// Sends the data that `say` produces.
    fn send(&self, say: impl FnOnce(&mut ClientConnection) -> io::Result<()>) -> io::Result<()> {
        let _turn = self.turn.lock();
        let mut encrypted = Vec::new();
        {
            let mut state = self.state.lock();
            say(&mut state)?;
            while state.wants_write() {
                state.write_tls(&mut encrypted)?;
            }
        }
        send_all(&self.socket, &encrypted)
    }
}

fn send_all(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<()> {
    // Rust ignores SIGPIPE only in programs of its own; this library lives in others.
    let fd = socket.as_raw_fd();
    let mut sent = 0;
    while sent < bytes.len() {
        // SAFETY: the range is within `bytes`.
        let result = unsafe { libc::send(fd, bytes[sent..].as_ptr().cast(), bytes.len() - sent, libc::MSG_NOSIGNAL) };
        if result < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        sent += result as usize;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustls::{ServerConnection, StreamOwned};

    use super::*;

    /// More data than the library buffers, and than a socket has room for, in both directions at once.
    #[test]
    fn much_goes_both_ways_at_once_and_ends_in_order() {
        const BYTES: usize = 3 << 20;
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = door.local_addr().unwrap();
        let pattern = |seed: usize| (0..BYTES).map(|at| (at * 31 / 7 + seed) as u8).collect::<Vec<u8>>();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let state = ServerConnection::new(Secret::from_token("secret").server().unwrap()).unwrap();
                let mut stream = StreamOwned::new(state, door.accept().unwrap().0);
                stream.write_all(&pattern(1)).unwrap();
                stream.flush().unwrap();
                let mut heard = Vec::new();
                stream.read_to_end(&mut heard).unwrap();
                heard
            });
            let tls = Tls::over(TcpStream::connect(address).unwrap(), &Secret::from_token("secret")).unwrap();
            let mut writer = Stream::Tls(Arc::new(tls));
            let mut reader = writer.try_clone().unwrap();
            let reading = scope.spawn(move || {
                let (mut heard, mut piece) = (Vec::new(), [0; 16 << 10]);
                while heard.len() < BYTES {
                    match reader.read(&mut piece).unwrap() {
                        0 => break,
                        got => heard.extend_from_slice(&piece[..got]),
                    }
                }
                heard
            });
            writer.write_all(&pattern(2)).unwrap();
            assert!(reading.join().unwrap() == pattern(1));
            assert!(writer.say_no_more());
            assert!(server.join().unwrap() == pattern(2));
        });
    }
}
