//! Which faults of a case fired, from the cluster report.

use protocol::fault::Trigger;
use serde_json::Value;

use crate::case::{Case, Fault};

/// Messages about the faults that fired and those that did not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::execute) struct Fired {
    /// Those that fired.
    pub(in crate::execute) notes: Vec<String>,
    /// Those that never fired.
    pub(in crate::execute) missed: Vec<String>,
}

/// Looks up every fault of the case in its report.
pub(in crate::execute) fn look_up(case: &Case, report: Option<&Value>) -> Fired {
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

/// The first thing a user needs to know to find the reason.
fn hint(fault: &protocol::fault::Fault, report: Option<&Value>) -> String {
    let Some(report) = report else { return "; the coordinator left no report".to_owned() };
    let Trigger::Collective { rank, communicator, operation, sequence } = &fault.at else {
        let hint = match (fault.action.link(), fault.action.gpu()) {
            (Some(_), _) => "; no operation crossed the link then",
            (_, Some(_)) => "; the case ended before that, or none of its processes called CUDA, NCCL or NVML",
            _ => "; the rank ended before that, or never called NCCL",
        };
        return hint.to_owned();
    };
    // The world is communicator 1 of the report as well.
    let there = sequence.filter(|_| *communicator == Some(1)).and_then(|sequence| collective(report, sequence.0));
    match there {
        Some(other) if other != operation.name() => return format!("; that collective was {other}"),
        Some(_) => return "; the rank contributed nothing to it".to_owned(),
        None => {}
    }
    let own = |entry: &&Value| entry.get("rank") == Some(&Value::from(rank.0));
    let made = report
        .get("ranks")
        .and_then(Value::as_array)
        .and_then(|ranks| ranks.iter().find(own)?.get("collective_calls")?.as_u64())
        .unwrap_or(0);
    format!("; the rank completed {made} collective{}", if made == 1 { "" } else { "s" })
}

/// The collective that the first communicator made at a position.
fn collective(report: &Value, sequence: u64) -> Option<&str> {
    let here = |entry: &&Value| {
        entry.get("comm_id") == Some(&Value::from(1))
            && entry.get("seqno") == Some(&Value::from(sequence))
            && entry.get("kind").and_then(Value::as_str) == Some("collective")
    };
    let entries = report.pointer("/operation_timeline/entries").and_then(Value::as_array);
    entries?.iter().find(here)?.get("operation")?.as_str()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::suite;

    fn case() -> Arc<Case> {
        let text = "ftest: 1\nsuite: s\ncases:\n- id: one\n  cluster: {nodes: 2, gpus_per_node: 1, profile: a100}\n  \
            launch: {argv: [x], ranks: 2}\n  faults:\n  \
            - {at: {rank: 1, collective: all_reduce, seq: 2}, do: kill}\n  \
            - {at: {rank: 1, collective: broadcast, seq: 1}, do: corrupt}\n  \
            - {at: {rank: 1, collective: gather}, do: drop}\n  \
            - {at: {rank: 0, after: 2s}, do: stop}\n  \
            - {do: {cut_link: {between: [node0, node1]}}}\n  \
            gpu:\n    node1/0: {at: {after: 2s}, xid: 79}\n";
        let suite = suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap_or_else(|error| panic!("{error}"));
        Arc::clone(&suite.cases[0])
    }

    #[test]
    fn a_fault_that_never_fired_is_reported_with_what_happened_instead() {
        let entry =
            |seqno, operation| json!({"comm_id": 1, "seqno": seqno, "kind": "collective", "operation": operation});
        let report = json!({
            "resilience": {"injected_faults": []},
            "ranks": [{"rank": 0, "collective_calls": 9}, {"rank": 1, "collective_calls": 1}],
            "operation_timeline": {"entries": [entry(1, "broadcast"), entry(2, "all_gather")]},
        });
        let fired = look_up(&case(), Some(&report));
        assert_eq!(fired.notes, Vec::<String>::new());
        assert_eq!(
            fired.missed,
            [
                "s.yaml:8:5: `kill` at rank 1, collective 2 (all_reduce) never fired; that collective was all_gather",
                "s.yaml:9:5: `corrupt` at rank 1, collective 1 (broadcast) never fired; the rank contributed nothing to it",
                "s.yaml:10:5: `drop` at rank 1, first gather never fired; the rank completed 1 collective",
                "s.yaml:11:5: `stop` of rank 0 after 2s never fired; the rank ended before that, or never called NCCL",
                "s.yaml:12:5: `cut_link` between node0 and node1 never fired; no operation crossed the link then",
                "s.yaml:14:14: `gpu` node1/0 (xid 79, lost) after 2s never fired; the case ended before that, or none of its \
                 processes called CUDA, NCCL or NVML",
            ]
        );
        assert!(look_up(&case(), None).missed[0].ends_with("; the coordinator left no report"));
    }

    #[test]
    fn what_fired_is_a_note() {
        let report = json!({"resilience": {"injected_faults": [{"index": 1}, {"index": 5}]}});
        let fired = look_up(&case(), Some(&report));
        assert_eq!(fired.notes[1], "s.yaml:12:5: `cut_link` between node0 and node1 fired");
        assert_eq!((fired.notes.len(), fired.missed.len()), (2, 4));
    }
}
