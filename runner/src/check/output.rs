//! What must and must not stand in the output of ranks and launchers. Matches bytes; nothing is decoded first.

use std::borrow::Cow;

use regex::bytes::Regex;
use serde_json::Value;

use crate::case::Place;
use crate::check::Failure;
use crate::observation::{Captured, Observation, ProcessObservation, Role};

/// Streams longer than this are judged by their head and tail, bytes.
const READ_LIMIT: u64 = 64 << 20;

/// One check of one stream.
#[derive(Clone, Debug)]
pub struct OutputCheck {
    /// Which stream.
    pub stream: Stream,
    /// Whose.
    pub whose: Whose,
    /// What of it.
    pub want: OutputWant,
    /// Names of groups of a `matches` whose texts are captured.
    pub capture: Vec<String>,
    /// When it does not hold, no check after it is made.
    pub fatal: bool,
    /// Why, as the suite says it.
    pub because: Option<String>,
    /// Where it is written.
    pub place: Place,
}

/// Standard output or standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whose output is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// One global rank.
    Rank(u32),
    /// At least one rank, or the one plain process.
    Any,
    /// Every rank, or the one plain process.
    All,
    /// torchrun (any of its nodes), or the one plain process.
    Launcher,
}

/// What is wanted of a stream.
#[derive(Clone, Debug)]
pub enum OutputWant {
    /// This text stands in it.
    Contains(String),
    /// This expression matches somewhere; `^` and `$` are ends of lines.
    Matches(Regex),
    /// This text stands nowhere in it.
    Absent(String),
}

impl Stream {
    /// As the suite names it.
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    fn of(self, process: &ProcessObservation) -> &Captured {
        match self {
            Stream::Stdout => &process.stdout,
            Stream::Stderr => &process.stderr,
        }
    }
}

impl OutputWant {
    fn describe(&self) -> String {
        match self {
            OutputWant::Contains(text) => format!("contains {text:?}"),
            OutputWant::Matches(regex) => format!("matches /{regex}/"),
            OutputWant::Absent(text) => format!("does not contain {text:?}"),
        }
    }

    fn holds(&self, stream: &Captured) -> Result<(), String> {
        let (bytes, whole) = content(stream);
        let found = match self {
            OutputWant::Contains(text) | OutputWant::Absent(text) => find(&bytes, text.as_bytes()),
            OutputWant::Matches(regex) => regex.find(&bytes).map(|found| found.start()),
        };
        match (self, found) {
            (OutputWant::Absent(_), Some(at)) => {
                Err(format!("line {}: {}", line_number(&bytes, at), line_at(&bytes, at)))
            }
            (OutputWant::Absent(_), None) if !whole => {
                Err(format!("not in what was kept, but the stream of {} bytes was cut", stream.bytes))
            }
            (OutputWant::Absent(_), None) | (_, Some(_)) => Ok(()),
            (_, None) if bytes.is_empty() => Err("the stream is empty".to_owned()),
            (_, None) => Err(format!("not found in {} bytes; the last line is: {}", stream.bytes, last_line(&bytes))),
        }
    }
}

/// The bytes of a stream, and whether they are all of it.
pub fn content(stream: &Captured) -> (Cow<'_, [u8]>, bool) {
    if !stream.truncated {
        return (Cow::Borrowed(&stream.head), true);
    }
    if stream.bytes <= READ_LIMIT
        && let Ok(bytes) = std::fs::read(&stream.path)
        && bytes.len() as u64 == stream.bytes
    {
        return (Cow::Owned(bytes), true);
    }
    let mut both = stream.head.clone();
    // Nothing may match across the cut.
    both.extend_from_slice(b"\n");
    both.extend_from_slice(&stream.tail);
    (Cow::Owned(both), false)
}

/// Where `needle` first stands in `haystack`.
pub fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn line_number(bytes: &[u8], at: usize) -> usize {
    bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn line_at(bytes: &[u8], at: usize) -> String {
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |newline| at + newline);
    shorten(&String::from_utf8_lossy(&bytes[start..end]))
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).into_owned();
    shorten(text.trim_end().rsplit('\n').next().unwrap_or_default())
}

fn shorten(line: &str) -> String {
    let mut short: String = line.chars().take(200).collect();
    if short.len() < line.len() {
        short.push_str(" ...");
    }
    short
}

impl OutputCheck {
    /// The processes that it is about.
    fn processes<'o>(&self, observation: &'o Observation) -> Vec<&'o ProcessObservation> {
        let of_ranks = |process: &&ProcessObservation| matches!(process.role, Role::Rank(_));
        let of_launchers = |process: &&ProcessObservation| matches!(process.role, Role::Launcher(_));
        match self.whose {
            Whose::Rank(rank) => observation.process(Role::Rank(rank)).into_iter().collect(),
            Whose::Any | Whose::All if has_ranks(observation) => {
                observation.processes.iter().filter(of_ranks).collect()
            }
            Whose::Any | Whose::All | Whose::Launcher => observation.processes.iter().filter(of_launchers).collect(),
        }
    }

    /// What `find` finds in the stream: of the first process where it does, or with `rank: all` a list, one of each process.
    pub fn captured(&self, observation: &Observation, find: impl Fn(&[u8]) -> Option<Value>) -> Option<Value> {
        let processes = self.processes(observation);
        let mut found = processes.iter().map(|process| find(&content(self.stream.of(process)).0));
        match self.whose {
            Whose::All if has_ranks(observation) => found.collect::<Option<Vec<Value>>>().map(Value::Array),
            _ => found.find_map(|value| value),
        }
    }

    /// The failure, if the check does not hold.
    pub fn check(&self, observation: &Observation) -> Option<Failure> {
        let has_ranks = has_ranks(observation);
        let processes = self.processes(observation);
        let results: Vec<(Role, Result<(), String>)> =
            processes.iter().map(|process| (process.role, self.want.holds(self.stream.of(process)))).collect();
        // "No launcher writes X" is about all of them, "the launcher writes X" about one.
        let any = match self.whose {
            Whose::Any => true,
            Whose::Launcher => !matches!(self.want, OutputWant::Absent(_)),
            Whose::All | Whose::Rank(_) => false,
        };
        let good = results.iter().filter(|(_, result)| result.is_ok()).count();
        if good > 0 && (any || good == results.len()) {
            return None;
        }
        let who = match self.whose {
            Whose::Rank(rank) => format!("rank {rank}"),
            Whose::Any if has_ranks => "at least one rank".to_owned(),
            Whose::All if has_ranks => "every rank".to_owned(),
            Whose::Any | Whose::All | Whose::Launcher => "the launcher".to_owned(),
        };
        let got: Vec<String> =
            results.into_iter().filter_map(|(role, result)| result.err().map(|why| format!("{role}: {why}"))).collect();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: self.stream.name(),
            expected: format!("{} of {who} {}", self.stream.name(), self.want.describe()),
            got: if got.is_empty() { "no such process was seen".to_owned() } else { got.join("\n") },
            next: self.because.clone().unwrap_or_default(),
        })
    }
}

fn has_ranks(observation: &Observation) -> bool {
    observation.ranks().next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Exit;

    fn stream(text: &str) -> Captured {
        Captured { bytes: text.len() as u64, head: text.into(), ..Captured::default() }
    }

    fn ranks(texts: &[&str]) -> Observation {
        Observation {
            processes: texts
                .iter()
                .zip(0..)
                .map(|(text, rank)| ProcessObservation {
                    role: Role::Rank(rank),
                    exit: Exit::Code(0),
                    stdout: stream(text),
                    stderr: Captured::default(),
                })
                .collect(),
            ..Observation::default()
        }
    }

    fn check(whose: Whose, want: OutputWant) -> OutputCheck {
        OutputCheck {
            stream: Stream::Stdout,
            whose,
            want,
            capture: vec![],
            fatal: false,
            because: None,
            place: Place::default(),
        }
    }

    #[test]
    fn any_and_all_count_ranks() {
        let observation = ranks(&["one\nerror: x\n", "two\n"]);
        let contains = |text: &str| OutputWant::Contains(text.to_owned());
        assert!(check(Whose::Any, contains("two")).check(&observation).is_none());
        assert!(check(Whose::All, contains("two")).check(&observation).is_some());
        assert!(check(Whose::Rank(1), contains("two")).check(&observation).is_none());
        let missing = check(Whose::Rank(7), contains("two")).check(&observation).unwrap();
        assert_eq!(missing.got, "no such process was seen");
        let absent = check(Whose::All, OutputWant::Absent("error".into())).check(&observation).unwrap();
        assert_eq!(absent.got, "rank 0: line 2: error: x");
    }

    #[test]
    fn a_cut_stream_never_proves_absence() {
        let mut observation = ranks(&["abc"]);
        observation.processes[0].stdout = Captured {
            bytes: 1000,
            head: b"ab".to_vec(),
            tail: b"cd".to_vec(),
            truncated: true,
            ..Captured::default()
        };
        assert!(check(Whose::All, OutputWant::Absent("zzz".into())).check(&observation).is_some());
        assert!(check(Whose::All, OutputWant::Contains("cd".into())).check(&observation).is_none());
        assert!(check(Whose::All, OutputWant::Contains("bc".into())).check(&observation).is_some());
    }
}
