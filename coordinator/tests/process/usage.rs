//! Flags, variables, addresses and cluster files that are wrong.

use std::os::unix::net::UnixListener;

use crate::harness::{Coordinator, command, wait};

/// Exit code and stderr of a coordinator that must not start.
fn refused(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mut child = command().args(arguments).envs(variables.iter().copied()).spawn().unwrap();
    let status = wait(&mut child);
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.is_empty(), "it was ready");
    (status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Arguments, variables, and what stderr must contain.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);

#[test]
fn wrong_usage_exits_2_and_says_what_to_write() {
    let long = format!("/tmp/{}", "x".repeat(120));
    let long_token = "x".repeat(1025);
    let tcp = ["--address", "127.0.0.1:0"];
    let none: &[(&str, &str)] = &[];
    let cases: &[Case<'_>] = &[
        (&[], none, &["--address 127.0.0.1:0", "FAKEGPU_COORDINATOR_ADDR"]),
        (&["--address", "relative/path", "--transport", "unix"], none, &["absolute path"]),
        (&["--address", &long], none, &["125 bytes", "107"]),
        (&["--address", "127.0.0.1"], none, &["HOST:PORT"]),
        (&["--address", "127.0.0.1:99999"], none, &["HOST:PORT"]),
        (&["--address", "/tmp/x", "--transport", "tcp"], none, &["HOST:PORT"]),
        (&["--address", "127.0.0.1:0", "--transport", "tpc"], none, &["invalid value 'tpc'", "unix, tcp"]),
        (&["--address", "0.0.0.0:0"], none, &["FAKEGPU_COORDINATOR_TOKEN"]),
        (&["--address", "/nowhere/at/all"], none, &["its directory does not exist"]),
        (&["--adress", "x"], none, &["--address"]),
        (
            &["--address", "127.0.0.1:0", "--cluster-config", "/nowhere.yaml"],
            none,
            &["cannot read the cluster file /nowhere.yaml"],
        ),
        (&["--address", "127.0.0.1:0", "--lifeline-fd", "99"], none, &["--lifeline-fd 99"]),
        (&tcp, &[("FAKEGPU_COORDINATOR_TIMEOUT_MS", "soon")], &["FAKEGPU_COORDINATOR_TIMEOUT_MS=soon"]),
        (&tcp, &[("FAKEGPU_CLUSTER_REPORT_MAX_OPERATIONS", "-1")], &["FAKEGPU_CLUSTER_REPORT_MAX_OPERATIONS=-1"]),
        (&tcp, &[("FTEST_CLUSTER", "{}")], &["FTEST_CLUSTER"]),
        (&tcp, &[("FAKEGPU_COORDINATOR_TOKEN", &long_token)], &["FAKEGPU_COORDINATOR_TOKEN has 1025 bytes"]),
        (&tcp, &[("FAKEGPU_CLUSTER_CONFIG", "/nowhere.yaml")], &["/nowhere.yaml"]),
    ];
    for (arguments, variables, expected) in cases {
        let (code, text) = refused(arguments, variables);
        assert_eq!(code, 2, "{arguments:?} {variables:?}: {text}");
        for part in *expected {
            assert!(text.contains(part), "{arguments:?} {variables:?}: no {part:?} in {text}");
        }
    }
}

#[test]
fn help_and_version_without_room_are_errors() {
    for option in ["--help", "-h", "--version"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command().arg(option).stdout(full).spawn().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(text, "fakegpu-coordinator: cannot write to stdout: No space left on device (os error 28)\n");
        assert_eq!(output.status.code(), Some(1), "{option}");
    }
}

#[test]
fn a_bad_cluster_file_is_shown_with_its_places() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bad.yaml");
    std::fs::write(&path, "nodes: 2\ngpus_per_nod: 2\nprofile: a1000\n").unwrap();
    let (code, text) = refused(&["--address", "127.0.0.1:0", "--cluster-config", path.to_str().unwrap()], &[]);
    assert_eq!(code, 2);
    for part in ["bad.yaml:2:1", "did you mean `gpus_per_node`?", "bad.yaml:3:10", "did you mean `a100`?", "^^^^^"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_file_at_the_path_is_respected() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let (code, text) = refused(&["--address", file.to_str().unwrap()], &[]);
    assert_eq!((code, text.contains("that is not a socket")), (2, true), "{text}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");

    let live = Coordinator::start("unix");
    let (code, text) = refused(&["--address", &live.address], &[]);
    assert_eq!((code, text.contains("another process listens there")), (2, true), "{text}");
    live.control().status();

    let stale = directory.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    let mut coordinator = Coordinator::start_with(stale.to_str().unwrap(), |_| {});
    assert_eq!(coordinator.address, stale.to_str().unwrap());
    coordinator.signal(libc::SIGTERM);
    assert_eq!(coordinator.ended().code(), Some(0));
    assert!(!stale.exists());
}

#[test]
fn variables_stand_in_for_flags_and_flags_win() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("by-variable");
    let mut child = command();
    child.env("FAKEGPU_COORDINATOR_ADDR", &socket).env("FAKEGPU_COORDINATOR_TRANSPORT", "unix");
    let coordinator = Coordinator::start_with("tcp", |command| {
        command.env("FAKEGPU_COORDINATOR_ADDR", &socket).env("FAKEGPU_COORDINATOR_TRANSPORT", "unix");
        command.args(["--transport", "tcp"]);
    });
    assert!(coordinator.address.starts_with("127.0.0.1:"));
    let json = r#"{"name":"json","default_backend":"nccl","nodes":[{"id":"n","host":"h","ranks":[0],"gpus":["a100"]}],
        "intra_node":{"type":"x","bandwidth_gbps":1.0,"latency_us":0.0,"oversubscription":1.0},
        "inter_node":{"type":"x","bandwidth_gbps":1.0,"latency_us":0.0,"oversubscription":1.0},"custom_profiles":{}}"#;
    let report = directory.path().join("r.json");
    let mut child = child
        .env("FTEST_CLUSTER", json)
        .env("FAKEGPU_CLUSTER_REPORT_PATH", &report)
        .env("FAKEGPU_CLUSTER_REPORT_MARKDOWN_PATH", "off")
        .args(["--report", directory.path().join("flag.json").to_str().unwrap()])
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    assert!(line.contains("by-variable"), "{line}");
    assert!(std::process::Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(wait(&mut child).code(), Some(0));
    let written = crate::harness::read_report(&directory.path().join("flag.json"));
    assert_eq!(written.cluster.name.as_deref(), Some("json"));
    assert!(!report.exists() && !directory.path().join("flag.md").exists());
}
