//! The messages on a session's connection after its hello was accepted, and how the session survives a reset of the connection
//! when its process reconnects.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::exchange::ConnectionId;
use parking_lot::Mutex;
use protocol::frame::{self, MAX_TO_COORDINATOR};
use protocol::message::{ToCoordinator, ToRank};
use protocol::resumption::{Kept, RETURN_WITHIN, Taken, WrongCount, is_reset};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until, timeout};

use crate::event::Event;
use crate::returns::{Return, Seat};
use crate::wire::{Frames, ReadError, Wire, Writer};

/// A peer that takes nothing for this long is closed.
pub(crate) const WRITE_DEADLINE: Duration = Duration::from_secs(10);
/// After its process has died, a connection is read for at most this long: a process forked from it may hold the other end.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);
/// Messages that may wait for a slow peer before it is cut off.
pub(crate) const OUTBOUND_MESSAGES: usize = 1024;

/// A session whose hello was accepted.
pub(crate) struct Conversation {
    pub(crate) connection: ConnectionId,
    pub(crate) events: mpsc::Sender<Event>,
    /// Messages that the driver wants sent. When the queue ends, so does the session.
    pub(crate) queue: mpsc::Receiver<ToRank>,
    pub(crate) wire: Wire,
    /// Where the session's process may reconnect, if it may.
    pub(crate) seat: Option<Seat>,
}

/// How a connection ended.
enum End {
    /// The session ended with the connection; if the peer broke a rule, this says which.
    Over(Option<String>),
    /// The connection was reset.
    Reset,
    /// The process reconnected after a reset that this side has not seen yet.
    Replaced(Return),
}

/// The state that both directions of a session share: one reads while the other writes.
#[derive(Default)]
struct Account {
    /// Whether the process may reconnect, so that what was sent is kept until it is confirmed.
    lasts: bool,
    kept: Mutex<Kept>,
    taken: Mutex<Taken>,
    /// Notified when something needs to be confirmed, or was confirmed.
    changed: Notify,
    /// Whether the writing side found the connection reset. The reading side then sees an ordinary end.
    was_reset: AtomicBool,
}

impl Account {
    /// Whether more may be sent before something is confirmed.
    fn has_room(&self) -> bool {
        self.kept.lock().count() < OUTBOUND_MESSAGES
    }

    fn confirmed(&self, count: u64) -> Result<(), WrongCount> {
        self.kept.lock().confirm(count)?;
        self.changed.notify_one();
        Ok(())
    }
}

impl Conversation {
    /// Talks until the peer closes (`None`) or breaks the rules, `dies`, or the driver drops the queue.
    pub(crate) async fn last(mut self, dies: impl Future<Output = ()>) -> Option<String> {
        let account = Account { lasts: self.seat.is_some(), ..Account::default() };
        let mut dies = pin!(dies);
        let mut first = Vec::new();
        loop {
            let Self { connection, events, queue, wire: Wire { frames, writer }, seat } = &mut self;
            let returned = async {
                match seat.as_mut() {
                    Some(seat) => seat.next().await,
                    None => std::future::pending().await,
                }
            };
            // Whichever side ends first ends the session: the driver by closing the queue, the peer by closing the connection.
            let end = tokio::select! {
                end = receive(frames, *connection, events, &account) => end,
                end = transmit(writer, &first, queue, &account) => end,
                back = returned => End::Replaced(back),
                // What the process sent before it died is still in the socket.
                () = &mut dies => {
                    timeout(LAST_WORDS, receive(frames, *connection, events, &account)).await.unwrap_or(End::Over(None))
                }
            };
            let back = match end {
                End::Over(reason) => return reason,
                End::Reset => self.await_return(&account).await?,
                End::Replaced(back) => back,
            };
            if let Err(wrong) = account.confirmed(back.received) {
                return Some(wrong.to_string());
            }
            self.wire = back.wire;
            account.was_reset.store(false, Ordering::Release);
            first = frame::encode(&ToRank::Resumed { received: account.taken.lock().count() });
            account.kept.lock().frames().for_each(|frame| first.extend_from_slice(frame));
        }
    }

    /// The next connection of this session. None if the driver ends the session, or if no connection comes in time, which means
    /// that its process cannot be reached.
    async fn await_return(&mut self, account: &Account) -> Option<Return> {
        let seat = self.seat.as_mut()?;
        let until = Instant::now() + RETURN_WITHIN;
        loop {
            tokio::select! {
                back = seat.next() => return Some(back),
                message = self.queue.recv(), if account.has_room() => account.kept.lock().push(frame::encode(&message?)),
                () = sleep_until(until) => {
                    let _ = self.events.send(Event::Unreachable { connection: self.connection }).await;
                    return None;
                }
            }
        }
    }
}

/// Passes messages on until the connection ends or the peer breaks the rules.
async fn receive(
    frames: &mut Frames,
    connection: ConnectionId,
    events: &mpsc::Sender<Event>,
    account: &Account,
) -> End {
    loop {
        let lost = || account.lasts && account.was_reset.load(Ordering::Acquire);
        match frames.next(MAX_TO_COORDINATOR).await {
            Ok(Some(ToCoordinator::Hello { .. })) => return End::Over(Some("sent a second hello".to_owned())),
            Ok(Some(ToCoordinator::Received { count })) => {
                if let Err(wrong) = account.confirmed(count) {
                    return End::Over(Some(wrong.to_string()));
                }
            }
            Ok(Some(message)) => {
                // A message is counted right away, because what is not counted is sent again.
                if events.send(Event::Received { connection, message }).await.is_err() {
                    return End::Over(None);
                }
                if account.lasts {
                    account.taken.lock().take();
                    account.changed.notify_one();
                }
            }
            Err(ReadError::Io(error)) if account.lasts && is_reset(&error) => return End::Reset,
            Ok(None) | Err(ReadError::Io(_) | ReadError::Cut) if lost() => return End::Reset,
            Ok(None) => return End::Over(None),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::TimedOut => {
                let _ = events.send(Event::Unreachable { connection }).await;
                return End::Over(None);
            }
            // A process that is killed may leave half a frame behind. That is not a broken rule.
            Err(ReadError::Io(_) | ReadError::Cut) => return End::Over(None),
            Err(ReadError::Frame(error)) => {
                return End::Over(Some(format!("sent bytes that are not a message: {error}")));
            }
        }
    }
}

/// Writes `first` and then what the driver queues, until it drops the queue or the peer stops reading.
async fn transmit(writer: &mut Writer, first: &[u8], queue: &mut mpsc::Receiver<ToRank>, account: &Account) -> End {
    let mut frame = first.to_vec();
    loop {
        if !frame.is_empty() {
            match timeout(WRITE_DEADLINE, write(writer, &frame)).await {
                Ok(Ok(())) => {}
                // The peer is gone, but what it sent before may still be waiting to be read. Reading finds the end.
                Ok(Err(error)) => {
                    account.was_reset.fetch_or(is_reset(&error), Ordering::AcqRel);
                    return std::future::pending().await;
                }
                Err(_) => return End::Over(Some(format!("did not read for {} s", WRITE_DEADLINE.as_secs()))),
            }
        }
        frame = tokio::select! {
            message = queue.recv(), if account.has_room() => {
                let Some(message) = message else { return End::Over(None) };
                let frame = frame::encode(&message);
                if account.lasts {
                    account.kept.lock().push(frame.clone());
                }
                frame
            }
            () = account.changed.notified() => {
                let due = account.taken.lock().due();
                due.map(|count| frame::encode(&ToRank::Received { count })).unwrap_or_default()
            }
        };
    }
}

async fn write(writer: &mut Writer, bytes: &[u8]) -> io::Result<()> {
    use tokio::io::AsyncWriteExt;
    writer.write_all(bytes).await?;
    writer.flush().await
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, ReadBuf};

    use crate::returns::Returns;

    use super::*;

    /// An error: the connection was reset.
    struct Gone;

    impl AsyncRead for Gone {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }
    }

    /// How long a session lasts after a reset if its process does not return, and whether the process is then reported as
    /// unreachable.
    async fn lasts(seat: Option<Seat>, driver_drops_it: bool) -> (Duration, bool) {
        let (events, mut received) = mpsc::channel(16);
        let (outbound, queue) = mpsc::channel(16);
        let wire = Wire { frames: Frames::new(Box::new(Gone)), writer: Box::new(tokio::io::sink()) };
        let conversation = Conversation { connection: ConnectionId(1), events, queue, wire, seat };
        let start = Instant::now();
        let _outbound = Some(outbound).filter(|_| !driver_drops_it);
        assert_eq!(conversation.last(pending()).await, None);
        (start.elapsed(), matches!(received.try_recv(), Ok(Event::Unreachable { connection: ConnectionId(1) })))
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_return_in_time_is_gone() {
        let returns = Returns::default();
        let seat = || returns.open([7; 16]);
        assert_eq!(lasts(None, false).await, (Duration::ZERO, false));
        assert_eq!(lasts(seat(), true).await, (Duration::ZERO, false));
        let (waited, is_unreachable) = lasts(seat(), false).await;
        assert!(is_unreachable);
        assert!((RETURN_WITHIN..RETURN_WITHIN + Duration::from_millis(10)).contains(&waited), "{waited:?}");
        assert!(seat().is_some(), "its place is free");
    }
}
