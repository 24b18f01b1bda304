//! Settings of a run, and where its events go.

use std::rc::Rc;

use super::rounds::Rounds;
use crate::check::snapshot::SnapshotMode;
use crate::record::event::Event;

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// CPU slots. A case that wants more than there are runs alone.
    pub slots: u32,
    /// After this many cases that did not pass, no other is started.
    pub fail_fast: Option<u32>,
    /// How often cases run.
    pub rounds: Rounds,
    /// What happens to snapshots that differ.
    pub snapshots: SnapshotMode,
    /// Number of delay seeds to try every case with, after a run without delays.
    pub chaos: Option<u32>,
    /// Keep all scratch directories, including those of passed cases.
    pub keep: bool,
    /// A requirement that is not met fails the case.
    pub deny_skip: bool,
    /// If more cases than this fail their first attempt, none is retried: that is not flakiness.
    pub retry_limit: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slots: 1,
            fail_fast: None,
            rounds: Rounds::Once,
            snapshots: SnapshotMode::Review,
            chaos: None,
            keep: false,
            deny_skip: false,
            retry_limit: RETRY_LIMIT,
        }
    }
}

/// [`Settings::retry_limit`] unless the user sets another.
pub const RETRY_LIMIT: u32 = 10;

/// Where a run sends its events. Never called while it is being called.
pub type Announce = Rc<dyn Fn(Event)>;
