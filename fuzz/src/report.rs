//! Reports of ranks and coordinators as the checks read them.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use runner::case::Case;
use runner::check::snapshot::SnapshotMode;
use runner::execute::collect::gaps;
use runner::observation::Observation;
use runner::suite;
use runner::verdict::{Verdict, judge};

/// Looks at everything that a report may hold, with every operator.
const SUITE: &str = "ftest: 1
suite: s
clusters: {two: {nodes: 2, gpus_per_node: 2, profile: a100}}
cases:
- id: c
  cluster: two
  launch: {argv: [x], ranks: 4}
  expect:
    report:
    - {path: $.cluster.world_size, eq: 4, ne: 5, lt: 1GiB, ge: 1}
    - {path: '$.links[*].bytes', all: {gt: 1MiB}}
    - {path: '$..calls', any: {near: 1.5, rel: 1e-6}}
    - {path: '$[*].devices[0].used_memory_peak', of: device, any: {le: 40GiB}}
    - {path: '$.operation_timeline.entries', contains: {a: 1}}
    - {path: '$.cluster.name', matches: '^a', in: [a, b]}
    - {path: '$..gaps', of: device, len: 0}
    invariants:
    - report.cluster.world_size == world_size
    - \"report.links | pluck('bytes') | sum > 0\"
    - 'approx(report.measured.operations_began_at_ms, 1, rel=1e-6)'
";

static CASE: LazyLock<Arc<Case>> = LazyLock::new(|| {
    let suite = suite::parse(Path::new("s.yaml"), SUITE, Path::new("/nonexistent"));
    suite.unwrap_or_else(|error| panic!("{error}")).cases.remove(0)
});

/// Any JSON as a cluster report and as a device report is judged, and what does not hold is said.
pub fn report(data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let devices = vec![value.clone(), value.clone()];
    let gaps = gaps::in_reports(Some(&value), &devices);
    let observation =
        Observation { cluster_report: Some(value), device_reports: devices, gaps, ..Observation::default() };
    let (verdict, failures) = judge::judge(&CASE, &observation, SnapshotMode::CompareOnly);
    assert_eq!(verdict == Verdict::Passed, failures.is_empty(), "{verdict:?}: {failures:?}");
    assert!(
        failures.iter().all(|failure| !failure.kind.word().is_empty() && !failure.expected.is_empty()),
        "{failures:?}"
    );
}
