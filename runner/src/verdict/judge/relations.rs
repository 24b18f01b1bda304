//! `holds_under`: whether the result of a case holds under each of its relations.

use std::time::Duration;

use super::judge;
use crate::case::Case;
use crate::case::relation::{Relation, Relations};
use crate::case::variant::{resumed, until_killed, variant};
use crate::check::compared::{Compared, Curve};
use crate::check::snapshot::SnapshotMode;
use crate::check::tensors::Unknown;
use crate::check::{Failure, exit};
use crate::observation::{Observation, Role};
use crate::verdict::Verdict;

/// What became of one relation.
#[derive(Debug)]
pub enum Outcome {
    /// What is compared is the same.
    Holds,
    /// They are not, or the variant did not pass: at least one failure.
    Differs(Vec<Failure>),
    /// The variant could not be run, so nobody knows.
    Unknown(Failure),
    /// It was interrupted.
    Interrupted(Verdict),
}

/// A relation of a case that passed without it.
#[derive(Debug)]
pub struct Tried<'r> {
    /// The relation.
    pub relation: &'r Relation,
    /// What became of it.
    pub outcome: Outcome,
    /// How long its runs took.
    pub duration: Duration,
    /// The numbers that differ, by step.
    pub curves: Vec<Curve>,
}

/// Every relation of a case that passed without them.
///
/// # Errors
/// Why there is nothing to compare.
pub fn tried<'r>(case: &Case, relations: &'r Relations, observation: &Observation) -> Result<Vec<Tried<'r>>, Unknown> {
    let first = relations.read(observation)?;
    let tried = relations.relations.iter().enumerate().map(|(index, relation)| {
        let Some(seen) = observation.variants.get(index) else {
            let outcome = Outcome::Unknown(Compared::failed(relation.named(), "it was not run".to_owned()));
            return Tried { relation, outcome, duration: Duration::ZERO, curves: Vec::new() };
        };
        let outcome = outcome(case, relation, |seen| relations.compare(relation, &first, seen), seen);
        let curves = match outcome {
            Outcome::Differs(_) => relations.curves(relation, &first, seen),
            Outcome::Holds | Outcome::Unknown(_) | Outcome::Interrupted(_) => Vec::new(),
        };
        Tried { relation, outcome, duration: duration(seen), curves }
    });
    Ok(tried.collect())
}

/// How long the runs of a variant took.
pub fn duration(seen: &Observation) -> Duration {
    seen.before.as_ref().map_or(Duration::ZERO, |before| before.duration) + seen.duration
}

fn outcome(
    case: &Case,
    relation: &Relation,
    compare: impl Fn(&Observation) -> Result<Vec<Failure>, Unknown>,
    seen: &Observation,
) -> Outcome {
    let variant = variant(case, relation);
    // A variant that was not killed is the only run of its relation.
    let not_killed = relation.restart.as_ref().filter(|_| seen.before.is_none());
    let judged = match (not_killed, &relation.restart) {
        (Some(restart), _) => until_killed(&variant, relation, restart),
        (None, Some(restart)) => resumed(&variant, restart),
        (None, None) => variant,
    };
    let (verdict, why) = judge(&judged, seen, SnapshotMode::CompareOnly);
    match verdict {
        Verdict::Passed if not_killed.is_some() => {
            Outcome::Unknown(Compared::failed(relation.named(), "it was not started again".to_owned()))
        }
        Verdict::Passed if relation.changes_program() && !seen.is_changed => {
            Outcome::Differs(vec![relation.changed_nothing()])
        }
        Verdict::Passed => match compare(seen) {
            Ok(failures) if failures.is_empty() => Outcome::Holds,
            Ok(failures) => Outcome::Differs(failures),
            Err(Unknown::Failed(failure)) => Outcome::Differs(vec![*failure]),
            Err(Unknown::Broken(failure)) => Outcome::Unknown(*failure),
        },
        Verdict::Skipped { .. } => Outcome::Interrupted(verdict),
        _ => {
            let why = why.first().map_or(String::new(), |why| format!(" ({}): {}", why.kind, why.got));
            let said = last_words(seen, &why).unwrap_or_default();
            let failure = Compared::failed(relation.named(), format!("{}{why}{said}", verdict.word()));
            let could_run = verdict != Verdict::Broken && seen.execution.expired_limit().is_none();
            if could_run { Outcome::Differs(vec![failure]) } else { Outcome::Unknown(failure) }
        }
    }
}

/// The last line on stderr of the first process that ended with an error, unless `known` has it: the files of a variant are not kept.
fn last_words(seen: &Observation, known: &str) -> Option<String> {
    let by_itself = |role: Role| matches!(role, Role::Rank(_) | Role::Launcher(_));
    let failed = seen.finished().find(|process| by_itself(process.role) && exit::is_error(&process.exit))?;
    let end = if failed.stderr.truncated { &failed.stderr.tail } else { &failed.stderr.head };
    let text = String::from_utf8_lossy(end);
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    // torch puts the rank before each line of a traceback.
    let is_known =
        line.split_once("]: ").is_some_and(|(_, said)| known.contains(said.trim())) || known.contains(line.trim());
    (!is_known).then(|| format!("; the last line on stderr of {}: {}", failed.role, line.trim()))
}

/// The failures of the relations of a case that passed: those of variants that could not be run, and the others.
///
/// # Errors
/// The verdict if a variant was interrupted.
pub(super) fn failures(
    case: &Case,
    relations: &Relations,
    observation: &Observation,
) -> Result<(Vec<Failure>, Vec<Failure>), Verdict> {
    let (mut broken, mut failures) = (Vec::new(), Vec::new());
    let tried = match tried(case, relations, observation) {
        Ok(tried) => tried,
        Err(Unknown::Broken(failure)) => return Ok((vec![*failure], failures)),
        Err(Unknown::Failed(failure)) => return Ok((broken, vec![*failure])),
    };
    for one in tried {
        match one.outcome {
            Outcome::Holds => {}
            Outcome::Differs(found) => failures.extend(found),
            Outcome::Unknown(failure) => broken.push(failure),
            Outcome::Interrupted(verdict) => return Err(verdict),
        }
    }
    Ok((broken, failures))
}
