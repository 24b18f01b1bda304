//! Hangs: an unexpected hang fails the case with its message; an expected hang must be found and must match.

use crate::check::{Failure, FailureKind};
use crate::observation::Observation;
use crate::source::SourceLocation;

/// A hang that must be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HangExpectation {
    /// Substrings of its message and of its lines.
    pub contains: Vec<String>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

impl HangExpectation {
    /// The failures; empty if the hang is as expected.
    pub fn check(&self, observation: &Observation) -> Vec<Failure> {
        let failure = |expected: String, got: &str, next: &str| Failure {
            place: Some(self.place.clone()),
            kind: FailureKind::Hang,
            expected,
            got: got.to_owned(),
            next: next.to_owned(),
        };
        let Some(hang) = observation.execution.hang() else {
            let got = if observation.execution.is_timeout() {
                "the case was ended, and no rank waited for another"
            } else {
                "no hang"
            };
            let next = "`timeout: {idle: 5s}` sets how long nothing may move";
            return vec![failure("ranks wait for ranks that never arrive".to_owned(), got, next)];
        };
        let has = |part: &str| std::iter::once(&hang.sentence).chain(&hang.lines).any(|text| text.contains(part));
        let absent = self.contains.iter().filter(|part| !has(part));
        absent.map(|part| failure(format!("the report of the hang contains `{part}`"), &hang.story(), "")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Execution, Hang, Ran, Stop, Waiting};

    fn hung(hang: Hang) -> Observation {
        let stop = Stop::TimedOut { limit: None, waiting: Waiting::new(Some(hang)) };
        Execution::Ran(Box::new(Ran { stop, ..Ran::default() })).into()
    }

    #[test]
    fn the_sentence_must_have_every_part() {
        let expectation = HangExpectation {
            contains: vec!["rank 1 waits".to_owned(), "for rank 2".to_owned()],
            place: SourceLocation::default(),
        };
        let hang = Hang { sentence: "rank 1 waits in send, for rank 3".to_owned(), ..Hang::default() };
        let observation = hung(hang);
        let failures = expectation.check(&observation);
        assert_eq!(failures.len(), 1);
        assert_eq!(failures[0].expected, "the report of the hang contains `for rank 2`");
        assert_eq!(expectation.check(&Observation::default())[0].got, "no hang");
        let lines = vec!["rank 3 got as far as send, called at train.py:31 (step), for rank 2".to_owned()];
        let hang = Hang { sentence: "rank 1 waits in send, for rank 3".to_owned(), lines, ..Hang::default() };
        let observation = hung(hang);
        assert_eq!(expectation.check(&observation), [], "a part may be in a line");
    }
}
