//! The syntax of filters, and the error for a filter that cannot be parsed.

use std::fmt;

/// The syntax, for `--help` and for errors.
pub const SYNTAX: &str = "\
A filter is a part of `suite/id[matrix]` (a complete one selects only that case), or an expression:
  tag(smoke)  suite(dist)  case(all-reduce*)  id(dist/all-reduce*)   by name
  world(>=4)                                                        by the number of ranks
  matrix.dtype = bf16   matrix.size >= 1024                         by a matrix value
  a & b, a and b    a | b, a or b    !a, not a    (a)    all()    none()
A name is a glob over the whole name (* and ?), =exact, ~part or /regex/; \"...\" where it holds parentheses or spaces.
Matrix values are compared with = != (glob or /regex/), < <= > >= (numbers) and ~ (part).";

/// Characters of a filter shown in an error.
const SHOWN: usize = 160;

/// A filter that cannot be parsed. Displayed with a caret under the place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct FilterError {
    pub(super) filter: String,
    /// Characters before the place.
    pub(super) at: usize,
    pub(super) message: String,
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the text around the place, because nobody would find a caret under ten thousand characters.
        let from = self.at.saturating_sub(SHOWN / 2);
        let mut text: String = self.filter.chars().skip(from).take(SHOWN).collect();
        let mut space = " ".repeat(self.at - from);
        if from > 0 {
            text.insert_str(0, "...");
            space.push_str("   ");
        }
        if self.filter.chars().nth(from + SHOWN).is_some() {
            text.push_str("...");
        }
        write!(f, "filter: {}\n  {text}\n  {space}^\n{SYNTAX}", self.message)
    }
}
