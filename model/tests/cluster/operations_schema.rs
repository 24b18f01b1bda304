//! The committed schema of kept operations is that of the types, and a log satisfies it. `cargo xtask regen` rewrites it.

use std::path::Path;
use std::sync::LazyLock;

use protocol::ids::{CommunicatorId, Rank};
use protocol::operations::{
    Act, Form, LoggedCommunicator, LoggedDevice, LoggedGroup, LoggedLine, LoggedOperation, LoggedStream, LoggedWork,
    OPERATIONS_VERSION, OperationLog, Place, StreamOrder, WorkKind,
};
use protocol::report::StepMark;
use serde_json::{Value, json};

use crate::harness::plan;

/// The schema of [`OperationLog`], with the version pinned.
fn generated() -> Value {
    let mut schema = serde_json::to_value(schemars::schema_for!(OperationLog)).unwrap();
    schema["properties"]["version"] = json!({ "const": OPERATIONS_VERSION, "description": "Version of this format." });
    schema
}

/// As for the cluster report's.
static COMMITTED: LazyLock<Value> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/operations.v1.json");
    let generated = serde_json::to_string_pretty(&generated()).unwrap() + "\n";
    if std::env::var_os("FTEST_REGEN").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == generated,
        "schema/operations.v1.json is not the schema of protocol/src/operations.rs; run `cargo xtask regen operations-schema`"
    );
    serde_json::from_str(&text).unwrap()
});

fn log() -> OperationLog {
    let shape = |kind, form| LoggedWork { name: 0, kind, element: None, flops: 0, form, bytes: 0, is_node: false };
    let acts = [
        Act::Work(0, 0, 1),
        Act::Group(0, 1, 0, 0),
        Act::Record(0, 1),
        Act::Wait(0, 1),
        Act::After(0, 0),
        Act::Stream(0),
        Act::Event(1),
        Act::Device(0),
        Act::SawStream(0),
        Act::SawEvent(1),
        Act::Mark(StepMark::Nvtx, true),
        Act::End,
    ];
    OperationLog {
        version: OPERATIONS_VERSION.to_owned(),
        rank: Rank(0),
        is_alone: false,
        cluster: plan(2, 2),
        nccl_variables: Default::default(),
        nccl_minor: 30,
        devices: vec![LoggedDevice { profile: "a100".to_owned(), nvlink_gbytes: 300.0 }],
        names: vec!["kernel".to_owned()],
        lines: vec![LoggedLine { file: "train.py".to_owned(), line: 3 }],
        streams: vec![LoggedStream { device: 0, order: StreamOrder::Legacy }],
        works: vec![
            shape(WorkKind::Operator, Form::Product { batch: 1, m: 2, n: 3, k: 4 }),
            shape(WorkKind::Copy(Place::Pinned, Place::Device(0), 8), Form::Other),
        ],
        communicators: vec![LoggedCommunicator { id: CommunicatorId(1), ranks: vec![Rank(0)], rank: 0 }],
        groups: vec![LoggedGroup { communicator: 0, parts: Vec::new() }],
        operations: acts.into_iter().map(|act| LoggedOperation(7, act)).collect(),
        dropped: 0,
    }
}

#[test]
fn a_log_satisfies_the_committed_schema_and_reads_back() {
    let schema = jsonschema::validator_for(&COMMITTED).unwrap();
    let mistakes = |log: &Value| schema.iter_errors(log).map(|error| error.to_string()).collect::<Vec<_>>();
    let log = log();
    let mut written = serde_json::to_value(&log).unwrap();
    assert_eq!(mistakes(&written), [""; 0]);
    assert_eq!(serde_json::from_value::<OperationLog>(written.clone()).unwrap(), log);
    for (key, value) in [("version", json!("operations.v2")), ("operations", json!([[1, { "sleep": 3 }]]))] {
        let right = std::mem::replace(&mut written[key], value);
        assert_ne!(mistakes(&written), [""; 0], "{key}");
        written[key] = right;
    }
}
