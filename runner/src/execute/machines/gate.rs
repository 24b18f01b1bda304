//! Where machines join a run: an address at which ftest waits for agents until it has as many as it needs.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use protocol::message::HELLO_DEADLINE;
use protocol::secrecy::BetweenRanks;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Machines;
use super::connection::{self, MOST_OF_HELLO, Reader, Writer, keys};
use super::machine::Machine;
use super::message::{Hello, Welcome};
use crate::host::install::VERSION;

/// Connections that prove themselves at the same time. An agent takes milliseconds for it.
const CROWD: usize = 64;

/// A listening address.
pub struct Gate {
    listener: TcpListener,
    address: SocketAddr,
    keys: Arc<BetweenRanks>,
    joined: Vec<Machine>,
    /// The address of this machine that the others reach.
    reached: Option<IpAddr>,
}

/// An agent that has proved that it has the token.
struct Candidate {
    hello: Hello,
    /// Its address, and ours as it reached us.
    ends: (IpAddr, IpAddr),
    reader: Reader,
    writer: Writer,
}

impl Gate {
    /// Listens at `address` for agents that have `token`.
    ///
    /// # Errors
    /// One sentence.
    pub async fn open(address: SocketAddr, token: &str) -> Result<Gate, String> {
        let failed = |error: io::Error| format!("cannot listen at {address}: {error}");
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let reached = Some(address.ip()).filter(|ip| !ip.is_unspecified());
        Ok(Gate { listener, address, keys: Arc::new(keys(token)?), joined: Vec::new(), reached })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The machines that have joined so far, by name.
    pub fn joined(&self) -> impl Iterator<Item = String> {
        self.joined.iter().map(Machine::to_string)
    }

    /// Waits until `wanted` machines have joined. `say` gets a sentence for each that joins or is refused. May be dropped while it
    /// waits; who has joined stays.
    ///
    /// # Errors
    /// The system's.
    pub async fn fill(&mut self, wanted: u32, say: impl Fn(String)) -> io::Result<()> {
        let mut shaking = JoinSet::new();
        while self.joined.len() < wanted as usize {
            tokio::select! {
                arrived = self.listener.accept(), if shaking.len() < CROWD => {
                    let (stream, peer) = arrived?;
                    let keys = Arc::clone(&self.keys);
                    shaking.spawn(async move { (peer.ip().to_canonical(), judge(stream, &keys).await) });
                }
                Some(judged) = shaking.join_next() => match judged {
                    Ok((_, Ok(candidate))) => self.admit(candidate, &say).await,
                    Ok((peer, Err(why))) => say(format!("{peer} did not join: {why}")),
                    Err(error) => return Err(io::Error::other(error)),
                },
            }
        }
        Ok(())
    }

    /// The machines that have joined. Nobody else can.
    pub fn close(self) -> Machines {
        let address = self.reached.unwrap_or(self.address.ip());
        Machines::new(address, self.joined)
    }

    async fn admit(&mut self, mut candidate: Candidate, say: &impl Fn(String)) {
        let number = self.joined.len() as u32 + 1;
        let Hello { version, host } = &candidate.hello;
        let (peer, reached) = candidate.ends;
        let refusal = if version != VERSION {
            Some(format!("it runs ftest {version}, and the run is of ftest {VERSION}; install that version there"))
        } else if *self.reached.get_or_insert(reached) != reached {
            let ours = self.reached.unwrap_or(reached);
            Some(format!(
                "it reaches this run at {reached}, and other machines at {ours}; ranks need one address: give it to `--listen`"
            ))
        } else {
            None
        };
        let welcome: Welcome = refusal.clone().map_or(Ok(number), Err);
        let sent = timeout(HELLO_DEADLINE, candidate.writer.send(&welcome)).await;
        match refusal {
            Some(why) => {
                let _ = timeout(HELLO_DEADLINE, candidate.writer.close()).await;
                say(format!("{host} ({peer}) did not join: {why}"));
            }
            None if matches!(sent, Ok(Ok(()))) => {
                let machine = Machine::new(number, host.clone(), peer, (candidate.reader, candidate.writer));
                say(format!("{machine} has joined as machine {number}"));
                self.joined.push(machine);
            }
            None => say(format!("{host} ({peer}) did not join: its connection broke")),
        }
    }
}

/// Checks the token of whoever is at the other end.
async fn judge(stream: TcpStream, keys: &BetweenRanks) -> Result<Candidate, String> {
    let shaken = async {
        let ends = (stream.peer_addr()?.ip().to_canonical(), stream.local_addr()?.ip().to_canonical());
        let (mut reader, writer) = connection::accept(stream, keys).await?;
        let hello = reader.next_within(MOST_OF_HELLO).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok::<_, io::Error>(Candidate { hello, ends, reader, writer })
    };
    match timeout(HELLO_DEADLINE, shaken).await {
        Ok(Ok(candidate)) => Ok(candidate),
        Ok(Err(error)) => Err(format!("it is not an agent with this run's token ({error})")),
        Err(_) => Err(format!("it said nothing for {} s", HELLO_DEADLINE.as_secs())),
    }
}
