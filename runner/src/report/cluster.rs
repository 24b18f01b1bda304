//! What charts and traces show of a cluster report: which rank's operations took place when.

use std::collections::BTreeMap;

use protocol::report::{ClusterReport, OperationKind, TimelineEntry};

use crate::record::event::Attempt;

/// Larger reports are not read.
const LARGEST: u64 = 64 << 20;

/// The cluster report of an attempt, if it has one.
///
/// # Errors
/// One sentence on why it cannot be read.
pub fn read(attempt: &Attempt) -> Option<Result<ClusterReport, String>> {
    let path = attempt.cluster_report.as_ref()?;
    let wrong =
        |error: &dyn std::fmt::Display| format!("the cluster report {} cannot be shown: {error}", path.display());
    let size = match std::fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) => return Some(Err(wrong(&error))),
    };
    if size > LARGEST {
        return Some(Err(wrong(&format_args!("it has {size} bytes, more than {LARGEST}"))));
    }
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) => return Some(Err(wrong(&error))),
    };
    Some(serde_json::from_slice(&text).map_err(|error| wrong(&error)))
}

/// One rank's part of an operation, us since the first operation of the timeline began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Global rank.
    pub rank: u32,
    /// Overlapping spans of a rank have different lanes, from 0.
    pub lane: usize,
    /// When the rank arrived.
    pub began_us: f64,
    /// When it stopped waiting for others.
    pub met_us: f64,
    /// When it was done.
    pub ended_us: f64,
    /// Index in the timeline's entries.
    pub entry: usize,
}

/// The spans of all operations with known times, by rank, then by start.
pub fn spans(report: &ClusterReport) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (index, (entry, times)) in report.operation_timeline.entries.iter().zip(&report.measured.operations).enumerate()
    {
        let latest = times.began_us.iter().flatten().copied().fold(0.0, f64::max);
        for ((rank, began), ended) in entry.ranks.iter().zip(&times.began_us).zip(&times.ended_us) {
            let (Some(began_us), Some(ended_us)) = (*began, *ended) else { continue };
            let ended_us = ended_us.max(began_us);
            // A send that was done before its receiver arrived did not wait for it.
            let met_us = if latest > ended_us { began_us } else { latest.max(began_us) };
            spans.push(Span { rank: rank.0, lane: 0, began_us, met_us, ended_us, entry: index });
        }
    }
    spans.sort_by(|a, b| {
        (a.rank.cmp(&b.rank)).then(a.began_us.total_cmp(&b.began_us)).then(b.ended_us.total_cmp(&a.ended_us))
    });
    let mut ends: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for span in &mut spans {
        let ends = ends.entry(span.rank).or_default();
        let free = ends.iter().position(|end| *end <= span.began_us).unwrap_or(ends.len());
        match ends.get_mut(free) {
            Some(end) => *end = span.ended_us,
            None => ends.push(span.ended_us),
        }
        span.lane = free;
    }
    spans
}

/// Bytes that one rank contributes to the operation.
pub fn message_bytes(entry: &TimelineEntry) -> u64 {
    match entry.kind {
        OperationKind::PointToPoint | OperationKind::OneSided => entry.logical_payload_bytes,
        OperationKind::Collective | OperationKind::Barrier => {
            entry.logical_payload_bytes / (entry.ranks.len().max(1) as u64)
        }
    }
}

/// How an operation is drawn: a short name, and the class that gives its color. Operations with a root share one.
pub fn look(operation: &str) -> (&'static str, &'static str) {
    match operation {
        "all_reduce" => ("AR", "k1"),
        "all_gather" => ("AG", "k2"),
        "reduce_scatter" => ("RS", "k3"),
        "all_to_all" => ("AA", "k4"),
        "broadcast" => ("B", "k5"),
        "reduce" => ("R", "k5"),
        "gather" => ("G", "k5"),
        "scatter" => ("S", "k5"),
        "send_recv" => ("P", "k6"),
        "put_signal" => ("1S", "k6"),
        "barrier" => ("|", "k7"),
        _ => ("?", "k7"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use protocol::ids::{CommunicatorId, Rank, Sequence};
    use protocol::record::BufferTransport;
    use protocol::report::MeasuredOperation;

    use super::*;

    /// A report of 2 + 2 ranks with nothing in it.
    pub(crate) fn report() -> ClusterReport {
        let text = include_str!("../../tests/reports/cluster_report.json");
        let mut report: ClusterReport = serde_json::from_str(text).unwrap();
        report.operation_timeline.entries.clear();
        report.measured.operations.clear();
        report
    }

    /// Adds an operation; each rank has its start and end.
    pub(crate) fn add(report: &mut ClusterReport, operation: &str, bytes: u64, times: &[(u32, f64, f64)]) {
        let index = report.measured.operations.len() as u64 + 1;
        report.operation_timeline.entries.push(TimelineEntry {
            index,
            comm_id: CommunicatorId(1),
            seqno: Sequence(index),
            kind: match operation {
                "send_recv" => OperationKind::PointToPoint,
                "barrier" => OperationKind::Barrier,
                _ => OperationKind::Collective,
            },
            operation: operation.to_owned(),
            data_type: None,
            reduce_op: None,
            root: None,
            count: 1,
            buffer_transport: BufferTransport::SharedMemory,
            ranks: times.iter().map(|(rank, ..)| Rank(*rank)).collect(),
            logical_payload_bytes: bytes,
            modeled_time_us: 1.0,
        });
        report.measured.operations.push(MeasuredOperation {
            index,
            rendezvous_wait_us: 0.0,
            execution_time_us: 0.0,
            began_us: times.iter().map(|(_, began, _)| Some(*began)).collect(),
            ended_us: times.iter().map(|(.., ended)| Some(*ended)).collect(),
        });
    }

    #[test]
    fn a_rank_waits_until_the_last_one_comes() {
        let mut report = report();
        add(&mut report, "all_reduce", 8, &[(0, 0.0, 12.0), (1, 10.0, 13.0)]);
        let met: Vec<f64> = spans(&report).iter().map(|span| span.met_us).collect();
        assert_eq!(met, [10.0, 10.0]);
    }

    #[test]
    fn a_send_that_was_done_early_has_not_waited() {
        let mut report = report();
        add(&mut report, "send_recv", 8, &[(0, 1.0, 2.0), (1, 50.0, 51.0)]);
        let met: Vec<f64> = spans(&report).iter().map(|span| span.met_us).collect();
        assert_eq!(met, [1.0, 50.0]);
    }

    #[test]
    fn spans_that_overlap_have_lanes_of_their_own() {
        let mut report = report();
        add(&mut report, "send_recv", 8, &[(0, 0.0, 10.0), (1, 0.0, 10.0)]);
        add(&mut report, "send_recv", 8, &[(1, 5.0, 9.0), (0, 5.0, 20.0)]);
        add(&mut report, "barrier", 0, &[(0, 10.0, 30.0), (1, 10.0, 30.0)]);
        let lanes: Vec<(u32, usize)> = spans(&report).iter().map(|span| (span.rank, span.lane)).collect();
        assert_eq!(lanes, [(0, 0), (0, 1), (0, 0), (1, 0), (1, 1), (1, 0)]);
    }

    #[test]
    fn a_rank_that_reported_no_times_has_no_span() {
        let mut report = report();
        add(&mut report, "barrier", 0, &[(0, 0.0, 1.0), (1, 0.0, 1.0)]);
        report.measured.operations[0].began_us[1] = None;
        assert_eq!(spans(&report).len(), 1);
        report.measured.operations[0].began_us.clear();
        assert_eq!(spans(&report), []);
    }
}
