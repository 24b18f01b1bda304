//! Events without secrets: what is recorded and reported holds none.

use regex::Regex;
use serde_json::Value;

use crate::check::Failure;
use crate::host::secrets::{MASK, Secrets};
use crate::observation::Exit;
use crate::record::event::{Attempt, CaseInfo, Event, Process, RunInfo, Stream};
use crate::verdict::Verdict;

/// Fields of events that identify a case, kind or process. They come from suites and from ftest.
const WORDS: [&str; 12] =
    ["event", "is", "case", "suite", "id", "kind", "role", "exit", "culprit", "run", "fixture", "verdict"];

impl Secrets {
    /// `event` without them. One that cannot be masked loses every text.
    pub fn mask(&self, event: Event) -> Event {
        let Some(pattern) = self.pattern() else { return event };
        let Some(values) = &pattern else { return bare(event) };
        let masked = serde_json::to_value(&event).and_then(|mut value| {
            let found = mask(&mut value, values);
            if found { serde_json::from_value(value).map(Some) } else { Ok(None) }
        });
        match masked {
            Ok(masked) => masked.unwrap_or(event),
            Err(_) => bare(event),
        }
    }
}

/// `event` with no more than numbers and names of cases. What is not named here goes, also what is added later.
fn bare(event: Event) -> Event {
    match event {
        Event::RunStarted(RunInfo { version, run, ftest, at_ms, seed, cases, .. }) => {
            let cases = cases.into_iter().map(|case| {
                let CaseInfo { case, suite, id, world_size, slow_us, kill_us, .. } = case;
                CaseInfo { case, suite, id, world_size, slow_us, kill_us, ..CaseInfo::default() }
            });
            let cases = cases.collect();
            Event::RunStarted(RunInfo { version, run, ftest, at_ms, seed, cases, ..RunInfo::default() })
        }
        Event::Preparing { .. } => Event::Preparing { what: MASK.to_owned() },
        Event::AttemptFinished { case, attempt } => {
            let Attempt { number, verdict, failures, duration_us, slow, processes, culprit, .. } = attempt;
            let processes = processes.into_iter().map(|process| Process {
                role: process.role,
                exit: match process.exit {
                    Exit::NotStarted(_) => Exit::NotStarted(MASK.to_owned()),
                    exit => exit,
                },
                ended: process.ended,
                stdout: bare_stream(&process.stdout),
                stderr: bare_stream(&process.stderr),
            });
            let attempt = Attempt {
                number,
                verdict: bare_verdict(verdict),
                failures: bare_failures(failures),
                duration_us,
                slow,
                processes: processes.collect(),
                culprit,
                notes: vec!["its texts could not be masked and are left out".to_owned()],
                ..Attempt::default()
            };
            Event::AttemptFinished { case, attempt }
        }
        Event::CaseFinished { case, verdict, flaky, failures, notes: _ } => {
            let (verdict, failures) = (bare_verdict(verdict), bare_failures(failures));
            Event::CaseFinished { case, verdict, flaky, failures, notes: Vec::new() }
        }
        Event::TeardownFailed { fixture, failure } => Event::TeardownFailed { fixture, failure: bare_failure(failure) },
        event @ (Event::CaseStarted { .. } | Event::RunFinished { .. }) => event,
    }
}

fn bare_stream(stream: &Stream) -> Stream {
    Stream { bytes: stream.bytes, truncated: stream.bytes > 0, ..Stream::default() }
}

fn bare_verdict(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Skipped { .. } => Verdict::Skipped { reason: MASK.to_owned() },
        Verdict::Xfailed { .. } => Verdict::Xfailed { reason: MASK.to_owned() },
        verdict @ (Verdict::Passed | Verdict::Failed | Verdict::Broken | Verdict::Timeout) => verdict,
    }
}

fn bare_failures(failures: Vec<Failure>) -> Vec<Failure> {
    failures.into_iter().map(bare_failure).collect()
}

fn bare_failure(failure: Failure) -> Failure {
    let masked = || MASK.to_owned();
    Failure { kind: failure.kind, expected: masked(), got: masked(), ..Failure::default() }
}

/// Masks every text below `value`; returns whether there was any.
fn mask(value: &mut Value, values: &Regex) -> bool {
    match value {
        Value::String(text) => {
            let masked = values.replace_all(text, MASK);
            if masked == text.as_str() {
                return false;
            }
            *text = masked.into_owned();
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |found, item| mask(item, values) | found),
        Value::Object(fields) => fields.iter_mut().fold(false, |found, (name, field)| {
            let word = field.is_string() && WORDS.contains(&name.as_str());
            (!word && mask(field, values)) | found
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::perf::{Measured, PerfVerdict};
    use crate::observation::Role;

    fn secrets(values: &[&str]) -> Secrets {
        Secrets::from_variables(values.iter().map(|value| ("MY_TOKEN".to_owned(), (*value).to_owned())))
    }

    fn attempt(text: &str) -> Event {
        let stream = Stream { head: text.into(), ..Stream::default() };
        let process = Process {
            role: Role::Coordinator,
            exit: Exit::NotStarted(text.into()),
            ended: false,
            stdout: stream.clone(),
            stderr: stream,
        };
        let attempt = Attempt {
            verdict: Verdict::Skipped { reason: text.into() },
            failures: vec![Failure { got: text.into(), ..Failure::default() }],
            processes: vec![process],
            perf: vec![Measured { verdict: PerfVerdict::Warning, ..Measured::default() }],
            culprit: Some(Role::Coordinator),
            notes: vec![text.into()],
            ..Attempt::default()
        };
        Event::AttemptFinished { case: "s/coordinator".into(), attempt }
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        let secrets = secrets(&["hunter2\"x", "hunter2\"xyz"]);
        let (masked, expected) = (secrets.mask(attempt("a hunter2\"xyz b hunter2\"x")), attempt("a *** b ***"));
        assert_eq!(masked, expected);
        assert_eq!(secrets.mask(attempt("nothing")), attempt("nothing"));
        assert_eq!(secrets.mask_bytes(b"\xffhunter2\"x").unwrap(), b"\xff***");
        assert_eq!(secrets.mask_bytes(b"nothing"), None);
    }

    #[test]
    fn what_is_learned_later_is_known_to_every_clone() {
        let secrets = secrets(&["hunter2"]);
        let clone = secrets.clone();
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        secrets.learn([variable("DB_PASSWORD", "hunter2long"), variable("PLAIN", "nothing")]);
        assert_eq!(clone.mask(attempt("hunter2long hunter2 nothing")), attempt("*** *** nothing"));
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_log_does_not_break_it() {
        let words = ["attempt_finished", "skipped", "coordinator", "not_started", "stdout", "warning"];
        let event = secrets(&words).mask(attempt("stdout"));
        assert_eq!(event, attempt("***"));
    }

    /// Also where a path is not UTF-8, and where there is no other way.
    #[test]
    fn no_event_is_written_unmasked() {
        use std::os::unix::ffi::OsStrExt;
        let secret = "hunter2xyz";
        let started = Event::RunStarted(RunInfo {
            command: vec!["ftest".into(), secret.into()],
            directory: std::ffi::OsStr::from_bytes(b"/data/\xff").into(),
            cases: vec![CaseInfo { case: "s/a".into(), title: Some(secret.into()), ..CaseInfo::default() }],
            ..RunInfo::default()
        });
        let failure = Failure { got: secret.into(), ..Failure::default() };
        let ended = Event::CaseFinished {
            case: "s/a".into(),
            verdict: Verdict::Xfailed { reason: secret.into() },
            flaky: false,
            failures: vec![failure.clone()],
            notes: vec![secret.into()],
        };
        let teardown = Event::TeardownFailed { fixture: "s/f".into(), failure };
        let preparing = Event::Preparing { what: secret.into() };
        let secrets = secrets(&[secret]);
        for event in [started, attempt(secret), ended, teardown, preparing] {
            for event in [secrets.mask(event.clone()), bare(event)] {
                assert!(!format!("{event:?}").contains(secret), "{event:?}");
                let line = serde_json::to_string(&event).unwrap();
                assert!(line.contains("s/") || line.contains(MASK), "{line}");
            }
        }
    }

    #[test]
    fn only_long_values_of_telling_names_are_secrets() {
        let of = |name: &str, value: &str| Secrets::from_variables([(name.to_owned(), value.to_owned())]).is_empty();
        assert!(!of("api_key", "123456") && !of("DB_PASSWORD", "123456") && !of("GITHUB_TOKEN", "123456"));
        assert!(of("API_KEY", "12345") && of("HOME", "/home/someone") && of("TOKENIZERS", "parallel"));
    }
}
