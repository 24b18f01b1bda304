//! What the output of ranks and launchers must and must not contain. Matches bytes; nothing is decoded first.

use regex::bytes::Regex;
use serde_json::Value;

use crate::check::stream::{self, Found, Text};
use crate::check::{Failure, FailureKind};
use crate::observation::{Captured, Observation, ProcessObservation, Role};
use crate::source::SourceLocation;

/// One check of one stream.
#[derive(Clone, Debug)]
pub struct OutputCheck {
    /// Which stream.
    pub stream: Stream,
    /// Whose stream it checks.
    pub whose: Whose,
    /// What the stream must contain.
    pub want: OutputWant,
    /// Names of the groups in a `matches` whose text is captured.
    pub capture: Vec<String>,
    /// If it fails, the checks after it are skipped.
    pub fatal: bool,
    /// The reason given in the suite.
    pub because: Option<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// Standard output or standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The processes whose output is checked.
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

/// The expectation for a stream.
#[derive(Clone, Debug)]
pub enum OutputWant {
    /// It contains this text.
    Contains(String),
    /// This expression matches somewhere; `^` and `$` are ends of lines.
    Matches(Regex),
    /// It does not contain this text.
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

    fn captured(self, process: &ProcessObservation) -> &Captured {
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
        match self {
            OutputWant::Contains(text) => match stream::find(stream, text) {
                Found::At(_) => Ok(()),
                Found::Nowhere => Err(missing(stream, "")),
                Found::Unknown { searched } => Err(missing(stream, &unsearched(stream, searched))),
            },
            OutputWant::Absent(text) => match stream::find(stream, text) {
                Found::At(at) => Err(stream::line(stream, at)),
                Found::Nowhere => Ok(()),
                Found::Unknown { searched } => Err(format!(
                    "not in the part that was kept; the rest cannot be checked:{}",
                    unsearched(stream, searched)
                )),
            },
            OutputWant::Matches(regex) => {
                let text = Text::from_captured(stream);
                match text.find(regex) {
                    Some(_) => Ok(()),
                    None => Err(missing(stream, &text.unsearched())),
                }
            }
        }
    }
}

/// Why a text or a match is missing; `unsearched` is what was not searched.
fn missing(stream: &Captured, unsearched: &str) -> String {
    if stream.bytes == 0 {
        return "the stream is empty".to_owned();
    }
    format!("not found in {} bytes;{unsearched} the last line is: {}", stream.bytes, stream::last_line(stream))
}

fn unsearched(stream: &Captured, searched: u64) -> String {
    format!(" {} of them were not kept and not searched;", stream.bytes.saturating_sub(searched))
}

impl OutputCheck {
    /// The processes that it applies to.
    fn processes<'o>(&self, observation: &'o Observation) -> Vec<&'o ProcessObservation> {
        let of_ranks = |process: &&ProcessObservation| matches!(process.role, Role::Rank(_));
        let of_launchers = |process: &&ProcessObservation| matches!(process.role, Role::Launcher(_) | Role::Srun);
        match self.whose {
            Whose::Rank(rank) => observation.process(Role::Rank(rank)).into_iter().collect(),
            Whose::Any | Whose::All if has_ranks(observation) => {
                observation.processes.iter().filter(of_ranks).collect()
            }
            Whose::Any | Whose::All | Whose::Launcher => observation.processes.iter().filter(of_launchers).collect(),
        }
    }

    /// The result of `find` on the stream: that of the first process with a match, or with `rank: all` a list with one
    /// result per process.
    ///
    /// # Errors
    /// No match; a message phrased to follow the name of a capture.
    pub fn captured(
        &self,
        observation: &Observation,
        find: impl Fn(&Text<'_>) -> Option<Value>,
    ) -> Result<Value, String> {
        let every = self.whose == Whose::All && has_ranks(observation);
        let mut values = Vec::new();
        for process in self.processes(observation) {
            let text = Text::from_captured(self.stream.captured(process));
            match find(&text) {
                Some(value) if !every => return Ok(value),
                Some(value) => values.push(value),
                // In that case it is unknown which process had the first match.
                None if every || !text.unsearched().is_empty() => {
                    return Err(format!("never matched;{}", text.unsearched()).trim_end_matches(';').to_owned());
                }
                None => {}
            }
        }
        if every { Ok(Value::Array(values)) } else { Err("never matched".to_owned()) }
    }

    /// The failure if the check does not hold.
    pub fn check(&self, observation: &Observation) -> Option<Failure> {
        let has_ranks = has_ranks(observation);
        let processes = self.processes(observation);
        let results: Vec<(Role, Result<(), String>)> =
            processes.iter().map(|process| (process.role, self.want.holds(self.stream.captured(process)))).collect();
        // "No launcher writes X" applies to all of them, "the launcher writes X" to one.
        let any = match self.whose {
            Whose::Any => true,
            Whose::Launcher => !matches!(self.want, OutputWant::Absent(_)),
            Whose::All | Whose::Rank(_) => false,
        };
        let good = results.iter().filter(|(_, result)| result.is_ok()).count();
        if good > 0 && (any || good == results.len()) {
            return None;
        }
        let owner = match self.whose {
            Whose::Rank(rank) => format!("rank {rank}"),
            Whose::Any if has_ranks => "at least one rank".to_owned(),
            Whose::All if has_ranks => "every rank".to_owned(),
            Whose::Any | Whose::All | Whose::Launcher => "the launcher".to_owned(),
        };
        let got: Vec<String> =
            results.into_iter().filter_map(|(role, result)| result.err().map(|why| format!("{role}: {why}"))).collect();
        Some(Failure {
            place: Some(self.place.clone()),
            kind: match self.stream {
                Stream::Stdout => FailureKind::Stdout,
                Stream::Stderr => FailureKind::Stderr,
            },
            expected: format!("{} of {owner} {}", self.stream.name(), self.want.describe()),
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
            place: SourceLocation::default(),
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
}
