//! Reading an event log: a line an event. A torn last line is what a killed run leaves, and is passed over.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::record::event::{Event, VERSION};

/// The event log of a run, in its directory.
pub const LOG: &str = "events.jsonl";
/// Locked by the run that writes here, as long as it lives.
pub(crate) const LOCK: &str = "lock";

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file.
    #[error("cannot read {}: {error}", .path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Its version.
    #[error("{} has version {version}, and this ftest reads versions up to {VERSION}: use a newer ftest", .path.display())]
    Later {
        /// The log.
        path: PathBuf,
        /// Its message.
        version: u32,
    },
    /// It has no first line.
    #[error("{}: the run ended before it began: its log has no complete line, so nothing is known of it", .path.display())]
    Empty {
        /// The log.
        path: PathBuf,
    },
    /// A line that is not an event.
    #[error("{}:{line}: not an event: {error}", .path.display())]
    Line {
        /// The log.
        path: PathBuf,
        /// Which, from 1.
        line: usize,
        /// Why.
        error: serde_json::Error,
    },
}

/// The events of the log at `path`, in order. Kinds of event that this version does not know are passed over.
///
/// # Errors
/// The file cannot be opened.
pub fn events(path: &Path) -> Result<impl Iterator<Item = Result<Event, LogError>> + use<>, LogError> {
    let failed = |path: &Path, error| LogError::Read { path: path.to_owned(), error };
    let file = File::open(path).map_err(|error| failed(path, error))?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let path = path.to_owned();
    let (mut line, mut number, mut ended) = (Vec::new(), 0, false);
    Ok(std::iter::from_fn(move || {
        while !ended {
            line.clear();
            number += 1;
            let read = reader.read_until(b'\n', &mut line);
            let parsed = match read {
                Ok(_) if line.ends_with(b"\n") => parse(&line, &path, number),
                Ok(_) => {
                    ended = true;
                    Ok(None)
                }
                Err(error) => Err(failed(&path, error)),
            };
            ended |= parsed.is_err();
            if let Some(event) = parsed.transpose() {
                return Some(event);
            }
        }
        None
    }))
}

fn parse(line: &[u8], path: &Path, number: usize) -> Result<Option<Event>, LogError> {
    /// What every version has.
    #[derive(Deserialize)]
    struct Kind {
        event: String,
        version: Option<u32>,
    }
    let error = match serde_json::from_slice::<Event>(line) {
        Ok(Event::RunStarted(info)) if info.version > VERSION => {
            return Err(LogError::Later { path: path.to_owned(), version: info.version });
        }
        Ok(event) => return Ok(Some(event)),
        Err(error) => error,
    };
    match serde_json::from_slice::<Kind>(line) {
        Ok(Kind { version: Some(version), .. }) if version > VERSION => {
            Err(LogError::Later { path: path.to_owned(), version })
        }
        Ok(kind) if !Event::KINDS.contains(&kind.event.as_str()) => Ok(None),
        _ => Err(LogError::Line { path: path.to_owned(), line: number, error }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Event>, LogError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        events(file.path())?.collect()
    }

    #[test]
    fn a_torn_last_line_and_unknown_events_are_passed_over() {
        let known = r#"{"event":"preparing","what":"torch"}"#;
        let text = format!("{known}\n{{\"event\":\"of_later\",\"x\":1}}\n{known}\n{{\"event\":\"prepa");
        assert_eq!(read(&text).unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        let error = read("{\"event\":\"preparing\"}\n").unwrap_err().to_string();
        assert!(error.contains(":1: not an event: missing field `what`"), "{error}");
        let later = r#"{"event":"run_started","version":2}"#;
        assert!(matches!(read(&format!("{later}\n")), Err(LogError::Later { version: 2, .. })));
        assert!(matches!(events(Path::new("/no/log")).err(), Some(LogError::Read { .. })));
    }
}
