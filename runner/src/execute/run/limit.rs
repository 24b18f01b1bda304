//! The time that a whole run, or a whole suite, may take.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use super::clock::Instant;
use crate::case::Case;

/// The limits of a run.
#[derive(Debug, Default)]
pub struct Limits {
    run: Option<(Instant, Duration)>,
    /// When the first case of a suite began.
    suites: Mutex<HashMap<String, Instant>>,
}

/// When a case has to be finished, regardless of its own deadline.
#[derive(Clone, Debug)]
pub struct Limit {
    /// Then.
    pub at: Instant,
    /// Owner of the limit, for messages: "the run (--global-timeout 10 s)".
    pub whose: String,
}

impl Limits {
    /// Limits for a run that starts now and may take `limit`.
    pub fn of_run(limit: Option<Duration>) -> Limits {
        Limits { run: limit.map(|limit| (Instant::now() + limit, limit)), suites: Mutex::default() }
    }

    /// The limit that `case`, which starts now, reaches first.
    pub fn for_case(&self, case: &Case) -> Option<Limit> {
        let run = self
            .run
            .map(|(at, limit)| Limit { at, whose: format!("the run (--global-timeout {} s)", limit.as_secs_f64()) });
        let suite = case.suite_timeout.map(|limit| {
            let mut suites = self.suites.lock();
            let began = *suites.entry(case.suite.clone()).or_insert_with(Instant::now);
            Limit { at: began + limit, whose: format!("the suite (`timeout`: {} s)", limit.as_secs_f64()) }
        });
        run.into_iter().chain(suite).min_by_key(|limit| limit.at)
    }
}

impl Limit {
    /// The time left until then.
    pub fn left(&self) -> Duration {
        self.at - Instant::now()
    }

    /// Whether it has passed.
    pub fn has_passed(&self) -> bool {
        Instant::now() >= self.at
    }
}
