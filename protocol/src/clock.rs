//! What tells a program the time.

/// The clock of the simulated GPUs.
pub const MODELED: &str = "modeled";

/// A clock that runs twice as fast as this machine's, for the relation `clock`.
pub const FAST: &str = "fast";

/// The words of `clock` in a suite and of `ftest exec`.
pub const WORDS: &[&str] = &["real", MODELED];

/// The words of FAKEGPU_CLOCK.
pub const ALL_WORDS: &[&str] = &["real", MODELED, FAST];
