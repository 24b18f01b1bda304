//! The time of a run: monotonic, and paused while ftest is stopped (Ctrl-Z). Deadlines and durations of cases are
//! measured with it: a case that was stopped for an hour is neither late nor an hour longer.

use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long this process has been stopped so far, us.
static STOPPED: AtomicU64 = AtomicU64::new(0);

/// A moment of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(tokio::time::Instant);

/// The deadline came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

fn stopped() -> Duration {
    Duration::from_micros(STOPPED.load(Ordering::Relaxed))
}

/// Records that the run was stopped for `time` until now.
pub fn pass_over(time: Duration) {
    STOPPED.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

impl Instant {
    /// This moment.
    pub fn now() -> Instant {
        let now = tokio::time::Instant::now();
        Instant(now.checked_sub(stopped()).unwrap_or(now))
    }

    /// Time of the run since then.
    pub fn elapsed(self) -> Duration {
        Instant::now() - self
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, time: Duration) -> Instant {
        Instant(self.0 + time)
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

/// Until `deadline`.
pub async fn sleep_until(deadline: Instant) {
    while Instant::now() < deadline {
        // After a stop it wakes too early and sleeps the rest.
        tokio::time::sleep_until(deadline.0 + stopped()).await;
    }
}

/// The result of `work` if it comes before `deadline`.
///
/// # Errors
/// It did not.
pub async fn timeout_at<T>(deadline: Instant, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    tokio::select! {
        biased;
        result = work => Ok(result),
        () = sleep_until(deadline) => Err(Elapsed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only one test, because the clock belongs to the process.
    #[tokio::test]
    async fn stopped_time_does_not_count() {
        // Taken first, because the machine may do something else between the two.
        let real = tokio::time::Instant::now();
        let started = Instant::now();
        let deadline = started + Duration::from_millis(50);
        let sleeper = tokio::spawn(sleep_until(deadline));
        tokio::task::yield_now().await;
        // As if stopped for 60 ms from now on: the sleeper's timer fires in the middle, and it sleeps on.
        pass_over(Duration::from_millis(60));
        assert_eq!(timeout_at(deadline, std::future::ready(1)).await, Ok(1));
        assert_eq!(timeout_at(deadline, std::future::pending::<()>()).await, Err(Elapsed));
        sleeper.await.unwrap();
        assert!(real.elapsed() >= Duration::from_millis(100), "{:?}", real.elapsed());
        assert!(started.elapsed() < real.elapsed());
    }
}
