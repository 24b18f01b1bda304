//! The cluster report for people: the same facts as Markdown tables.

use std::fmt::Write;

use protocol::ids::Rank;
use protocol::report::{ClusterReport, FailureEvent, GpuChange, InjectedFault, RecoveryEvent, TimelineEntry};

/// Entries of the timeline that are shown.
const SHOWN_OPERATIONS: usize = 100;

/// Renders `report`, which is also in the JSON file `json_name`.
pub fn render(report: &ClusterReport, json_name: &str) -> String {
    let mut out = String::new();
    let cluster = &report.cluster;
    out.push_str("# FakeGPU Cluster Communication Report\n\n");
    for (what, value) in [
        ("Cluster", cluster.name.clone().unwrap_or_else(|| "(no cluster file)".to_owned())),
        ("World size", cluster.world_size.to_string()),
        ("Nodes", cluster.node_count.to_string()),
        ("Communicators", cluster.communicators.to_string()),
        ("Coordinator transport", cluster.coordinator_transport.clone()),
        ("Time model", report.model.clone()),
        ("JSON source", format!("`{json_name}`")),
    ] {
        line(&mut out, &format!("- {what}: {}", escaped(&value)));
    }
    collectives(&mut out, report);
    point_to_point(&mut out, report);
    node_pairs(&mut out, report);
    ranks(&mut out, report);
    resilience(&mut out, report);
    timeline(&mut out, report);
    out.push_str(NOTES);
    out
}

const NOTES: &str = "\n## Metric Notes\n
- Payload is what callers handed over, summed over ranks; link bytes are what the model puts on the wire.
- Estimated times come from the cluster file's bandwidths and latencies, not from a clock.
- Contention penalty is the part of the estimate that oversubscription adds.
- A node pair counts an operation that used both directions once.
- Timeline entries are ordered by communicator and position in it, not by time.
- Waits and execution times are measured on the machine that simulated the cluster and differ from run to run.
";

fn collectives(out: &mut String, report: &ClusterReport) {
    section(out, "Collective Summary");
    header(out, &["Collective", "Calls", "Total payload", "Estimated time", "Contention penalty"]);
    for (name, totals) in &report.collectives {
        row(
            out,
            &[
                name.clone(),
                totals.calls.to_string(),
                bytes(totals.bytes),
                us(totals.estimated_time_us_total),
                us(totals.contention_penalty_us_total),
            ],
        );
    }
}

fn point_to_point(out: &mut String, report: &ClusterReport) {
    let totals = &report.point_to_point;
    section(out, "Point-to-Point Summary");
    header(out, &["Operations", "Sends", "Payload", "Estimated time", "Contention penalty"]);
    row(
        out,
        &[
            totals.operations.to_string(),
            totals.sends.to_string(),
            bytes(totals.bytes),
            us(totals.estimated_time_us_total),
            us(totals.contention_penalty_us_total),
        ],
    );
}

fn node_pairs(out: &mut String, report: &ClusterReport) {
    section(out, "Node-Pair Communication");
    if report.node_pairs.is_empty() {
        return line(out, "_No distinct node pairs_");
    }
    header(
        out,
        &[
            "Node A",
            "Node B",
            "A → B total",
            "B → A total",
            "Combined total",
            "A → B peak/op",
            "B → A peak/op",
            "Pair peak/op",
            "Operations",
            "Collective ops",
            "P2P ops",
            "Transfers",
            "Avg est. Gbit/s",
            "Peak est. Gbit/s",
            "Est. time",
            "Contention",
        ],
    );
    for pair in &report.node_pairs {
        row(
            out,
            &[
                pair.node_a.clone(),
                pair.node_b.clone(),
                bytes(pair.a_to_b.total_bytes),
                bytes(pair.b_to_a.total_bytes),
                bytes(pair.total_bytes),
                bytes(pair.a_to_b.peak_bytes_per_operation),
                bytes(pair.b_to_a.peak_bytes_per_operation),
                bytes(pair.peak_combined_bytes_per_operation),
                pair.operations.to_string(),
                pair.collective_operations.to_string(),
                pair.point_to_point_operations.to_string(),
                (pair.a_to_b.transfers + pair.b_to_a.transfers).to_string(),
                format!("{:.3}", pair.average_estimated_throughput_gbps),
                format!("{:.3}", pair.peak_estimated_throughput_gbps),
                us(pair.estimated_time_us_total),
                us(pair.contention_penalty_us_total),
            ],
        );
    }
}

fn ranks(out: &mut String, report: &ClusterReport) {
    section(out, "Rank Summary");
    if report.ranks.is_empty() {
        return line(out, "_No ranks_");
    }
    header(
        out,
        &[
            "Rank",
            "Node",
            "Wait time",
            "Timeouts",
            "Communicator inits",
            "Collective calls",
            "P2P calls",
            "Barrier calls",
        ],
    );
    for rank in &report.ranks {
        let measured = report.measured.ranks.iter().find(|measured| measured.rank == rank.rank);
        row(
            out,
            &[
                rank.rank.to_string(),
                rank.node.clone().unwrap_or_else(|| "-".to_owned()),
                measured.map_or_else(|| "-".to_owned(), |measured| format!("{:.3} ms", measured.wait_time_ms)),
                rank.timeouts.to_string(),
                rank.communicator_inits.to_string(),
                rank.collective_calls.to_string(),
                rank.point_to_point_calls.to_string(),
                rank.barrier_calls.to_string(),
            ],
        );
    }
}

fn resilience(out: &mut String, report: &ClusterReport) {
    section(out, "Resilience Events");
    line(out, "### Failures\n");
    if report.resilience.failure_events.is_empty() {
        line(out, "_No recorded failures_");
    } else {
        header(
            out,
            &[
                "#",
                "Comm:seq",
                "Failed rank",
                "Source",
                "Operation",
                "Error",
                "Observed ranks",
                "Attempted payload",
                "Detail",
            ],
        );
        for event in &report.resilience.failure_events {
            failure(out, event, report);
        }
    }
    injected(out, &report.resilience.injected_faults);
    line(out, "\n### Communicator Recovery\n");
    if report.resilience.recovery_events.is_empty() {
        return line(out, "_No communicator recovery_");
    }
    header(out, &["#", "Parent → new", "Seq", "Mode", "Excluded ranks", "Surviving ranks"]);
    for RecoveryEvent { index, parent_comm_id, new_comm_id, seqno, abort_parent, excluded_ranks, surviving_ranks } in
        &report.resilience.recovery_events
    {
        row(
            out,
            &[
                index.to_string(),
                format!("{parent_comm_id} → {new_comm_id}"),
                seqno.to_string(),
                if *abort_parent { "abort" } else { "default" }.to_owned(),
                list(excluded_ranks),
                list(surviving_ranks),
            ],
        );
    }
}

fn injected(out: &mut String, faults: &[InjectedFault]) {
    if faults.is_empty() {
        return;
    }
    line(out, "\n### Injected Faults\n");
    header(out, &["#", "Fault", "Rank", "Comm:seq", "Operation"]);
    for InjectedFault { index, kind, rank, comm_id, seqno, operation, gpu } in faults {
        row(
            out,
            &[
                index.to_string(),
                match gpu {
                    Some(GpuChange { gpu, health, .. }) => format!("{}: {gpu}: {health}", kind.name()),
                    None => kind.name().to_owned(),
                },
                rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
                comm_id.map_or_else(|| "-".to_owned(), |id| format!("{id}:{seqno}")),
                operation.clone(),
            ],
        );
    }
}

fn failure(out: &mut String, event: &FailureEvent, report: &ClusterReport) {
    let detail = report.measured.failures.iter().find(|measured| measured.index == event.index);
    let comm = event.comm_id.map_or_else(|| "-".to_owned(), |id| id.to_string());
    row(
        out,
        &[
            event.index.to_string(),
            format!("{comm}:{}", event.seqno),
            list(&event.culprits),
            event.source.name().to_owned(),
            event.operation.clone(),
            word(&event.error_code),
            list(&event.observed_ranks),
            bytes(event.attempted_payload_bytes),
            detail.map_or_else(String::new, |measured| measured.error_detail.clone()),
        ],
    );
}

fn timeline(out: &mut String, report: &ClusterReport) {
    let timeline = &report.operation_timeline;
    section(out, "Recent Operation Timeline");
    if timeline.entries.is_empty() {
        return line(out, "_No completed communication operations_");
    }
    let shown = &timeline.entries[timeline.entries.len().saturating_sub(SHOWN_OPERATIONS)..];
    let hidden = timeline.dropped_entries + (timeline.entries.len() - shown.len()) as u64;
    line(out, &format!("The last {} operations; {hidden} before them.\n", shown.len()));
    header(
        out,
        &[
            "#",
            "Kind / operation",
            "Data type",
            "Reduce op",
            "Comm:seq",
            "Global ranks",
            "Transport",
            "Logical payload",
            "Rendezvous",
            "Execution",
            "Modeled",
        ],
    );
    for entry in shown {
        operation(out, entry, report);
    }
}

fn operation(out: &mut String, entry: &TimelineEntry, report: &ClusterReport) {
    let first = report.measured.operations.first().map_or(0, |measured| measured.index);
    let measured = report.measured.operations.get((entry.index - first) as usize);
    let none = || "none".to_owned();
    row(
        out,
        &[
            entry.index.to_string(),
            format!("{} / {}", entry.kind.name(), entry.operation),
            entry.data_type.map_or_else(none, |datatype| datatype.to_string()),
            entry.reduce_op.map_or_else(none, |op| op.to_string()),
            format!("{}:{}", entry.comm_id, entry.seqno),
            list(&entry.ranks),
            word(&entry.buffer_transport),
            bytes(entry.logical_payload_bytes),
            measured.map_or_else(none, |measured| us(measured.rendezvous_wait_us)),
            measured.map_or_else(none, |measured| us(measured.execution_time_us)),
            us(entry.modeled_time_us),
        ],
    );
}

fn section(out: &mut String, title: &str) {
    line(out, &format!("\n## {title}\n"));
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn header(out: &mut String, columns: &[&str]) {
    line(out, &format!("| {} |", columns.join(" | ")));
    line(out, &format!("|{}", " --- |".repeat(columns.len())));
}

fn row(out: &mut String, cells: &[String]) {
    out.push('|');
    for cell in cells {
        // Writing to a String cannot fail.
        let _ = write!(out, " {} |", escaped(cell));
    }
    out.push('\n');
}

/// Text that cannot terminate a cell or a row.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace(['\n', '\r'], " ")
}

fn list(ranks: &[Rank]) -> String {
    let ranks: Vec<String> = ranks.iter().map(Rank::to_string).collect();
    if ranks.is_empty() { "-".to_owned() } else { ranks.join(", ") }
}

/// The word that JSON has for a value.
fn word(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn us(us: f64) -> String {
    format!("{us:.3} us")
}

/// "1.50 KiB".
fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.2} {}", UNITS[unit])
}
