//! Steps of two runs, as their ranks would write them.

use std::fs;
use std::path::PathBuf;

use protocol::sampled_step::{Line, SampledStep};
use protocol::site::CallSite;
use tempfile::TempDir;

use super::*;

/// A scratch directory in which each rank has made steps on these samples.
fn scratch(ranks: &[&[&[i64]]]) -> TempDir {
    let scratch = TempDir::new().unwrap();
    let directory = scratch.path().join(DIRECTORY);
    fs::create_dir(&directory).unwrap();
    for (rank, steps) in (0..).zip(ranks) {
        let line = |(step, samples): (u64, &&[i64])| {
            let site = Some(CallSite::new("/x/train.py".to_owned(), 7, "main".to_owned()));
            let made = SampledStep { rank: Some(rank), optimizer: 0, step, site, samples: samples.to_vec() };
            serde_json::to_string(&Line::Step(made)).unwrap() + "\n"
        };
        let lines: String = (1..).zip(*steps).map(line).collect();
        fs::write(directory.join(format!("{rank}.jsonl")), lines).unwrap();
    }
    scratch
}

fn run(before: Option<&[&[&[i64]]]>, ranks: &[&[&[i64]]]) -> Run {
    let place = SourceLocation::default();
    let (before, own) = (before.map(scratch), scratch(ranks));
    Run::read(own.path(), before.as_ref().map(TempDir::path), true, None, &place).unwrap()
}

static PLACE: SourceLocation = SourceLocation { file: PathBuf::new(), line: 0, column: 0 };

fn named(changes_sums: bool) -> Named<'static> {
    Named { name: "x", changes_sums, place: &PLACE }
}

/// What differs in samples or number.
fn got(first: &Run, second: &Run) -> Option<String> {
    let steps = Steps { count: true, samples: true, place: SourceLocation::default() };
    steps.compare(named(true), first, second).map(|failure| failure.got)
}

#[test]
fn ranks_share_the_samples_of_one() {
    let one = run(None, &[&[&[0, 1, 2, 3], &[4, 5, 6, 7]]]);
    assert_eq!(got(&run(None, &[&[&[2, 0], &[4, 6]], &[&[1, 3], &[5, 7]]]), &one), None);
    let skips = run(None, &[&[&[0, 2], &[4, 6]], &[&[1, 3], &[5, 8]]]);
    assert_eq!(
        got(&one, &skips).unwrap(),
        "optimizer step 2 (train.py:7): sample 7 is missing under `x`, and sample 8 is there instead"
    );
    let repeats = run(None, &[&[&[0, 2], &[4, 6]], &[&[1, 3], &[5, 7, 5]]]);
    assert_eq!(got(&one, &repeats).unwrap(), "optimizer step 2 (train.py:7): sample 5 is there only under `x`");
    let shorter = run(None, &[&[&[0, 1, 2, 3]]]);
    assert_eq!(got(&one, &shorter).unwrap(), "the optimizer makes 2 steps, but 1 under `x`");
}

#[test]
fn ranks_of_tensor_parallelism_have_one_batch() {
    let (pair, one) = (run(None, &[&[&[0, 1]], &[&[1, 0]]]), run(None, &[&[&[0, 1]]]));
    assert_eq!(got(&pair, &one), None);
    assert_eq!(pair.compare_batches(named(true), &one), None);
}

#[test]
fn a_batch_of_another_size_is_named() {
    let (two, one) = (run(None, &[&[&[0, 1]], &[&[2, 3]]]), run(None, &[&[&[0, 1]]]));
    let failure = two.compare_batches(named(true), &one).unwrap();
    assert_eq!(failure.got, "optimizer step 1 (train.py:7) is made on 4 samples, but on 2 under `x`");
    assert_eq!(two.compare_batches(named(true), &run(None, &[&[&[7, 8, 9, 9]]])), None, "how many, and not which");
}

#[test]
fn after_a_restart_the_last_step_is_the_last() {
    let whole = run(None, &[&[&[0], &[1], &[2], &[3]]]);
    let restarted = |before: &[&[i64]], after: &[&[i64]]| got(&whole, &run(Some(&[before]), &[after]));
    assert_eq!(restarted(&[&[0], &[1], &[2]], &[&[2], &[3]]), None, "killed a step after it was saved");
    assert_eq!(restarted(&[&[0], &[1]], &[&[2], &[3]]), None);
    assert_eq!(
        restarted(&[&[0], &[1]], &[&[0], &[1]]).unwrap(),
        "optimizer step 3 (train.py:7), step 1 after the restart: sample 2 is missing under `x`, and sample 0 is there instead"
    );
    let only_count = |before: &[&[i64]], after: &[&[i64]]| {
        let steps = Steps { count: true, samples: false, place: SourceLocation::default() };
        steps.compare(named(false), &whole, &run(Some(&[before]), &[after])).map(|failure| failure.got)
    };
    assert_eq!(
        only_count(&[&[0]], &[&[3]]).unwrap(),
        "the optimizer makes 4 steps, but 1 before and 1 after the restart under `x`"
    );
    let again = only_count(&[&[0]], &[&[0], &[1], &[2], &[3]]).unwrap();
    assert_eq!(again, "after the restart, the optimizer makes all 4 steps again: the case did not resume");
    assert!(only_count(&[&[0]], &[&[0], &[0], &[1], &[2], &[3]]).unwrap().contains("1 before and 5 after"));
}

#[test]
fn a_run_without_steps_or_samples_proves_nothing() {
    let read = |ranks: &[&[&[i64]]], needs_samples| {
        Run::read(scratch(ranks).path(), None, needs_samples, None, &SourceLocation::default())
    };
    assert!(matches!(read(&[], true), Err(Unknown::Failed(why)) if why.got == "no optimizer step was seen"));
    assert!(matches!(read(&[&[&[]]], true), Err(Unknown::Failed(why)) if why.got == "no sample was seen"));
    assert!(read(&[&[&[]]], false).is_ok(), "steps are counted without samples");
    let refusing = scratch(&[&[&[0]]]);
    let refused = serde_json::to_string(&Line::Refused { why: "no indices".to_owned() }).unwrap() + "\n{\"step";
    fs::write(refusing.path().join(DIRECTORY).join("9.jsonl"), refused).unwrap();
    let read = |needs_samples| Run::read(refusing.path(), None, needs_samples, None, &SourceLocation::default());
    assert!(matches!(read(true), Err(Unknown::Broken(why)) if why.got == "no indices"));
    assert!(read(false).is_ok());
}
