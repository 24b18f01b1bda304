//! One connection: frames in, frames out, and no way for its peer to harm anyone else.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use model::exchange::ConnectionId;
use protocol::frame::{self, MAX_HELLO};
use protocol::message::{HELLO_DEADLINE, Role, ToCoordinator, ToRank};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWriteExt, Interest, split};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::access;
use crate::conversation::{Conversation, OUTBOUND_MESSAGES, WRITE_DEADLINE};
use crate::event::{Event, Opener};
use crate::pending::Slot;
use crate::returns::{Return, Returns};
use crate::wire::{Frames, Reader, Wire, Writer};

/// The first byte of a TLS connection, its record type (RFC 8446, section 5.1). One hello in 256 begins with this byte as well,
/// because of its length. In the clear from another host, it is refused in any case, but then without a reason.
const TLS_HANDSHAKE: u8 = 22;
/// An accepted socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What all sessions of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) token: Option<String>,
    /// The TLS configuration for connections from other hosts, if the run has a token.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) events: mpsc::Sender<Event>,
    /// Sessions whose connection may be made again.
    pub(crate) returns: Returns,
    /// Changes when the run ends: connections without a hello are no longer waited for.
    pub(crate) closing: watch::Receiver<bool>,
}

/// Serves one connection to its end. `slot` is held until its hello is judged.
pub(crate) async fn serve(stream: Stream, connection: ConnectionId, slot: Slot, shared: Shared) {
    match stream {
        Stream::Unix(stream) => {
            let credentials = stream.peer_cred().ok();
            let same_user = credentials.zip(own_user()).map(|(peer, own)| peer.uid() == own);
            let process = credentials.and_then(|peer| peer.pid());
            let (reader, writer) = stream.into_split();
            converse(
                Box::new(reader),
                Box::new(writer),
                connection,
                Peer { same_user, process, ..Peer::default() },
                slot,
                shared,
            )
            .await;
        }
        Stream::Tcp(stream) => {
            let is_local = stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback());
            serve_tcp(stream, is_local, connection, slot, shared).await;
        }
    }
}

/// Serves a connection over tcp, with TLS unless it comes over the loopback interface. Another host that connects without TLS is
/// refused, and told so without TLS.
async fn serve_tcp(stream: TcpStream, is_local: bool, connection: ConnectionId, mut slot: Slot, mut shared: Shared) {
    if let Some(tls) = shared.tls.clone().filter(|_| !is_local) {
        let deadline = Instant::now() + HELLO_DEADLINE;
        let secured = async {
            let mut first = [0];
            stream.peek(&mut first).await?;
            Ok::<_, io::Error>(if first[0] == TLS_HANDSHAKE {
                Ok(TlsAcceptor::from(tls).accept(stream).await?)
            } else {
                Err(stream)
            })
        };
        let secured = tokio::select! {
            biased;
            secured = timeout_at(deadline, secured) => secured,
            _ = shared.closing.changed() => return,
            () = slot.evicted() => return,
        };
        return match secured {
            Ok(Ok(Ok(stream))) => {
                let (reader, writer) = split(stream);
                converse(Box::new(reader), Box::new(writer), connection, Peer::default(), slot, shared).await;
            }
            Ok(Ok(Err(stream))) => {
                let (reader, writer) = stream.into_split();
                let peer = Peer { is_exposed: true, ..Peer::default() };
                converse(Box::new(reader), Box::new(writer), connection, peer, slot, shared).await;
            }
            // The other end has another token, or is not a rank at all; it knows why the handshake failed.
            Ok(Err(_)) | Err(_) => {}
        };
    }
    let (reader, writer) = stream.into_split();
    converse(Box::new(reader), Box::new(writer), connection, Peer::default(), slot, shared).await;
}

/// What the socket knows about its other end.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// Whether it sends in the clear over a network.
    is_exposed: bool,
    same_user: Option<bool>,
    process: Option<i32>,
}

impl Peer {
    /// Waits until its process is dead, or forever if that cannot be seen. Its connection need not close with it: processes that
    /// it forked have it, too.
    async fn dies(self) {
        let open = || {
            let handle = pidfd_open(Pid::from_raw(self.process?)?, PidfdFlags::NONBLOCK).ok()?;
            #[expect(
                deprecated,
                reason = "sound for an OwnedFd, which stays open while registered; the other is unsafe"
            )]
            AsyncFd::<OwnedFd>::with_interest(handle, Interest::READABLE).ok()
        };
        match open() {
            Some(handle) => drop(handle.readable().await),
            None => std::future::pending().await,
        }
    }
}

/// This process's user, from the owner of its entry in /proc.
fn own_user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").ok().map(|entry| entry.uid())
}

async fn converse(
    reader: Reader,
    mut writer: Writer,
    connection: ConnectionId,
    peer: Peer,
    mut slot: Slot,
    shared: Shared,
) {
    let mut frames = Frames::new(reader);
    let Shared { token, events, returns, mut closing, .. } = shared;
    let hello = tokio::select! {
        biased;
        hello = timeout(HELLO_DEADLINE, frames.next(MAX_HELLO)) => hello,
        _ = closing.changed() => return,
        () = slot.evicted() => return,
    };
    let role = match hello {
        Ok(Ok(Some(ToCoordinator::Hello { version, token: given, role }))) => {
            match access::refusal(version, &given, token.as_deref(), peer.same_user, peer.is_exposed) {
                None => role,
                Some(reason) => return refuse(&mut writer, reason).await,
            }
        }
        Ok(Ok(Some(_))) => return refuse(&mut writer, "the first message must be a hello".to_owned()).await,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            // Another version may have another hello.
            let other = frame::version_of_hello(frames.rest()).and_then(access::other_version);
            return refuse(&mut writer, other.unwrap_or_else(|| error.to_string())).await;
        }
        Err(_) => return refuse(&mut writer, format!("no hello within {} s", HELLO_DEADLINE.as_secs())).await,
    };
    drop(slot);
    let (opener, seat) = match role {
        Role::Process(info) => (Opener::Process(info), None),
        Role::Control => (Opener::Control, None),
        Role::Distant { info, session } => match returns.open(session) {
            Some(seat) => (Opener::Process(info), Some(seat)),
            None => return refuse(&mut writer, "another process has its session".to_owned()).await,
        },
        Role::Returning { session, received } => {
            let back = Return { wire: Wire { frames, writer }, received };
            if let Err(mut back) = returns.deliver(session, back) {
                refuse(&mut back.wire.writer, "its session is over".to_owned()).await;
            }
            return;
        }
    };
    let (outbound, queue) = mpsc::channel(OUTBOUND_MESSAGES);
    if events.send(Event::Opened { connection, opener, outbound }).await.is_err() {
        return;
    }
    let wire = Wire { frames, writer };
    let conversation = Conversation { connection, events: events.clone(), queue, wire, seat };
    let reason = conversation.last(peer.dies()).await;
    // The driver is gone only when the whole run ends.
    let _ = events.send(Event::Closed { connection, reason }).await;
}

async fn refuse(writer: &mut Writer, reason: String) {
    let frame = frame::encode(&ToRank::Refused { reason });
    // A peer that is refused and does not listen loses nothing but the reason.
    let _ = timeout(WRITE_DEADLINE, async {
        writer.write_all(&frame).await?;
        writer.shutdown().await
    })
    .await;
}

#[cfg(test)]
mod tests {
    use crate::pending::Pending;
    use protocol::frame::MAX_TO_RANK;
    use protocol::message::VERSION;
    use protocol::secrecy::{self, Secret};
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};

    use super::*;

    /// A session on one end of a pipe of `capacity` bytes each way; time is paused, so deadlines cost nothing.
    fn session(capacity: usize) -> (DuplexStream, mpsc::Receiver<Event>, watch::Sender<bool>) {
        let (peer, own) = duplex(capacity);
        let (reader, writer) = split(own);
        let (events, received) = mpsc::channel(16);
        let (close, closing) = watch::channel(false);
        let shared = Shared { token: None, tls: None, events, returns: Returns::default(), closing };
        tokio::spawn(converse(
            Box::new(reader),
            Box::new(writer),
            ConnectionId(1),
            Peer::default(),
            Pending::default().admit(1),
            shared,
        ));
        (peer, received, close)
    }

    async fn answers(peer: &mut DuplexStream) -> Vec<ToRank> {
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).await.unwrap();
        std::iter::from_fn(|| frame::decode(&mut bytes, MAX_TO_RANK).unwrap()).collect()
    }

    fn hello() -> Vec<u8> {
        frame::encode(&ToCoordinator::Hello { version: VERSION, token: String::new(), role: Role::Control })
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_refused_at_the_deadline() {
        let (mut peer, mut events, _close) = session(1024);
        peer.write_all(&hello()[..3]).await.unwrap();
        let answers = answers(&mut peer).await;
        assert_eq!(answers, [ToRank::Refused { reason: "no hello within 10 s".to_owned() }]);
        assert!(events.recv().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_hello_of_another_version_is_refused_with_both_versions() {
        let (mut peer, _events, _close) = session(1024);
        let hello = ToCoordinator::Hello { version: VERSION + 1, token: String::new(), role: Role::Control };
        let mut bytes = frame::encode(&hello);
        // This stands for whatever that version added.
        bytes[0] += 1;
        bytes.push(7);
        peer.write_all(&bytes).await.unwrap();
        let answers = answers(&mut peer).await;
        let [ToRank::Refused { reason }] = &answers[..] else { panic!("{answers:?}") };
        let both = format!("protocol version {}, this coordinator {VERSION}", VERSION + 1);
        assert!(reason.contains(&both), "{reason}");
    }

    /// The answer to a connection from another host, including the end of the connection, or how its handshake failed.
    async fn asked_from_afar(token: Option<&str>) -> io::Result<ToRank> {
        let door = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(door.local_addr().unwrap()).await.unwrap();
        let (events, mut received) = mpsc::channel(16);
        let (_close, closing) = watch::channel(false);
        let tls = Some(Secret::from_token("secret").server().unwrap());
        let returns = Returns::default();
        let shared = Shared { token: Some("secret".to_owned()), tls, events, returns, closing };
        let accepted = door.accept().await.unwrap().0;
        tokio::spawn(serve_tcp(accepted, false, ConnectionId(1), Pending::default().admit(1), shared));
        tokio::spawn(async move {
            while let Some(event) = received.recv().await {
                if let Event::Opened { outbound, .. } = event {
                    outbound.send(ToRank::ShuttingDown).await.unwrap();
                }
            }
        });
        let hello = ToCoordinator::Hello { version: VERSION, token: "secret".to_owned(), role: Role::Control };
        let mut bytes = Vec::new();
        match token {
            None => {
                stream.write_all(&frame::encode(&hello)).await?;
                stream.read_to_end(&mut bytes).await?;
            }
            Some(token) => {
                let config = Secret::from_token(token).client().unwrap();
                let connector = tokio_rustls::TlsConnector::from(config);
                let mut stream = connector.connect(secrecy::server_name(), stream).await?;
                stream.write_all(&frame::encode(&hello)).await?;
                while frame::decode::<ToRank>(&mut bytes.clone(), MAX_TO_RANK).unwrap().is_none() {
                    assert!(stream.read_buf(&mut bytes).await? > 0, "the connection ended");
                }
            }
        }
        Ok(frame::decode(&mut bytes, MAX_TO_RANK).unwrap().expect("an answer"))
    }

    #[tokio::test]
    async fn another_host_is_heard_with_tls_alone() {
        assert_eq!(asked_from_afar(Some("secret")).await.unwrap(), ToRank::ShuttingDown);
        let ToRank::Refused { reason } = asked_from_afar(None).await.unwrap() else { panic!("not refused") };
        assert!(reason.contains("without TLS"), "{reason}");
        assert!(secrecy::is_other_token(&asked_from_afar(Some("secreT")).await.unwrap_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_does_not_read_is_cut_off_at_the_deadline() {
        let (mut peer, mut events, _close) = session(64);
        peer.write_all(&hello()).await.unwrap();
        let Some(Event::Opened { outbound, .. }) = events.recv().await else { panic!("not opened") };
        outbound.send(ToRank::Status { json: "x".repeat(1000) }).await.unwrap();
        let Some(Event::Closed { reason, .. }) = events.recv().await else { panic!("not closed") };
        assert_eq!(reason.as_deref(), Some("did not read for 10 s"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_queue_is_emptied_before_the_end() {
        let (mut peer, mut events, _close) = session(1024);
        peer.write_all(&hello()).await.unwrap();
        let Some(Event::Opened { outbound, .. }) = events.recv().await else { panic!("not opened") };
        outbound.send(ToRank::Flush { request: 1 }).await.unwrap();
        outbound.send(ToRank::ShuttingDown).await.unwrap();
        drop(outbound);
        assert_eq!(answers(&mut peer).await, [ToRank::Flush { request: 1 }, ToRank::ShuttingDown]);
        assert!(matches!(events.recv().await, Some(Event::Closed { reason: None, .. })));
    }
}
