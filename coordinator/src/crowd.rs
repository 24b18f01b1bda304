//! Connections that have not said an acceptable hello: only so many at one time, and the one that has waited longest goes first.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Most connections without a hello at one time. A rank sends its hello at once, so only an attack reaches this.
const ROOM: usize = 128;

/// Connections whose hello is being read, by number, which grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd(Arc<Mutex<BTreeMap<u64, oneshot::Sender<()>>>>);

/// The place of one of them. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Place {
    crowd: Crowd,
    number: u64,
    taken_away: oneshot::Receiver<()>,
}

impl Crowd {
    fn places(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<()>>> {
        self.0.lock()
    }

    /// A place for connection `number`; the oldest loses its place when there is no room.
    pub(crate) fn enter(&self, number: u64) -> Place {
        let (sender, taken_away) = oneshot::channel();
        let mut places = self.places();
        places.insert(number, sender);
        if places.len() > ROOM {
            places.pop_first();
        }
        Place { crowd: self.clone(), number, taken_away }
    }

    /// Takes the place of the one that has waited longest. False when there is none.
    pub(crate) fn push_out_oldest(&self) -> bool {
        self.places().pop_first().is_some()
    }
}

impl Place {
    /// Until someone else needs the place.
    pub(crate) async fn taken_away(&mut self) {
        // Only a dropped sender says so.
        let _ = (&mut self.taken_away).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.places().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_of_too_many_goes() {
        let crowd = Crowd::default();
        let mut places: Vec<Place> = (0..ROOM as u64).map(|number| crowd.enter(number)).collect();
        let left = places.remove(1);
        drop(left);
        let _fits = crowd.enter(1000);
        let _pushes = crowd.enter(1001);
        places[0].taken_away().await;
        assert!(crowd.push_out_oldest());
        places[1].taken_away().await;
        assert_eq!(crowd.places().len(), ROOM - 1);
    }
}
