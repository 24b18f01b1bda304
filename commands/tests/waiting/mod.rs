//! Waiting for what other processes do, with a deadline.

use std::time::{Duration, Instant};

/// Longer than anything may take on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What `look` finds, once it finds something; `what` is said if it does not.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "not so within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}
