//! A connection between ftest and an agent: TLS 1.3 in which both sides prove that they have the run's token, and frames in it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use protocol::frame;
use protocol::message::{PROBE_EVERY, UNREACHABLE_AFTER};
use protocol::secrecy::{self, BetweenRanks, Secret};
use rustix::net::sockopt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// The largest frame, bytes: the environment and the arguments of a process, which the kernel limits to 6 MiB.
const MOST: usize = 8 << 20;
/// The largest frame until the other end was welcomed, bytes.
pub(super) const MOST_OF_HELLO: usize = frame::MAX_HELLO;

/// Derives the keys of both sides from the run's token.
///
/// # Errors
/// One sentence: the TLS library refuses them.
pub(super) fn keys(token: &str) -> Result<BetweenRanks, String> {
    BetweenRanks::from_secret(&Secret::from_token(token).between_machines())
        .map_err(|error| format!("TLS between machines: {error}"))
}

/// The end that receives.
pub(super) struct Reader {
    stream: ReadHalf<TlsStream<TcpStream>>,
    buffer: Vec<u8>,
}

/// The end that sends.
pub(super) struct Writer(WriteHalf<TlsStream<TcpStream>>);

/// Accepts an agent.
///
/// # Errors
/// It does not have the token, or the connection broke.
pub(super) async fn accept(stream: TcpStream, keys: &BetweenRanks) -> io::Result<(Reader, Writer)> {
    prepare(&stream)?;
    Ok(ends(TlsAcceptor::from(Arc::clone(&keys.server)).accept(stream).await?.into()))
}

/// Greets the ftest at the other end of `stream`.
///
/// # Errors
/// It does not have the token, or the connection broke.
pub(super) async fn greet(stream: TcpStream, keys: &BetweenRanks) -> io::Result<(Reader, Writer)> {
    prepare(&stream)?;
    let connector = TlsConnector::from(Arc::clone(&keys.client));
    Ok(ends(connector.connect(secrecy::server_name(), stream).await?.into()))
}

fn ends(stream: TlsStream<TcpStream>) -> (Reader, Writer) {
    let (reader, writer) = tokio::io::split(stream);
    (Reader { stream: reader, buffer: Vec::new() }, Writer(writer))
}

/// Makes the connection fail when the other machine has not answered anything for [`UNREACHABLE_AFTER`], whether anything is sent or
/// not.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PROBE_EVERY)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_EVERY)?;
    sockopt::set_tcp_user_timeout(stream, milliseconds(UNREACHABLE_AFTER))?;
    Ok(())
}

fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl Reader {
    /// The next message; `None` at the end. May be dropped while it waits: nothing is lost.
    ///
    /// # Errors
    /// The connection broke, or bytes are no message.
    pub(super) async fn next<M: DeserializeOwned>(&mut self) -> io::Result<Option<M>> {
        self.next_within(MOST).await
    }

    /// As [`Reader::next`], for a message of at most `limit` bytes.
    pub(super) async fn next_within<M: DeserializeOwned>(&mut self, limit: usize) -> io::Result<Option<M>> {
        loop {
            let message = frame::decode(&mut self.buffer, limit);
            if let Some(message) = message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                return Ok(Some(message));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

impl Writer {
    /// Sends a message.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn send<M: Serialize>(&mut self, message: &M) -> io::Result<()> {
        self.0.write_all(&frame::encode(message)).await?;
        // TLS buffers what the socket has no room for.
        self.0.flush().await
    }

    /// Says that nothing follows.
    pub(super) async fn close(&mut self) {
        // If that is not possible, the connection ends without it.
        let _ = self.0.shutdown().await;
    }
}
