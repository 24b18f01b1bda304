//! Several runs as one: the shards of a run, or a run and the run of what had failed.

use std::collections::HashMap;
use std::path::Path;

use super::run::{CaseRun, Run, RunEnd};
use super::shards;
use crate::verdict::Verdict;
use crate::verdict::exit_code::ExitCode;

/// Runs as one.
#[derive(Debug)]
pub struct Merged {
    /// All cases, in the order in which they are first met.
    pub run: Run,
    /// Cases that ended differently in two runs, in words.
    pub conflicts: Vec<String>,
}

/// Merges `parts`, the earliest first. A case that ran counts before one that did not; of a case that ran more than once
/// all attempts are kept, and the worse verdict counts. What is missing, also of `expected` parts, prevents the run from
/// passing unless it may be `partial`.
pub fn merge(mut parts: Vec<Run>, expected: Option<usize>, partial: bool) -> Merged {
    parts.sort_by_key(|part| part.info.at_ms);
    let mut missing = shards::missing(&parts);
    if let Some(expected) = expected.filter(|expected| *expected != parts.len()) {
        missing.push(format!("{expected} runs were expected, and {} are there", parts.len()));
    }
    let mut run = Run::in_directory(Path::new(""));
    run.info = parts.first().map(|part| part.info.clone()).unwrap_or_default();
    run.info.shard = None;
    run.info.whole = None;
    run.info.partial = partial && !missing.is_empty();
    run.info.missing = missing;
    run.info.run = parts.iter().map(|part| part.info.run.as_str()).collect::<Vec<_>>().join("+");
    let end = |part: &Run| part.info.at_ms + part.end.map_or(0, |end| end.duration_us / 1000);
    let ends_ms = parts.iter().map(end).max().unwrap_or_default();
    let duration_us = parts.iter().filter_map(|part| part.end).map(|end| end.duration_us).max().unwrap_or_default();
    let interrupted = parts.iter().any(|part| part.end.is_none_or(|end| end.interrupted));
    let code = |part: &Run| part.end.map_or(ExitCode::CouldNotRun as u8, |end| end.exit_code);
    let worst = parts.iter().map(code).max().unwrap_or_default();

    let mut index: HashMap<String, (usize, String)> = HashMap::new();
    let mut conflicts = Vec::new();
    for part in parts {
        run.teardowns.extend(part.teardowns);
        for case in part.cases {
            match index.get(&case.info.case) {
                Some((position, of)) => conflicts.extend(join(&mut run.cases[*position], of, case, &part.info.run)),
                None => {
                    index.insert(case.info.case.clone(), (run.cases.len(), part.info.run.clone()));
                    run.cases.push(case);
                }
            }
        }
    }
    let exit_code = worst.max(run.verdict_code() as u8);
    run.end = Some(RunEnd { at_ms: ends_ms, duration_us, interrupted, exit_code });
    Merged { run: Run::from_events(&run.events()), conflicts }
}

/// Adds what another run (`other_run`) knows of a case of which one (`run`) is known. Reports where they disagree.
fn join(known: &mut CaseRun, run: &str, other: CaseRun, other_run: &str) -> Option<String> {
    if !ran(&other) || !ran(known) {
        // A reason to skip is better than no verdict.
        if ran(&other) || known.end.is_none() {
            *known = other;
        }
        return None;
    }
    let (Some(mine), Some(theirs)) = (known.end.as_mut(), other.end) else { return None };
    let conflict = (mine.verdict.word() != theirs.verdict.word()).then(|| {
        format!(
            "{}: {} in {run} and {} in {other_run}; the worse counts",
            known.info.case,
            mine.verdict.word(),
            theirs.verdict.word()
        )
    });
    if severity(&theirs.verdict) > severity(&mine.verdict) {
        mine.verdict = theirs.verdict;
    }
    mine.flaky |= theirs.flaky;
    mine.flaky &= mine.verdict == Verdict::Passed;
    mine.failures.extend(theirs.failures);
    mine.notes.extend(theirs.notes);
    mine.notes.extend(conflict.clone());
    known.attempts.extend(other.attempts);
    for (attempt, number) in known.attempts.iter_mut().zip(1..) {
        attempt.number = number;
    }
    conflict
}

fn ran(case: &CaseRun) -> bool {
    case.verdict().is_some_and(|verdict| !matches!(verdict, Verdict::Skipped { .. }))
}

fn severity(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Skipped { .. } => 0,
        Verdict::Passed => 1,
        Verdict::Xfailed { .. } => 2,
        Verdict::Failed => 3,
        Verdict::Timeout => 4,
        Verdict::Broken => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::{Attempt, CaseInfo, Event, RunInfo};

    fn part(name: &str, at_ms: u64, cases: &[(&str, Option<Verdict>)]) -> Run {
        let info = |case: &str| CaseInfo { case: case.into(), suite: "s".into(), ..CaseInfo::default() };
        let infos = cases.iter().map(|(case, _)| info(case)).collect();
        let shard = Some(format!("{name}/2"));
        let started = RunInfo { run: name.into(), at_ms, shard, cases: infos, ..RunInfo::default() };
        let mut run = Run::from_events([&Event::RunStarted(started)]);
        for (case, verdict) in cases {
            let Some(verdict) = verdict else { continue };
            let attempt = Attempt { number: 1, verdict: verdict.clone(), ..Attempt::default() };
            run.apply(&Event::AttemptFinished { case: (*case).into(), attempt });
            run.apply(&Event::CaseFinished {
                case: (*case).into(),
                verdict: verdict.clone(),
                flaky: false,
                failures: Vec::new(),
                notes: Vec::new(),
            });
        }
        let exit_code = run.verdict_code() as u8;
        run.apply(&Event::RunFinished { at_ms, duration_us: at_ms * 1000, interrupted: false, exit_code });
        run
    }

    fn words(run: &Run) -> Vec<(&str, &str, usize)> {
        let word = |case: &CaseRun| case.verdict().map_or("not run", Verdict::word);
        run.cases.iter().map(|case| (case.info.case.as_str(), word(case), case.attempts.len())).collect()
    }

    #[test]
    fn what_ran_counts_and_the_worse_of_two() {
        let skipped = || Some(Verdict::Skipped { reason: "no gcc".into() });
        let first =
            [("a", Some(Verdict::Passed)), ("b", None), ("c", skipped()), ("d", Some(Verdict::Passed)), ("e", None)];
        let second = [
            ("a", skipped()),
            ("b", Some(Verdict::Passed)),
            ("c", Some(Verdict::Passed)),
            ("d", Some(Verdict::Failed)),
            ("e", None),
            ("f", Some(Verdict::Passed)),
        ];
        for reverse in [false, true] {
            let mut parts = vec![part("1", 1, &first), part("2", 2, &second)];
            if reverse {
                parts.reverse();
            }
            let merged = merge(parts, Some(2), false);
            let expected = [
                ("a", "passed", 1),
                ("b", "passed", 1),
                ("c", "passed", 1),
                ("d", "failed", 2),
                ("e", "not run", 0),
                ("f", "passed", 1),
            ];
            assert_eq!(words(&merged.run), expected);
            assert_eq!(merged.conflicts, ["d: passed in 1 and failed in 2; the worse counts"]);
            assert_eq!(merged.run.cases[3].attempts[1].number, 2);
            let end = merged.run.end.unwrap();
            assert_eq!((end.exit_code, end.duration_us), (1, 2000));
            assert_eq!((merged.run.info.run.as_str(), merged.run.info.shard), ("1+2", None));
        }
    }

    #[test]
    fn a_part_that_did_not_end_is_no_success() {
        let mut killed = part("2", 2, &[("b", None)]);
        killed.end = None;
        let merged = merge(vec![part("1", 1, &[("a", Some(Verdict::Passed))]), killed], None, false);
        let end = merged.run.end.unwrap();
        assert_eq!((end.exit_code, end.interrupted), (3, true));
    }

    #[test]
    fn what_is_missing_is_no_success_unless_the_user_says_so() {
        let one = || vec![part("1", 1, &[("a", Some(Verdict::Passed))])];
        let code = |expected, partial| {
            let run = merge(one(), expected, partial).run;
            (run.info.missing.join("; "), run.end.unwrap().exit_code)
        };
        assert_eq!(code(None, false), ("shard 2/2 is missing".to_owned(), 3));
        assert_eq!(code(Some(1), true), ("shard 2/2 is missing".to_owned(), 0));
        let expected = "shard 2/2 is missing; 3 runs were expected, and 1 are there".to_owned();
        assert_eq!(code(Some(3), false), (expected, 3));
    }

    #[test]
    fn the_events_of_a_run_make_it_again() {
        let run = merge(vec![part("1", 1, &[("a", Some(Verdict::Failed)), ("b", None)])], None, true).run;
        let again = Run::from_events(&run.events());
        assert_eq!((words(&again), again.end, &again.info), (words(&run), run.end, &run.info));
    }
}
