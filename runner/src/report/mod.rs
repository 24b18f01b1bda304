//! Reports: pure renderers of progress.

pub mod human;
pub mod junit;
pub mod live;
pub mod xml_text;

use crate::case::Case;
use crate::check::exit;
use crate::observation::{Captured, Observation, Role};

/// The last lines of a stream, decoded for display.
pub fn tail(stream: &Captured, lines: usize) -> Vec<String> {
    let bytes = if stream.tail.is_empty() { &stream.head } else { &stream.tail };
    let text = String::from_utf8_lossy(bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(|line| (*line).to_owned()).collect()
}

/// `rank 0: code 0, rank 1: SIGKILL`.
pub fn exits(observation: &Observation) -> String {
    let exits: Vec<String> = observation
        .processes
        .iter()
        .map(|process| format!("{}: {}", process.role, exit::describe(&process.exit)))
        .collect();
    exits.join(", ")
}

/// The process whose output explains most: the first rank that did not end with 0, else the first launcher, else the coordinator.
pub fn culprit(case: &Case, observation: &Observation) -> Option<Role> {
    use crate::observation::Exit;
    let killed = |role: Role| {
        case.kill.iter().any(|kill| kill.target == crate::case::KillTarget::Coordinator && role == Role::Coordinator
            || matches!((kill.target, role), (crate::case::KillTarget::Rank(target), Role::Rank(rank)) if target == rank))
    };
    // A rank that hangs is ended like those that wait for it: its stack tells most.
    let missing = observation.hang.iter().flat_map(|hang| &hang.missing).map(|rank| Role::Rank(*rank));
    if let Some(role) = missing.into_iter().find(|role| observation.process(*role).is_some()) {
        return Some(role);
    }
    let bad = |exit: &Exit| !matches!(exit, Exit::Code(0));
    observation
        .processes
        .iter()
        .filter(|process| bad(&process.exit) && !killed(process.role) && !process.stderr.head.is_empty())
        .min_by_key(|process| process.role)
        .or_else(|| observation.processes.iter().find(|process| bad(&process.exit) && !killed(process.role)))
        .or_else(|| observation.processes.iter().find(|process| !process.stderr.head.is_empty()))
        .map(|process| process.role)
}
