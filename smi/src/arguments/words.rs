//! The words of a command line: options and their values.

use crate::{Failure, UNKNOWN};

/// The words of a command line: an option and, after `=` or as the next word, its value.
pub(super) struct Words<'a> {
    rest: std::iter::Peekable<std::slice::Iter<'a, String>>,
}

impl<'a> Words<'a> {
    pub(super) fn new(words: &'a [String]) -> Self {
        Self { rest: words.iter().peekable() }
    }

    /// The next option, and the text after its `=`.
    pub(super) fn next(&mut self) -> Option<(&'a str, Option<&'a str>)> {
        let word = self.rest.next()?;
        Some(match word.split_once('=').filter(|_| word.starts_with('-')) {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        })
    }

    /// The value of an option: after its `=`, or the next word.
    ///
    /// # Errors
    /// nvidia-smi's error if there is none.
    pub(super) fn value(&mut self, option: &str, value: Option<&str>) -> Result<String, Failure> {
        self.value_or(value, || Failure {
            message: format!("ERROR: Option {option} is missing its value. Please run 'nvidia-smi -h' for help.\n"),
            code: UNKNOWN,
        })
    }

    /// As [`value`](Self::value), but with a given error.
    ///
    /// # Errors
    /// `missing` if there is none.
    pub(super) fn value_or(
        &mut self,
        value: Option<&str>,
        missing: impl FnOnce() -> Failure,
    ) -> Result<String, Failure> {
        let value = value.map(str::to_owned).or_else(|| self.rest.next().cloned());
        value.filter(|value| !value.is_empty()).ok_or_else(missing)
    }

    /// A value that may be left out.
    pub(super) fn optional(&mut self, value: Option<&str>) -> Option<String> {
        value
            .map(str::to_owned)
            .or_else(|| self.rest.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit())).cloned())
    }

    /// A value that may be empty: after its `=`, or the next word.
    pub(super) fn given(&mut self, value: Option<&str>) -> String {
        value.map(str::to_owned).or_else(|| self.rest.next().cloned()).unwrap_or_default()
    }
}
