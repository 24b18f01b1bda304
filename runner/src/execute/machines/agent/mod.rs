//! The agent: joins a run, and starts on its machine what ftest asks it for. When the connection is lost, it ends everything.

mod case;
mod files;
mod moved;

use std::collections::HashMap;
use std::io;
use std::rc::Rc;

use protocol::message::HELLO_DEADLINE;
use protocol::secrecy;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{Receiver, Sender, UnboundedSender, channel, unbounded_channel};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;

use super::connection::{self, MOST_OF_HELLO, Reader, Writer};
use super::message::{Hello, Order, ToAgent, ToRunner, Welcome};
use crate::execute::RunContext;
use crate::host::install::VERSION;
use crate::host::machine;

/// Reports that wait to be sent.
const QUEUE: usize = 64;

/// Why an agent cannot join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// Nobody listens there, or the network does not reach it.
    #[error("cannot reach {address}: {why}; start `ftest run ... --listen {address} --machines N` first")]
    Unreachable {
        /// Where.
        address: String,
        /// The system's error.
        why: String,
    },
    /// It is there, and has another token.
    #[error("the run at {address} has a different token; FTEST_AGENT_TOKEN must be the same here and there")]
    OtherToken {
        /// Where.
        address: String,
    },
    /// It does not take this machine.
    #[error("the run at {address} does not take this machine: {why}")]
    Refused {
        /// Where.
        address: String,
        /// Its words.
        why: String,
    },
    /// It is no ftest that waits for machines.
    #[error("{address} did not answer as a run that waits for machines: {why}")]
    NoRun {
        /// Where.
        address: String,
        /// What happened instead.
        why: String,
    },
}

/// How a run ended for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is over.
    Done,
    /// The connection was lost: why.
    Lost(String),
}

/// An agent that has joined.
pub struct Agent {
    /// The number of this machine in the run, from 1.
    pub number: u32,
    reader: Reader,
    writer: Writer,
}

/// Joins the run that waits at `address` for agents with `token`.
///
/// # Errors
/// [`JoinError`].
pub async fn join(address: &str, token: &str) -> Result<Agent, JoinError> {
    join_as(Hello { version: VERSION.to_owned(), host: machine::name() }, address, token).await
}

async fn join_as(hello: Hello, address: &str, token: &str) -> Result<Agent, JoinError> {
    let named = || address.to_owned();
    let no_run = |why: String| JoinError::NoRun { address: named(), why };
    let unreachable = |why: String| JoinError::Unreachable { address: named(), why };
    let keys = connection::keys(token).map_err(no_run)?;
    let late = format!("no answer within {} s", HELLO_DEADLINE.as_secs());
    let stream = timeout(HELLO_DEADLINE, TcpStream::connect(address)).await;
    let stream =
        stream.map_err(|_| unreachable(late.clone()))?.map_err(|error: io::Error| unreachable(error.to_string()))?;
    let greeted = async {
        let (mut reader, mut writer) = connection::greet(stream, &keys).await?;
        writer.send(&hello).await?;
        let welcome: Welcome = reader.next_within(MOST_OF_HELLO).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok::<_, io::Error>((welcome, reader, writer))
    };
    match timeout(HELLO_DEADLINE, greeted).await {
        Ok(Ok((Ok(number), reader, writer))) => Ok(Agent { number, reader, writer }),
        Ok(Ok((Err(why), ..))) => Err(JoinError::Refused { address: named(), why }),
        Ok(Err(error)) if secrecy::is_other_token(&error) => Err(JoinError::OtherToken { address: named() }),
        Ok(Err(error)) => Err(no_run(error.to_string())),
        Err(_) => Err(no_run(late)),
    }
}

impl Agent {
    /// Does what ftest asks for until the run ends or `context` is canceled. No process is left then.
    pub async fn serve(self, context: RunContext) -> Ended {
        let context = Rc::new(context);
        let (reports, queue) = channel(QUEUE);
        let writing = tokio::spawn(write(self.writer, queue));
        let ended = LocalSet::new().run_until(obey(self.reader, &context, reports)).await;
        let _ = writing.await;
        context.end_strays().await;
        ended
    }
}

async fn obey(mut reader: Reader, context: &Rc<RunContext>, reports: Sender<ToRunner>) -> Ended {
    let mut cases: HashMap<u64, UnboundedSender<Order>> = HashMap::new();
    let mut running = JoinSet::new();
    let ended = loop {
        let message = tokio::select! {
            message = reader.next::<ToAgent>() => message,
            () = context.cancel.raised(1) => break Ended::Lost("it was interrupted".to_owned()),
        };
        match message {
            Ok(Some(ToAgent::Case { case, order })) => {
                let orders = cases.entry(case).or_insert_with(|| {
                    let (sender, orders) = unbounded_channel();
                    running.spawn_local(case::run(case, Rc::clone(context), orders, reports.clone()));
                    sender
                });
                let is_last = order == Order::Close;
                // A case that has ended does not need it.
                let _ = orders.send(order);
                if is_last {
                    cases.remove(&case);
                }
            }
            Ok(Some(ToAgent::Done)) => break Ended::Done,
            Ok(None) => break Ended::Lost("ftest closed the connection".to_owned()),
            Err(error) => break Ended::Lost(error.to_string()),
        }
        while running.try_join_next().is_some() {}
    };
    // Without orders, each case ends its processes.
    drop((cases, reports));
    while running.join_next().await.is_some() {}
    ended
}

async fn write(mut writer: Writer, mut reports: Receiver<ToRunner>) {
    let mut works = true;
    while let Some(report) = reports.recv().await {
        // Without a connection, reports are dropped, so that nobody waits for room.
        works = works && writer.send(&report).await.is_ok();
    }
    writer.close().await;
}

#[cfg(test)]
mod tests;
