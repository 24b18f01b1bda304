//! Tests that every key of the language is read, and that a damaged file is rejected with a place.

use super::*;
use crate::case::python::PythonNeed;
use crate::suite::{SuiteError, parse};
use proptest::prelude::*;

const WHOLE: &str = "ftest: 1
suite: whole
clusters: {two: {nodes: 2, gpus_per_node: 2, profile: a100}}
defaults: {cluster: two, timeout: {slow: 1s, kill: 2s}, env: {A: 1, B: ~}, tags: [x], allow_gaps: [cudart.*]}
cases:
- id: one
  title: a title
  matrix: {axes: {n: [1, 2], t: [a, b]}, include: [{n: 3, t: c}], exclude: [{n: 2, t: b}], max: 9}
  requires: [{command: sh}, {torch: 2.15.0}, {env: HOME}, {file: x}, {platform: linux}, {python_module: numpy}]
  launch: {argv: [x, '${{ matrix.n + cluster.world_size }}'], ranks: 4}
  kill: [{target: {rank: 1}, signal: SIGTERM, when: {output: ready, rank: 0}}]
  expect:
    exit: {rank: {1: {signal: SIGTERM}}, others: nonzero, all: 0}
    stdout: [{rank: all, contains: [a, b]}, {rank: 3, matches: '^(?<loss>x)$', capture: [loss], because: y}]
    stderr: {absent: z}
    report:
    - {path: $.cluster.world_size, eq: 1, ne: 2, lt: 1GiB, len: 3}
    - {path: '$[*].report_version', all: {near: 1.5, rel: 1e-6}, any: {in: [1, 2]}, of: device}
    - {path: $.hang, absent: true}
    - {path: '$.ranks[*].rank', none: {eq: 1, unordered: false}, count: {where: {gt: 1}, min: 1, max: 2}, unique: true, sorted: ascending}
    - {path: '$.ranks[*].rank', count: {eq: 1}, eq: [1], unordered: true}
    - {path: $.cluster.world_size, between: [1, 1KiB], near: nan, dtype: bfloat16, nan: equal, type: integer}
    - {path: $.cluster.world_size, le: '${{ captures.loss }}', ge: 1, contains: a, matches: a}
    - {path: '$.ranks[*].rank', all: {ne: 1, lt: 1, le: 1, gt: 1, ge: 1, between: [1, 2], abs: 1, near: 1, dtype: float32, nan: equal}}
    - {path: '$.ranks[*].rank', any: {contains: 1, matches: x, type: text, len: 1, unique: true, sorted: descending, in: []}}
    perf: [{metric: '$[0].report_version', of: device, name: n, unit: u, reference: 3, lower: -10%, upper: ~, warn_lower: -5%, warn_upper: 9, because: b}]
    invariants: [report.cluster.world_size == matrix.n, {id: i, that: 'ranks | length == 4', because: b}]
    snapshot: [{name: n, of: report, select: [$.cluster], redact: {$.model: '[b]'}, round: {$.cluster.world_size: 2}, sort: {$.ranks: [op]}}]
    gaps: [cublas.x]
";

/// Keys that [`WHOLE`] does not use.
const REST: &str = "ftest: 1
suite: rest
description: more
clusters: {two: {nodes: 2, gpus_per_node: 2, profile: a100}, file: {file: none.yaml}, more: {extends: two, nodes: 1}}
timeout: 9m
groups: {g: {max: 1}}
fixtures:
  data: {scope: suite, setup: {argv: [x, '${{ dir.scratch }}']}, teardown: {shell: y}, outputs: [A]}
  more: {uses: [data], setup: {shell: '${{ fixtures.data.A }}'}, env: {B: ~}, cwd: ., python: [numpy], timeout: {kill: 1s, grace: 1s}}
defaults: {cluster: two, cwd: ., coordinator: true, transport: tcp, network: {seed: 1}, resources: {cpus: 2, memory: 1GiB, groups: [g]}, python: [numpy], uses: [more], env_inherit: [PATH]}
cases:
- id: one
  python: {requirements: none.txt, project: none, extras: [x], packages: [numpy], compile: true}
  requires: [{python_module: {name: x, version: '>=1'}}]
  timeout: {slow: 1s, kill: 9s, grace: 1s, idle: 2s, survivors: 1s}
  sanitize: [races]
  deterministic: {ignore: ['[0-9]+ ms'], except: [stderr], except_files: ['*.log']}
  schedule: {seed: 7, jitter: 250us}
  retries: {count: 1, only_if: [infra, {stderr: x}], delay: 1s, flaky: fail}
  xfail: {reason: r, issue: 3, strict: false, until: 2999-01-01, if: true}
  launch: {torchrun: {nproc_per_node: 1, nnodes: 2, script: x, args: [a], max_restarts: 1}, warm: true}
  kill: [{target: {node: 0}, when: {output: ready}}]
  network:
    delay: 1ms
    loss: 0.5
    gbps: 10
    links: [{between: [node1, coordinator], delay: 2ms, loss: 1, gbps: 1}]
    cuts: [{between: [node0, node1], when: {output: x, rank: 1}, for: 1s, reset: true}, {node: node0, when: {output: y}}]
  faults:
  - {at: {rank: 1, collective: all_reduce, seq: 1, communicator: 1}, do: {delay: 1s}}
  - {at: {after: 1s}, do: {slow_link: {between: [node0, node1], delay: 1ms, gbps: 1}}}
  - {do: {cut_link: {between: [node0, node1]}}}
  gpu:
    node0/0:
    - {at: {collective: send, seq: 1, communicator: 1}, lost: false, xid: 48, throttle: thermal, pcie_gen: 1, pcie_width: 8}
    - {ecc: {corrected: 1, uncorrected: 1, earlier_corrected: 1, earlier_uncorrected: 1}}
    node1/0: {at: {after: 1s}, remapped_rows: {corrected: 1, uncorrected: 1, pending: true, failed: true}}
    node1/1: {retired_pages: {corrected: 1, uncorrected: 1, pending: true}}
  expect:
    within: 1s
    leaks: none
    hang: [x]
    exit: {code: 1}
    report: [{path: $.cluster.world_size, gt: 1, abs: 1, near: 2, exists: true}]
    findings: [count_mismatch, {kind: count_mismatch, ranks: [0], contains: x, lines: {0: 'a.py:1'}, optional: true}]
- id: related
  cluster: {nodes: 2, gpus_per_node: 1, profile: a100}
  launch: {argv: [x], ranks: 2}
  holds_under: [hash-seed, {nodes: 1, batch: same}, {launch: {argv: [y], ranks: 1}}, {ranks: 1, gpu: h100, args: [--tp, 1], env: {A: 2, B: ~}, schedule: {seed: 1, jitter: 1ms}, restart: {after: x, rank: 0, reshard: 2}}]
  compared: {numbers: 'step (?P<step>[0-9]+) loss (?P<loss>.*)', rank: 0, tolerance: 1e-3, files: '*.jsonl', fields: [loss], step: step}
- id: trained
  cluster: {nodes: 2, gpus_per_node: 1, profile: a100}
  launch: {argv: [x], ranks: 2}
  holds_under: [hash-seed]
  compared: {tensors: [gradients], steps: [count, samples]}
- {id: two, launch: {srun: {nodes: 1, ntasks: 1, ntasks_per_node: 1, options: [-p, x], argv: [x]}}}
- {id: three, launch: {srun: {torchrun: {nproc_per_node: 1, script: x, args: [a], max_restarts: 1}}}}
";

#[test]
fn every_key_of_the_tables_is_read_and_no_other() {
    let mut asked = BTreeSet::new();
    for text in [WHOLE, REST] {
        let reader = Reader::new(Path::new("w.yaml"), text);
        let node = reader.parse().unwrap();
        read(&reader, &node, Path::new("/"), &mut Vec::new(), &mut None);
        asked.append(&mut reader.asked.take());
    }
    // `model` reads clusters; sections that take one of several keys are read by the key present, and reject any other.
    let elsewhere =
        ["cluster", "cluster_names", "node", "gpu", "fabric", "links", "machine", "requires", "do", "only_if"];
    asked.retain(|(section, _)| !elsewhere.contains(section));
    let tables: BTreeSet<(&str, &str)> = language::all()
        .into_iter()
        .filter(|section| !elsewhere.contains(&section.name))
        .flat_map(|section| section.keys().map(|key| (section.name, key.name)))
        .collect();
    let unread: Vec<_> = tables.difference(&asked).collect();
    let unlisted: Vec<_> = asked.difference(&tables).collect();
    assert!(unread.is_empty() && unlisted.is_empty(), "not read: {unread:?}; in no table: {unlisted:?}");
}

fn parsed(text: &str) -> Result<Suite, SuiteError> {
    parse(Path::new("w.yaml"), text, Path::new("/"))
}

#[test]
fn every_key_of_the_language_is_read() {
    let suite = parsed(WHOLE).unwrap_or_else(|error| panic!("{error}"));
    let ids: Vec<&str> = suite.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["one[n=1,t=a]", "one[n=1,t=b]", "one[n=2,t=a]", "one[n=3,t=c]"]);
    let case = &suite.cases[3];
    assert_eq!(case.launch, crate::case::Launch::Argv { argv: vec!["x".into(), "7".into()], ranks: Some(4) });
    assert_eq!(case.python, Some(PythonNeed::Managed(vec!["numpy".into(), "torch==2.15.0".into()])));
    assert_eq!((case.requires.len(), case.place.line, case.coordinator), (5, 6, true));
    assert_eq!((case.env["A"].as_str(), case.env_unset.as_slice()), ("1", &["B".to_owned()][..]));
    let expect = &case.expect;
    assert_eq!((expect.output.len(), expect.report.len(), expect.invariants.len()), (4, 9, 2));
    assert_eq!(expect.snapshots[0].path, Path::new("snapshots/whole/one@n-3,t-c__n.snap"));
    assert_eq!((expect.report[0].place.line, expect.report[0].operators.len()), (17, 4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_damaged_suite_is_read_or_refused_with_a_place(start in 0..WHOLE.len(), length in 0..40_usize, with in "[ -~\n]{0,6}") {
        let end = (start + length).min(WHOLE.len());
        let text = format!("{}{with}{}", &WHOLE[..start], &WHOLE[end..]);
        if let Err(SuiteError::Mistakes(mistakes)) = parsed(&text) {
            prop_assert!(mistakes.count() > 0);
            prop_assert!(mistakes.to_string().contains("w.yaml:"), "{}", mistakes);
        }
    }
}
