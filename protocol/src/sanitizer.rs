//! The sanitizers: what is looked for beside a program's results.

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sanitizers {
    /// Accesses of two streams to the same memory that nothing orders.
    pub races: bool,
    /// Reads of device memory that nobody wrote since it was allocated.
    pub init: bool,
    /// Operators that make NaN or Inf of finite numbers.
    pub finite: bool,
}

impl Sanitizers {
    /// None of them.
    pub const OFF: Self = Self { races: false, init: false, finite: false };

    /// Turns on the one that is `WORDS[word]`; another number changes nothing.
    pub fn add(&mut self, word: usize) {
        match word {
            0 => self.races = true,
            1 => self.init = true,
            2 => self.finite = true,
            _ => {}
        }
    }
}

/// Their words in FAKEGPU_SANITIZE and in `sanitize` of a suite.
pub const WORDS: &[&str] = &["races", "init", "finite"];

/// The word for none of them, in FAKEGPU_SANITIZE.
pub const NONE: &str = "none";

impl Default for Sanitizers {
    /// Those that cost next to nothing.
    fn default() -> Self {
        Self { races: true, ..Self::OFF }
    }
}
