//! Querying a coordinator: a connection that belongs to no rank.

use std::net::SocketAddr;

use protocol::diagnosis::Diagnosis;
use protocol::frame;
use protocol::message::{Role, ToCoordinator, ToRank, VERSION};
use protocol::secrecy::{self, Secret};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::execute::launch::environment::Endpoint;
use crate::host::deadline::COORDINATOR_ANSWER;

/// Why a coordinator did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No process listens there.
    #[error("cannot reach the coordinator at {address}: {source}")]
    Unreachable {
        /// Where.
        address: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It refused the connection: wrong version or token.
    #[error("the coordinator at {address}: {reason}")]
    Refused {
        /// Where.
        address: String,
        /// Its message.
        reason: String,
    },
    /// It ended, or closed the connection.
    #[error("the coordinator ended")]
    Ended,
    /// It did not answer in time.
    #[error("the coordinator did not answer in {} s", COORDINATOR_ANSWER.as_secs())]
    Late,
    /// The connection broke.
    #[error("the connection to the coordinator: {0}")]
    Broken(#[from] std::io::Error),
    /// It sent an unexpected answer.
    #[error("the coordinator answered with {0}")]
    Unexpected(String),
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection to a coordinator.
pub struct Control {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

impl Control {
    /// Connects and completes the handshake.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn connect(endpoint: &Endpoint) -> Result<Control, ControlError> {
        with_deadline(async {
            let address = || endpoint.address.clone();
            let failed = |source| ControlError::Unreachable { address: address(), source };
            let stream: Box<dyn Stream> = if endpoint.transport == "unix" {
                Box::new(UnixStream::connect(&endpoint.address).await.map_err(failed)?)
            } else {
                secure(connect(endpoint).await.map_err(failed)?, &endpoint.token).await.map_err(|source| {
                    if secrecy::is_other_token(&source) {
                        let reason = "it has a different token (FAKEGPU_COORDINATOR_TOKEN)".to_owned();
                        return ControlError::Refused { address: address(), reason };
                    }
                    failed(source)
                })?
            };
            let mut control = Control { stream, buffer: Vec::new() };
            let hello = ToCoordinator::Hello { version: VERSION, token: endpoint.token.clone(), role: Role::Control };
            control.send(&hello).await?;
            match control.receive().await? {
                ToRank::Welcome { .. } => Ok(control),
                ToRank::Refused { reason } => Err(ControlError::Refused { address: address(), reason }),
                other => Err(ControlError::Unexpected(other.kind().to_owned())),
            }
        })
        .await
    }

    /// What ranks wait for, and the call each is in. With `last`, it also goes into the report.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn diagnose(&mut self, last: bool) -> Result<Diagnosis, ControlError> {
        self.ask(ToCoordinator::Diagnose { last }).await
    }

    /// The ranks and their progress.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn status(&mut self) -> Result<Value, ControlError> {
        self.ask(ToCoordinator::QueryStatus).await
    }

    async fn ask<T: DeserializeOwned>(&mut self, question: ToCoordinator) -> Result<T, ControlError> {
        with_deadline(async {
            self.send(&question).await?;
            match self.receive().await? {
                ToRank::Diagnosis { json } | ToRank::Status { json } => {
                    serde_json::from_str(&json).map_err(|error| ControlError::Unexpected(format!("bad JSON: {error}")))
                }
                ToRank::ShuttingDown => Err(ControlError::Ended),
                other => Err(ControlError::Unexpected(other.kind().to_owned())),
            }
        })
        .await
    }

    /// Sends a message without an answer.
    ///
    /// # Errors
    /// [`ControlError::Broken`].
    pub(in crate::execute) async fn send(&mut self, message: &ToCoordinator) -> Result<(), ControlError> {
        self.stream.write_all(&frame::encode(message)).await?;
        // TLS buffers what the socket has no room for.
        Ok(self.stream.flush().await?)
    }

    async fn receive(&mut self) -> Result<ToRank, ControlError> {
        loop {
            if let Some(message) = frame::decode(&mut self.buffer, frame::MAX_TO_RANK)
                .map_err(|error| ControlError::Unexpected(error.to_string()))?
            {
                return Ok(message);
            }
            let read = self.stream.read_buf(&mut self.buffer).await?;
            if read == 0 {
                return Err(ControlError::Ended);
            }
        }
    }
}

/// Connects over tcp, from the network in which the coordinator is.
async fn connect(endpoint: &Endpoint) -> std::io::Result<TcpStream> {
    let Some(from) = endpoint.from.clone() else { return TcpStream::connect(&endpoint.address).await };
    let address: SocketAddr = endpoint.address.parse().map_err(std::io::Error::other)?;
    // Within its namespace, where no packet can be lost on the way.
    let connect = move || from.inside(|| std::net::TcpStream::connect_timeout(&address, COORDINATOR_ANSWER));
    let stream = tokio::task::spawn_blocking(connect).await.map_err(std::io::Error::other)??;
    stream.set_nonblocking(true)?;
    TcpStream::from_std(stream)
}

/// Uses TLS if the connection is not over loopback and the run has a token.
async fn secure(stream: TcpStream, token: &str) -> std::io::Result<Box<dyn Stream>> {
    if token.is_empty() || stream.peer_addr()?.ip().to_canonical().is_loopback() {
        return Ok(Box::new(stream));
    }
    let config = Secret::from_token(token).client().map_err(std::io::Error::other)?;
    Ok(Box::new(TlsConnector::from(config).connect(secrecy::server_name(), stream).await?))
}

async fn with_deadline<T>(work: impl Future<Output = Result<T, ControlError>>) -> Result<T, ControlError> {
    timeout(COORDINATOR_ANSWER, work).await.unwrap_or(Err(ControlError::Late))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_coordinator_that_refuses_is_not_one_that_is_not_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let endpoint = Endpoint { transport: "tcp", address, token: "wrong".to_owned(), from: None };
        let refuse = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let refused = ToRank::Refused { reason: "the token is not this run's".to_owned() };
            stream.write_all(&frame::encode(&refused)).await.unwrap();
            // Wait until it has been read.
            stream.read_to_end(&mut Vec::new()).await
        };
        let (error, _) = tokio::join!(async { Control::connect(&endpoint).await.err() }, refuse);
        assert!(matches!(error, Some(ControlError::Refused { .. })), "{error:?}");
        drop(listener);
        let error = Control::connect(&endpoint).await.err();
        assert!(matches!(error, Some(ControlError::Unreachable { .. })), "{error:?}");
    }
}
