//! The listening socket: where it may be, what it may replace, and how it is removed.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use protocol::message::{PROBE_EVERY, UNREACHABLE_AFTER};
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream, UnixListener};

use crate::address::Address;
use crate::session::Stream;

/// Why the coordinator cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The place is not usable: exit code 2.
    #[error("cannot listen on {address}: {reason}")]
    Place {
        /// The address, as given.
        address: String,
        /// What is there, and what to do about it.
        reason: String,
    },
    /// The system refused: exit code 1.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// The address, as given.
        address: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A TCP socket that other machines can reach needs a token: exit code 2.
    #[error(
        "{0} is reachable from other machines; set FAKEGPU_COORDINATOR_TOKEN for the coordinator and its ranks, or listen on 127.0.0.1"
    )]
    NeedsToken(String),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Endpoint {
    listener: Listener,
    address: String,
}

#[derive(Debug)]
enum Listener {
    Unix { listener: UnixListener, path: PathBuf, inode: (u64, u64) },
    Tcp(TcpListener),
}

impl Endpoint {
    /// Listens. Without `has_token`, a tcp address must be a loopback one.
    ///
    /// # Errors
    /// [`BindError`] with the address and what to do.
    pub(crate) async fn bind(address: &Address, has_token: bool) -> Result<Self, BindError> {
        match address {
            Address::Unix(path) => bind_unix(path),
            Address::Tcp(text) => bind_tcp(text, has_token).await,
        }
    }

    /// Where it listens, with the real port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The next connection.
    ///
    /// # Errors
    /// The error of `accept`; the listener stays usable.
    pub(crate) async fn accept(&self) -> io::Result<Stream> {
        match &self.listener {
            Listener::Unix { listener, .. } => Ok(Stream::Unix(listener.accept().await?.0)),
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                notice_silence(&stream)?;
                Ok(Stream::Tcp(stream))
            }
        }
    }
}

/// The connection fails with `TimedOut` when its other end has not answered for [`UNREACHABLE_AFTER`].
fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    Ok(sockopt::set_tcp_user_timeout(stream, UNREACHABLE_AFTER.as_millis() as u32)?)
}

/// Removes the socket file, unless somebody has put a different one there.
impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Listener::Unix { path, inode, .. } = &self.listener
            && std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == *inode)
        {
            // Nobody is left to report an error to.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_unix(path: &Path) -> Result<Endpoint, BindError> {
    let address = path.display().to_string();
    let place = |reason: &str| BindError::Place { address: address.clone(), reason: reason.to_owned() };
    let system = |source| BindError::System { address: address.clone(), source };
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(place("there is a file that is not a socket; choose another path"));
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return Err(place("another process listens there; choose another path")),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(system)?;
            }
            Err(error) => return Err(place(&format!("a socket is there that may be in use ({error}); remove it"))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(system(error)),
    }
    let listener = UnixListener::bind(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => place("its directory does not exist; create it first"),
        _ => system(error),
    })?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(system)?;
    let found = std::fs::symlink_metadata(path).map_err(system)?;
    let inode = (found.dev(), found.ino());
    Ok(Endpoint { listener: Listener::Unix { listener, path: path.to_owned(), inode }, address })
}

async fn bind_tcp(text: &str, has_token: bool) -> Result<Endpoint, BindError> {
    let system = |source| BindError::System { address: text.to_owned(), source };
    let candidates: Vec<SocketAddr> = tokio::net::lookup_host(text)
        .await
        .map_err(|error| BindError::Place {
            address: text.to_owned(),
            reason: format!("the host is not known ({error})"),
        })?
        .collect();
    if !has_token && candidates.iter().any(|candidate| !candidate.ip().is_loopback()) {
        return Err(BindError::NeedsToken(text.to_owned()));
    }
    let listener = TcpListener::bind(&candidates[..]).await.map_err(system)?;
    let address = listener.local_addr().map_err(system)?.to_string();
    Ok(Endpoint { listener: Listener::Tcp(listener), address })
}
