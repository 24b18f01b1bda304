//! Words of shell commands that a user may copy.

/// One word of a shell command.
pub fn quoted(word: &str) -> String {
    // A word with a NUL cannot be typed, only shown.
    shlex::Quoter::new().allow_nul(true).quote(word).map_or_else(|_| word.to_owned(), |quoted| quoted.into_owned())
}
