//! Time limits of a case, and the machine resources it needs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::host::deadline;

/// Deadlines of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// After this a passing case is marked slow.
    pub slow: Duration,
    /// After this the case is ended; its verdict is timeout.
    pub kill: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The case counts as hung when a rank waits in a collective, send or recv and none has completed for this long.
    pub idle: Option<Duration>,
    /// How long the others may go on after a rank or launcher ended with an error that the case does not expect.
    pub survivors: Option<Duration>,
}

impl Timeout {
    /// Every deadline times `factor`, for a machine slower than the suite's author assumed.
    pub fn scaled(self, factor: f64) -> Timeout {
        Timeout {
            slow: self.slow.mul_f64(factor),
            kill: self.kill.mul_f64(factor),
            grace: self.grace.mul_f64(factor),
            idle: self.idle.map(|idle| idle.mul_f64(factor)),
            survivors: self.survivors.map(|survivors| survivors.mul_f64(factor)),
        }
    }
}

impl Default for Timeout {
    fn default() -> Self {
        Timeout {
            slow: deadline::SLOW,
            kill: deadline::CASE,
            grace: deadline::GRACE,
            idle: None,
            survivors: Some(deadline::SURVIVORS),
        }
    }
}

/// The machine resources a case needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// CPU slots, at least 1; capped at all of the machine's.
    pub cpus: u32,
    /// Bytes; capped at all of the machine's memory.
    pub memory: u64,
    /// Groups that it runs in, and how many of the group may run at once.
    pub groups: BTreeMap<String, u32>,
}

impl Default for Resources {
    fn default() -> Self {
        Resources { cpus: 1, memory: 0, groups: BTreeMap::new() }
    }
}
