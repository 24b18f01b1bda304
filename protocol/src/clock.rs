//! What tells a program the time.

/// The clock of the simulated GPUs.
pub const MODELED: &str = "modeled";

/// The words of FAKEGPU_CLOCK and of `clock` in a suite.
pub const WORDS: &[&str] = &["real", MODELED];
