//! Which failures of a run are findings, and what each is called in a sentence that is the same in every run.

use protocol::finding::FindingKind;
use protocol::ids::Rank;
use protocol::report::{FailureEvent, Finding, MeasuredFailure};

/// The findings among `events`, whose details are `measured`. A death that stopped no other rank is not one: how processes end is not
/// judged here.
pub(super) fn of(events: &[FailureEvent], measured: &[MeasuredFailure]) -> Vec<Finding> {
    let found = events.iter().zip(measured).filter_map(|(event, measured)| {
        let kind = FindingKind::of(event.error_code)?;
        let harmless = kind == FindingKind::RankLost && event.observed_ranks.is_empty();
        (!harmless).then(|| (kind, sentence(kind, event, &measured.error_detail), event))
    });
    let finding = |(index, (kind, sentence, event)): (u64, (FindingKind, String, &FailureEvent))| Finding {
        index,
        kind,
        sentence,
        comm_id: event.comm_id,
        seqno: event.seqno,
        operation: event.operation.clone(),
        ranks: event.culprits.clone(),
        observed_ranks: event.observed_ranks.clone(),
    };
    (1..).zip(found).map(finding).collect()
}

fn sentence(kind: FindingKind, event: &FailureEvent, detail: &str) -> String {
    let operation = match (event.comm_id, event.seqno.0) {
        (Some(communicator), 0) => format!("{} in communicator {communicator}", event.operation),
        (Some(communicator), position) => {
            format!("{}, collective {position} of communicator {communicator}", event.operation)
        }
        (None, _) => "the forming of a communicator".to_owned(),
    };
    match kind {
        FindingKind::RankLost => {
            let (waited, ended) = (ranks(&event.observed_ranks), ranks(&event.culprits));
            let (wait, have) = (plural(&event.observed_ranks, "waits", "wait"), plural(&event.culprits, "has", "have"));
            format!("{waited} {wait} in {operation}, for {ended}, which {have} ended")
        }
        FindingKind::TimeoutWaitingForRanks
        | FindingKind::TimeoutWaitingForCollective
        | FindingKind::TimeoutWaitingForP2p
        | FindingKind::TimeoutWaitingForSplit
        | FindingKind::TimeoutWaitingForShrink => {
            let come = plural(&event.culprits, "has", "have");
            format!("{} {come} not come to {operation} in time", ranks(&event.culprits))
        }
        // Every rank describes a mismatch in the same words, except the two sides of a transfer.
        _ if detail.starts_with("send and recv differ") => {
            format!("{} differ in what they send and receive ({operation})", ranks(&event.culprits))
        }
        _ => detail.to_owned(),
    }
}

fn plural(ranks: &[Rank], one: &'static str, several: &'static str) -> &'static str {
    if ranks.len() == 1 { one } else { several }
}

fn ranks(ranks: &[Rank]) -> String {
    let numbers: Vec<String> = ranks.iter().map(Rank::to_string).collect();
    match numbers.as_slice() {
        [] => "a rank".to_owned(),
        [one] => format!("rank {one}"),
        [others @ .., last] => format!("ranks {} and {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use protocol::ids::{CommunicatorId, Sequence};
    use protocol::record::ErrorCode;

    use super::*;

    fn event(error_code: ErrorCode, culprits: &[u32], observed: &[u32]) -> (FailureEvent, MeasuredFailure) {
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Vec<_>>();
        let event = FailureEvent {
            index: 1,
            comm_id: Some(CommunicatorId(2)),
            seqno: Sequence(13),
            local_rank: None,
            global_rank: None,
            culprits: ranks(culprits),
            source: error_code.source(),
            operation: "all_reduce".to_owned(),
            error_code,
            observed_ranks: ranks(observed),
            attempted_payload_bytes: 0,
        };
        (event, MeasuredFailure { index: 1, error_detail: "the ranks' calls differ".to_owned() })
    }

    #[test]
    fn sentences_by_table() {
        for (code, culprits, observed, expected) in [
            (
                ErrorCode::RankLost,
                &[1][..],
                &[0][..],
                "rank 0 waits in all_reduce, collective 13 of communicator 2, for rank 1, which has ended",
            ),
            (
                ErrorCode::RankLost,
                &[1, 3],
                &[0, 2],
                "ranks 0 and 2 wait in all_reduce, collective 13 of communicator 2, for ranks 1 and 3, which have ended",
            ),
            (
                ErrorCode::TimeoutWaitingForCollective,
                &[1],
                &[0],
                "rank 1 has not come to all_reduce, collective 13 of communicator 2 in time",
            ),
            (ErrorCode::CountMismatch, &[1], &[0, 1], "the ranks' calls differ"),
        ] {
            let (event, measured) = event(code, culprits, observed);
            assert_eq!(of(&[event], &[measured])[0].sentence, expected);
        }
    }

    #[test]
    fn what_is_meant_or_stops_nobody_is_no_finding() {
        for (code, observed) in
            [(ErrorCode::RankLost, &[][..]), (ErrorCode::Aborted, &[0][..]), (ErrorCode::Revoked, &[0][..])]
        {
            let (event, measured) = event(code, &[1], observed);
            assert_eq!(of(&[event], &[measured]), []);
        }
    }
}
