//! What a preflight takes for granted of numbers that nobody computed.

/// Choices turn out equally often.
pub const BALANCED: &str = "balanced";

/// Floating-point numbers are 0 where the program compares them.
pub const ZEROS: &str = "zeros";

/// The words of `--assume` and of FTEST_ASSUME, which separates them by commas.
pub const WORDS: &[&str] = &[BALANCED, ZEROS];
