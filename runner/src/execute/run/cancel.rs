//! A stop request: raised once or twice, seen by everything that waits.

use std::sync::Arc;

use tokio::sync::watch;

/// Shared by all cases of a run. The first request ends cases in order, the second immediately.
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

    /// Raises one more stop request.
    pub fn raise(&self) {
        self.0.send_modify(|times| *times += 1);
    }

    /// Whether a stop is requested.
    pub fn is_raised(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Waits until a stop has been requested `times` times.
    pub async fn raised(&self, times: u32) {
        let mut seen = self.0.subscribe();
        // The sender lives in self, so the wait cannot fail.
        let _ = seen.wait_for(|raised| *raised >= times).await;
    }
}
