//! A run as a trace for Perfetto and Chrome: cases on the runner's tracks, operations on those of their ranks, and what their GPUs did
//! on the modeled clock.
//!
//! The format is the JSON of "Trace Event Format": complete slices (`X`), metadata (`M`) and flows (`s`, `f`). Slices of
//! one track may nest but never overlap otherwise. Time 0 is the start of the run.

mod gpus;

use protocol::report::{ClusterReport, OperationKind};
use serde_json::{Value, json};

use crate::record::event::Attempt;
use crate::record::{CaseRun, Run};
use crate::report::chart::gpu_timeline::samples;
use crate::report::cluster::{self, message_bytes};
use crate::report::incomplete;

/// Maximum number of events: viewers do not open larger files.
const MOST_EVENTS: usize = 1_000_000;
/// The process of the runner's tracks; those of attempts follow.
const RUNNER: u64 = 1;
/// Maximum number of lanes per rank, each with its own number.
const LANES: u64 = 64;

/// The trace as JSON text, one event per line.
pub fn render(run: &Run) -> String {
    let mut trace = Trace { events: Vec::new(), flows: 0, left_out: 0 };
    trace.name(RUNNER, None, "process", "ftest", 0);
    let mut tracks: Vec<f64> = Vec::new();
    let mut process = RUNNER;
    for (started_ms, case) in started(run) {
        let begin = started_ms.saturating_sub(run.info.at_ms) as f64 * 1000.0;
        // An attempt of length zero would vanish.
        let end = begin + (case.duration_us() as f64).max(1.0);
        let track = tracks.iter().position(|free| *free <= begin).unwrap_or(tracks.len());
        match tracks.get_mut(track) {
            Some(free) => *free = end,
            None => {
                trace.name(RUNNER, Some(track as u64), "thread", &format!("cases {}", track + 1), track as u64);
                tracks.push(end);
            }
        }
        trace.case(case, track as u64, begin, end);
        for attempt in &case.attempts {
            let samples = attempt.device_reports.as_deref().map(samples).unwrap_or_default();
            if !samples.is_empty() {
                process += 1;
                trace.gpus(&samples, process, &name(case, attempt), begin);
            }
            // The page and the checks complain about an unreadable report; this file only has times.
            let Some(Ok(report)) = cluster::read(attempt) else { continue };
            process += 1;
            trace.ranks(case, attempt, &report, process, run.info.at_ms, begin);
        }
    }
    trace.text(run)
}

/// Cases that started, by time.
fn started(run: &Run) -> Vec<(u64, &CaseRun)> {
    let mut started: Vec<(u64, &CaseRun)> = run
        .cases
        .iter()
        .filter_map(|case| Some((case.started_ms?, case)))
        .filter(|(_, case)| case.end.is_some())
        .collect();
    started.sort_by_key(|(at, _)| *at);
    started
}

struct Trace {
    events: Vec<Value>,
    flows: u64,
    /// Attempts whose operations are not in the trace.
    left_out: usize,
}

impl Trace {
    fn name(&mut self, process: u64, thread: Option<u64>, what: &str, name: &str, order: u64) {
        let thread = thread.unwrap_or_default();
        let meta =
            |kind: &str, args: Value| json!({"ph": "M", "pid": process, "tid": thread, "name": kind, "args": args});
        self.events.push(meta(&format!("{what}_name"), json!({ "name": name })));
        self.events.push(meta(&format!("{what}_sort_index"), json!({ "sort_index": order })));
    }

    fn slice(&mut self, (process, thread): (u64, u64), (begin, end): (f64, f64), name: &str, kind: &str, args: Value) {
        let (begin, end) = (rounded(begin), rounded(end));
        self.events.push(json!({
            "ph": "X", "pid": process, "tid": thread, "ts": begin, "dur": rounded(end - begin),
            "name": name, "cat": kind, "args": args,
        }));
    }

    fn case(&mut self, case: &CaseRun, track: u64, begin: f64, end: f64) {
        let place = (RUNNER, track);
        let args = json!({
            "verdict": case.verdict().map(crate::verdict::Verdict::word),
            "flaky": case.flaky(),
            "place": case.info.place.to_string(),
            "world_size": case.info.world_size,
            "matrix": case.info.matrix,
        });
        self.slice(place, (begin, end), &case.info.case, "case", args);
        let mut from = begin;
        for attempt in &case.attempts {
            let to = from + attempt.duration_us as f64;
            let failures: Vec<String> =
                attempt.failures.iter().map(|failure| format!("{}: {}", failure.kind, failure.expected)).collect();
            let args = json!({ "verdict": attempt.verdict.word(), "failures": failures, "notes": attempt.notes });
            self.slice(place, (from, to), &format!("attempt {}", attempt.number), "attempt", args);
            from = to;
        }
    }

    fn ranks(
        &mut self,
        case: &CaseRun,
        attempt: &Attempt,
        report: &ClusterReport,
        process: u64,
        zero_ms: u64,
        begin: f64,
    ) {
        let spans = cluster::spans(report);
        if spans.is_empty() {
            return;
        }
        if self.events.len() + spans.len() * 3 > MOST_EVENTS {
            self.left_out += 1;
            return;
        }
        let zero = match report.measured.operations_began_at_ms {
            Some(at) => at.saturating_sub(zero_ms) as f64 * 1000.0,
            None => begin,
        };
        self.name(process, None, "process", &name(case, attempt), process);
        let mut named: Vec<u64> = Vec::new();
        for span in &spans {
            let thread = thread(span);
            if !named.contains(&thread) {
                named.push(thread);
                let node =
                    report.ranks.iter().find(|rank| rank.rank.0 == span.rank).and_then(|rank| rank.node.as_ref());
                let node = node.map_or_else(String::new, |node| format!(" ({node})"));
                let lane = if span.lane == 0 { String::new() } else { format!(", {}", span.lane + 1) };
                self.name(process, Some(thread), "thread", &format!("rank {}{node}{lane}", span.rank), thread);
            }
            let entry = &report.operation_timeline.entries[span.entry];
            let kind = match entry.kind {
                OperationKind::Collective => "collective",
                OperationKind::PointToPoint => "transfer",
                OperationKind::OneSided => "one-sided",
                OperationKind::Barrier => "barrier",
            };
            let args = json!({
                "seqno": entry.seqno, "communicator": entry.comm_id, "bytes": message_bytes(entry), "count": entry.count,
                "dtype": entry.data_type, "reduce_op": entry.reduce_op, "root": entry.root, "ranks": entry.ranks,
                "transport": entry.buffer_transport, "modeled_us": entry.modeled_time_us,
                "waited_us": rounded(span.met_us - span.began_us),
            });
            let place = (process, thread);
            self.slice(place, (zero + span.began_us, zero + span.ended_us), &entry.operation, kind, args);
            if span.met_us > span.began_us {
                self.slice(place, (zero + span.began_us, zero + span.met_us), "wait", "wait", json!({}));
            }
        }
        self.releases(report, &spans, process, zero);
    }

    /// An arrow from the rank that arrived last to each rank that waited for it.
    fn releases(&mut self, report: &ClusterReport, spans: &[cluster::Span], process: u64, zero: f64) {
        let mut of_entry: Vec<Vec<&cluster::Span>> = vec![Vec::new(); report.operation_timeline.entries.len()];
        for span in spans {
            of_entry[span.entry].push(span);
        }
        for spans in of_entry {
            let Some(last) = spans.iter().max_by(|a, b| a.began_us.total_cmp(&b.began_us)) else { continue };
            for span in spans.iter().filter(|span| span.rank != last.rank && span.met_us > span.began_us) {
                self.flows += 1;
                let flow = |phase: &str, span: &cluster::Span, at: f64| {
                    json!({
                        "ph": phase, "pid": process, "tid": thread(span), "ts": rounded(zero + at),
                        "id": self.flows, "name": "releases", "cat": "release",
                    })
                };
                let start = flow("s", last, last.began_us);
                let mut end = flow("f", span, span.met_us);
                end["bp"] = json!("e");
                self.events.extend([start, end]);
            }
        }
    }

    fn text(self, run: &Run) -> String {
        let note = match self.left_out {
            0 => Value::Null,
            count => json!(format!("operations of {count} attempts are left out: more than {MOST_EVENTS} events")),
        };
        let about = json!({ "run": run.info.run, "ftest": run.info.ftest, "host": run.info.host, "left_out": note,
            "incomplete": incomplete(run) });
        let lines: Vec<String> = self.events.iter().map(Value::to_string).collect();
        format!(
            "{{\"displayTimeUnit\": \"ms\", \"otherData\": {about}, \"traceEvents\": [\n{}\n]}}\n",
            lines.join(",\n")
        )
    }
}

/// The name of an attempt's process.
fn name(case: &CaseRun, attempt: &Attempt) -> String {
    match case.attempts.len() {
        0 | 1 => case.info.case.clone(),
        _ => format!("{} attempt {}", case.info.case, attempt.number),
    }
}

fn thread(span: &cluster::Span) -> u64 {
    u64::from(span.rank) * LANES + (span.lane as u64).min(LANES - 1)
}

/// Nanoseconds are the finest resolution that readers of the format keep.
fn rounded(us: f64) -> f64 {
    (us * 1000.0).round() / 1000.0
}
