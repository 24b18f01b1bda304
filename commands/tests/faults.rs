//! `faults` from outside, with stand-ins for shim and coordinator: the ranks receive them, and the cluster report says
//! which of them fired.

use std::process::{Command, Output};

use model::cluster::report::RunFacts;
use model::cluster::{Cluster, Settings};
use model::exchange::{ConnectionId, Input};
use protocol::fault::{self, Action, Fault, FaultRecord, Trigger};
use protocol::ids::Rank;
use protocol::message::{ProcessInfo, ToCoordinator};
use protocol::report::FaultKind;

use crate::executable;

/// Listens nowhere, but says so and ends as the real one: SIGTERM puts the report where it belongs.
const COORDINATOR: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in --address) address=$2 ;; --report) report=$2 ;; esac
    shift
done
trap 'cp "$HOME/report.json" "$report"; exit 0' TERM
echo "fakegpu-coordinator listening on $address"
read lifeline
"#;

const SUITE: &str = r#"ftest: 1
suite: s
cases:
  - id: one
    cluster: { nodes: 2, gpus_per_node: 1, profile: a100 }
    launch: { argv: [sh, -c, 'echo "$FTEST_FAULTS" > "$HOME/faults.$RANK"'], ranks: 2 }
    faults:
      - { at: { rank: 1, after: 2s }, do: kill }
      - { at: { rank: 0, collective: all_reduce, seq: 3 }, do: { delay: 1500ms } }
"#;

/// Runs the suite with a coordinator that heard of these of its faults.
fn run(fired: &[(u32, FaultKind)]) -> (tempfile::TempDir, Output) {
    let root = tempfile::tempdir_in("/tmp").unwrap();
    let at = |place: &str| root.path().join(place);
    for directory in ["home/bin", "home/lib", "tmp"] {
        std::fs::create_dir_all(at(directory)).unwrap();
    }
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.split_ascii_whitespace().find(|word| word.contains("libgcc_s")).expect("Rust uses libgcc_s");
    std::fs::copy(library, at("home/lib/libfakegpu.so")).unwrap();
    executable::write(&at("home/bin/fakegpu-coordinator"), COORDINATOR);
    std::fs::write(at("s.yaml"), SUITE).unwrap();
    std::fs::write(at("report.json"), report(fired)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
    command.args(["run", "s.yaml"]).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", root.path());
    command.env("FTEST_HOME", at("home")).env("TMPDIR", at("tmp")).env("NO_COLOR", "1").current_dir(root.path());
    let output = command.output().unwrap();
    (root, output)
}

fn report(fired: &[(u32, FaultKind)]) -> String {
    let mut cluster = Cluster::new(Settings::default());
    let connection = ConnectionId(1);
    let info =
        ProcessInfo { pid: 1, rank: Some(Rank(1)), world_size: Some(2), program: "sh".to_owned(), backlog: None };
    cluster.step(Input::Joined { connection, info }, 0);
    for (number, kind) in fired {
        let record = FaultRecord { number: *number, kind: *kind, rank: Some(Rank(1)), collective: None };
        let message = ToCoordinator::FaultFires { request: 1, record };
        cluster.step(Input::Message { connection, message }, 0);
    }
    serde_json::to_string(&cluster.report(&RunFacts { transport: "unix".to_owned(), ..RunFacts::default() })).unwrap()
}

#[test]
fn a_case_passes_when_all_its_faults_fired() {
    let (root, output) = run(&[(1, FaultKind::Kill), (2, FaultKind::Delay)]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for rank in 0..2 {
        let printed = std::fs::read_to_string(root.path().join(format!("faults.{rank}"))).unwrap();
        let faults = fault::from_json(&printed).unwrap();
        let places: Vec<_> = faults.iter().map(|fault| (fault.number, fault.origin.as_str())).collect();
        assert_eq!(places, [(1, "s.yaml:8:9"), (2, "s.yaml:9:9")], "rank {rank}");
        let Fault { at: Trigger::After { rank: of, elapsed }, action: Action::Kill, .. } = &faults[0] else {
            panic!("{:?}", faults[0])
        };
        assert_eq!((*of, elapsed.as_secs()), (Some(Rank(1)), 2));
    }
}

#[test]
fn a_fault_that_never_fires_fails_its_case_by_name() {
    let (_root, output) = run(&[(1, FaultKind::Kill)]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains(
            "      expected: every fault fires\n      got:      s.yaml:9:9: `delay` at rank 0, collective 3 (all_reduce) \
             never fired; the rank completed 0 collectives\n"
        ),
        "{text}"
    );
    assert!(text.contains("note: s.yaml:8:9: `kill` of rank 1 after 2s fired\n"), "{text}");
}
