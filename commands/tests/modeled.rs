//! `ftest bench --modeled`: the columns, what NCCL's variables change, and a real run beside the model.

use std::process::Output;

use crate::program;

const CLUSTER: &str = "nodes: 2\ngpus_per_node: 8\nprofile: h100\n";

/// Runs `ftest bench --modeled` beside a cluster file of two nodes with H100s.
fn modeled(arguments: &[&str], variables: &[(&str, &str)], files: &[(&str, &str)]) -> Output {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("cluster.yaml", CLUSTER)].iter().chain(files) {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let mut command = program::ftest();
    command.current_dir(directory.path()).args(["bench", "--modeled", "--cluster", "cluster.yaml"]).args(arguments);
    command.envs(variables.iter().copied()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_columns_are_those_of_nccl_tests_and_the_choice() {
    let output = modeled(&["-b", "8", "-e", "8G", "-f", "1024"], &[], &[]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(printed.starts_with("# modeled, not measured"), "{printed}");
    let rows: Vec<Vec<&str>> =
        printed.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 4, "{printed}");
    assert_eq!(rows[0][..3], ["8", "2", "float"]);
    assert_eq!(rows[0][6..], ["Tree", "LL", "8", "latency"]);
    assert_eq!(rows[3][6..], ["NVLSTree", "Simple", "8", "NVLink"]);
    // nccl-tests on such nodes prints 469 GB/s for 8 GiB (NVIDIA/nccl-tests, issue 309).
    let bus: f64 = rows[3][5].parse().unwrap();
    assert!((bus / 469.0 - 1.0).abs() < 0.03, "{bus}");
}

#[test]
fn variables_of_nccl_count_and_wrong_ones_are_named() {
    let ring = modeled(&["-b", "1G", "-e", "1G"], &[("NCCL_ALGO", "Ring")], &[]);
    assert!(text(&ring.stdout).contains(" Ring "), "{}", text(&ring.stdout));
    let unread = modeled(&["-e", "8"], &[("NCCL_CROSS_NIC", "1"), ("NCCL_P2P_LEVEL", "PHB")], &[]);
    let said = "# set, and not modeled: NCCL_CROSS_NIC, NCCL_P2P_LEVEL\n";
    assert!(text(&unread.stdout).contains(said), "{}", text(&unread.stdout));
    let alone = modeled(&["-e", "8"], &[("NCCL_P2P_DISABLE", "1")], &[]);
    assert!(text(&alone.stdout).contains("; PCIe "), "{}", text(&alone.stdout));
    let wrong = modeled(&[], &[("NCCL_ALGO", "Rings")], &[]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("NCCL_ALGO: `rings` is none of Tree, Ring"), "{}", text(&wrong.stderr));
    let operation = modeled(&["--operation", "all"], &[], &[]);
    assert_eq!(operation.status.code(), Some(2));
    assert!(text(&operation.stderr).contains("--operation: `all` is none of"), "{}", text(&operation.stderr));
}

#[test]
fn nodes_that_differ_are_refused() {
    let cluster = "nodes:\n  - { id: a, ranks: [0], gpus: [{ profile: a100 }] }\n  - { id: b, ranks: [1, 2], gpus: [{ profile: a100 }, \
                   { profile: a100 }] }\nfabric:\n  intra_node: { type: nvlink, bandwidth_gbps: 300, latency_us: 3 }\n  inter_node: { type: \
                   ib, bandwidth_gbps: 300, latency_us: 3 }\n";
    let output = modeled(&[], &[], &[("cluster.yaml", cluster)]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert!(
        text(&output.stderr).contains("modeled times need equal nodes: `a` has 1 GPUs, `b` has 2"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn a_real_run_is_judged() {
    let row = |bytes: u64, us: f64| format!("{bytes} {} float sum -1 {us} 0 0 0 {us} 0 0 0\n", bytes / 4);
    let good = row(1 << 20, 71.5) + &row(1 << 30, 4470.0) + &row(8 << 30, 34365.0);
    let output = modeled(&["--against", "good.txt"], &[], &[("good.txt", &good)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("normal for this machine"), "{}", text(&output.stdout));
    let slow = row(128 << 20, 3352.6) + &row(1 << 30, 22891.0) + &row(8 << 30, 180_762.0);
    let output = modeled(&["--against", "slow.txt"], &[], &[("slow.txt", &slow)]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("no GPUDirect RDMA"), "{}", text(&output.stdout));
    let output = modeled(&["--against", "empty.txt"], &[], &[("empty.txt", "nothing\n")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("empty.txt: no line has nccl-tests' columns"), "{}", text(&output.stderr));
}
