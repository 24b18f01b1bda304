//! Runs made up for tests of reports: what they have in common.

use std::path::{Path, PathBuf};

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::report::{
    ClusterReport, LinkScope, LinkTotals, MeasuredOperation, OperationKind, RankTotals, TimelineEntry,
};
use runner::check::{Failure, FailureKind};
use runner::observation::{Exit, Gap, Role};
use runner::record::Run;
use runner::record::event::{Attempt, CaseInfo, Event, Process, RunInfo, Stream};
use runner::source::SourceLocation;
use runner::verdict::Verdict;

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A report with that many operations of all kinds, and traffic between some of the nodes.
pub(crate) fn cluster_report(nodes: usize, ranks: u32, operations: u64, long_names: bool) -> ClusterReport {
    let mut report: ClusterReport = serde_json::from_str(include_str!("../reports/cluster_report.json")).unwrap();
    let name = |node: usize| {
        if long_names { format!("compute-rack-{}-accelerated-node-{node}", node / 4) } else { format!("node{node}") }
    };
    let of_rank = |rank: u32| name(rank as usize * nodes / ranks as usize);
    let mut dice = Dice(u64::from(ranks) + operations);
    let link = report.links[0].clone();
    report.links = (0..nodes * nodes)
        .filter(|pair| pair % nodes == (pair / nodes + 1) % nodes || pair % 3 == 0)
        .map(|pair| LinkTotals {
            src: name(pair / nodes),
            dst: name(pair % nodes),
            scope: if pair / nodes == pair % nodes { LinkScope::IntraNode } else { LinkScope::InterNode },
            bytes: 1 << (8 + dice.roll(24)),
            ..link.clone()
        })
        .collect();
    let rank = report.ranks[0].clone();
    report.ranks = (0..ranks)
        .map(|number| {
            let node = Some(of_rank(number));
            RankTotals { rank: Rank(number), node, ..rank.clone() }
        })
        .collect();
    report.cluster.world_size = ranks;
    report.cluster.node_count = nodes as u32;
    let template = report.operation_timeline.entries[0].clone();
    report.operation_timeline.entries.clear();
    report.measured.operations.clear();
    let names = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "send_recv", "barrier", "all_to_all"];
    let mut now = 0.0;
    for index in 1..=operations {
        let operation = names[dice.roll(names.len() as u64) as usize];
        let bytes = if operation == "barrier" { 0 } else { 1u64 << (4 + dice.roll(20)) };
        let members: Vec<u32> = if operation == "send_recv" {
            let from = dice.roll(u64::from(ranks)) as u32;
            vec![from, (from + 1) % ranks]
        } else {
            (0..ranks).collect()
        };
        let began: Vec<f64> = members.iter().map(|_| now + dice.roll(900) as f64).collect();
        let met = began.iter().copied().fold(0.0, f64::max);
        let ended: Vec<f64> =
            members.iter().map(|_| met + 50.0 + (bytes / 2000) as f64 + dice.roll(60) as f64).collect();
        now = ended.iter().copied().fold(now, f64::max) + dice.roll(400) as f64;
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
            ranks: members.iter().copied().map(Rank).collect(),
            logical_payload_bytes: bytes * members.len() as u64,
            ..template.clone()
        });
        report.measured.operations.push(MeasuredOperation {
            index,
            rendezvous_wait_us: 0.0,
            execution_time_us: 0.0,
            began_us: began.into_iter().map(Some).collect(),
            ended_us: ended.into_iter().map(Some).collect(),
        });
    }
    report
}

/// A case before it ran.
pub(crate) fn case(suite: &str, id: &str, world: Option<u32>) -> CaseInfo {
    CaseInfo {
        case: format!("{suite}/{id}"),
        suite: suite.into(),
        id: id.into(),
        title: Some("gradients are the same on every rank, whatever the order in which they arrive".into()),
        tags: vec!["dist".into(), "slow".into()],
        place: SourceLocation { file: PathBuf::from(format!("suites/{suite}.yaml")), line: 27, column: 5 },
        world_size: world,
        slow_us: 10_000_000,
        kill_us: 60_000_000,
        ..CaseInfo::default()
    }
}

/// A rank with so many lines on stderr.
fn process(rank: u32, exit: Exit, lines: usize) -> Process {
    let err: String = (0..lines)
        .map(|line| format!("[rank{rank}]: \u{1b}[31mE\u{1b}[0m1121 10:30:{line:02} ProcessGroupNCCL.cpp:{line}] a line of some length about a collective\n"))
        .collect();
    let out = format!("step 0: loss 2.31\r\nstep 1: loss 1.{rank}9\n");
    Process {
        role: Role::Rank(rank),
        exit,
        ended: false,
        stdout: Stream { bytes: out.len() as u64, head: out, ..Stream::default() },
        stderr: Stream { bytes: err.len() as u64, head: err, ..Stream::default() },
    }
}

/// An attempt that passed.
pub(crate) fn passed(index: u64) -> Attempt {
    Attempt {
        number: 1,
        duration_us: 20_000 + Dice(index).roll(4_000_000),
        processes: (0..2).map(|rank| process(rank, Exit::Code(0), 0)).collect(),
        ..Attempt::default()
    }
}

/// An attempt that did not, with everything there can be.
pub(crate) fn failed(ranks: u32, report: &str) -> Attempt {
    let diff = "--- accepted\n+++ new\n@@ -3,5 +3,5 @@\n   \"calls\": 3,\n-  \"bytes\": 1048576,\n+  \"bytes\": 2097152,\n   \"op\": \"sum\"";
    let place = Some(SourceLocation { file: "suites/dist.yaml".into(), line: 41, column: 11 });
    let failure = |kind: FailureKind, expected: &str, got: &str, next: &str| Failure {
        place: place.clone(),
        kind,
        expected: expected.into(),
        got: got.into(),
        next: next.into(),
    };
    Attempt {
        number: 1,
        verdict: Verdict::Failed,
        duration_us: 2_345_678,
        failures: vec![
            failure(FailureKind::Report, "$.collectives.all_reduce.bytes == 64", "32", ""),
            failure(
                FailureKind::Snapshot,
                "the cluster report is as in suites/snapshots/dist__sweep.snap",
                diff,
                "review suites/snapshots/dist__sweep.snap.new with `ftest review`",
            ),
        ],
        processes: (0..ranks)
            .map(|rank| {
                process(
                    rank,
                    if rank == 5 { Exit::Signal(11) } else { Exit::Code(0) },
                    if rank % 3 == 2 { 40 } else { 0 },
                )
            })
            .collect(),
        culprit: Some(Role::Rank(ranks.min(6) - 1)),
        gaps: vec![Gap {
            library: "nccl".into(),
            name: "ncclCommRegister".into(),
            detail: "a buffer of another process".into(),
            count: 3,
            rank: Some(1),
        }],
        notes: vec!["rank 5 was killed when it came to all_reduce 7".into()],
        cluster_report: Some(report.into()),
        ..Attempt::default()
    }
}

/// A run in the making.
pub(crate) struct Story {
    events: Vec<Event>,
}

impl Story {
    pub(crate) fn new(run: &str, cases: Vec<CaseInfo>) -> Story {
        let command = ["ftest", "dist", "ddp", "--no-fail-fast", "--html", "report.html"].map(str::to_owned).to_vec();
        let info = RunInfo {
            version: 1,
            run: run.into(),
            ftest: "0.1.0".into(),
            at_ms: 1_795_257_000_000,
            host: "builder".into(),
            command,
            directory: "/home/somebody/training".into(),
            cases,
            ..RunInfo::default()
        };
        Story { events: vec![Event::RunStarted(info)] }
    }

    pub(crate) fn ends(&mut self, case: &str, attempts: Vec<Attempt>, verdict: Verdict) {
        let flaky = verdict == Verdict::Passed && attempts.len() > 1;
        let case = case.to_owned();
        self.events.push(Event::CaseStarted { case: case.clone(), at_ms: 1_795_257_001_000 });
        for attempt in attempts {
            self.events.push(Event::AttemptFinished { case: case.clone(), attempt });
        }
        self.events.push(Event::CaseFinished { case, verdict, flaky, failures: Vec::new(), notes: Vec::new() });
    }

    pub(crate) fn run(mut self, directory: &Path) -> Run {
        self.events.push(Event::RunFinished {
            at_ms: 1_795_257_060_000,
            duration_us: 59_000_000,
            interrupted: false,
            exit_code: 1,
        });
        let mut run = Run::in_directory(directory);
        self.events.iter().for_each(|event| run.apply(event));
        run
    }
}

/// Puts a report where attempts name it.
pub(crate) fn write_report(directory: &Path, name: &str, report: &ClusterReport) {
    std::fs::write(directory.join(name), serde_json::to_string(report).unwrap()).unwrap();
}
