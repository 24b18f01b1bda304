//! `ftest exec` from outside, with stand-ins for shim and coordinator: exit codes, signals, the report, nothing left.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use runner::execute::process_tree::cookie::{Cookie, random_word};
use runner::execute::process_tree::sweep::Sweep;

use crate::executable;

/// Listens nowhere, but says so and ends as the real one: SIGTERM writes the report.
const COORDINATOR: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in --address) address=$2 ;; --report) report=$2 ;; esac
    shift
done
if [ -n "${REFUSE-}" ]; then echo "the cluster is on fire" >&2; exit 2; fi
trap 'cat "${0%/*}/report.json" > "$report"; echo "$FAKEGPU_COORDINATOR_TOKEN" > "$report.token"; exit 0' TERM
echo "fakegpu-coordinator listening on $address"
sleep 1000 &
wait
"#;

/// What it writes: a report without findings.
const REPORT: &str = include_str!("../../runner/tests/reports/cluster_report.json");

struct Machine {
    root: tempfile::TempDir,
    mark: String,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir_in("/tmp").unwrap();
        let at = |place: &str| root.path().join(place);
        for directory in ["home/bin", "home/lib", "tmp"] {
            std::fs::create_dir_all(at(directory)).unwrap();
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let library = maps.split_ascii_whitespace().find(|word| word.contains("libgcc_s")).expect("Rust uses libgcc_s");
        std::fs::copy(library, at("home/lib/libfakegpu.so")).unwrap();
        executable::write(&at("home/bin/fakegpu-coordinator"), COORDINATOR);
        std::fs::write(at("home/bin/report.json"), REPORT).unwrap();
        executable::write(&at("python"), "#!/bin/sh\necho\n");
        std::fs::write(at("cluster.yaml"), "nodes: 2\ngpus_per_node: 2\nprofile: h100\n").unwrap();
        Machine { root, mark: random_word() }
    }

    fn path(&self, place: &str) -> PathBuf {
        self.root.path().join(place)
    }

    fn exec(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.ftest();
        command.arg("exec").args(options).args(["--", "sh", "-c", script]);
        command
    }

    fn ftest(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.root.path());
        command.env("FTEST_HOME", self.path("home")).env("FTEST_PYTHON", self.path("python"));
        command.env("TMPDIR", self.path("tmp")).env("FTEST_CASE_COOKIE", &self.mark).current_dir(self.root.path());
        // A group of its own: signals sent to it here do not reach the test.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command
    }

    /// Every process of this machine's runs.
    fn everything(&self) -> Sweep {
        Sweep::new(Cookie::from_text(self.mark.as_str()))
    }

    fn assert_clean(&self) {
        assert_eq!(self.everything().find(), Vec::new());
        assert_eq!(std::fs::read_dir(self.path("tmp")).unwrap().count(), 0);
    }

    fn output(&self, options: &[&str], script: &str) -> Output {
        let output = self.exec(options, script).output().unwrap();
        self.assert_clean();
        output
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_code_is_the_commands_and_the_report_is_written_although_it_fails() {
    let machine = Machine::new();
    let output =
        machine.output(&["--cluster", "cluster.yaml", "--report", "r.json"], "echo $FAKEGPU_COORDINATOR_TOKEN; exit 5");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(machine.path("r.json")).unwrap()).unwrap();
    assert_eq!(report["schema_version"], protocol::report::SCHEMA_VERSION);
    // The rank was given the same token as the coordinator.
    assert_eq!(text(&std::fs::read(machine.path("r.json.token")).unwrap()), text(&output.stdout));
    assert_eq!(machine.output(&[], "kill -9 $$").status.code(), Some(137));
}

#[test]
fn the_command_has_the_users_umask_and_limits() {
    let machine = Machine::new();
    let inner = machine.exec(&[], "umask; ulimit -Sn");
    let mut outer = Command::new("bash");
    outer.args(["-c", "umask 002; ulimit -Sn 200; exec \"$0\" \"$@\""]).arg(inner.get_program()).args(inner.get_args());
    outer.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = outer.current_dir(machine.root.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&output.stdout), "0002\n200\n", "{}", text(&output.stderr));
    machine.assert_clean();
}

#[test]
fn the_command_sees_the_cluster_and_its_coordinator() {
    let machine = Machine::new();
    let script =
        "echo $FAKEGPU_COORDINATOR_TRANSPORT $FAKEGPU_COORDINATOR_ADDR $FAKEGPU_DIST_MODE; echo $FTEST_CLUSTER";
    let output = machine.output(&["--cluster", "cluster.yaml", "--transport", "tcp"], script);
    let printed = text(&output.stdout);
    assert!(printed.starts_with("tcp 127.0.0.1:0 simulate\n"), "{printed}");
    let plan: serde_json::Value = serde_json::from_str(printed.lines().nth(1).unwrap()).unwrap();
    assert_eq!(plan["nodes"][1]["ranks"], serde_json::json!([2, 3]));

    let output = machine.output(&["--profile", "t4", "--device-count", "2"], "echo $FTEST_CLUSTER");
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(plan["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(plan["nodes"][0]["gpus"], serde_json::json!(["t4", "t4"]));
}

#[test]
fn nvidia_smi_is_that_of_the_installation() {
    let machine = Machine::new();
    executable::write(&machine.path("home/bin/fakegpu-smi"), "#!/bin/sh\necho ours $*\n");
    let output = machine.output(&["--profile", "t4"], "nvidia-smi -L; command -v fakegpu-smi");
    assert_eq!(text(&output.stdout), "ours -L\n", "{}", text(&output.stderr));
}

#[test]
fn a_cluster_is_shown_with_what_nvml_says_of_each_kind_of_node() {
    let machine = Machine::new();
    executable::write(&machine.path("home/bin/fakegpu-smi"), "#!/bin/sh\necho ours $*\n");
    let files = "nodes: 3\ngpus_per_node: 2\nprofile: a100\nmachine: { preset: p4d, nics: 2, gpudirect: false }\n";
    std::fs::write(machine.path("three.yaml"), files).unwrap();
    let output = machine.ftest().args(["cluster", "show", "three.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for part in [
        "3 nodes, 6 GPUs",
        "p4d (by the file)",
        "12 NVLinks per GPU, 240.0 GB/s, through switches",
        "2 x 100 Gbit/s efa1, through the host's memory: 25 GB/s per node",
        "node0: ranks 0 to 1, 2 x a100\nours topo -m\n",
        "node1: ranks 2 to 3, as node0\n",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    std::fs::write(machine.path("bad.yaml"), "nodes: 2\ngpus_per_node: 2\nprofile: a100\nmachine: p4\n").unwrap();
    let output = machine.ftest().args(["cluster", "show", "bad.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("bad.yaml:4:10"), "{}", text(&output.stderr));
    machine.assert_clean();
}

#[test]
fn a_bench_runs_one_program_for_each_rank_and_ends_with_the_worst_code() {
    let machine = Machine::new();
    let program = machine.path("home/bin/fixture-bench");
    // Every rank leaves what it was given; only rank 0 is heard; rank 2 ends with 1.
    let script = "#!/bin/sh\necho $WORLD_SIZE $NODE_RANK $LOCAL_RANK \"$@\" > seen.$RANK; ls -d \"$FTEST_SCRATCH\"\n\
                  echo \"heard $RANK\"; [ $RANK != 2 ]\n";
    executable::write(&program, script);
    let options = ["bench", "--cluster", "cluster.yaml", "--ranks", "3", "-b", "64K", "-d", "half", "-o", "max"];
    let output = machine.ftest().args(options).output().unwrap();
    machine.assert_clean();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("heard 0") && !printed.contains("heard 1") && printed.lines().count() == 2, "{printed}");
    let seen = |rank: u32| std::fs::read_to_string(machine.path(&format!("seen.{rank}"))).unwrap();
    assert!(seen(0).starts_with("3 0 0 ") && seen(1).starts_with("3 0 1 ") && seen(2).starts_with("3 1 0 "));
    for words in ["--operation all_reduce", "-b 64K", "-e 128M", "-f 2", "-n 20", "-w 5", "-o max", "-d half", "-c 1"] {
        assert!(seen(0).contains(words), "{words}: {}", seen(0));
    }
    let output = machine.ftest().args(["bench", "--cluster", "cluster.yaml", "--ranks", "5"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("5 ranks and the cluster only 4 GPUs"), "{}", text(&output.stderr));
    machine.assert_clean();
}

#[test]
fn survivors_of_a_failed_rank_are_asked_to_end_before_they_are_killed() {
    let machine = Machine::new();
    let script = "#!/bin/sh\n[ $RANK = 1 ] && exit 7\ntrap 'echo asked > ended; exit 0' TERM\nsleep 1000 &\nwait\n";
    executable::write(&machine.path("home/bin/fixture-bench"), script);
    let output = machine.ftest().args(["bench", "--ranks", "2"]).output().unwrap();
    machine.assert_clean();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("rank 1 ended with code 7; the others are ended"));
    assert_eq!(std::fs::read_to_string(machine.path("ended")).unwrap(), "asked\n");
}

#[test]
fn what_cannot_run_is_said_before_anything_starts() {
    let machine = Machine::new();
    std::fs::write(machine.path("bad.yaml"), "nodes: 2\ngpus_per_node: 2\nprofile: h1000\n").unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["--python", "3.12"], "unexpected argument '--python'"),
        (&["--sanitize", "init,race"], "--sanitize=race: expected races, init"),
        (&["--report", "no/such/r.json"], "make it first"),
        (&["--cluster", "bad.yaml"], "bad.yaml:3:10"),
        (&["--device-count", "0"], "--device-count=0"),
    ];
    for (options, expected) in cases {
        let output = machine.output(options, "echo ran");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{options:?}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    for (variable, value) in [("FAKEGPU_COMPUTE", "gpu"), ("FAKEGPU_SANITIZE", "race"), ("FAKEGPU_SCHEDULE", "7:5")] {
        let output = machine.exec(&[], "echo ran").env(variable, value).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()), "{variable}");
        let stderr = text(&output.stderr);
        assert!(stderr.contains(&format!("{variable}={value}: expected ")), "{stderr}");
    }
    let refused = machine.exec(&[], "echo ran").env("REFUSE", "1").output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("the cluster is on fire"), "{}", text(&refused.stderr));
    machine.assert_clean();
    let mut missing = Command::new(env!("CARGO_BIN_EXE_ftest"));
    missing.args(["exec", "--", "no-such-program-anywhere"]).env("FTEST_HOME", machine.path("home"));
    missing.env("FTEST_PYTHON", machine.path("python")).env("HOME", machine.root.path());
    assert_eq!(missing.output().unwrap().status.code(), Some(127));
}

#[test]
fn what_the_command_leaves_is_ended_and_named() {
    let machine = Machine::new();
    let output = machine.output(&[], "setsid sleep 1000 </dev/null >/dev/null 2>&1 & exit 0");
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("sleep (pid "), "{}", text(&output.stderr));
}

#[test]
fn sigterm_goes_to_the_command_and_the_report_is_written() {
    let machine = Machine::new();
    let mut child = machine
        .exec(&["--report", "r.json"], "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done")
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert!(machine.path("r.json").is_file());
    machine.assert_clean();
}

#[test]
fn killing_it_leaves_nothing() {
    let machine = Machine::new();
    let mut child = machine.exec(&[], "trap '' TERM HUP; setsid sleep 1000 & echo ready; sleep 1000").spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line).unwrap();
    let before = machine.everything().find();
    assert!(before.len() >= 5, "ftest, guard, coordinator, the shell and its helpers: {before:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime.block_on(async {
        let deadline = runner::execute::run::clock::Instant::now() + Duration::from_secs(5);
        machine.everything().wait(before, deadline).await
    });
    assert_eq!(left, Vec::new());
    machine.assert_clean();
}

/// Leaves the report of a process that took 20 GiB of its GPU, or could not.
const TAKES_20_GIB: &str = r#"
case $FTEST_CLUSTER in *'"t4"'*) left=refused code=1 ;; *) left=fits code=0 ;; esac
capacity=$(echo "$FTEST_CLUSTER" | grep -o '"gpus":\["[^"]*' | head -1 | sed 's/.*"//')
sed "s/PROFILE/$capacity/g" "$PWD/$left.json" > "$(echo "$FAKEGPU_REPORT_PATH" | sed "s/{pid}/$$/")"
echo "$capacity $FAKEGPU_COMPUTE $FAKEGPU_SANITIZE $BATCH $0"
exit $code
"#;

fn device_report(refused: u64, pages: u64) -> String {
    use protocol::device_report::{DeviceEntry, DeviceReport, ProfileEntry, Tally};
    let device = DeviceEntry {
        gpu_profile: ProfileEntry { id: "PROFILE".into(), ..ProfileEntry::default() },
        total_memory: 40 << 30,
        refused: Tally { calls: refused, bytes: 20 << 30 },
        pages_peak: pages,
        ..DeviceEntry::default()
    };
    serde_json::to_string(&DeviceReport { devices: vec![device], ..DeviceReport::default() }).unwrap()
}

#[test]
fn a_preflight_runs_where_it_is_asked_to_and_computes_the_rest() {
    let machine = Machine::new();
    std::fs::write(machine.path("fits.json"), device_report(0, 20 << 30)).unwrap();
    std::fs::write(machine.path("refused.json"), device_report(1, 12 << 30)).unwrap();
    let preflight = |options: &[&str]| {
        let options = [&["--preflight", "--preflight-report", "p.json", "--device-count", "1"], options].concat();
        let output = machine.output(&options, TAKES_20_GIB);
        let report = std::fs::read(machine.path("p.json")).unwrap_or_default();
        (output, serde_json::from_slice::<serde_json::Value>(&report).unwrap_or_default())
    };
    let (output, report) = preflight(&["--profiles", "a100,t4", "--probe", "BATCH=8", "--smallest"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    // Of the runs, only the first shows its output.
    assert!(text(&output.stdout).starts_with("a100 skip none 8 sh\n# Preflight\n"), "{}", text(&output.stdout));
    assert!(text(&output.stdout).ends_with(&std::fs::read_to_string(machine.path("p.md")).unwrap()));
    assert_eq!(report["fits"], false);
    let verdict = |id: &str| {
        let rows = report["profiles"].as_array().unwrap();
        let row = rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no row {id}"));
        format!("{} {} {}", row["verdict"].as_str().unwrap(), row["was_run"], row["headroom_bytes"])
    };
    // 20 GiB and 512 MiB of context.
    assert_eq!(verdict("a100"), format!("fits true {}", (80_u64 << 30) - (41 << 29)));
    assert!(verdict("t4").starts_with("does_not_fit true"), "{}", verdict("t4"));
    assert_eq!(verdict("h100"), format!("fits false {}", (80_u64 << 30) - (41 << 29)));
    assert!(verdict("v100").starts_with("fits false"), "{}", verdict("v100"));
    assert!(verdict("rtx3090").starts_with("fits "), "{}", verdict("rtx3090"));
    let smallest = report["smallest"].as_str().unwrap();
    assert!(verdict(smallest).starts_with("fits true"), "it was run on {smallest}");

    let (output, report) = preflight(&["--profile", "a100"]);
    assert_eq!(
        (output.status.code(), &report["fits"]),
        (Some(0), &serde_json::json!(true)),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(report["smallest"], serde_json::Value::Null, "nobody asked");
    assert_eq!(report["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_preflight_without_a_verdict_is_neither_a_yes_nor_a_no() {
    let machine = Machine::new();
    let output = machine.output(&["--preflight", "--profile", "a100"], "exit 7");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    assert!(printed.contains("the command ended with 7 for a reason other than memory"), "{printed}");
    for (options, says) in [
        (&["--preflight", "--profiles", "h1000"][..], "did you mean `h100`?"),
        (&["--preflight", "--probe", "BATCH"], "write NAME=NUMBER"),
        (&["--preflight", "--preflight-report", "p.md"], "name the JSON file"),
        (&["--profiles", "h100"], "--preflight"),
        (&["--preflight", "--report", "r.json"], "cannot be used with"),
    ] {
        let output = machine.output(options, "true");
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(text(&output.stderr).contains(says), "{options:?}: {}", text(&output.stderr));
    }
}
