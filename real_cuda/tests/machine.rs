//! Programs in C on virtual devices, with the simulated libcuda as the real one. The machine is a library of that name which sets an
//! environment of its own (`c/machine.c`), so its GPUs are not those that the program is shown.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::Value;
use tempfile::TempDir;

/// Where the workspace's libraries are built.
fn built(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let file = test.ancestors().nth(2).unwrap().join(name);
    assert!(file.is_file(), "{} is not there: build the workspace (cargo build --workspace --lib)", file.display());
    file
}

/// The library that is tested: Cargo builds it beside the test.
fn tested() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libfakegpu_cuda.so")
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

fn compile(arguments: &[&dyn AsRef<std::ffi::OsStr>]) {
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-Wall", "-Werror"]).args(arguments.iter().map(|argument| argument.as_ref()));
    let output = compiler.output().unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A machine, and a program for it.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new(program: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let driver = root.path().join("driver");
        fs::create_dir(&driver).unwrap();
        // A copy with no name in common: the simulated NVML of the tested library is another one.
        let (gpus, stub) = (driver.join("libgpus.so"), root.path().join("stub.so"));
        fs::copy(built("libfakegpu.so"), &gpus).unwrap();
        compile(&[&"-shared", &"-o", &stub, &"-xc", &"/dev/null", &format!("-Wl,-soname,{}", gpus.display())]);
        let library = driver.join("libcuda.so.1");
        compile(&[&"-shared", &"-fPIC", &"-o", &library, &source("machine.c"), &"-Wl,--no-as-needed", &stub]);
        compile(&[&"-o", &root.path().join("program"), &source(program), &tested(), &"-ldl"]);
        Self { root }
    }

    fn report(&self) -> Value {
        serde_json::from_slice(&fs::read(self.root.path().join("report.json")).unwrap()).unwrap()
    }

    fn run(&self, argument: &str, variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(self.root.path().join("program"));
        command.arg(argument).env("LD_PRELOAD", tested()).env("FAKEGPU_MODE", "hybrid");
        command.env("FAKEGPU_REAL_CUDA_LIB_DIR", self.root.path().join("driver"));
        command.env("FAKEGPU_REPORT_PATH", self.root.path().join("report.json"));
        command.env_remove("CUDA_VISIBLE_DEVICES").envs(variables.iter().copied());
        finish(command)
    }
}

/// Its output; a program that does not end fails the test.
fn finish(mut command: Command) -> Output {
    // Only in these tests is the simulation loaded twice, as libcuda and for NVML, and each takes its part of the loader's reserve of
    // static TLS, 1664 bytes by default.
    command.env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=4096");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

fn succeeds(output: &Output, says: &str) {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains(says), "{}\n{out}\n{error}", output.status);
}

#[test]
fn every_name_of_libcuda_and_nvml_is_exported_and_nothing_else() {
    let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(tested()).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    exported.retain(|name| *name != "fakegpu_cuda_hybrid");
    exported.sort_unstable();
    let exports = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shim/exports");
    let tables =
        ["libcuda.txt", "libnvidia-ml.txt"].map(|name| fs::read_to_string(exports.join(name)).unwrap()).concat();
    let mut names: Vec<&str> = tables.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    assert_eq!(exported, names);
}

#[test]
fn devices_are_virtual_and_their_contexts_know_it() {
    let machine = Machine::new("devices.c");
    let output = machine.run("", &[("FAKEGPU_PROFILES", "h100,a100:3")]);
    succeeds(&output, "devices: ok");
    let report = machine.report();
    assert_eq!((&report["mode"], &report["compute"]), (&"hybrid".into(), &"gpu".into()));
    assert_eq!(report["devices"][1]["gpu_profile"]["id"], "a100");
    let bytes = |device: usize, field: &str| report["devices"][device][field]["bytes"].as_u64().unwrap() >> 20;
    assert_eq!([0, 1, 2].map(|device| (bytes(device, "alloc"), bytes(device, "free"))), [(1, 1), (2, 2), (0, 0)]);
    let io = |device: usize, field: &str| &report["devices"][device]["io"][field]["bytes"];
    assert_eq!([io(0, "h2d"), io(1, "d2d"), io(1, "d2h")], [4, 4, 4]);
}

#[test]
fn the_mask_chooses_among_the_virtual_devices_alone() {
    let machine = Machine::new("entry_points.c");
    // The real machine has one GPU, which a mask of its own would hide.
    let two = [("FAKEGPU_PROFILES", "a100:2,h100:2"), ("CUDA_VISIBLE_DEVICES", "3,1")];
    succeeds(&machine.run("", &two), "entry points: ok");
    let report = machine.report();
    let ids: Vec<&Value> =
        report["devices"].as_array().unwrap().iter().map(|device| &device["gpu_profile"]["id"]).collect();
    assert_eq!(ids, ["h100", "a100"]);
}

#[test]
fn kernel_launches_are_counted_by_name() {
    let machine = Machine::new("launches.c");
    succeeds(&machine.run("", &[("FAKEGPU_PROFILES", "a100:2")]), "launches: ok");
    let report = machine.report();
    let launches = |device: usize| report["devices"][device]["kernel_launches"].clone();
    // Two graph launches of two kernels each, and of another graph with one; see the program for the rest.
    assert_eq!(launches(0), serde_json::json!({ "total": 7, "by_name": { "first": 5, "second": 2 } }));
    assert_eq!(launches(1), serde_json::json!({ "total": 2, "by_name": { "second": 2 } }));
}

/// GPUs 1 and 3 of the machine are in front of the second real one, also where they are the only ones that CUDA shows.
#[test]
fn the_mask_does_not_move_devices_to_other_real_gpus() {
    let machine = Machine::new("launches.c");
    let variables =
        [("FAKEGPU_PROFILES", "a100:4"), ("CUDA_VISIBLE_DEVICES", "1,3"), ("MACHINE_GPUS", "test-512m,a100-1g")];
    succeeds(&machine.run("", &variables), "launches: ok");
    let report = machine.report();
    let devices = [0, 1].map(|device| {
        let device = &report["devices"][device];
        (device["total_memory"].as_u64().unwrap() >> 20, device["kernel_launches"]["total"].as_u64().unwrap())
    });
    assert_eq!(devices, [(1024, 7), (1024, 2)]);
}

/// Bytes and counts that the program made on purpose, by hand; the rest is what `kin` and `use` allocate, which fits.
fn policy(word: &str, field: &str) {
    let machine = Machine::new("memory.c");
    let output = machine.run(word, &[("FAKEGPU_PROFILES", "a100-1g"), ("FAKEGPU_OOM_POLICY", word)]);
    succeeds(&output, &format!("{word}: ok"));
    let report = machine.report();
    let stats = &report["hybrid_stats"];
    let mib = 1_u64 << 20;
    assert_eq!(report["oom_policy"], word);
    // Once on the real GPU's memory, and once on what takes its place, if kernels reach that.
    let times = if matches!(word, "managed" | "mapped_host") { 2 } else { 1 };
    let launches = serde_json::json!({ "total": times, "by_name": { "add_one": times } });
    assert_eq!(report["devices"][0]["kernel_launches"], launches);
    assert_eq!(report["backing_gpus"][0]["total_memory"], 512 * mib);
    assert_eq!(report["backing_gpus"][0]["used_memory"], 10 * mib);
    assert_eq!(report["devices"][0]["used_memory_current"], 10 * mib);
    // The program's own managed allocation is 3 MiB.
    let own = if field == "managed_alloc" { (1, 3 * mib) } else { (0, 0) };
    if word == "clamp" {
        assert_eq!(stats["oom_fallback_count"], 0);
        assert_eq!(report["devices"][0]["refused"]["calls"], 3);
        assert_eq!(report["devices"][0]["used_memory_peak"], (400 + 2) * mib);
        assert_eq!(report["devices"][0]["total_memory"], 512 * mib);
    } else {
        assert_eq!(stats["oom_fallback_count"], 3);
        assert_eq!(stats[field]["count"], 3 + own.0);
        assert_eq!(stats[field]["bytes"], (300 + 324 + 300) * mib + own.1);
        assert_eq!(report["devices"][0]["refused"]["calls"], 1);
        assert_eq!(report["devices"][0]["used_memory_peak"], 1024 * mib);
    }
    for other in ["managed_alloc", "mapped_host_alloc", "spilled_alloc"].iter().filter(|other| **other != field) {
        assert_eq!(stats[other]["count"], u64::from(*other == "managed_alloc"), "{other}");
    }
}

#[test]
fn clamp_refuses_what_the_real_gpu_has_no_room_for() {
    policy("clamp", "real_alloc");
}

#[test]
fn managed_memory_takes_its_place() {
    policy("managed", "managed_alloc");
}

#[test]
fn mapped_memory_of_the_host_takes_its_place() {
    policy("mapped_host", "mapped_host_alloc");
}

#[test]
fn ordinary_memory_of_the_host_takes_its_place() {
    policy("spill_cpu", "spilled_alloc");
}

#[test]
fn physical_memory_of_the_host_takes_its_place_where_it_is_mapped() {
    let machine = Machine::new("physical.c");
    for (policy, count) in [("mapped_host", 1), ("managed", 0), ("spill_cpu", 0)] {
        let variables = [("FAKEGPU_PROFILES", "a100-1g:2"), ("FAKEGPU_OOM_POLICY", policy), ("MACHINE_HOST_NUMA", "1")];
        succeeds(&machine.run(policy, &variables), "physical: ok");
        let report = machine.report();
        let stats = &report["hybrid_stats"];
        assert_eq!(
            (&stats["oom_fallback_count"], &stats["mapped_host_alloc"]["count"]),
            (&count.into(), &count.into())
        );
        assert_eq!(report["devices"][1]["used_memory_peak"], count << 21);
    }
}

fn fgpu(machine: &Machine, options: &[&str]) -> Output {
    let mut command = Command::new(built("fgpu"));
    command.arg("--lib-dir").arg(tested().parent().unwrap()).args(["--mode", "hybrid"]).args(options);
    command.env("FAKEGPU_REAL_CUDA_LIB_DIR", "driver").current_dir(machine.root.path());
    command.env("FTEST_CACHE_DIR", machine.root.path().join("cache")).env_remove("FTEST_GPUS");
    command.env("FAKEGPU_REPORT_PATH", machine.root.path().join("report.json")).env_remove("LD_PRELOAD");
    finish(command)
}

/// NVML and nvidia-smi show the devices that CUDA shows; the real machine has one GPU.
fn monitors(policy: &str, total: &str) {
    let machine = Machine::new("monitor.c");
    let output = fgpu(&machine, &["--devices", "a100-1g:2", "--oom-policy", policy, "./program", policy]);
    succeeds(&output, "monitor: ok");
    let printed = String::from_utf8(output.stdout).unwrap();
    let report = machine.report();
    let device = |index: usize| {
        let device = &report["devices"][index];
        format!("GPU {index}: {} (UUID: {})", device["name"].as_str().unwrap(), device["uuid"].as_str().unwrap())
    };
    let expected = [
        device(0),
        device(1),
        format!("00000000:01:00.0, {total}, 0 MiB, [N/A], [N/A]"),
        format!("00000000:02:00.0, {total}, 3 MiB, [N/A], [N/A]"),
        "00000000:02:00.0, 3 MiB".to_owned(),
        "monitor: ok".to_owned(),
    ];
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn monitors_show_the_virtual_devices() {
    monitors("managed", "1024 MiB");
}

/// The real devices' memory is known before the program initializes CUDA.
#[test]
fn monitors_show_no_more_memory_than_clamp_leaves() {
    monitors("clamp", "512 MiB");
}

/// The whole way: `fgpu` finds the library and the real one, the program runs, the report is where it was asked for.
#[test]
fn fgpu_runs_a_program_on_them() {
    let machine = Machine::new("memory.c");
    let options = ["--profile", "a100-1g", "--device-count", "1", "--oom-policy", "mapped_host"];
    let output = fgpu(&machine, &[&options[..], &["./program", "mapped_host"]].concat());
    succeeds(&output, "mapped_host: ok");
    let report = machine.report();
    assert_eq!((&report["mode"], &report["oom_policy"]), (&"hybrid".into(), &"mapped_host".into()));
    assert_eq!(report["summary"]["device_count"], 1);
    assert_eq!(report["hybrid_stats"]["mapped_host_alloc"]["count"], 3);
    let program = report["measured"]["program"].as_str().unwrap();
    assert!(program.ends_with("/program"), "{program}");
}

/// What `benches/on_gpu` asks of a driver (small calls, right and wrong, each in a process of its own; attributes; limits) has the same
/// answers with this library in front as without it, where the virtual GPU is the real one.
#[test]
fn every_small_call_gets_the_answer_of_the_real_library() {
    let machine = Machine::new("devices.c");
    let record = |name: &str, is_hybrid: bool| -> Value {
        let file = machine.root.path().join(name);
        let mut command = Command::new("python3");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/on_gpu/run"));
        command.args(["record", "--areas", "errors,allocation,attributes,limits", "--output"]).arg(&file);
        command.env("LD_LIBRARY_PATH", machine.root.path().join("driver")).env("MACHINE_GPUS", "h100");
        command.env("FAKEGPU_UNSUPPORTED_API", "warn").env_remove("CUDA_VISIBLE_DEVICES");
        if is_hybrid {
            command.env("LD_PRELOAD", tested()).env("FAKEGPU_PROFILES", "h100");
            command.env("FAKEGPU_REAL_CUDA_LIB_DIR", machine.root.path().join("driver"));
        }
        let output = finish(command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    };
    let (alone, hybrid) = (record("alone.json", false), record("hybrid.json", true));
    let (mut same, mut apart) = (0, Vec::new());
    for (area, of) in alone["areas"].as_object().unwrap() {
        for (name, answer) in of["probes"].as_object().unwrap() {
            let [answer, other] = [answer, &hybrid["areas"][area]["probes"][name]].map(|answer| {
                let mut answer = answer.clone();
                // Of the moment, or the machine.
                answer.as_object_mut().map(|fields| fields.remove("measured"));
                answer
            });
            match (answer == other, answer.get("skipped")) {
                (true, None) => same += 1,
                (true, Some(_)) => {}
                (false, _) => apart.push(format!("{area}: {name}: {answer} became {other}")),
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
    assert!(same > 300, "only {same} probes were compared");
}

#[test]
fn without_a_real_library_every_call_says_so() {
    let machine = Machine::new("devices.c");
    let output = machine.run("", &[("FAKEGPU_REAL_CUDA_LIB_DIR", "/nowhere")]);
    let error = String::from_utf8_lossy(&output.stderr);
    let says = "fakegpu: hybrid: the real libcuda, which FAKEGPU_MODE=hybrid needs, cannot be loaded: set FAKEGPU_REAL_CUDA_LIB_DIR";
    assert_eq!((output.status.code(), error.matches(says).count()), (Some(1), 1), "{error}");
    // It does not take itself for the real one.
    let itself = machine.root.path().join("itself");
    fs::create_dir(&itself).unwrap();
    std::os::unix::fs::symlink(tested(), itself.join("libcuda.so.1")).unwrap();
    let output = machine.run("", &[("FAKEGPU_REAL_CUDA_LIB_DIR", itself.to_str().unwrap())]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("that is this library itself"), "{error}");
}

#[test]
fn a_bad_value_is_said_once_and_no_call_succeeds() {
    let machine = Machine::new("entry_points.c");
    let output = machine.run("", &[("FAKEGPU_OOM_POLICY", "manged")]);
    let error = String::from_utf8_lossy(&output.stderr);
    let says = "FAKEGPU_OOM_POLICY=manged: expected clamp, managed, mapped_host, spill_cpu; did you mean `managed`?";
    assert_eq!((output.status.code(), error.matches(says).count()), (Some(1), 1), "{error}");
}
