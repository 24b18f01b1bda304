//! Compares a run with an earlier one: changed verdicts, changed times, new and removed cases.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::record::{CaseRun, Run, Runs, store};
use crate::report::{step_change, words};
use crate::verdict::Verdict;

/// Maximum number of lines in one list.
const MOST: usize = 20;
/// A smaller change of time is noise.
const LEAST_US: u64 = 100_000;
/// A change by less than this factor is noise, too.
const LEAST_FACTOR: f64 = 1.3;

/// What changed since the earlier run.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Id of the earlier run.
    pub run: String,
    /// When it began.
    pub at: String,
    /// How many cases have a verdict in both.
    pub common: usize,
    /// Time of those cases, then and now.
    pub times: (String, String),
    /// Cases with a different verdict, worse ones first.
    pub changed: Vec<Changed>,
    /// Number of changed cases beyond those.
    pub more_changed: usize,
    /// Cases that took much more or much less time, sorted by the difference.
    pub slower: Vec<Retimed>,
    /// Cases whose steps on the modeled clock changed.
    pub steps: Vec<ChangedStep>,
    /// Cases that the earlier run did not have.
    pub new: Vec<String>,
    /// Number of new cases beyond those.
    pub more_new: usize,
    /// Cases of the same suites that only the earlier run has.
    pub gone: Vec<String>,
    /// Number of removed cases beyond those.
    pub more_gone: usize,
}

/// A case with a different verdict than before.
#[derive(Debug, PartialEq, Serialize)]
pub struct Changed {
    /// Its full id.
    pub case: String,
    /// Its index in the run.
    pub index: usize,
    /// The verdict before.
    pub was: &'static str,
    /// The verdict now.
    pub is: &'static str,
}

/// A case whose steps on the modeled clock changed.
#[derive(Debug, PartialEq, Serialize)]
pub struct ChangedStep {
    /// Its full id.
    pub case: String,
    /// Its index in the run.
    pub index: usize,
    /// `step 12 % longer than in run X: all_gather of 50 MiB at model.py:88 is exposed now`.
    pub sentence: String,
}

/// A case whose time changed.
#[derive(Debug, PartialEq, Serialize)]
pub struct Retimed {
    /// Its full id.
    pub case: String,
    /// Its index in the run.
    pub index: usize,
    /// Times before and now.
    pub times: (String, String),
    /// Lengths of their bars, in percent of the longest.
    pub bars: (u64, u64),
    /// `+1.2 s` or `-300 ms`.
    pub difference: String,
}

impl Comparison {
    /// What changed from `before` to `now`; `None` if they have no finished case in common.
    pub fn new(before: &Run, now: &Run) -> Option<Comparison> {
        let both: Vec<(usize, &CaseRun, &CaseRun)> = now
            .cases
            .iter()
            .enumerate()
            .filter_map(|(index, case)| Some((index, before.case(&case.info.case)?, case)))
            .filter(|(_, was, is)| was.end.is_some() && is.end.is_some())
            .collect();
        if both.is_empty() {
            return None;
        }
        let sum =
            |of: &dyn Fn(&(usize, &CaseRun, &CaseRun)) -> u64| words::time(both.iter().map(of).sum::<u64>() as f64);
        let mut changed: Vec<(u8, Changed)> = both
            .iter()
            .filter_map(|(index, was, is)| {
                let (was, is_now) = (was.verdict()?, is.verdict()?);
                let changed = Changed { case: is.info.case.clone(), index: *index, was: was.word(), is: is_now.word() };
                (changed.was != changed.is).then(|| (rank(is_now), changed))
            })
            .collect();
        changed.sort_by_key(|(rank, changed)| (*rank, changed.index));
        let (new, more_new) =
            first(now.cases.iter().map(|case| &case.info.case).filter(|id| before.case(id).is_none()));
        let suites: BTreeSet<&String> = now.cases.iter().map(|case| &case.info.suite).collect();
        let missing = before.cases.iter().filter(|case| suites.contains(&case.info.suite));
        let (gone, more_gone) = first(missing.map(|case| &case.info.case).filter(|id| now.case(id).is_none()));
        Some(Comparison {
            run: before.info.run.clone(),
            at: words::date(before.info.at_ms),
            common: both.len(),
            times: (sum(&|(_, was, _)| was.duration_us()), sum(&|(.., is)| is.duration_us())),
            more_changed: changed.len().saturating_sub(MOST),
            changed: changed.into_iter().take(MOST).map(|(_, changed)| changed).collect(),
            slower: retimed(&both),
            steps: steps(before, now),
            new,
            more_new,
            // A filter leaves cases out on purpose, so their absence means nothing.
            gone: if now.cases.len() < before.cases.len() / 2 { Vec::new() } else { gone },
            more_gone: if now.cases.len() < before.cases.len() / 2 { 0 } else { more_gone },
        })
    }
}

/// The previous run that has a case in common with this one: the latest older run among those kept beside it.
pub fn before(run: &Run) -> Option<Run> {
    const LOOKED_AT: usize = 10;
    // Ids begin with the time in seconds; the logs show which of two runs in the same second is older.
    let second = |id: &str| id.split('-').next().unwrap_or_default().to_owned();
    let own = store::id(&run.directory);
    let others = Runs::new(Some(run.directory.parent()?)).list().into_iter().rev().filter(|directory| {
        let id = store::id(directory);
        id != own && second(&id) <= second(&own)
    });
    // An unreadable log must not prevent the page.
    let read = others.take(LOOKED_AT).filter_map(|directory| store::read(&directory).ok());
    let mut read = read.filter(|before| before.info.at_ms <= run.info.at_ms);
    read.find(|before| before.cases.iter().any(|case| case.end.is_some() && run.case(&case.info.case).is_some()))
}

/// Change of one case's time that is more than noise: `+1.2 s`.
pub fn difference(was: &CaseRun, is: &CaseRun) -> Option<String> {
    let ran = |case: &CaseRun| case.verdict().is_some_and(|verdict| !matches!(verdict, Verdict::Skipped { .. }));
    let (was_us, is_us) = (was.duration_us(), is.duration_us());
    let factor = is_us.max(was_us) as f64 / is_us.min(was_us).max(1) as f64;
    if !(ran(was) && ran(is)) || was_us.abs_diff(is_us) < LEAST_US || factor < LEAST_FACTOR {
        return None;
    }
    Some(format!("{}{}", if is_us > was_us { "+" } else { "-" }, words::time(was_us.abs_diff(is_us) as f64)))
}

fn steps(before: &Run, now: &Run) -> Vec<ChangedStep> {
    let changes = step_change::changes(before, now).into_iter().take(MOST);
    let told =
        |(index, sentence): (usize, String)| ChangedStep { case: now.cases[index].info.case.clone(), index, sentence };
    changes.map(told).collect()
}

fn retimed(both: &[(usize, &CaseRun, &CaseRun)]) -> Vec<Retimed> {
    let mut retimed: Vec<(usize, &CaseRun, &CaseRun, String)> =
        both.iter().filter_map(|(index, was, is)| Some((*index, *was, *is, difference(was, is)?))).collect();
    retimed.sort_by_key(|(_, was, is, _)| std::cmp::Reverse(was.duration_us().abs_diff(is.duration_us())));
    retimed.truncate(MOST);
    let longest =
        retimed.iter().map(|(_, was, is, _)| was.duration_us().max(is.duration_us())).max().unwrap_or(1).max(1);
    let bar = |case: &CaseRun| (case.duration_us() * 100 / longest).max(1);
    retimed
        .into_iter()
        .map(|(index, was, is, difference)| Retimed {
            case: is.info.case.clone(),
            index,
            times: (words::time(was.duration_us() as f64), words::time(is.duration_us() as f64)),
            bars: (bar(was), bar(is)),
            difference,
        })
        .collect()
}

fn rank(verdict: &Verdict) -> u8 {
    match verdict {
        Verdict::Broken => 0,
        Verdict::Timeout => 1,
        Verdict::Failed => 2,
        Verdict::Skipped { .. } => 3,
        Verdict::Xfailed { .. } => 4,
        Verdict::Passed => 5,
    }
}

fn first<'a>(ids: impl Iterator<Item = &'a String>) -> (Vec<String>, usize) {
    let mut all: Vec<String> = ids.cloned().collect();
    let more = all.len().saturating_sub(MOST);
    all.truncate(MOST);
    (all, more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::tests::{finished, run};

    #[test]
    fn verdicts_times_and_cases_that_changed() {
        let before = run(&[
            finished("s/a", Verdict::Passed, 1_000_000),
            finished("s/b", Verdict::Failed, 1_000_000),
            finished("s/c", Verdict::Passed, 1_000_000),
            finished("s/old", Verdict::Passed, 5),
        ]);
        let now = run(&[
            finished("s/a", Verdict::Passed, 3_000_000),
            finished("s/b", Verdict::Passed, 1_050_000),
            finished("s/c", Verdict::Broken, 1_000_000),
            finished("s/new", Verdict::Passed, 5),
        ]);
        let seen = Comparison::new(&before, &now).unwrap();
        let changed: Vec<(&str, &str, &str)> =
            seen.changed.iter().map(|changed| (changed.case.as_str(), changed.was, changed.is)).collect();
        assert_eq!(changed, [("s/c", "passed", "broken"), ("s/b", "failed", "passed")]);
        assert_eq!((seen.common, seen.slower.len()), (3, 1));
        assert_eq!((seen.slower[0].case.as_str(), seen.slower[0].difference.as_str()), ("s/a", "+2.0 s"));
        assert_eq!((seen.new, seen.gone), (vec!["s/new".to_owned()], vec!["s/old".to_owned()]));
    }

    #[test]
    fn runs_without_a_common_case_are_not_compared() {
        let (a, b) = (run(&[finished("s/a", Verdict::Passed, 5)]), run(&[finished("s/b", Verdict::Passed, 5)]));
        assert_eq!(Comparison::new(&a, &b), None);
    }
}
