//! The verdict on one attempt: compares the observation with the case's expectations, and ranks the outcomes.

pub mod relations;

use std::time::Duration;

use crate::check::capture::Captures;
use protocol::device_report::Left;
use protocol::message::UNREACHABLE_AFTER;
use serde_json::{Value, json};

use super::{environment, left_out};
use crate::case::network::Severed;
use crate::case::{Case, KillTarget, cluster};
use crate::check::snapshot::{Owner, SnapshotMode};
use crate::check::{Failure, FailureKind, Leaks, capture, exit, finding, gap, need, report_shape};
use crate::expression::Context;
use crate::filter;
use crate::observation::{Execution, Exit, Observation, ProcessObservation, Ran, Role, Stop, Waiting};
use crate::verdict::Verdict;

/// The verdict, and every failed check. `snapshots` determines what happens to snapshots that differ if every other check holds.
pub fn judge(case: &Case, observation: &Observation, snapshots: SnapshotMode) -> (Verdict, Vec<Failure>) {
    let skipped = |reason: &str| (Verdict::Skipped { reason: reason.to_owned() }, Vec::new());
    let ran = match &observation.execution {
        Execution::Skipped(reason) => return skipped(reason),
        Execution::Interrupted => return skipped("the run was interrupted"),
        Execution::OutOfTime(whose) => {
            return (Verdict::Timeout, vec![out_of_time(case, whose, "it was not started".to_owned())]);
        }
        Execution::NoFixture(_) | Execution::NoPython(_) | Execution::NotStarted(_) => {
            return (Verdict::Broken, not_the_programs(case, observation));
        }
        Execution::Ran(ran) => ran,
    };
    if matches!(ran.stop, Stop::Interrupted) {
        return skipped("interrupted while it ran");
    }
    let mut broken = not_the_programs(case, observation);
    if ran.infra_error.is_some() {
        return (Verdict::Broken, broken);
    }
    let mut failures = in_every_case(case, observation, ran);
    let stopped = expected(case, observation, &mut failures);
    if let (Some(deterministic), None) = (&case.deterministic, &observation.again)
        && broken.is_empty()
        && failures.is_empty()
    {
        broken.push(deterministic.failed("it was not run a second time".to_owned()));
    }
    if let (Some(deterministic), Some(again)) = (&case.deterministic, &observation.again) {
        let mut once = Case { deterministic: None, holds_under: None, ..case.clone() };
        if snapshots != SnapshotMode::CompareOnly {
            // Theirs are accepted only after the first run has passed.
            once.expect.snapshots.clear();
        }
        match judge(&once, again, SnapshotMode::CompareOnly) {
            (Verdict::Passed, _) => failures.extend(deterministic.compare(observation, again)),
            (skipped @ Verdict::Skipped { .. }, _) => return (skipped, Vec::new()),
            (verdict, why) => {
                let why = why.first().map_or(String::new(), |why| format!(": {}", why.got));
                failures.push(deterministic.failed(format!("{}{why}", verdict.word())));
            }
        }
    }
    if let Some(relations) = case.holds_under.as_ref().filter(|_| broken.is_empty() && failures.is_empty()) {
        match relations::failures(case, relations, observation) {
            Ok(found) => (broken, failures) = found,
            Err(skipped) => return (skipped, Vec::new()),
        }
    }
    let right = broken.is_empty() && failures.is_empty();
    let mode = if right { snapshots } else { SnapshotMode::CompareOnly };
    let owner = owner(case);
    let checks = case.expect.snapshots.iter().filter(|_| !stopped);
    failures.extend(checks.filter_map(|check| check.check(&owner, observation, mode)));
    let timed_out =
        ran.stop.is_timeout() && !hang_wanted(case, observation) && failed_early(case, observation).is_empty();
    let verdict = match (broken.is_empty(), timed_out, failures.is_empty()) {
        (false, _, _) => Verdict::Broken,
        (true, true, _) => Verdict::Timeout,
        (true, false, false) => Verdict::Failed,
        (true, false, true) => Verdict::Passed,
    };
    broken.extend(failures);
    (verdict, broken)
}

/// Failures that are our fault and not the program's.
fn not_the_programs(case: &Case, observation: &Observation) -> Vec<Failure> {
    let failure = |kind: FailureKind, expected: &str, got: String, next: &str| Failure {
        place: None,
        kind,
        expected: expected.to_owned(),
        got,
        next: next.to_owned(),
    };
    let mut failures = Vec::new();
    if let Some(error) = observation.execution.infra_error() {
        failures.push(failure(FailureKind::Infra, "the case can be run", error.to_owned(), ""));
    }
    match &observation.execution {
        Execution::NoFixture(error) => failures.push(Failure {
            place: Some(error.place.clone()),
            kind: FailureKind::Fixture,
            expected: error.expected.clone(),
            got: error.got.clone(),
            next: error.next.clone(),
        }),
        Execution::NoPython(error) => failures.push(Failure {
            place: Some(case.place.clone()),
            kind: FailureKind::Python,
            expected: error.expected.clone(),
            got: error.got.clone(),
            next: error.next.clone(),
        }),
        _ => {}
    }
    failures.extend(environment::failures(case, observation));
    failures.extend(left_out::failures(case, observation));
    failures.extend(gap::failures(&case.allow_gaps, &case.expect.gaps, observation));
    let killed = case.kill.iter().any(|kill| kill.target == KillTarget::Coordinator);
    if let Some(coordinator) = observation.process(Role::Coordinator)
        && coordinator.exit != Exit::Code(0)
        && !killed
    {
        let next = format!("its stderr is {}", coordinator.stderr.path.display());
        failures.push(failure(
            FailureKind::Coordinator,
            "the coordinator ends with code 0",
            exit::describe(&coordinator.exit),
            &next,
        ));
    }
    if let Some(report) = &observation.cluster_report {
        for mistake in report_shape::mistakes(report) {
            failures.push(failure(FailureKind::Schema, "the cluster report is valid against its schema", mistake, ""));
        }
    }
    failures
}

/// Checks that every case must satisfy.
fn in_every_case(case: &Case, observation: &Observation, ran: &Ran) -> Vec<Failure> {
    let failure = |kind: FailureKind, expected: String, got: String, next: String| Failure {
        place: Some(case.place.clone()),
        kind,
        expected,
        got,
        next,
    };
    let mut failures =
        finding::failures(&case.expect.findings, &case.expect.exit, (&killed(case), cuts_for_long(case)), observation);
    if let Stop::TimedOut { limit, .. } = &ran.stop
        && !hang_wanted(case, observation)
        && failed_early(case, observation).is_empty()
    {
        let deadline = case.timeout.kill.as_secs_f64();
        let got = still_running(observation, ran);
        if let Some(whose) = limit {
            failures.push(out_of_time(case, whose, got));
        } else if let Some(failure) = hang_failure(case, observation) {
            failures.push(failure);
        } else {
            failures.push(failure(
                FailureKind::Timeout,
                format!("ends within {deadline} s"),
                got,
                match case.timeout.idle {
                    Some(_) => "raise `timeout.kill` if it only needs longer".to_owned(),
                    None => "raise `timeout.kill` if it only needs longer; if it waits for ever, `timeout: {idle: 30s}` ends it \
                             sooner"
                        .to_owned(),
                },
            ));
        }
    }
    for kill in &ran.missed.kills {
        failures.push(failure(FailureKind::Kill, "every `kill` is triggered".to_owned(), kill.clone(), String::new()));
    }
    for cut in &ran.missed.cuts {
        failures.push(failure(
            FailureKind::Cut,
            "every cut of a link is triggered".to_owned(),
            cut.clone(),
            String::new(),
        ));
    }
    for fault in &ran.missed.faults {
        failures.push(failure(FailureKind::Fault, "every fault fires".to_owned(), fault.clone(), String::new()));
    }
    if case.expect.leaks == Leaks::Strict {
        for object in observation.shared_memory.iter().map(|object| object.display()) {
            let next = format!("the process that creates it has to remove it; `rm {object}`");
            failures.push(failure(
                FailureKind::Leak,
                "nothing is left behind".to_owned(),
                format!("shared memory {object}"),
                next,
            ));
        }
        for left in &observation.left {
            let next = "free, destroy or finalize it before the program ends".to_owned();
            failures.push(failure(FailureKind::Leak, "nothing is left on the GPU".to_owned(), left_by(left), next));
        }
    }
    for leak in observation.leaked.iter().filter(|_| case.expect.leaks != Leaks::Allowed) {
        failures.push(failure(FailureKind::Leak, "nothing is left behind".to_owned(), leak.clone(), String::new()));
    }
    failures
}

/// "rank 1 ended with 2 allocations of device memory (1024 bytes), 1 stream and 3 events".
fn left_by(left: &Left) -> String {
    let who = left.rank.map_or_else(|| format!("process {}", left.pid), |rank| format!("rank {rank}"));
    let count = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let memory = format!("{} of device memory ({} bytes)", count(left.allocations, "allocation"), left.bytes);
    let pinned = format!("{} of pinned memory ({} bytes)", count(left.pinned, "allocation"), left.pinned_bytes);
    let parts = [
        (left.allocations, memory),
        (left.pinned, pinned),
        (left.streams, count(left.streams, "stream")),
        (left.events, count(left.events, "event")),
        (left.communicators, count(left.communicators, "communicator")),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    match parts.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("{who} ended with {} and {last}", others.join(", ")),
        parts => format!("{who} ended with {}", parts.concat()),
    }
}

/// Whether the case cuts links for so long that ranks give up on each other, which they do at once where connections are reset.
fn cuts_for_long(case: &Case) -> bool {
    let cuts = case.network.as_ref().map(|network| &network.cuts[..]).unwrap_or_default();
    let nodes = case.cluster.as_ref().map_or(0, |cluster| cluster.nodes.len());
    let is_of_control = |what: Severed| matches!(what, Severed::Link([_, other]) if other == nodes);
    let is_long = |lasts: Option<Duration>| lasts.is_none_or(|lasts| lasts >= UNREACHABLE_AFTER);
    cuts.iter().any(|cut| is_long(cut.lasts) || cut.resets && !is_of_control(cut.what))
}

/// The global ranks that a `kill` of the case ends.
fn killed(case: &Case) -> Vec<u32> {
    let of_node = |node: u32| {
        let nodes = case.cluster.as_ref().map(|cluster| cluster.nodes.as_slice()).unwrap_or_default();
        nodes.get(node as usize).map(|node| node.ranks.iter().map(|rank| rank.0).collect()).unwrap_or_default()
    };
    let ranks = case.kill.iter().flat_map(|kill| match kill.target {
        KillTarget::Rank(rank) => vec![rank],
        KillTarget::Node(node) => of_node(node),
        KillTarget::Coordinator => Vec::new(),
    });
    ranks.collect()
}

/// Processes that failed before the case was ended; if there are any, no deadline is to blame.
fn failed_early<'a>(case: &Case, observation: &'a Observation) -> Vec<&'a ProcessObservation> {
    if observation.execution.was_ended() && case.expect.hang.is_none() {
        case.expect.exit.failed_early(observation)
    } else {
        Vec::new()
    }
}

/// Which processes were ended, and which had ended before.
fn still_running(observation: &Observation, ran: &Ran) -> String {
    let names = |roles: &[Role]| roles.iter().map(Role::to_string).collect::<Vec<String>>().join(", ");
    let mut text = match ran.unfinished.as_slice() {
        [] => "still running".to_owned(),
        unfinished => format!("still running: {}", names(unfinished)),
    };
    match ran.stopped.as_slice() {
        [] => {}
        [one] => text.push_str(&format!("; {one} is stopped by a signal")),
        several => text.push_str(&format!("; {} are stopped by a signal", names(several))),
    }
    let mut before: Vec<(String, Vec<Role>)> = Vec::new();
    for process in observation.finished().filter(|process| process.role != Role::Coordinator) {
        let end = exit::describe(&process.exit);
        match before.iter_mut().find(|(known, _)| *known == end) {
            Some((_, roles)) => roles.push(process.role),
            None => before.push((end, vec![process.role])),
        }
    }
    for (end, roles) in before {
        text.push_str(&format!("; {} had ended: {end}", names(&roles)));
    }
    if let Some(Waiting::Whereabouts(lines)) = ran.stop.waiting() {
        for line in lines {
            text.push('\n');
            text.push_str(line);
        }
    }
    text
}

fn out_of_time(case: &Case, whose: &str, got: String) -> Failure {
    let expected = format!("it ends before the time of {whose} is up");
    Failure { place: Some(case.place.clone()), kind: FailureKind::Timeout, expected, got, next: String::new() }
}

/// The failure of a case whose processes ended, but not soon enough.
fn too_late(case: &Case, observation: &Observation) -> Option<Failure> {
    let (within, place) = case.expect.within.as_ref()?;
    let ended = observation.execution.was_ended();
    let late = observation.duration > *within && (!ended || hang_wanted(case, observation));
    late.then(|| Failure {
        place: Some(place.clone()),
        kind: FailureKind::Within,
        expected: format!("ends within {} s", within.as_secs_f64()),
        got: format!("it ended in {:.1} s", observation.duration.as_secs_f64()),
        next: String::new(),
    })
}

/// The checks of the case. True if a fatal one failed; then the checks after it are skipped.
fn expected(case: &Case, observation: &Observation, failures: &mut Vec<Failure>) -> bool {
    let expect = &case.expect;
    let mut stops = |found: Vec<Failure>, fatal: bool| {
        let stops = fatal && !found.is_empty();
        failures.extend(found);
        if let Some(last) = failures.last_mut().filter(|_| stops) {
            let note = "it is `fatal`: no check after it was made";
            last.next = if last.next.is_empty() { note.to_owned() } else { format!("{}\n{note}", last.next) };
        }
        stops
    };
    // Exits are not checked if the deadline ended processes that did nothing wrong, or if a hang is expected.
    let asked = !observation.execution.is_timeout() || !failed_early(case, observation).is_empty();
    let exits = if asked { expect.exit.check(observation) } else { Vec::new() };
    if stops(exits, expect.exit.fatal) {
        return true;
    }
    for check in &expect.output {
        if stops(check.check(observation).into_iter().collect(), check.fatal) {
            return true;
        }
    }
    let captures = Captures::collect(&expect.output, observation);
    for check in &expect.report {
        if stops(check.check(observation, &captures), check.fatal) {
            return true;
        }
    }
    if !expect.invariants.is_empty() {
        let context = context(case, observation, &captures);
        for invariant in &expect.invariants {
            if stops(invariant.check(&context, &captures).into_iter().collect(), invariant.fatal) {
                return true;
            }
        }
    }
    failures.extend(too_late(case, observation));
    failures.extend(expect.perf.iter().filter_map(|check| check.check(observation, &captures).1));
    failures.extend(expect.hang.iter().flat_map(|hang| hang.check(observation)));
    failures.extend(expect.findings.iter().filter_map(|finding| finding.check(observation)));
    failures.extend(expect.gaps.iter().filter_map(|gap| gap.check(observation)));
    false
}

/// The failure for a hang, if no other outcome was expected.
fn hang_failure(case: &Case, observation: &Observation) -> Option<Failure> {
    let hang = observation.execution.hang().filter(|_| case.expect.hang.is_none())?;
    let expected = match case.timeout.idle.filter(|_| hang.idle) {
        Some(idle) => format!("something moves every {} s", idle.as_secs_f64()),
        None => format!("ends within {} s", case.timeout.kill.as_secs_f64()),
    };
    let next = match &hang.flight_record {
        Some(record) => {
            let read = "python -m torch.distributed.flight_recorder.fr_trace --prefix rank_";
            format!("the flight record: {read} {}", record.display())
        }
        None => String::new(),
    };
    Some(Failure { place: Some(case.place.clone()), kind: FailureKind::Hang, expected, got: hang.story(), next })
}

/// Whether the case was ended because of the hang that it expects.
fn hang_wanted(case: &Case, observation: &Observation) -> bool {
    case.expect.hang.is_some() && observation.execution.hang().is_some()
}

/// The owner of a case's snapshots.
pub fn owner(case: &Case) -> Owner {
    Owner { suite: case.place.file.display().to_string(), case: case.full_id(), filter: filter::one(&case.full_id()) }
}

/// The values of [`crate::check::invariant::NAMES`] for a case. Anything not observed is missing, so that using it is an error.
fn context(case: &Case, observation: &Observation, captures: &Captures) -> Context {
    let ranks: Vec<Value> = observation
        .ranks()
        .map(|(rank, process)| {
            let (code, signal) = match &process.exit {
                Exit::Code(code) => (json!(code), Value::Null),
                Exit::Signal(number) => (Value::Null, json!(crate::host::signal::name(*number))),
                Exit::NotStarted(_) | Exit::Unkillable | Exit::Unknown => (Value::Null, Value::Null),
            };
            json!({ "rank": rank, "exit": { "code": code, "signal": signal, "text": exit::describe(&process.exit) },
                "stdout_bytes": process.stdout.bytes, "stderr_bytes": process.stderr.bytes })
        })
        .collect();
    let mut context = json!({ "matrix": case.matrix, "ranks": ranks });
    context[capture::NAME] = captures.value();
    if let Some(cluster) = &case.cluster {
        context["cluster"] = cluster::describe(cluster);
    }
    if let Some(world_size) = case.world_size() {
        context["world_size"] = json!(world_size);
    }
    let mut context = Context::new(&context);
    context.add("devices", &observation.device_reports);
    if let Some(report) = &observation.cluster_report {
        // Parts that no invariant uses are not converted; their names stay, for messages.
        let sections = need::sections(&case.expect.invariants);
        let used = |name: &str| sections.as_ref().is_none_or(|sections| sections.iter().any(|section| section == name));
        context.add_parts("report", report, used);
    }
    context
}

#[cfg(test)]
mod mutation;
#[cfg(test)]
mod tests;
