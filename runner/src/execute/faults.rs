//! Which faults of a case fired, told from the cluster report.

use protocol::fault::Trigger;
use serde_json::Value;

use crate::case::{Case, Fault};

/// What fired and what did not, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fired {
    /// Those that fired.
    pub(super) notes: Vec<String>,
    /// Those that never did.
    pub(super) missed: Vec<String>,
}

/// Looks up every fault of the case in its report.
pub(super) fn look_up(case: &Case, report: Option<&Value>) -> Fired {
    let injected = report.and_then(|report| report.pointer("/resilience/injected_faults")).and_then(Value::as_array);
    let mut fired = Fired::default();
    for Fault { fault, place } in &case.faults {
        let index = Value::from(fault.number);
        if injected.into_iter().flatten().any(|injected| injected.get("index") == Some(&index)) {
            fired.notes.push(format!("{place}: {fault} fired"));
        } else {
            fired.missed.push(format!("{place}: {fault} never fired{}", hint(fault, report)));
        }
    }
    fired
}

/// What a person who looks for the reason wants to know first.
fn hint(fault: &protocol::fault::Fault, report: Option<&Value>) -> String {
    let Some(report) = report else { return "; the coordinator left no report".to_owned() };
    let Trigger::Collective { rank, .. } = fault.at else { return String::new() };
    let own = |entry: &&Value| entry.get("rank") == Some(&Value::from(rank.0));
    let made = report
        .get("ranks")
        .and_then(Value::as_array)
        .and_then(|ranks| ranks.iter().find(own)?.get("collective_calls")?.as_u64())
        .unwrap_or(0);
    format!("; the rank completed {made} collective{}", if made == 1 { "" } else { "s" })
}
