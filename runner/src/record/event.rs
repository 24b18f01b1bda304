//! The event log's words: what happened in a run, one JSON object per line. Every report (terminal, JUnit, HTML, a
//! replay, a merge of shards) is a projection of these and sees nothing else of a run.
//!
//! Compatibility: a reader ignores fields that it does not know; a change that an old reader would misread raises
//! [`VERSION`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::check::Failure;
use crate::check::exit;
use crate::check::perf::Measured;
use crate::host::{lossy_path, printable};
use crate::observation::{Captured, Exit, Gap, Hang, ProcessObservation, PythonUsed, Role, Starts};
use crate::source::SourceLocation;
use crate::verdict::Verdict;
use crate::verdict::conclusion::{Outcome, culprit};
use crate::verdict::relation_result::RelationResult;

/// Version of the event log, in its first line.
pub const VERSION: u32 = 1;

/// One thing that happened in a run. Cases are named by their full id, `suite/case[matrix]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line.
    RunStarted(RunInfo),
    /// A managed environment, or something else that cases wait for, is being prepared.
    Preparing {
        /// What, in words.
        what: String,
    },
    /// A case left the queue. Cases start in any order.
    CaseStarted {
        /// Which.
        case: String,
        /// Wall clock, ms since 1970; for display only.
        at_ms: u64,
    },
    /// One attempt of a case ended.
    AttemptFinished {
        /// Which case.
        case: String,
        /// Its result.
        attempt: Attempt,
    },
    /// A case has its verdict. Cases end in any order.
    CaseFinished {
        /// Which.
        case: String,
        /// The last attempt's verdict unless a policy (`flaky`, `xfail`) changes it.
        verdict: Verdict,
        /// It passed after an attempt that did not.
        #[serde(default)]
        flaky: bool,
        /// Failures outside the attempts, of a policy that decided the verdict.
        #[serde(default)]
        failures: Vec<Failure>,
        /// Other things a reader should know.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// A fixture could not be torn down: an error of the run, not of a case. A setup that fails is reported by the cases
    /// that it breaks.
    TeardownFailed {
        /// `suite/fixture`.
        fixture: String,
        /// What went wrong.
        failure: Failure,
    },
    /// The last line. A log without it is from a run that was killed.
    RunFinished {
        /// Wall clock, ms since 1970.
        at_ms: u64,
        /// Time of the run, us, by a clock that does not jump.
        duration_us: u64,
        /// Ctrl-C or SIGTERM ended it.
        interrupted: bool,
        /// What `ftest` ended with.
        #[serde(default)]
        exit_code: u8,
    },
}

impl Event {
    /// The values of the field `event`.
    pub const KINDS: &[&str] = &[
        "run_started",
        "preparing",
        "case_started",
        "attempt_finished",
        "case_finished",
        "teardown_failed",
        "run_finished",
    ];
}

/// What is known when a run starts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunInfo {
    /// [`VERSION`].
    pub version: u32,
    /// Id of the run: `20261121T103000.250-1a2b`.
    pub run: String,
    /// Version of ftest.
    pub ftest: String,
    /// Wall clock, ms since 1970.
    pub at_ms: u64,
    /// Name of the machine.
    pub host: String,
    /// The command line.
    pub command: Vec<String>,
    /// Working directory.
    #[serde(serialize_with = "lossy_path::serialize")]
    #[schemars(with = "PathBuf")]
    pub directory: PathBuf,
    /// `2/5` or `hash:2/5` if only a part ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// What it is a shard of: the shards of one run have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<Whole>,
    /// What a merge lacks of the runs that it was given parts of, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The user knows that something is missing (`--partial`): the verdict is that of the rest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The seed of the order in which cases started, if that was random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// How often cases ran, in words, if not once: their attempts are iterations, all of which count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<String>,
    /// The selected cases, in suite order.
    pub cases: Vec<CaseInfo>,
}

/// The selection that shards are parts of.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Whole {
    /// How many cases all shards have together.
    pub cases: usize,
    /// xxHash64 of the sorted ids of these cases, in hex.
    pub digest: String,
    /// The git commit of the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The run of the CI server, `GITHUB_RUN_ID=12`, if it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// What a report needs to know of a case before it ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CaseInfo {
    /// `suite/case[matrix]`.
    pub case: String,
    /// Name of the suite.
    pub suite: String,
    /// Without suite, with the matrix values.
    pub id: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Words to filter by.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Where the case is defined.
    pub place: SourceLocation,
    /// Matrix values of this expansion.
    #[serde(default)]
    pub matrix: BTreeMap<String, serde_json::Value>,
    /// Number of ranks; none for a plain process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub world_size: Option<u32>,
    /// A passing case that takes longer (us) is slow.
    pub slow_us: u64,
    /// After this (us) an attempt is ended.
    pub kill_us: u64,
}

/// One attempt of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    /// Its verdict.
    pub verdict: Verdict,
    /// Every check that did not hold, in the order of the file.
    pub failures: Vec<Failure>,
    /// What `perf` measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub perf: Vec<Measured>,
    /// Of all its runs, each from the first spawn to the last exit, us.
    pub duration_us: u64,
    /// What became of the relations of the case.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relations: Vec<RelationResult>,
    /// It passed, but took longer than `timeout.slow`.
    #[serde(default)]
    pub slow: bool,
    /// Ranks first, by rank.
    pub processes: Vec<Process>,
    /// Role of the process whose output explains most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub culprit: Option<Role>,
    /// Which ranks waited for which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hang: Option<Box<Hang>>,
    /// Uses of APIs and kernels that ftest does not implement.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// What was done on purpose (kills, faults), in words.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How its processes were started, if warm starts were wanted. Measured; does not affect the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts: Option<Box<Starts>>,
    /// The interpreter of its processes, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Box<PythonUsed>>,
    /// The cluster report, a file; relative paths start in the run's directory.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "lossy_path::optional")]
    #[schemars(with = "Option<PathBuf>")]
    pub cluster_report: Option<PathBuf>,
    /// The device reports as one JSON list, a file; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "lossy_path::optional")]
    #[schemars(with = "Option<PathBuf>")]
    pub device_reports: Option<PathBuf>,
    /// The scratch directory, if it was left; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "lossy_path::optional")]
    #[schemars(with = "Option<PathBuf>")]
    pub kept: Option<PathBuf>,
}

/// One process of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Process {
    /// What it was.
    pub role: Role,
    /// How it ended.
    pub exit: Exit,
    /// It still ran when ftest ended the case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
}

impl From<&ProcessObservation> for Process {
    fn from(process: &ProcessObservation) -> Process {
        Process {
            role: process.role,
            exit: process.exit.clone(),
            ended: false,
            stdout: Stream::from(&process.stdout),
            stderr: Stream::from(&process.stderr),
        }
    }
}

impl Process {
    /// How it ended, for messages. Of torchrun's workers, only torchrun knows; that ftest ended them is known all the same.
    pub fn how(&self) -> String {
        if self.ended && self.exit == Exit::Unknown { "ended by ftest".to_owned() } else { exit::describe(&self.exit) }
    }
}

/// One stream, as text: bytes that are not UTF-8 became U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stream {
    /// Bytes written in all.
    pub bytes: u64,
    /// The first of them: all unless `truncated`.
    pub head: String,
    /// The last of them if `head` is not all.
    #[serde(default)]
    pub tail: String,
    /// Some bytes between the two are only in the file, or were dropped.
    #[serde(default)]
    pub truncated: bool,
    /// The file with every byte, if it was kept; relative paths start in the run's directory.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "lossy_path::optional")]
    #[schemars(with = "Option<PathBuf>")]
    pub file: Option<PathBuf>,
    /// Bytes in that file, if it has only both ends of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<u64>,
}

impl Stream {
    /// Where the rest is: `FILE holds it`.
    pub fn file_holds(&self) -> Option<String> {
        let file = self.file.as_ref()?.display();
        Some(match self.kept {
            None => format!("{file} holds it"),
            Some(kept) => format!("{file} holds both ends, {kept} bytes"),
        })
    }

    /// The last lines, as a report shows them.
    pub fn last(&self, lines: usize) -> Vec<String> {
        let text = if self.tail.is_empty() { &self.head } else { &self.tail };
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| printable::line(line)).collect()
    }
}

impl From<&Captured> for Stream {
    fn from(stream: &Captured) -> Stream {
        Stream {
            bytes: stream.bytes,
            head: String::from_utf8_lossy(&stream.head).into_owned(),
            tail: String::from_utf8_lossy(&stream.tail).into_owned(),
            truncated: stream.truncated,
            file: None,
            kept: None,
        }
    }
}

impl From<&Case> for CaseInfo {
    fn from(case: &Case) -> CaseInfo {
        CaseInfo {
            case: case.full_id(),
            suite: case.suite.clone(),
            id: case.id.clone(),
            title: case.title.clone(),
            tags: case.tags.clone(),
            place: case.place.clone(),
            matrix: case.matrix.clone(),
            world_size: case.world_size(),
            slow_us: us(case.timeout.slow),
            kill_us: us(case.timeout.kill),
        }
    }
}

impl Attempt {
    /// The attempt with this number, as it came out. The paths of kept files are set by the run's directory.
    pub fn new(number: u32, case: &Case, outcome: &Outcome) -> Attempt {
        let observation = &outcome.observation;
        let process = |seen: &ProcessObservation| {
            let mut process = Process::from(seen);
            process.ended = observation.execution.unfinished().contains(&seen.role);
            if outcome.kept {
                process.stdout.file = Some(seen.stdout.path.clone());
                process.stderr.file = Some(seen.stderr.path.clone());
            }
            process
        };
        Attempt {
            number,
            verdict: outcome.verdict.clone(),
            failures: outcome.failures.clone(),
            perf: outcome.perf.clone(),
            duration_us: us(outcome.duration),
            relations: outcome.relations.clone(),
            slow: outcome.slow,
            processes: observation.processes.iter().map(process).collect(),
            culprit: culprit(case, observation),
            hang: observation.execution.hang().cloned().map(Box::new),
            gaps: observation.gaps.clone(),
            notes: observation.notes.clone(),
            starts: observation.starts.clone().map(Box::new),
            python: observation.python.clone().map(Box::new),
            cluster_report: None,
            device_reports: None,
            kept: outcome.kept.then(|| observation.scratch.clone()),
        }
    }
}

/// Whole microseconds.
pub fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
pub fn ms(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format is a promise: these lines must stay readable.
    #[test]
    fn lines_of_version_1() {
        let attempt = Attempt {
            number: 1,
            verdict: Verdict::Skipped { reason: "no gcc".into() },
            processes: vec![Process {
                role: Role::Rank(0),
                exit: Exit::Signal(9),
                ended: false,
                stdout: Stream { bytes: 3, head: "hi\n".into(), ..Stream::default() },
                stderr: Stream::default(),
            }],
            ..Attempt::default()
        };
        let lines = [
            (Event::CaseStarted { case: "s/a".into(), at_ms: 5 }, r#"{"event":"case_started","case":"s/a","at_ms":5}"#),
            (
                Event::AttemptFinished { case: "s/a".into(), attempt },
                r#"{"event":"attempt_finished","case":"s/a","attempt":{"number":1,"verdict":{"is":"skipped","reason":"no gcc"},"failures":[],"duration_us":0,"slow":false,"processes":[{"role":{"rank":0},"exit":{"signal":9},"stdout":{"bytes":3,"head":"hi\n","tail":"","truncated":false},"stderr":{"bytes":0,"head":"","tail":"","truncated":false}}],"gaps":[],"notes":[]}}"#,
            ),
            (
                Event::RunFinished { at_ms: 7, duration_us: 9, interrupted: false, exit_code: 1 },
                r#"{"event":"run_finished","at_ms":7,"duration_us":9,"interrupted":false,"exit_code":1}"#,
            ),
        ];
        for (event, line) in lines {
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
            assert_eq!(serde_json::from_str::<Event>(line).unwrap(), event);
        }
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let line = r#"{"event":"preparing","what":"torch","later":{"more":1}}"#;
        assert_eq!(serde_json::from_str::<Event>(line).unwrap(), Event::Preparing { what: "torch".into() });
    }
}
