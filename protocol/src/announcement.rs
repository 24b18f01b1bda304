//! What the coordinator writes to stdout, one line each, for the process that started it.

use std::fmt;

/// What every line begins with.
const PROGRAM: &str = "fakegpu-coordinator ";
const LISTENING: &str = "listening on ";
const HANG: &str = "hang: ";

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// It listens there: an absolute path, or `host:port`. The first line, once.
    Listening(String),
    /// Nothing has moved for the time given by `--idle-ms`: a sentence that says which ranks wait for which.
    Hang(String),
}

impl Announcement {
    /// Reads a line; `None` if it is not an announcement.
    ///
    /// ```
    /// use protocol::announcement::Announcement;
    ///
    /// let listening = Announcement::Listening("127.0.0.1:4711".to_owned());
    /// assert_eq!(listening.to_string(), "fakegpu-coordinator listening on 127.0.0.1:4711");
    /// assert_eq!(Announcement::parse(&listening.to_string()), Some(listening));
    /// ```
    pub fn parse(line: &str) -> Option<Announcement> {
        let text = line.trim_end().strip_prefix(PROGRAM)?;
        if let Some(address) = text.strip_prefix(LISTENING) {
            return Some(Announcement::Listening(address.to_owned()));
        }
        text.strip_prefix(HANG).map(|sentence| Announcement::Hang(sentence.to_owned()))
    }
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Announcement::Listening(address) => write!(f, "{PROGRAM}{LISTENING}{address}"),
            Announcement::Hang(sentence) => write!(f, "{PROGRAM}{HANG}{sentence}"),
        }
    }
}
