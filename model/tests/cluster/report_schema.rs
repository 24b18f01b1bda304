//! The committed schema is that of the types, and reports satisfy it. `cargo xtask regen` rewrites it.

use std::path::Path;
use std::sync::LazyLock;

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::ToCoordinator;
use protocol::record::ErrorCode;
use protocol::report::{ClusterReport, SCHEMA_VERSION};
use serde_json::{Value, json};

use crate::harness::{World, failure, member, plan};

/// The schema of [`ClusterReport`], with the version pinned.
fn generated() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(ClusterReport)).unwrap();
    schema["properties"]["schema_version"] =
        json!({ "const": SCHEMA_VERSION, "description": "Version of this format." });
    schema
}

/// The schema that is committed; read once, since tests run at the same time and the first one may rewrite it.
static COMMITTED: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/cluster_report.v1.json");
    let generated = serde_json::to_string_pretty(&generated()).unwrap() + "\n";
    if std::env::var_os("FTEST_REGEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == generated,
        "schema/cluster_report.v1.json is not the schema of protocol/src/report; run `cargo xtask regen report-schema`"
    );
    serde_json::from_str(&text).unwrap()
});

fn errors(report: &Value) -> Vec<String> {
    let schema = jsonschema::validator_for(&COMMITTED).unwrap();
    schema.iter_errors(report).map(|error| error.to_string()).collect()
}

/// An idle cluster, one with traffic, a failure and a recovery, one without a cluster file.
fn samples() -> [ClusterReport; 3] {
    let mut busy = World::formed(Some(plan(2, 2)), 4, 2);
    for (operation, sequence) in [(Operation::AllReduce, 1), (Operation::Barrier, 2), (Operation::Broadcast, 3)] {
        busy.collective(operation, sequence, 4, 1000);
    }
    let failure = failure(Operation::AllGather, 4, 0, ErrorCode::DtypeMismatch, &[1], 8);
    busy.say(0, ToCoordinator::Failed { failure });
    for rank in 0..3 {
        let (parent, sequence, member) = (CommunicatorId(1), Sequence(1), member(rank, 100 + rank));
        let (rank, excluded, abort) = (Rank(rank), vec![Rank(3)], true);
        let request = u64::from(rank.0);
        let shrink = ToCoordinator::ShrinkCommunicator { request, parent, sequence, rank, excluded, abort, member };
        busy.say(request, shrink);
    }
    [World::new(Some(plan(2, 2)), 10).report(), busy.report(), World::new(None, 10).report()]
}

#[test]
fn reports_satisfy_the_committed_schema() {
    for report in samples() {
        assert_eq!(errors(&serde_json::to_value(&report).unwrap()), Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_what_is_no_report() {
    let good = serde_json::to_value(&samples()[1]).unwrap();
    let broken: [fn(&mut Value); 5] = [
        |report| report["schema_version"] = json!("cluster_report.v2"),
        |report| report["links"][0]["scope"] = json!("interplanetary"),
        |report| report["collectives"]["all_reduce"]["calls"] = json!(-1),
        |report| drop(report.as_object_mut().unwrap().remove("measured")),
        |report| report["cluster"]["surprise"] = json!(1),
    ];
    for break_it in broken {
        let mut report = good.clone();
        break_it(&mut report);
        assert_ne!(errors(&report), Vec::<String>::new());
    }
}

#[test]
fn markdown_has_every_section_and_a_row_for_every_fact() {
    let [idle, busy, _] = samples();
    let text = model::report_markdown::render(&busy, "report.json");
    for title in [
        "Collective Summary",
        "Point-to-Point Summary",
        "Node-Pair Communication",
        "Rank Summary",
        "Resilience Events",
        "Recent Operation Timeline",
        "Metric Notes",
    ] {
        assert!(text.contains(&format!("\n## {title}\n")), "{title}");
    }
    // 4 ranks, 1000 f32 each: 16000 B.
    assert!(text.contains("| all_reduce | 1 | 15.62 KiB |"), "{text}");
    assert!(text.contains("dtype_mismatch") && text.contains("The last 2 operations; 1 before them."), "{text}");
    assert!(text.contains("| 1 → 2 | 4 | abort | 3 | 0, 1, 2 |"), "{text}");
    let columns = |line: &str| line.matches(" |").count();
    for table in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let width = columns(table.lines().next().unwrap());
        assert!(table.lines().skip(2).all(|line| columns(line) == width), "{table}");
    }
    let text = model::report_markdown::render(&idle, "report.json");
    for placeholder in
        ["_No recorded failures_", "_No communicator recovery_", "_No completed communication operations_"]
    {
        assert!(text.contains(placeholder), "{placeholder}");
    }
}
