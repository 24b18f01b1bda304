//! Why an expression has no value, and how much of an expression a message shows.

use std::borrow::Cow;

use minijinja::{Error, ErrorKind};

/// Maximum characters of an expression or path in a message.
const SHOWN: usize = 200;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExpressionError(pub(super) String);

impl From<Error> for ExpressionError {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::UndefinedError => "a name in it is not defined".to_owned(),
            kind => kind.to_string(),
        };
        ExpressionError(match error.detail() {
            Some(detail) => format!("{kind}: {detail}"),
            None => kind,
        })
    }
}

/// `text` for a message: shortened if too long to read.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => Cow::Owned(format!("{}... ({} bytes)", &text[..end], text.len())),
        None => Cow::Borrowed(text),
    }
}
