//! Connections that have not sent an acceptable hello: their number is limited, and the oldest is evicted first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// The most connections without a hello at one time. A rank sends its hello at once, so only an attack reaches this.
const ROOM: usize = 128;

/// Connections whose hello is being read, by number, which grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pending(Arc<Mutex<BTreeMap<u64, oneshot::Sender<()>>>>);

/// The slot of one connection, freed on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    pending: Pending,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl Pending {
    fn slots(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<()>>> {
        self.0.lock()
    }

    /// A slot for connection `number`; the oldest connection loses its slot if there is no room.
    pub(crate) fn admit(&self, number: u64) -> Slot {
        let (sender, evicted) = oneshot::channel();
        let mut slots = self.slots();
        slots.insert(number, sender);
        if slots.len() > ROOM {
            slots.pop_first();
        }
        Slot { pending: self.clone(), number, evicted }
    }

    /// Frees the slot of the oldest connection. False if there is none.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.slots().pop_first().is_some()
    }
}

impl Slot {
    /// Returns when the slot is needed for another connection.
    pub(crate) async fn evicted(&mut self) {
        // The sender is dropped, never used.
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pending.slots().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_of_too_many_goes() {
        let pending = Pending::default();
        let mut slots: Vec<Slot> = (0..ROOM as u64).map(|number| pending.admit(number)).collect();
        let left = slots.remove(1);
        drop(left);
        let _fits = pending.admit(1000);
        let _pushes = pending.admit(1001);
        slots[0].evicted().await;
        assert!(pending.evict_oldest());
        slots[1].evicted().await;
        assert_eq!(pending.slots().len(), ROOM - 1);
    }
}
