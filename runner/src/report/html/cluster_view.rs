//! The cluster report of an attempt, as shown in the part of its case: charts, and the same as tables.

use protocol::report::{ClusterReport, DeviceSteps, FailureEvent, PathSegment, RunTime};
use serde::Serialize;

use crate::report::chart::gpu_timeline::Sample;
use crate::report::chart::{bandwidth, gpu_timeline, heat_map, histogram, timeline};
use crate::report::{cluster, words};

/// Maximum number of table rows.
pub(super) const MOST_ROWS: usize = 200;

/// The cluster report of an attempt, as shown.
#[derive(Debug, Default, Serialize)]
pub(super) struct ClusterView {
    heat_map: Option<String>,
    many_nodes: bool,
    timeline: Option<String>,
    /// What each GPU did in a step.
    gpus: Option<String>,
    steps: Vec<[String; 8]>,
    step_facts: Option<String>,
    /// The critical path of the slowest rank.
    path: Vec<[String; 4]>,
    histogram: Option<String>,
    bandwidth: Option<String>,
    legend: Vec<(&'static str, &'static str, String)>,
    facts: String,
    dropped: u64,
    links: Vec<[String; 6]>,
    links_left_out: usize,
    collectives: Vec<[String; 5]>,
    communicators: Vec<[String; 5]>,
    ranks: Vec<[String; 6]>,
    events: Vec<String>,
}

impl ClusterView {
    /// The view of a report and of what its GPUs did in a step; `id` makes the ids of its drawings unique.
    pub(super) fn new(report: &ClusterReport, samples: &[Sample], id: &str) -> ClusterView {
        let spans = cluster::spans(report);
        let timeline = &report.operation_timeline;
        let time = |us: f64| words::time(us);
        let mut names: Vec<(&str, &str, String)> = Vec::new();
        for entry in &timeline.entries {
            let (short, class) = cluster::look(&entry.operation);
            if !names.iter().any(|(.., name)| *name == entry.operation) {
                names.push((class, short, entry.operation.clone()));
            }
        }
        names.sort();
        let cluster = &report.cluster;
        let facts = [
            cluster.name.clone().unwrap_or_default(),
            format!("world size {}", cluster.world_size),
            match cluster.node_count {
                0 => String::new(),
                count => words::counted(count as usize, "node"),
            },
            words::counted(cluster.communicators as usize, "communicator"),
            format!("{} transport", cluster.coordinator_transport),
        ];
        let mut links: Vec<_> = report.links.iter().collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.bytes));
        ClusterView {
            heat_map: heat_map::draw(report, &format!("{id}-heat")),
            many_nodes: report.cluster.node_count > 6,
            timeline: timeline::draw(report, &spans, &format!("{id}-time")),
            gpus: gpu_timeline::draw(samples, &format!("{id}-gpus")),
            steps: report.time.iter().flat_map(|time| &time.steps).take(MOST_ROWS).map(steps).collect(),
            step_facts: report.time.as_ref().map(step_facts),
            path: report.time.as_ref().map(critical_path).unwrap_or_default(),
            histogram: histogram::draw(report, &format!("{id}-size")),
            bandwidth: bandwidth::draw(report, &spans, &format!("{id}-rate")),
            legend: names,
            facts: facts.into_iter().filter(|fact| !fact.is_empty()).collect::<Vec<_>>().join(", "),
            dropped: timeline.dropped_entries,
            links_left_out: links.len().saturating_sub(MOST_ROWS),
            links: links
                .into_iter()
                .take(MOST_ROWS)
                .map(|link| {
                    [
                        link.src.clone(),
                        link.dst.clone(),
                        words::bytes(link.bytes),
                        link.operations.to_string(),
                        time(link.estimated_time_us_total),
                        format!("{:.1} of {} Gbit/s", link.average_estimated_throughput_gbps, link.bandwidth_gbps),
                    ]
                })
                .collect(),
            collectives: collectives(report),
            communicators: report
                .communicators
                .iter()
                .take(MOST_ROWS)
                .map(|communicator| {
                    let parent =
                        communicator.parent_comm_id.map_or_else(|| "-".to_owned(), |parent| parent.to_string());
                    [
                        communicator.comm_id.to_string(),
                        parent,
                        ranks(communicator.ranks.iter().map(|rank| rank.0)),
                        communicator.collectives.to_string(),
                        communicator.transfers.to_string(),
                    ]
                })
                .collect(),
            ranks: report
                .ranks
                .iter()
                .take(MOST_ROWS)
                .map(|rank| {
                    let waited = report.measured.ranks.iter().find(|measured| measured.rank == rank.rank);
                    [
                        rank.rank.to_string(),
                        rank.node.clone().unwrap_or_else(|| "-".to_owned()),
                        rank.collective_calls.to_string(),
                        rank.point_to_point_calls.to_string(),
                        rank.barrier_calls.to_string(),
                        waited.map_or_else(|| "-".to_owned(), |measured| time(measured.wait_time_ms * 1e3)),
                    ]
                })
                .collect(),
            events: events(report),
        }
    }
}

/// The row of a device in the table of steps.
fn steps(steps: &DeviceSteps) -> [String; 8] {
    let shown = steps.median.as_ref().unwrap_or(&steps.first);
    let time = |ns: u64| words::time(ns as f64 / 1e3);
    [
        steps.rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
        steps.count.to_string(),
        time(shown.duration_ns),
        time(shown.busy_ns),
        time(shown.exposed_communication_ns),
        time(shown.collective_wait_ns),
        time(shown.launch_bound_ns),
        time(shown.host_wait_ns),
    ]
}

fn step_facts(time: &RunTime) -> String {
    let percent = |share: Option<f64>, of: &str| share.map(|share| format!("{:.1} % {of}", share * 100.0));
    let facts = [
        time.step_us.map(|us| format!("{} a step", words::time(us))),
        percent(time.busy_share, "busy"),
        percent(time.exposed_share, "exposed communication"),
        percent(time.launch_bound_share, "launch-bound"),
        percent(time.collective_wait_share, "waiting for other ranks"),
        time.slowest_rank.map(|rank| format!("rank {rank} is the slowest")),
        (!time.is_calibrated).then(|| "outside of what was calibrated".to_owned()),
    ];
    facts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The rows of the critical path of the slowest rank.
fn critical_path(time: &RunTime) -> Vec<[String; 4]> {
    let slowest = time.steps.iter().find(|steps| steps.rank == time.slowest_rank);
    let row = |segment: &PathSegment| {
        let line = segment.file.iter().zip(segment.line).map(|(file, line)| format!("{file}:{line}"));
        [
            format!("{:.1} %", segment.share * 100.0),
            segment.kind.name().to_owned(),
            segment.awaited.map_or_else(|| segment.name.clone(), |rank| format!("{}, for rank {rank}", segment.name)),
            line.collect(),
        ]
    };
    slowest.into_iter().flat_map(|steps| &steps.critical_path).map(row).collect()
}

fn collectives(report: &ClusterReport) -> Vec<[String; 5]> {
    let row = |name: &str, calls: u64, bytes: u64, time_us: f64, penalty_us: f64| {
        [name.to_owned(), calls.to_string(), words::bytes(bytes), words::time(time_us), words::time(penalty_us)]
    };
    let called = report.collectives.iter().filter(|(_, totals)| totals.calls > 0);
    let mut rows: Vec<[String; 5]> = called
        .map(|(name, totals)| {
            row(name, totals.calls, totals.bytes, totals.estimated_time_us_total, totals.contention_penalty_us_total)
        })
        .collect();
    let transfers = &report.point_to_point;
    if transfers.operations > 0 {
        rows.push(row(
            "send_recv",
            transfers.operations,
            transfers.bytes,
            transfers.estimated_time_us_total,
            transfers.contention_penalty_us_total,
        ));
    }
    rows
}

/// `0-3, 8`.
pub(super) fn ranks(ranks: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(rank) => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let words: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    words.join(", ")
}

fn global_ranks(of: &[protocol::ids::Rank]) -> String {
    ranks(of.iter().map(|rank| rank.0))
}

/// A failure in words. A rank that ends between operations fails outside any operation, often unnoticed.
fn failure(event: &FailureEvent, detail: Option<&str>) -> String {
    let place = match &*event.operation {
        "none" => "outside of operations".to_owned(),
        operation => format!("in {operation}"),
    };
    let observers = match &*event.observed_ranks {
        [] => String::new(),
        [one] => format!(", seen by rank {one}"),
        several => format!(", seen by ranks {}", global_ranks(several)),
    };
    let detail = detail.map_or_else(String::new, |detail| format!(": {detail}"));
    format!("failure {} {place}{observers}{detail}", event.index)
}

/// Faults, failures and recoveries in words.
fn events(report: &ClusterReport) -> Vec<String> {
    let resilience = &report.resilience;
    let faults = resilience.injected_faults.iter().map(|fault| {
        let rank = match (&fault.gpu, fault.rank) {
            (Some(change), _) => format!("{} ({})", change.gpu, change.health),
            (None, Some(rank)) => format!("rank {rank}"),
            (None, None) => "a link".to_owned(),
        };
        let at = match fault.comm_id {
            Some(comm) => format!(" at {} {} of communicator {comm}", fault.operation, fault.seqno),
            None => String::new(),
        };
        format!("fault {}: {} hit {rank}{at}", fault.index, fault.kind.name())
    });
    let failures = resilience.failure_events.iter().map(|event| {
        let detail = report.measured.failures.iter().find(|measured| measured.index == event.index);
        failure(event, detail.map(|measured| &*measured.error_detail))
    });
    let recoveries = resilience.recovery_events.iter().map(|event| {
        format!(
            "communicator {} shrank to {}: ranks {} left out, ranks {} remain",
            event.parent_comm_id,
            event.new_comm_id,
            global_ranks(&event.excluded_ranks),
            global_ranks(&event.surviving_ranks)
        )
    });
    faults.chain(failures).chain(recoveries).take(MOST_ROWS).collect()
}

#[cfg(test)]
mod tests {
    use protocol::ids::{Rank, Sequence};
    use protocol::record::ErrorCode;

    use super::*;

    #[test]
    fn ranks_are_runs() {
        assert_eq!(ranks([0, 1, 2, 5, 7, 8].into_iter()), "0-2, 5, 7-8");
    }

    #[test]
    fn a_failure_names_only_what_is_known() {
        let event = |operation: &str, observed: &[u32]| FailureEvent {
            index: 1,
            comm_id: None,
            seqno: Sequence(0),
            local_rank: None,
            global_rank: None,
            culprits: vec![Rank(2)],
            source: ErrorCode::RankLost.source(),
            operation: operation.to_owned(),
            error_code: ErrorCode::RankLost,
            observed_ranks: observed.iter().copied().map(Rank).collect(),
            attempted_payload_bytes: 0,
        };
        let detail = Some("rank 2 ended");
        assert_eq!(failure(&event("none", &[]), detail), "failure 1 outside of operations: rank 2 ended");
        assert_eq!(
            failure(&event("all_reduce", &[0, 1]), detail),
            "failure 1 in all_reduce, seen by ranks 0-1: rank 2 ended"
        );
        assert_eq!(failure(&event("init", &[3]), None), "failure 1 in init, seen by rank 3");
    }
}
