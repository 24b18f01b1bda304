//! The sanitizers: what is looked for beside a program's results.

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sanitizers {
    /// Accesses of two streams to the same memory that nothing orders.
    pub races: bool,
}

/// Their words in FAKEGPU_SANITIZE and in `sanitize` of a suite.
pub const WORDS: &[&str] = &["races"];

/// The word for none of them, in FAKEGPU_SANITIZE.
pub const NONE: &str = "none";

impl Default for Sanitizers {
    /// Those that cost next to nothing.
    fn default() -> Self {
        Self { races: true }
    }
}
