//! The wish to stop: raised once or twice, seen by everything that waits.

use std::sync::Arc;

use tokio::sync::watch;

/// Shared by all cases of a run. The first raise ends cases in order, the second at once.
#[derive(Clone, Debug)]
pub struct Cancel(Arc<watch::Sender<u32>>);

impl Default for Cancel {
    fn default() -> Self {
        Cancel(Arc::new(watch::Sender::new(0)))
    }
}

impl Cancel {
    /// No stop is requested yet.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// One more wish to stop.
    pub fn raise(&self) {
        self.0.send_modify(|times| *times += 1);
    }

    /// Whether a stop is wanted.
    pub fn is_raised(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Until the wish came `times` times.
    pub async fn raised(&self, times: u32) {
        let mut seen = self.0.subscribe();
        // The sender lives in self, so the wait cannot fail.
        let _ = seen.wait_for(|raised| *raised >= times).await;
    }
}
