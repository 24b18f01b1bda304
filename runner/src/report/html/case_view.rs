//! One case, as shown in its part of the page.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use protocol::report::{ClusterReport, FailureEvent};
use serde::Serialize;

use crate::check::Failure;
use crate::check::exit;
use crate::host::printable;
use crate::observation::{Exit, Gap, Role};
use crate::record::CaseRun;
use crate::record::event::{Attempt, Process, Stream};
use crate::report::chart::{bandwidth, heat_map, histogram, timeline};
use crate::report::{cluster, words};
use crate::verdict::Verdict;

/// Maximum characters of a stream: for the most informative process, for the others, and in a short view.
const LOG_LIMITS: [usize; 3] = [48 << 10, 12 << 10, 1 << 10];
/// Maximum number of attempts shown: the last ones.
const MOST_ATTEMPTS: usize = 5;
/// Maximum number of processes shown: the most informative ones.
const MOST_PROCESSES: usize = 64;
/// Maximum number of table rows.
const MOST_ROWS: usize = 200;

/// How much of a case is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Everything.
    Full,
    /// No charts, and only the ends of logs.
    Short,
}

/// A case with everything that is shown about it.
#[derive(Debug, Serialize)]
pub(super) struct CaseView {
    index: usize,
    case: String,
    title: Option<String>,
    place: String,
    tags: Vec<String>,
    matrix: Vec<(String, String)>,
    world_size: Option<u32>,
    rerun: String,
    /// Failures of a policy, which are not in an attempt.
    failures: Vec<FailureView>,
    reason: Option<String>,
    started: Option<String>,
    limits: String,
    notes: Vec<String>,
    attempts: Vec<AttemptView>,
    left_out: usize,
    short: bool,
}

#[derive(Debug, Serialize)]
struct AttemptView {
    number: u32,
    verdict: &'static str,
    duration: String,
    /// It explains most.
    open: bool,
    slow: bool,
    failures: Vec<FailureView>,
    python: Option<String>,
    hang: Option<HangView>,
    notes: Vec<String>,
    gaps: Vec<GapView>,
    exits: Vec<(String, String, bool)>,
    processes: Vec<ProcessView>,
    processes_left_out: usize,
    cluster: Option<ClusterView>,
    /// Why there is no cluster view even though there is a report.
    cluster_error: Option<String>,
    files: Vec<(&'static str, String)>,
}

/// A check that did not hold.
#[derive(Debug, Serialize)]
pub(super) struct FailureView {
    kind: String,
    place: Option<String>,
    expected: String,
    got: Vec<(&'static str, String)>,
    next: String,
}

#[derive(Debug, Serialize)]
struct HangView {
    sentence: String,
    details: Vec<String>,
    flight_record: Option<String>,
}

/// A gap, as a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct GapView {
    /// `library.name`.
    pub(super) name: String,
    /// The detail that distinguishes uses of one name.
    pub(super) detail: String,
    /// The rank that used it.
    pub(super) rank: Option<u32>,
    /// Number of uses.
    pub(super) count: u64,
}

#[derive(Debug, Serialize)]
struct ProcessView {
    role: String,
    exit: String,
    bad: bool,
    open: bool,
    size: String,
    streams: Vec<StreamView>,
}

#[derive(Debug, Serialize)]
struct StreamView {
    name: &'static str,
    text: String,
    cut: Option<String>,
}

#[derive(Debug, Default, Serialize)]
struct ClusterView {
    heat_map: Option<String>,
    many_nodes: bool,
    timeline: Option<String>,
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

impl CaseView {
    /// The view of a case.
    pub(super) fn of(index: usize, case: &CaseRun, depth: Depth) -> CaseView {
        let info = &case.info;
        let value = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown_number = case.shown().map(|attempt| attempt.number);
        let first = case.attempts.len().saturating_sub(MOST_ATTEMPTS);
        let attempts: Vec<&Attempt> = (case.attempts.iter().enumerate())
            .filter(|(at, attempt)| *at >= first || Some(attempt.number) == shown_number)
            .map(|(_, attempt)| attempt)
            .collect();
        CaseView {
            index,
            case: info.case.clone(),
            title: info.title.clone(),
            place: info.place.to_string(),
            tags: info.tags.clone(),
            matrix: info.matrix.iter().map(|(name, of)| (name.clone(), value(of))).collect(),
            world_size: info.world_size,
            rerun: words::rerun(case),
            failures: case.policy_failures().iter().map(FailureView::of).collect(),
            reason: super::reason(case),
            started: case.started_ms.map(words::date),
            limits: format!(
                "slow after {}, ended after {}",
                words::time(info.slow_us as f64),
                words::time(info.kill_us as f64)
            ),
            notes: case.notes().to_vec(),
            left_out: case.attempts.len() - attempts.len(),
            attempts: attempts
                .into_iter()
                .map(|attempt| {
                    let id = format!("c{index}a{}", attempt.number);
                    AttemptView::of(attempt, &id, depth, Some(attempt.number) == shown_number)
                })
                .collect(),
            short: depth == Depth::Short,
        }
    }
}

impl AttemptView {
    fn of(attempt: &Attempt, id: &str, depth: Depth, open: bool) -> AttemptView {
        let bad = |exit: &Exit| !matches!(exit, Exit::Code(0));
        let mut order: Vec<&Process> = attempt.processes.iter().collect();
        order.sort_by_key(|process| (attempt.culprit != Some(process.role), !bad(&process.exit), process.role));
        let failed = !attempt.verdict.is_neutral();
        let charts = depth == Depth::Full && (open || attempt.verdict == Verdict::Passed);
        let (cluster, cluster_error) = match charts.then(|| cluster::read(attempt)).flatten() {
            None => (None, None),
            Some(Ok(report)) => (Some(ClusterView::of(&report, id)), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let file = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let files = [
            ("cluster report", file(&attempt.cluster_report)),
            ("device reports", file(&attempt.device_reports)),
            ("scratch directory", file(&attempt.kept)),
        ];
        AttemptView {
            number: attempt.number,
            verdict: attempt.verdict.word(),
            duration: words::time(attempt.duration_us as f64),
            open,
            slow: attempt.slow,
            failures: attempt.failures.iter().map(FailureView::of).collect(),
            python: attempt.python.as_ref().map(ToString::to_string),
            hang: attempt.hang.as_ref().map(|hang| HangView {
                sentence: hang.sentence.clone(),
                details: hang.lines.iter().chain(&hang.details).cloned().collect(),
                flight_record: hang.flight_record.as_ref().map(|path| path.display().to_string()),
            }),
            notes: attempt.notes.clone(),
            gaps: attempt.gaps.iter().take(MOST_ROWS).map(GapView::of).collect(),
            exits: attempt
                .processes
                .iter()
                .map(|process| (process.role.to_string(), exit::describe(&process.exit), bad(&process.exit)))
                .collect(),
            processes: order
                .iter()
                .take(MOST_PROCESSES)
                .enumerate()
                .map(|(at, process)| ProcessView::of(process, at == 0 && failed, depth))
                .collect(),
            processes_left_out: order.len().saturating_sub(MOST_PROCESSES),
            cluster,
            cluster_error,
            files: files.into_iter().filter_map(|(name, path)| Some((name, path?))).collect(),
        }
    }
}

impl FailureView {
    pub(super) fn of(failure: &Failure) -> FailureView {
        let is_diff = failure.got.lines().any(|line| line.starts_with("@@ "));
        let class = |line: &str| match line.chars().next() {
            Some('+') if is_diff => "add",
            Some('-') if is_diff => "del",
            Some('@') if is_diff => "hunk",
            _ => "",
        };
        FailureView {
            kind: failure.kind.clone().into_owned(),
            place: failure.place.as_ref().map(ToString::to_string),
            expected: failure.expected.clone(),
            got: printable::visible(&failure.got).lines().map(|line| (class(line), line.to_owned())).collect(),
            next: failure.next.clone(),
        }
    }
}

impl GapView {
    pub(super) fn of(gap: &Gap) -> GapView {
        GapView {
            name: format!("{}.{}", gap.library, gap.name),
            detail: gap.detail.clone(),
            rank: gap.rank,
            count: gap.count,
        }
    }
}

impl ProcessView {
    fn of(process: &Process, open: bool, depth: Depth) -> ProcessView {
        let limit = match (depth, open) {
            (Depth::Full, true) => LOG_LIMITS[0],
            (Depth::Full, false) => LOG_LIMITS[1],
            (Depth::Short, _) => LOG_LIMITS[2],
        };
        let streams = [("stderr", &process.stderr), ("stdout", &process.stdout)];
        let sizes: Vec<String> = streams
            .iter()
            .filter(|(_, stream)| stream.bytes > 0)
            .map(|(name, stream)| format!("{name} {}", words::bytes(stream.bytes)))
            .collect();
        ProcessView {
            role: process.role.to_string(),
            exit: exit::describe(&process.exit),
            bad: !matches!(process.exit, Exit::Code(0)) && process.role != Role::Coordinator,
            open,
            size: if sizes.is_empty() { "no output".to_owned() } else { sizes.join(", ") },
            streams: streams
                .into_iter()
                .filter(|(_, stream)| stream.bytes > 0)
                .map(|(name, stream)| StreamView::of(name, stream, limit))
                .collect(),
        }
    }
}

impl StreamView {
    fn of(name: &'static str, stream: &Stream, limit: usize) -> StreamView {
        let mut text = printable::lines(&stream.head);
        if !stream.tail.is_empty() {
            text = format!("{}\n[...]\n{}", text.trim_end_matches('\n'), printable::lines(&stream.tail));
        } else if text.is_empty() {
            // For a long run, the fold drops the text.
            text = stream.file.as_ref().and_then(|file| end_of(file, limit)).unwrap_or_default();
        }
        let shortened = ends(&text, limit);
        let cut = (stream.truncated || shortened.is_some()).then(|| match &stream.file {
            Some(file) => format!("{} holds all {}", file.display(), words::bytes(stream.bytes)),
            None => format!("the stream had {}", words::bytes(stream.bytes)),
        });
        StreamView { name, text: shortened.unwrap_or(text), cut }
    }
}

/// The last `limit` bytes of a file, as text.
fn end_of(file: &Path, limit: usize) -> Option<String> {
    let mut file = std::fs::File::open(file).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(limit as u64))).ok()?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes).ok()?;
    Some(printable::lines(&String::from_utf8_lossy(&bytes)))
}

/// A quarter of `limit` from the beginning of the text and the rest from its end, in whole lines if possible.
fn ends(text: &str, limit: usize) -> Option<String> {
    if text.len() <= limit {
        return None;
    }
    let head = &text[..text.floor_char_boundary(limit / 4)];
    let tail = &text[text.ceil_char_boundary(text.len() - (limit - limit / 4))..];
    let head = head.rfind('\n').map_or(head, |end| &head[..end]);
    let tail = tail.find('\n').map_or(tail, |begin| &tail[begin + 1..]);
    Some(format!("{head}\n[...]\n{tail}"))
}

impl ClusterView {
    fn of(report: &ClusterReport, id: &str) -> ClusterView {
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
fn ranks(ranks: impl Iterator<Item = u32>) -> String {
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
    fn long_output_keeps_its_end() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let short = ends(&text, 400).unwrap();
        assert!(short.len() <= 410 && short.starts_with("line 0\n") && short.ends_with("line 999\n"), "{short}");
        assert!(short.contains("\n[...]\n"));
        assert_eq!(ends("short", 400), None);
        // One line without a newline, of multi-byte characters.
        assert!(ends(&"ü".repeat(1000), 100).is_some());
    }

    #[test]
    fn text_that_was_let_go_is_in_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "first\nlast\n").unwrap();
        let stream = Stream { bytes: 11, truncated: true, file: Some(file.path().to_owned()), ..Stream::default() };
        assert_eq!(StreamView::of("stdout", &stream, 5).text, "last\n");
    }

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

    #[test]
    fn lines_of_a_difference_have_their_classes() {
        let failure = |got: &str| Failure { got: got.to_owned(), ..Failure::default() };
        let classes =
            |got: &str| FailureView::of(&failure(got)).got.iter().map(|(class, _)| *class).collect::<Vec<_>>();
        assert_eq!(classes("--- accepted\n+++ new\n@@ -1 +1 @@\n-a\n+b\n c"), ["del", "add", "hunk", "del", "add", ""]);
        assert_eq!(classes("-1 is not +1"), [""]);
    }
}
