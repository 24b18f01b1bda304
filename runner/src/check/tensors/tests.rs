//! Tensors of two runs, as their ranks would write them.

use std::fs;
use std::slice::from_ref;

use protocol::site::CallSite;
use protocol::step_record::{Line, Part, StepRecord, Summary, TensorRecord, TensorRole, sampled};
use tempfile::TempDir;

use super::*;

/// A tensor with these elements, or rows of a tensor with as many rows: where they start, and how many there are.
fn tensor(role: TensorRole, name: &str, values: &[f64], rows: Option<(u64, u64)>) -> TensorRecord {
    let (first, whole) = rows.unwrap_or((0, values.len() as u64));
    let mut summary = Summary::default();
    for (index, value) in (first..).zip(values) {
        summary.add_element(index, *value, value.to_bits());
        if sampled(name, whole).contains(&index) {
            summary.samples.push((index, value.is_finite().then_some(*value)));
        }
    }
    let part = rows.map(|_| Part { offset: vec![first], shape: vec![values.len() as u64] });
    TensorRecord { role, name: name.to_owned(), dtype: "float32".to_owned(), shape: vec![whole], part, summary }
}

fn gradient(values: &[f64]) -> TensorRecord {
    tensor(TensorRole::Gradient, "0.weight", values, None)
}

fn step(step: u64, tensors: Vec<TensorRecord>) -> Line {
    let site = Some(CallSite::new("/x/train.py".to_owned(), 7, "main".to_owned()));
    Line::Step(StepRecord { step, tensors, site, ..StepRecord::default() })
}

/// A scratch directory in which each rank has recorded these lines.
fn run(ranks: &[Vec<Line>]) -> TempDir {
    let scratch = TempDir::new().unwrap();
    let directory = scratch.path().join(DIRECTORY);
    fs::create_dir(&directory).unwrap();
    for (rank, lines) in ranks.iter().enumerate() {
        let with_rank = |line: &Line| match line {
            Line::Step(step) => Line::Step(StepRecord { rank: Some(rank as u32), ..step.clone() }),
            other => other.clone(),
        };
        let lines = lines.iter().map(|line| serde_json::to_string(&with_rank(line)).unwrap() + "\n");
        fs::write(directory.join(format!("{rank}.jsonl")), lines.collect::<String>()).unwrap();
    }
    scratch
}

const ALL: [TensorRole; 3] = [TensorRole::Gradient, TensorRole::Optimizer, TensorRole::Parameter];

fn tensors(tolerance: Option<f64>, roles: &[TensorRole]) -> Tensors {
    Tensors { roles: roles.to_vec(), tolerance, place: SourceLocation::default() }
}

/// What differs when the first run becomes the second.
fn got(tolerance: Option<f64>, changes_sums: bool, runs: [&[Vec<Line>]; 2]) -> Option<Failure> {
    let place = SourceLocation::default();
    let named = Named { name: "ranks: 1", changes_sums, place: &place };
    let tensors = tensors(tolerance, &ALL);
    let [first, second] = runs.map(|ranks| tensors.read(run(ranks).path(), None).unwrap());
    tensors.compare(named, &first, &second)
}

#[test]
fn the_first_difference_is_named_with_both_values_and_the_line() {
    let one = |values: &[f64]| vec![step(1, vec![gradient(values)]), step(2, vec![gradient(values)])];
    let (first, near, double) = (one(&[3.0, 4.0]), one(&[3.0, 4.000_001]), one(&[6.0, 8.0]));
    assert_eq!(got(None, false, [from_ref(&first), from_ref(&first)]), None);
    assert_eq!(got(None, true, [from_ref(&first), from_ref(&near)]), None, "sums have other parts");
    let bits = got(None, false, [from_ref(&first), &[near]]).expect("bits are promised");
    assert!(bits.expected.contains("bit by bit"), "{}", bits.expected);
    let failure = got(None, true, [&[first], &[double]]).unwrap();
    assert_eq!(
        failure.got,
        "optimizer step 1 (train.py:7), gradient of `0.weight`: norm 5, but 10 under `ranks: 1`: they differ by 5.0e-1 of the \
         larger; 1 more tensor differs"
    );
    assert!(failure.expected.contains("within 1.0e-5 of the larger (the default for float32"), "{}", failure.expected);
}

#[test]
fn gradients_come_before_the_parameters_that_they_change() {
    let parameter = |value: f64| tensor(TensorRole::Parameter, "0.weight", &[value], None);
    let run = |value: f64| vec![step(1, vec![parameter(value), gradient(&[value])])];
    let failure = got(None, true, [&[run(1.0)], &[run(2.0)]]).unwrap();
    assert!(failure.got.contains("gradient of `0.weight`: norm 1, but 2"), "{}", failure.got);
    let only = |value: f64| vec![step(1, vec![parameter(value), gradient(&[1.0])])];
    let failure = got(None, true, [&[only(1.0)], &[only(2.0)]]).unwrap();
    assert!(failure.got.contains("parameter `0.weight`") && failure.next.contains("Adam"), "{failure:?}");
}

#[test]
fn elements_at_other_places_and_values_that_are_not_finite_differ() {
    let run = |values: &[f64]| vec![step(1, vec![gradient(values)])];
    let mut moved: Vec<f64> = (0..64).map(f64::from).collect();
    let first = run(&moved);
    moved.reverse();
    let failure = got(None, true, [&[first], &[run(&moved)]]).unwrap();
    assert!(failure.got.contains("`0.weight`: element "), "{}", failure.got);
    let failure = got(None, true, [&[run(&[1.0, f64::NAN])], &[run(&[1.0, 0.0])]]).unwrap();
    assert!(failure.got.contains("NaN or Inf is 1, but 0"), "{}", failure.got);
}

#[test]
fn a_tensor_of_one_run_only_differs() {
    let name = "parameter 0 of group 0, which no module has";
    let dead = vec![step(1, vec![tensor(TensorRole::Parameter, name, &[1.0], None)])];
    let first = vec![step(1, vec![gradient(&[1.0])])];
    let failure = got(None, true, [&[dead], from_ref(&first)]).unwrap();
    assert!(failure.got.contains("gradient of `0.weight`: nothing, but norm 1 under `ranks: 1`"), "{}", failure.got);
    assert!(failure.next.contains("made for another model"), "{}", failure.next);
    let longer = vec![first[0].clone(), step(2, vec![gradient(&[1.0])])];
    let failure = got(None, true, [&[longer], &[first]]).unwrap();
    assert!(failure.got.contains("optimizer step 2 (train.py:7)"), "{}", failure.got);
    assert!(failure.got.contains("norm 1, but nothing under `ranks: 1`"), "{}", failure.got);
}

#[test]
fn rounding_of_a_tensor_that_should_be_zero_is_no_difference() {
    let with_noise = |noise: f64| {
        let bias = tensor(TensorRole::Gradient, "bias", &[noise, -noise], None);
        vec![step(1, vec![gradient(&[1.0, 2.0]), bias])]
    };
    assert_eq!(got(None, true, [&[with_noise(1e-8)], &[with_noise(-3e-8)]]), None);
    assert!(got(None, true, [&[with_noise(1e-3)], &[with_noise(-3e-3)]]).is_some());
}

#[test]
fn shards_meet_the_whole() {
    let values = [1.0, 2.0, 3.0, 4.0];
    let shard = |from: usize, until: usize| {
        let rows = Some((from as u64, 4));
        vec![step(1, vec![tensor(TensorRole::Gradient, "0.weight", &values[from..until], rows)])]
    };
    let whole = vec![step(1, vec![gradient(&values)])];
    assert_eq!(got(None, false, [&[shard(0, 3), shard(3, 4)], from_ref(&whole)]), None);
    assert_eq!(got(None, false, [&[shard(0, 3), shard(3, 4), shard(0, 3)], &[whole]]), None, "two replicas");
}

#[test]
fn a_run_without_what_is_compared_proves_nothing() {
    let read = |roles: &[TensorRole], ranks: &[Vec<Line>]| tensors(None, roles).read(run(ranks).path(), None);
    assert!(matches!(read(&ALL, &[]), Err(Unknown::Failed(why)) if why.got == "no optimizer step was seen"));
    assert!(matches!(
        read(&[TensorRole::Parameter], &[vec![step(1, vec![gradient(&[1.0])])]]),
        Err(Unknown::Failed(_))
    ));
    let refused = |role| vec![step(1, vec![gradient(&[1.0])]), Line::Refused { role, why: "sparse".to_owned() }];
    assert!(matches!(read(&ALL, &[refused(None)]), Err(Unknown::Broken(why)) if why.got == "sparse"));
    assert!(read(&[TensorRole::Gradient], &[refused(Some(TensorRole::Optimizer))]).is_ok());
    let unlike = [vec![step(1, vec![gradient(&[1.0])])], vec![step(1, vec![gradient(&[2.0])])]];
    let Err(Unknown::Failed(why)) = read(&ALL, &unlike) else { panic!("ranks contradict each other") };
    assert_eq!(why.got, "after optimizer step 1, gradient of `0.weight`: norm 1 on rank 0, but 2 on rank 1");
    let halves = [vec![step(1, vec![gradient(&[1.0])])], vec![step(1, vec![gradient(&[1.0, 2.0])])]];
    let Err(Unknown::Failed(why)) = read(&ALL, &halves) else { panic!("shapes contradict each other") };
    assert!(why.got.ends_with("float32 [1] on rank 0, but float32 [2] on rank 1"), "{}", why.got);
    let part = tensor(TensorRole::Gradient, "0.weight", &[1.0], Some((0, 4)));
    let Err(Unknown::Failed(why)) = read(&ALL, &[vec![step(1, vec![part])]]) else { panic!("parts are missing") };
    assert!(why.got.ends_with("its shards have 1 of 4 elements"), "{}", why.got);
}
