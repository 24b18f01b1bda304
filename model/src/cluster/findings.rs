//! Which failures of a run are findings, and what each is called in a sentence that is the same in every run.

use protocol::datatype::Operation;
use protocol::finding::FindingKind;
use protocol::ids::{Rank, names};
use protocol::plan::{ClusterPlan, NodePlan};
use protocol::report::{FailureEvent, Finding, FindingSite, MeasuredFailure, MeasuredFinding, MeasuredLink};

use crate::replicas::Divergence;

/// The findings among `events`, each with its time in us; the details of the events are in `measured`, and their ranks were at
/// `sites`. A death that stopped no other rank is not a finding: how processes end is not judged here.
pub(super) fn from_events(
    events: &[FailureEvent],
    measured: &[MeasuredFailure],
    sites: Vec<(u64, Vec<FindingSite>)>,
    plan: Option<&ClusterPlan>,
    links: &[MeasuredLink],
) -> Vec<(u64, Finding)> {
    let found = events.iter().zip(measured).zip(sites).filter_map(|((event, measured), (at_us, sites))| {
        let kind = FindingKind::from_code(event.error_code)?;
        let is_loss = matches!(kind, FindingKind::RankLost | FindingKind::Unreachable);
        let harmless = is_loss && event.observed_ranks.is_empty();
        let finding = || Finding {
            index: 0,
            kind,
            sentence: sentence(kind, event, &measured.error_detail, plan) + &slow(kind, event, plan, links),
            comm_id: event.comm_id,
            seqno: event.seqno,
            operation: event.operation.clone(),
            ranks: event.culprits.clone(),
            processes: Vec::new(),
            observed_ranks: event.observed_ranks.clone(),
            sites,
        };
        (!harmless).then(|| (at_us, finding()))
    });
    found.collect()
}

/// The findings of a report, counted, and when each was made. `zero_us` is the wall-clock time (us) at which the clock of their
/// times was zero.
pub(super) fn numbered(
    findings: impl Iterator<Item = (u64, Finding)>,
    zero_us: Option<u64>,
) -> (Vec<Finding>, Vec<MeasuredFinding>) {
    let mut times = Vec::new();
    let number = |(index, (at_us, finding)): (u64, (u64, Finding))| {
        times.extend(zero_us.map(|zero| MeasuredFinding { index, made_at_us: zero + at_us }));
        Finding { index, ..finding }
    };
    ((1..).zip(findings).map(number).collect(), times)
}

fn sentence(kind: FindingKind, event: &FailureEvent, detail: &str, plan: Option<&ClusterPlan>) -> String {
    let operation = match (event.comm_id, event.seqno.0) {
        (Some(communicator), 0) => format!("{} in communicator {communicator}", event.operation),
        (Some(communicator), position) => {
            format!("{}, collective {position} of communicator {communicator}", event.operation)
        }
        (None, _) => "the creation of a communicator".to_owned(),
    };
    let is_transfer = [Operation::Send, Operation::Recv].iter().any(|transfer| transfer.name() == event.operation);
    match kind {
        FindingKind::RankLost => {
            let (waited, ended) = (ranks(&event.observed_ranks), ranks(&event.culprits));
            let (wait, have) = (plural(&event.observed_ranks, "waits", "wait"), plural(&event.culprits, "has", "have"));
            format!("{waited} {wait} in {operation}, for {ended}, which {have} ended")
        }
        FindingKind::Unreachable => {
            let (waited, wait) = (ranks(&event.observed_ranks), plural(&event.observed_ranks, "waits", "wait"));
            let (here, there) = (nodes(&event.observed_ranks, plan), nodes(&event.culprits, plan));
            if there.len() > 1 && there.iter().all(|node| here.contains(node)) {
                let apart = list(&there);
                return format!("{apart} cannot reach each other: {waited} {wait} in {operation}");
            }
            let which = match &there[..] {
                [] => String::new(),
                there => format!(" on {}", list(there)),
            };
            format!("{waited} {wait} in {operation}, for {}{which}, which cannot be reached", ranks(&event.culprits))
        }
        kind if kind.is_timeout() => {
            let have = plural(&event.culprits, "has", "have");
            format!("{} {have} not arrived in time at {operation}", ranks(&event.culprits))
        }
        // Every rank describes a mismatch in the same words, except the two sides of a transfer.
        _ if is_transfer => format!("{} differ in what they send and receive ({operation})", ranks(&event.culprits)),
        _ => match event.comm_id {
            Some(communicator) => format!("in communicator {communicator}, {detail}"),
            None => detail.to_owned(),
        },
    }
}

/// Which links to the ranks that were waited for were slow: the end of the sentence about a timeout.
fn slow(kind: FindingKind, event: &FailureEvent, plan: Option<&ClusterPlan>, links: &[MeasuredLink]) -> String {
    let there = nodes(&event.culprits, plan);
    let is_meant =
        |link: &&MeasuredLink| kind.is_timeout() && link.is_late && link.nodes.iter().any(|node| there.contains(node));
    let late: Vec<&MeasuredLink> = links.iter().filter(is_meant).collect();
    let [first, others @ ..] = &late[..] else { return String::new() };
    if others.is_empty() {
        return format!("; the link between {} is slow", list(&first.nodes));
    }
    // Where all of them are one node's, it is the node.
    if let Some(slow) = first.nodes.iter().find(|node| others.iter().all(|link| link.nodes.contains(node))) {
        let ends = late.iter().flat_map(|link| &link.nodes).filter(|node| *node != slow);
        return format!("; {slow} is slow: its links to {} are", list(&ends.cloned().collect::<Vec<String>>()));
    }
    let late: Vec<String> = late.iter().map(|link| list(&link.nodes)).collect();
    format!("; the links between {} are slow", late.join(", "))
}

/// The sentence about replicas that differ.
pub(super) fn of_replicas(divergence: &Divergence) -> String {
    let Divergence { step, name, others, ranks: culprits, rest, .. } = divergence;
    let when = match step {
        0 => "before the first optimizer step".to_owned(),
        step => format!("after optimizer step {step}"),
    };
    let (do_not, have) = (plural(culprits, "does not have", "do not have"), plural(rest, "has", "have"));
    let others = match others {
        0 => String::new(),
        1 => " and 1 more tensor".to_owned(),
        count => format!(" and {count} more tensors"),
    };
    format!("{when}, {} {do_not} what {} {have}: {name}{others}", ranks(culprits), ranks(rest))
}

/// The nodes of these ranks, in the order of the cluster; none if they are not known.
fn nodes(ranks: &[Rank], plan: Option<&ClusterPlan>) -> Vec<String> {
    let nodes = plan.map(|plan| plan.nodes.as_slice()).unwrap_or_default();
    let holds = |node: &&NodePlan| node.ranks.iter().any(|rank| ranks.contains(rank));
    nodes.iter().filter(holds).map(|node| node.id.clone()).collect()
}

/// "node0", "node0, node1 and node2".
fn list(nodes: &[String]) -> String {
    match nodes {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        nodes => nodes.concat(),
    }
}

fn plural(ranks: &[Rank], one: &'static str, several: &'static str) -> &'static str {
    // None: "a rank".
    if ranks.len() <= 1 { one } else { several }
}

fn ranks(ranks: &[Rank]) -> String {
    if ranks.is_empty() { "a rank".to_owned() } else { names("rank", "ranks", ranks) }
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

    /// Ranks 0 and 1 on node0, ranks 2 and 3 on node1.
    fn plan() -> ClusterPlan {
        let text = "nodes: 2\ngpus_per_node: 2\nprofile: a100\n";
        crate::cluster_file::parse("c.yaml", text, &|_| Err(String::new())).unwrap()
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
                "rank 1 has not arrived in time at all_reduce, collective 13 of communicator 2",
            ),
            (ErrorCode::CountMismatch, &[1], &[0, 1], "in communicator 2, the ranks' calls differ"),
            (
                ErrorCode::Unreachable,
                &[2, 3],
                &[0],
                "rank 0 waits in all_reduce, collective 13 of communicator 2, for ranks 2 and 3 on node1, which cannot be reached",
            ),
            (
                ErrorCode::Unreachable,
                &[0, 1, 2, 3],
                &[1, 2],
                "node0 and node1 cannot reach each other: ranks 1 and 2 wait in all_reduce, collective 13 of communicator 2",
            ),
        ] {
            let (event, measured) = event(code, culprits, observed);
            assert_eq!(
                from_events(&[event], &[measured], vec![(7, Vec::new())], Some(&plan()), &[])[0].1.sentence,
                expected
            );
        }
    }

    #[test]
    fn a_timeout_names_the_links_that_were_slow() {
        let link = |nodes: [&str; 2], is_late| MeasuredLink {
            nodes: nodes.map(str::to_owned).to_vec(),
            least_round_trip_us: 1,
            round_trip_us: 1,
            bytes_per_s: 1,
            resent_segments: 0,
            is_late,
        };
        let (late, other) = (link(["node0", "node1"], true), link(["node0", "node2"], true));
        let sentence = |code, culprit: u32, links: &[MeasuredLink]| {
            let (event, measured) = event(code, &[culprit], &[0]);
            from_events(&[event], &[measured], vec![(7, Vec::new())], Some(&plan()), links)[0].1.sentence.clone()
        };
        let timeout = ErrorCode::TimeoutWaitingForCollective;
        let arrived = "rank 2 has not arrived in time at all_reduce, collective 13 of communicator 2";
        let links = [late, other, link(["node1", "node2"], false)];
        assert_eq!(sentence(timeout, 2, &links), format!("{arrived}; the link between node0 and node1 is slow"));
        assert_eq!(sentence(timeout, 2, &links[1..]), arrived);
        assert!(!sentence(ErrorCode::RankLost, 2, &links).contains("slow"));
        let of_node = [link(["node0", "node1"], true), link(["node1", "node2"], true)];
        let slow = "; node1 is slow: its links to node0 and node2 are";
        assert_eq!(sentence(timeout, 2, &of_node), format!("{arrived}{slow}"));
    }

    #[test]
    fn the_sides_of_a_transfer_give_one_sentence() {
        let (event, measured) = event(ErrorCode::CountMismatch, &[0, 1], &[0]);
        let event = FailureEvent { operation: "send".to_owned(), seqno: Sequence(0), ..event };
        assert_eq!(
            from_events(&[event], &[measured], vec![(7, Vec::new())], None, &[])[0].1.sentence,
            "ranks 0 and 1 differ in what they send and receive (send in communicator 2)"
        );
    }

    #[test]
    fn an_abort_on_purpose_or_a_death_that_stops_nobody_is_not_a_finding() {
        for (code, observed) in [
            (ErrorCode::RankLost, &[][..]),
            (ErrorCode::Unreachable, &[]),
            (ErrorCode::Aborted, &[0]),
            (ErrorCode::Revoked, &[0]),
        ] {
            let (event, measured) = event(code, &[1], observed);
            assert_eq!(from_events(&[event], &[measured], vec![(7, Vec::new())], None, &[]), []);
        }
    }
}
