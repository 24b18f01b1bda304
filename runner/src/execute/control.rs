//! Asking a coordinator: a connection that speaks for nobody and only wants to know.

use protocol::frame;
use protocol::message::{Role, ToCoordinator, ToRank, VERSION};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::execute::launch::environment::Endpoint;
use crate::host::deadline::COORDINATOR_ANSWER;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// A connection to a coordinator.
pub struct Control {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

impl Control {
    /// Connects and is welcomed.
    ///
    /// # Errors
    /// One sentence: nobody listens there, or it does not want us.
    pub async fn connect(endpoint: &Endpoint) -> Result<Control, String> {
        with_deadline("connecting", async {
            let failed =
                |error: std::io::Error| format!("cannot reach the coordinator at {}: {error}", endpoint.address);
            let stream: Box<dyn Stream> = if endpoint.transport == "unix" {
                Box::new(UnixStream::connect(&endpoint.address).await.map_err(failed)?)
            } else {
                Box::new(TcpStream::connect(&endpoint.address).await.map_err(failed)?)
            };
            let mut control = Control { stream, buffer: Vec::new() };
            let hello = ToCoordinator::Hello { version: VERSION, token: endpoint.token.clone(), role: Role::Control };
            control.send(&hello).await?;
            match control.receive().await? {
                ToRank::Welcome { .. } => Ok(control),
                ToRank::Refused { reason } => Err(format!("the coordinator at {}: {reason}", endpoint.address)),
                other => Err(format!("the coordinator answered hello with {}", other.kind())),
            }
        })
        .await
    }

    /// What ranks wait for, and what each is in: `{hang, waits_ms, activities}`. With `last` it goes into the report as well.
    ///
    /// # Errors
    /// One sentence.
    pub async fn diagnose(&mut self, last: bool) -> Result<Value, String> {
        self.ask(ToCoordinator::Diagnose { last }).await
    }

    /// Who is there and what they did so far.
    ///
    /// # Errors
    /// One sentence.
    pub async fn status(&mut self) -> Result<Value, String> {
        self.ask(ToCoordinator::QueryStatus).await
    }

    async fn ask(&mut self, question: ToCoordinator) -> Result<Value, String> {
        with_deadline("asking", async {
            self.send(&question).await?;
            match self.receive().await? {
                ToRank::Diagnosis { json } | ToRank::Status { json } => {
                    serde_json::from_str(&json).map_err(|error| format!("the coordinator's answer is no JSON: {error}"))
                }
                ToRank::ShuttingDown => Err("the coordinator ended".to_owned()),
                other => Err(format!("the coordinator answered with {}", other.kind())),
            }
        })
        .await
    }

    /// Says something that is not answered.
    ///
    /// # Errors
    /// One sentence: nobody takes it.
    pub(super) async fn send(&mut self, message: &ToCoordinator) -> Result<(), String> {
        self.stream.write_all(&frame::encode(message)).await.map_err(|error| error.to_string())
    }

    async fn receive(&mut self) -> Result<ToRank, String> {
        loop {
            if let Some(message) =
                frame::decode(&mut self.buffer, frame::MAX_TO_RANK).map_err(|error| error.to_string())?
            {
                return Ok(message);
            }
            let read = self.stream.read_buf(&mut self.buffer).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("the coordinator closed the connection".to_owned());
            }
        }
    }
}

async fn with_deadline<T>(what: &str, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    timeout(COORDINATOR_ANSWER, work).await.unwrap_or_else(|_| {
        Err(format!("{what}: the coordinator did not answer in {} s", COORDINATOR_ANSWER.as_secs()))
    })
}
