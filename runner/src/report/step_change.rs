//! A step on the modeled clock beside that of the same case in the run before: how much longer it is, and what most of that is.

use std::collections::{BTreeMap, BTreeSet};

use protocol::report::{DeviceSteps, ExposedCollective, PathKind, PathSegment, RunTime};
use timing::steps::TOLD;

use crate::record::{CaseRun, Run};
use crate::report::{cluster, words};

/// A smaller change is not told.
const LEAST_SHARE: f64 = 0.01;
/// What explains a smaller part of the change is not told.
const LEAST_PART: f64 = 0.25;

/// The steps of `now` that changed since `before`, each case with its index in `now` and a sentence without a period.
pub fn changes(before: &Run, now: &Run) -> Vec<(usize, String)> {
    let changed = now.cases.iter().enumerate().filter_map(|(index, case)| {
        let now = time(case)?;
        let before_case = before.case(&case.info.case)?;
        let (change, why) = compare(&time(before_case)?, &now)?;
        Some((index, format!("{change} than in run {}{why}", before.info.run)))
    });
    changed.collect()
}

/// Whether a case has steps on the modeled clock.
pub fn is_timed(case: &CaseRun) -> bool {
    time(case).is_some_and(|time| time.step_us.is_some())
}

/// The steps of the last attempt of a case.
fn time(case: &CaseRun) -> Option<RunTime> {
    cluster::read(case.attempts.last()?)?.ok()?.time
}

/// How a step changed, `step 12 % longer`, and what most of that is, if it is known; `None` if it did not.
fn compare(before: &RunTime, now: &RunTime) -> Option<(String, String)> {
    let (was_us, is_us) = (before.step_us?, now.step_us?);
    let change_us = is_us - was_us;
    if was_us <= 0.0 || (change_us / was_us).abs() < LEAST_SHARE {
        return None;
    }
    let word = if change_us > 0.0 { "longer" } else { "shorter" };
    let change = format!("step {:.0} % {word}", (change_us / was_us).abs() * 100.0);
    let why = slowest(before).zip(slowest(now)).and_then(|(was, is)| reason(was, is, change_us));
    Some((change, why.map_or_else(String::new, |why| format!(": {why}"))))
}

/// The steps of the rank that the others wait for.
fn slowest(time: &RunTime) -> Option<&DeviceSteps> {
    time.steps.iter().find(|steps| steps.rank == time.slowest_rank)
}

/// What explains most of a change.
fn reason(was: &DeviceSteps, is: &DeviceSteps, change_us: f64) -> Option<String> {
    let mut reasons = exposures(&was.exposed, &is.exposed);
    reasons.extend(segments(&was.critical_path, &is.critical_path));
    let explained = |(ns, _): &(i64, String)| *ns as f64 / 1e3 / change_us;
    let (_, why) =
        reasons.into_iter().filter(|reason| explained(reason) >= LEAST_PART).max_by_key(|(ns, _)| ns.abs())?;
    Some(why)
}

/// What differs in exposed communication: by how much, ns, and a sentence. Lines move when a program changes, so that they tell nothing
/// apart.
fn exposures(was: &[ExposedCollective], is: &[ExposedCollective]) -> Vec<(i64, String)> {
    let key = |one: &ExposedCollective| Some((one.operation.clone(), one.bytes));
    let list = |all: &[ExposedCollective]| List::new(all, |one| one.time_ns, key);
    differences(list(was), list(is), |key_of, was_ns, is_ns| {
        let (operation, bytes) = key_of;
        let longest = is.iter().chain(was).find(|one| key(one).as_ref() == Some(key_of));
        let place = longest.and_then(|one| place(one.file.as_deref(), one.line)).unwrap_or_default();
        let what = format!("{operation} of {}{place}", words::bytes(*bytes));
        match (was_ns, is_ns) {
            (0, _) => format!("{what} is exposed now"),
            (_, 0) => format!("{what} is not exposed any more"),
            _ => format!("{what} is exposed for {}", longer(was_ns, is_ns)),
        }
    })
}

/// What differs in the critical path, but for collectives, whose exposed part says more.
fn segments(was: &[PathSegment], is: &[PathSegment]) -> Vec<(i64, String)> {
    if was.is_empty() || is.is_empty() {
        // A path that is not known differs in nothing.
        return Vec::new();
    }
    let key = |one: &PathSegment| (one.kind != PathKind::Collective).then(|| (one.kind, one.name.clone()));
    let list = |all: &[PathSegment]| List::new(all, |one| one.time_ns, key);
    differences(list(was), list(is), |key_of, was_ns, is_ns| {
        let (kind, name) = key_of;
        let longest = is.iter().chain(was).find(|one| key(one).as_ref() == Some(key_of));
        let what = match kind {
            PathKind::Wait => format!("the wait of other ranks in {name}"),
            PathKind::Host => format!("the host before {}", if name.is_empty() { "the end" } else { name }),
            PathKind::Gap => format!("gaps before {name}"),
            PathKind::Compute | PathKind::Copy | PathKind::Collective => name.clone(),
        };
        let place = longest.and_then(|one| place(one.file.as_deref(), one.line)).unwrap_or_default();
        format!("{what}{place} takes {} of the critical path", longer(was_ns, is_ns))
    })
}

/// By how much the times of two lists differ.
fn differences<K: Ord>(was: List<K>, is: List<K>, sentence: impl Fn(&K, u64, u64) -> String) -> Vec<(i64, String)> {
    let keys: BTreeSet<&K> = was.times.keys().chain(is.times.keys()).collect();
    let differ = keys.into_iter().map(|key| {
        let (was, is) = (was.time(key), is.time(key));
        (is as i64 - was as i64, sentence(key, was, is))
    });
    differ.collect()
}

/// The longest times of a step.
struct List<K> {
    times: BTreeMap<K, u64>,
    /// All others are at most that long: a full list may leave some out.
    rest_ns: u64,
}

impl<K: Ord> List<K> {
    fn new<T>(all: &[T], time_ns: impl Fn(&T) -> u64, key: impl Fn(&T) -> Option<K>) -> Self {
        let mut times = BTreeMap::new();
        all.iter()
            .filter_map(|one| Some((key(one)?, time_ns(one))))
            .for_each(|(key, ns)| *times.entry(key).or_default() += ns);
        let rest_ns = if all.len() < TOLD { 0 } else { all.iter().map(time_ns).min().unwrap_or(0) };
        Self { times, rest_ns }
    }

    fn time(&self, key: &K) -> u64 {
        self.times.get(key).copied().unwrap_or(self.rest_ns)
    }
}

fn place(file: Option<&str>, line: Option<u32>) -> Option<String> {
    file.zip(line).map(|(file, line)| format!(" at {file}:{line}"))
}

fn longer(was_ns: u64, is_ns: u64) -> String {
    let time = words::time(is_ns.abs_diff(was_ns) as f64 / 1e3);
    format!("{time} {}", if is_ns > was_ns { "more" } else { "less" })
}

#[cfg(test)]
mod tests {
    use protocol::ids::Rank;
    use serde_json::json;

    use super::*;

    /// A run whose slowest rank has a step of `step_us`, with exposed collectives and a critical path.
    fn run(step_us: f64, exposed: &[(&str, u64, u64)], path: &[(&str, &str, u64)]) -> RunTime {
        let step = json!({
            "step": 2, "duration_ns": 0, "busy_ns": 0, "computing_ns": 0, "communication_ns": 0, "exposed_communication_ns": 0,
            "collective_wait_ns": 0, "launch_bound_ns": 0, "host_wait_ns": 0,
        });
        let exposed: Vec<_> = exposed
            .iter()
            .map(|(operation, bytes, time_ns)| {
                json!({"operation": operation, "bytes": bytes, "file": "model.py", "line": 88, "count": 1, "time_ns": time_ns})
            })
            .collect();
        let path: Vec<_> = path
            .iter()
            .map(|(kind, name, time_ns)| json!({"kind": kind, "name": name, "count": 1, "time_ns": time_ns, "share": 0.1}))
            .collect();
        let steps = |rank: u32, exposed, path| {
            json!({
                "rank": rank, "device": 0, "marked_by": "optimizer", "count": 2, "first": step, "last": step,
                "critical_path": path, "exposed": exposed,
            })
        };
        let time = json!({
            "is_calibrated": true, "step_us": step_us, "slowest_rank": Rank(1),
            "steps": [steps(0, json!([]), json!([])), steps(1, json!(exposed), json!(path))],
        });
        serde_json::from_value(time).unwrap()
    }

    #[test]
    fn a_change_is_told_with_what_most_of_it_is() {
        let gather = |time_ns| ("all_gather", 50 << 20, time_ns);
        let usual = run(1000.0, &[("all_reduce", 8, 9_000)], &[("compute", "gemm", 500_000), ("host", "", 100_000)]);
        for (before, now, expected) in [
            (&usual, run(1004.0, &[gather(400_000)], &[]), None),
            (
                &usual,
                run(1120.0, &[("all_reduce", 8, 9_000), gather(100_000)], &[("compute", "gemm", 510_000)]),
                Some("step 12 % longer: all_gather of 50 MiB at model.py:88 is exposed now"),
            ),
            (
                &run(1120.0, &[gather(100_000)], &[]),
                run(1000.0, &[], &[]),
                Some("step 11 % shorter: all_gather of 50 MiB at model.py:88 is not exposed any more"),
            ),
            (
                &run(1000.0, &[gather(10_000)], &[]),
                run(1100.0, &[gather(90_000)], &[]),
                Some("step 10 % longer: all_gather of 50 MiB at model.py:88 is exposed for 80 us more"),
            ),
            (
                &usual,
                run(1500.0, &[], &[("compute", "gemm", 900_000), ("host", "", 190_000)]),
                Some("step 50 % longer: gemm takes 400 us more of the critical path"),
            ),
            (
                &usual,
                run(1500.0, &[], &[("compute", "gemm", 500_000), ("wait", "all_gather", 490_000)]),
                Some("step 50 % longer: the wait of other ranks in all_gather takes 490 us more of the critical path"),
            ),
            // Eight are told, so that the one before may have been as long as the shortest of them.
            (
                &run(1000.0, &[1, 2, 3, 4, 5, 6, 7, 8].map(|bytes| ("broadcast", bytes, 20_000)), &[]),
                run(1200.0, &[gather(100_000)], &[]),
                Some("step 20 % longer: all_gather of 50 MiB at model.py:88 is exposed for 80 us more"),
            ),
            // Nothing of it explains a quarter.
            (&usual, run(3000.0, &[gather(400_000)], &[("compute", "gemm", 500_000)]), Some("step 200 % longer")),
        ] {
            let told = compare(before, &now).map(|(change, why)| format!("{change}{why}"));
            assert_eq!(told.as_deref(), expected);
        }
        let unmarked = RunTime { step_us: None, ..usual.clone() };
        assert_eq!(compare(&unmarked, &usual), None);
    }
}
