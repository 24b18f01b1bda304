//! Sessions that survive a reset of their connection, and the new connections for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use protocol::resumption::SessionKey;
use tokio::sync::mpsc;

use crate::wire::Wire;

/// How many connections may wait for one session. By the time it looks, the peer has given up all but the last.
const WAITING: usize = 4;

/// A new connection of an existing session.
pub(crate) struct Return {
    pub(crate) wire: Wire,
    /// How many messages its process has received.
    pub(crate) received: u64,
}

/// All sessions of a run whose process may reconnect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Returns(Arc<Mutex<BTreeMap<SessionKey, mpsc::Sender<Return>>>>);

/// One session's place among the returns, for as long as the session lasts.
pub(crate) struct Seat {
    returns: Returns,
    key: SessionKey,
    coming: mpsc::Receiver<Return>,
}

impl Returns {
    /// A place for a new session; `None` if another one has that key.
    pub(crate) fn open(&self, key: SessionKey) -> Option<Seat> {
        let mut seats = self.0.lock();
        if seats.contains_key(&key) {
            return None;
        }
        let (sender, coming) = mpsc::channel(WAITING);
        seats.insert(key, sender);
        drop(seats);
        Some(Seat { returns: self.clone(), key, coming })
    }

    /// Hands a connection to its session. Gives it back if the session is over.
    pub(crate) fn deliver(&self, key: SessionKey, back: Return) -> Result<(), Return> {
        let Some(session) = self.0.lock().get(&key).cloned() else { return Err(back) };
        match session.try_send(back) {
            // If too many are waiting, the process tries again.
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Closed(back)) => Err(back),
        }
    }
}

impl Seat {
    /// The next connection for this session. Cancel safe.
    pub(crate) async fn next(&mut self) -> Return {
        match self.coming.recv().await {
            Some(back) => back,
            // The sender of this queue is in the list for as long as this seat exists, so this does not happen.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.returns.0.lock().remove(&self.key);
    }
}
