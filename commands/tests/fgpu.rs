//! `fgpu` from outside: what it sets, what it becomes, what it refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Any shared object can be preloaded: one that this test itself uses takes the shim's place.
fn stand_in() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    mapped
        .map(PathBuf::from)
        .find(|path| path.to_string_lossy().contains("libgcc_s"))
        .expect("Rust programs use libgcc_s")
}

struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("build/lib")).unwrap();
        std::fs::copy(stand_in(), root.path().join("build/lib/libfakegpu.so")).unwrap();
        Machine { root }
    }

    fn fgpu(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fgpu"));
        command.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", self.root.path());
        command.envs(variables.iter().copied()).current_dir(self.root.path());
        command.args(["--build-dir", "build"]).args(arguments).output().unwrap()
    }

    /// The value of `variable` in the command, with these arguments and variables.
    fn value(&self, variable: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let all = [arguments, &["printenv", variable]].concat();
        text(&self.fgpu(&all, variables).stdout).trim_end().to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn flags_become_variables_and_win_over_them() {
    let machine = Machine::new();
    let pairs = [
        ("--mode", "FAKEGPU_MODE", "simulate"),
        ("--oom-policy", "FAKEGPU_OOM_POLICY", "managed"),
        ("--unsupported-api", "FAKEGPU_UNSUPPORTED_API", "error"),
        ("--dist-mode", "FAKEGPU_DIST_MODE", "simulate"),
        ("--coordinator-addr", "FAKEGPU_COORDINATOR_ADDR", "127.0.0.1:4000"),
        ("--coordinator-transport", "FAKEGPU_COORDINATOR_TRANSPORT", "tcp"),
        ("--profile", "FAKEGPU_PROFILE", "h100"),
        ("--device-count", "FAKEGPU_DEVICE_COUNT", "3"),
        ("--devices", "FAKEGPU_PROFILES", "a100:2,h100"),
    ];
    for (flag, variable, value) in pairs {
        assert_eq!(machine.value(variable, &[flag, value], &[]), value, "{flag}");
    }
    for policy in ["allow", "warn", "stop", "error"] {
        assert_eq!(machine.value("FAKEGPU_UNSUPPORTED_API", &["--unsupported-api", policy], &[]), policy);
    }
    assert_eq!(machine.value("FAKEGPU_PROFILE", &["--profile", "h100"], &[("FAKEGPU_PROFILE", "a100")]), "h100");
    assert_eq!(machine.value("FAKEGPU_PROFILE", &[], &[("FAKEGPU_PROFILE", "t4")]), "t4");
    // The nearer word: a list from outside does not hide a flag.
    assert_eq!(machine.value("FAKEGPU_PROFILES", &["--profile", "h100"], &[("FAKEGPU_PROFILES", "a100")]), "");
    assert_eq!(machine.value("FAKEGPU_DIST_MODE", &["--coordinator-addr", "/run/c"], &[]), "simulate");
}

#[test]
fn what_a_command_starts_is_one_machine_with_it() {
    let machine = Machine::new();
    // (`sh` itself would bring a managed Python.) The file is there for the command's children, too, and other devices are another machine.
    let script = "f=$FTEST_GPUS; test -w \"$f\" || exit 5; sh -c 'test -w \"$FTEST_GPUS\"' || exit 6; echo $f";
    let output = machine.fgpu(&["setsid", "-w", "sh", "-c", script], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("/proc/"), "{}", text(&output.stdout));
    assert_eq!(machine.value("FTEST_GPUS", &[], &[("FTEST_GPUS", "/run/gpus")]), "/run/gpus");
    assert_ne!(machine.value("FTEST_GPUS", &["--profile", "h100"], &[("FTEST_GPUS", "/run/gpus")]), "/run/gpus");
}

#[test]
fn the_shim_and_the_holders_are_set_and_passthrough_sets_none() {
    let machine = Machine::new();
    let shim = machine.root.path().join("build/lib/libfakegpu.so");
    assert_eq!(machine.value("LD_PRELOAD", &[], &[]), shim.display().to_string());
    let library_path = machine.value("LD_LIBRARY_PATH", &[], &[("LD_LIBRARY_PATH", "/opt/lib")]);
    let (holders, rest) = library_path.split_once(':').unwrap();
    assert!(Path::new(holders).join("libcudart.so.13").is_file() && rest == "/opt/lib", "{library_path}");
    assert_eq!(machine.value("LIBRARY_PATH", &[], &[("LIBRARY_PATH", "/opt/lib")]), format!("/opt/lib:{holders}"));
    assert_eq!(machine.value("LD_PRELOAD", &["--mode", "passthrough"], &[]), "");
}

#[test]
fn an_installation_whose_path_the_loader_would_split_is_loaded_through_a_link() {
    let machine = Machine::new();
    let place = machine.root.path().join("my project: $it's");
    std::fs::rename(machine.root.path().join("build"), &place).unwrap();
    let place = place.to_str().unwrap();
    let cache = format!("{place}/cache");
    let run = |words: &[&str]| {
        let output = machine.fgpu(&[&["--lib-dir", place], words].concat(), &[("FTEST_CACHE_DIR", &cache)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let mapped = run(&["cat", "/proc/self/maps"]);
    assert!(mapped.contains("my project: $it's/lib/libfakegpu.so"), "{mapped}");
    for name in ["LD_PRELOAD", "LD_LIBRARY_PATH", "PATH"] {
        let value = run(&["printenv", name]);
        assert!(!value.contains("my project"), "{name}={value}");
        let first = value.trim_end().split(':').next().unwrap().to_owned();
        assert!(Path::new(&first).exists(), "{name}={value}");
    }
}

#[test]
fn on_real_gpus_nccl_alone_is_preloaded() {
    let machine = Machine::new();
    let real = machine.root.path().join("libnccl.so.2");
    let real = real.to_str().unwrap();
    let refuses = |arguments: &[&str], variables: &[(&str, &str)], says: &str| {
        let output = machine.fgpu(&[arguments, &["true"]].concat(), variables);
        let stderr = text(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(says), "{arguments:?}: {stderr}");
    };
    let mode = |dist: &'static str| ["--mode", "passthrough", "--dist-mode", dist];
    refuses(&["--dist-mode", "proxy"], &[], "FAKEGPU_MODE=passthrough");
    refuses(&["--dist-mode", "passthrough"], &[], "FAKEGPU_MODE=passthrough");
    refuses(&mode("simulate"), &[], "FAKEGPU_DIST_MODE=simulate");
    refuses(&mode("proxy"), &[], "FAKEGPU_COORDINATOR_ADDR");
    refuses(&mode("passthrough"), &[("FAKEGPU_REAL_NCCL_PATH", real)], real);
    std::fs::write(real, "").unwrap();
    let printed = |arguments: &[&str], variables: &[(&str, &str)]| -> serde_json::Value {
        let output = machine.fgpu(&[&["--print-environment"], arguments].concat(), variables);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let named = printed(&mode("passthrough"), &[("FAKEGPU_REAL_NCCL_PATH", real)]);
    assert_eq!(named["environment"]["LD_PRELOAD"], real);
    assert!(printed(&mode("passthrough"), &[])["environment"].get("LD_PRELOAD").is_none());
    // The first one gets the calls.
    let variables =
        [("FAKEGPU_REAL_NCCL_PATH", real), ("LD_PRELOAD", "/lib/libother.so /opt/libnccl.so.2.26.2:/lib/libthird.so")];
    let before = printed(&mode("passthrough"), &variables);
    let order = format!("/lib/libother.so:{real}:/opt/libnccl.so.2.26.2:/lib/libthird.so");
    assert_eq!(before["environment"]["LD_PRELOAD"], order);
}

#[test]
fn the_environment_is_printed_for_a_process_that_runs_already() {
    let machine = Machine::new();
    let printed = |arguments: &[&str], variables: &[(&str, &str)]| -> serde_json::Value {
        let arguments = [&["--print-environment"], arguments].concat();
        let variables = [&[("FTEST_PYTHON", "system")], variables].concat();
        let output = machine.fgpu(&arguments, &variables);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let shim = machine.root.path().join("build/lib/libfakegpu.so").display().to_string();
    let outside = [("FAKEGPU_PROFILES", "a100:4"), ("FTEST_GPUS", "/run/gpus")];
    let plan = printed(&["--profile", "h100"], &outside);
    assert_eq!(plan["shim"], serde_json::json!(shim));
    let environment = &plan["environment"];
    assert_eq!((&environment["FAKEGPU_PROFILE"], &environment["LD_PRELOAD"]), (&"h100".into(), &shim.into()));
    // Other devices than those outside: neither their list nor their machine.
    for name in ["FAKEGPU_PROFILES", "FTEST_GPUS"] {
        assert!(environment.get(name).is_some_and(serde_json::Value::is_null), "{name} in {environment}");
    }
    let libraries: Vec<&str> =
        plan["libraries"].as_array().unwrap().iter().map(|library| library.as_str().unwrap()).collect();
    for (soname, loaded) in [("libcuda.so.1", true), ("libcudart.so.13", true), ("libcudart.so.12", false)] {
        let found = libraries.iter().find(|library| library.ends_with(soname));
        assert_eq!(found.is_some(), loaded, "{soname} in {libraries:?}");
        assert!(found.is_none_or(|library| Path::new(library).is_file()));
    }
    let real = printed(&["--mode", "passthrough"], &[]);
    assert_eq!((&real["shim"], &real["libraries"]), (&serde_json::Value::Null, &serde_json::json!([])));
    assert_eq!(machine.fgpu(&["--print-environment", "true"], &[]).status.code(), Some(2));
}

#[test]
fn a_cluster_file_is_checked_and_handed_on() {
    let machine = Machine::new();
    let file = machine.root.path().join("c.yaml");
    std::fs::write(&file, "nodes: 2\ngpus_per_node: 2\nprofile: h100\n").unwrap();
    let plan: serde_json::Value =
        serde_json::from_str(&machine.value("FTEST_CLUSTER", &["--cluster-config", "c.yaml"], &[])).unwrap();
    assert_eq!(plan["nodes"][1]["gpus"], serde_json::json!(["h100", "h100"]));
    assert_eq!(
        machine.value("FAKEGPU_CLUSTER_CONFIG", &[], &[("FAKEGPU_CLUSTER_CONFIG", "c.yaml")]),
        file.display().to_string()
    );

    std::fs::write(&file, "nodes: 2\ngpus_per_node: 2\nprofile: h1000\n").unwrap();
    let refused = machine.fgpu(&["--cluster-config", "c.yaml", "true"], &[]);
    assert_eq!(refused.status.code(), Some(2));
    let printed = text(&refused.stderr);
    assert!(printed.contains("c.yaml:3:10") && printed.contains("h100"), "{printed}");
    let both = machine.fgpu(&["--cluster-config", "c.yaml", "--device-count", "2", "true"], &[]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn bad_values_name_their_flag_or_variable() {
    let machine = Machine::new();
    let by_flag = [
        ("--mode", "simulat", "--mode=simulat"),
        ("--unsupported-api", "wran", "did you mean `warn`?"),
        ("--profile", "a1000", "--profile=a1000"),
        ("--device-count", "0", "--device-count=0: expected an integer from 1 to 1024"),
        ("--devices", "a100:x", "--devices=a100:x"),
    ];
    for (flag, value, expected) in by_flag {
        let refused = machine.fgpu(&[flag, value, "true"], &[]);
        assert_eq!(refused.status.code(), Some(2), "{flag}");
        assert!(text(&refused.stderr).contains(expected), "{}", text(&refused.stderr));
    }
    for (variable, value) in
        [("FAKEGPU_STAGING_CHUNK_BYTES", "0"), ("FAKEGPU_STRICT_COMPAT", "maybe"), ("FAKEGPU_MODE", "x")]
    {
        let refused = machine.fgpu(&["true"], &[(variable, value)]);
        assert_eq!(refused.status.code(), Some(2), "{variable}");
        assert!(text(&refused.stderr).contains(&format!("{variable}={value}: expected ")), "{}", text(&refused.stderr));
    }
}

#[test]
fn hybrid_preloads_what_stands_before_the_real_libcuda() {
    let machine = Machine::new();
    let at = |name: &str| machine.root.path().join(name);
    let refuses = |arguments: &[&str], driver: &str, says: &str| {
        let command = [&["--mode", "hybrid"], arguments, &["true"]].concat();
        let output = machine.fgpu(&command, &[("FAKEGPU_REAL_CUDA_LIB_DIR", driver)]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(says), "{arguments:?}: {}", text(&output.stderr));
    };
    refuses(&[], "/nowhere", "set FAKEGPU_REAL_CUDA_LIB_DIR to its directory (looked for /nowhere/libcuda.so.1)");
    std::fs::create_dir(at("driver")).unwrap();
    std::fs::write(at("driver/libcuda.so.1"), "").unwrap();
    refuses(&[], "driver", "build/lib/libfakegpu_cuda.so");
    std::fs::copy(stand_in(), at("build/lib/libfakegpu_cuda.so")).unwrap();
    refuses(&["--dist-mode", "simulate"], "driver", "FAKEGPU_DIST_MODE=simulate with FAKEGPU_MODE=hybrid");
    refuses(&["--oom-policy", "manged"], "driver", "--oom-policy=manged");
    let words = ["--print-environment", "--mode", "hybrid", "--profile", "h100", "--coordinator-addr", "/run/c"];
    let output = machine.fgpu(&words, &[("FAKEGPU_REAL_CUDA_LIB_DIR", "driver")]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (environment, library) = (&printed["environment"], at("build/lib/libfakegpu_cuda.so").display().to_string());
    // The second makes it libnvidia-ml as well, and needs it.
    let nvml = printed["libraries"][1].as_str().unwrap();
    assert!(nvml.ends_with("/libnvidia-ml.so.1") && std::fs::metadata(nvml).unwrap().is_file(), "{nvml}");
    assert_eq!(environment["LD_PRELOAD"], format!("{library}:{nvml}"));
    assert_eq!(environment["FAKEGPU_REAL_CUDA_LIB_DIR"], at("driver").display().to_string());
    assert_eq!((&environment["FAKEGPU_MODE"], &environment["FAKEGPU_PROFILE"]), (&"hybrid".into(), &"h100".into()));
    assert!(environment.get("LD_LIBRARY_PATH").is_none() && environment.get("FAKEGPU_DIST_MODE").is_none());
    assert_eq!(
        (&printed["shim"], &printed["libraries"]),
        (&serde_json::Value::Null, &serde_json::json!([library, nvml]))
    );
}

#[test]
fn it_becomes_the_command() {
    use std::os::unix::process::ExitStatusExt;

    let machine = Machine::new();
    assert_eq!(machine.fgpu(&["--mode=passthrough", "sh", "-c", "exit 7"], &[]).status.code(), Some(7));
    assert_eq!(machine.fgpu(&["--mode=passthrough", "sh", "-c", "kill -9 $$"], &[]).status.signal(), Some(9));
    // Flags after the command are the command's.
    let printed = machine.fgpu(&["--mode=passthrough", "echo", "--mode", "x"], &[]);
    assert_eq!(text(&printed.stdout), "--mode x\n");
    // A word that looks like an option is one, unless `--` says that the command begins.
    let unknown = machine.fgpu(&["--python=3.12", "echo"], &[]);
    assert_eq!(
        (unknown.status.code(), text(&unknown.stderr).contains("unexpected argument '--python'")),
        (Some(2), true)
    );
    let dashed = machine.fgpu(&["--mode=passthrough", "--", "--no-such-program"], &[]);
    assert_eq!(dashed.status.code(), Some(127), "{}", text(&dashed.stderr));
    let missing = machine.fgpu(&["no-such-program-anywhere"], &[]);
    assert_eq!((missing.status.code(), text(&missing.stderr).contains("not found in PATH=")), (Some(127), true));
    assert_eq!(machine.fgpu(&[], &[]).status.code(), Some(2));
    let elsewhere = Command::new(env!("CARGO_BIN_EXE_fgpu")).args(["--lib-dir", "/nowhere", "true"]).output().unwrap();
    assert_eq!(elsewhere.status.code(), Some(2));
    assert!(text(&elsewhere.stderr).contains("/nowhere/libfakegpu.so"));
}
