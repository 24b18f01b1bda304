//! The ABI as C sees it: the programs in `tests/c`, one per noun, compiled against NVIDIA's public headers of CUDA 12 and 13
//! and run on the shim. The headers come from PyPI once and stay in the user's cache; nothing of theirs is in this tree.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A CUDA release: the soname of its runtime and the packages with its headers.
struct Cuda {
    runtime: &'static str,
    packages: &'static [&'static str],
}

// The compiler's own part of CUDA 12's headers is only in the package of nvcc; that of 13 serves both.
const CUDA_12: Cuda = Cuda {
    runtime: "libcudart.so.12",
    packages: &[
        "nvidia-cuda-runtime-cu12==12.8.90",
        "nvidia-cuda-crt==13.2.86",
        "nvidia-nvml-dev-cu12==12.9.79",
        "nvidia-cuda-profiler-api==13.5.25",
    ],
};
const CUDA_13: Cuda = Cuda {
    runtime: "libcudart.so.13",
    packages: &[
        "nvidia-cuda-runtime==13.2.75",
        "nvidia-cuda-crt==13.2.86",
        "nvidia-nvml-dev-cu12==12.9.79",
        "nvidia-cuda-profiler-api==13.5.25",
    ],
};
/// Large downloads for one header each, hence apart. The first is that of PyTorch's CUDA 12 builds.
const NCCL_2_27: &str = "nvidia-nccl-cu12==2.27.5";
const CUPTI_12: &str = "nvidia-cuda-cupti-cu12==12.8.90";
const CUPTI_13: &str = "nvidia-cuda-cupti==13.2.75";
const NCCL_2_30: &str = "nvidia-nccl-cu13==2.30.7";

/// Keeps the include directory of a wheel: arguments are the wheel and where to.
const EXTRACT: &str = r#"
import pathlib, sys, zipfile
wheel, target = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
for name in wheel.namelist():
    head, found, tail = name.partition("/include/")
    if found and tail and not tail.endswith("/"):
        file = target / tail
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(wheel.read(name))
"#;

fn cache() -> PathBuf {
    let directory = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    directory("FTEST_CACHE_DIR")
        .or_else(|| directory("XDG_CACHE_HOME").map(|cache| cache.join("ftest")))
        .or_else(|| directory("HOME").map(|home| home.join(".cache/ftest")))
        .expect("HOME, XDG_CACHE_HOME or FTEST_CACHE_DIR says where NVIDIA's headers are kept")
        .join("headers")
}

/// Runs a tool; what it says is the message when it fails.
fn run(command: &mut Command, why: &str) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{why}: cannot start {command:?}: {error}"));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{why}: {command:?} ended with {}:\n{text}", output.status);
    text
}

/// The include directory of `package==version`, downloaded at the first use. Several tests and processes may ask at once.
fn headers(requirement: &str) -> PathBuf {
    let cache = cache();
    let target = cache.join(requirement.replace("==", "-"));
    if target.is_dir() {
        return target;
    }
    fs::create_dir_all(&cache).unwrap();
    let (package, _) = requirement.split_once("==").unwrap();
    let lock = File::create(cache.join(format!(".{package}.lock"))).unwrap();
    lock.lock().unwrap();
    if target.is_dir() {
        return target;
    }
    let python = std::env::var_os("FTEST_PYTHON").unwrap_or_else(|| "python3".into());
    let why = format!("NVIDIA's public headers are needed once from {requirement} (kept in {})", target.display());
    let work = tempfile::tempdir_in(&cache).unwrap();
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check", "--quiet"]);
    run(pip.args(["--only-binary", ":all:", "--timeout", "60", "--dest"]).arg(work.path()).arg(requirement), &why);
    let wheel = fs::read_dir(work.path()).unwrap().next().expect("pip downloaded a wheel").unwrap().path();
    let include = work.path().join("include");
    run(Command::new(&python).arg("-c").arg(EXTRACT).arg(wheel).arg(&include), &why);
    fs::rename(&include, &target).unwrap();
    target
}

/// The shared library that cargo built beside this test.
fn shim() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let shim = test.parent().unwrap().join("libfakegpu.so");
    assert!(shim.exists(), "{} is not there: cargo builds it with this test", shim.display());
    shim
}

/// Compiles `tests/c/NAME.c` (or `.cc`, where NVIDIA's headers are C++ only) for one CUDA and runs it. A program says on stderr what did not hold.
fn check_with(cuda: &Cuda, name: &str, more: &[&str]) {
    check_under("allow", cuda, name, more);
}

/// [`check_with`], under this policy for gaps. Returns what the program printed.
fn check_under(policy: &str, cuda: &Cuda, name: &str, more: &[&str]) -> String {
    check_in(&[], policy, cuda, name, more)
}

/// [`check_under`], with these variables as well.
fn check_in(environment: &[(&str, &str)], policy: &str, cuda: &Cuda, name: &str, more: &[&str]) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let work = tempfile::tempdir().unwrap();
    let (runtime, program, shim) = (work.path().join(cuda.runtime), work.path().join(name), shim());

    // A library of this name is how a process says which CUDA it was built for.
    let empty = work.path().join("empty.c");
    fs::write(&empty, "").unwrap();
    let soname = format!("-Wl,-soname,{}", cuda.runtime);
    run(Command::new("cc").args(["-shared", &soname, "-o"]).arg(&runtime).arg(&empty), "linking an empty runtime");

    let source =
        ["c", "cc"].map(|ending| sources.join(format!("{name}.{ending}"))).into_iter().find(|file| file.exists());
    let source = source.unwrap_or_else(|| panic!("there is no tests/c/{name}.c"));
    let is_c = source.extension().is_some_and(|ending| ending == "c");
    let mut cc = Command::new(if is_c { "cc" } else { "c++" });
    cc.arg(if is_c { "-std=c11" } else { "-std=c++17" });
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images");
    cc.arg(format!("-DIMAGES=\"{}\"", images.display())).arg(format!("-DSTRICT={}", u32::from(policy == "error")));
    cc.args(["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(&sources);
    for package in cuda.packages.iter().chain(more) {
        cc.arg("-isystem").arg(headers(package));
    }
    cc.arg(&source).arg("-o").arg(&program);
    cc.arg("-Wl,--no-as-needed").args([&runtime, &shim]).args(["-lpthread", "-lm"]);
    run(&mut cc, "compiling against NVIDIA's headers");

    let paths = std::env::join_paths([work.path(), shim.parent().unwrap()]).unwrap();
    let mut command = Command::new("timeout");
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        let ours = ["FAKEGPU_", "FTEST_", "CUDA_", "NCCL_"].iter().any(|prefix| text.starts_with(prefix));
        if ours || ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"].contains(&text.as_ref()) {
            command.env_remove(&variable);
        }
    }
    command.args([OsStr::new("60"), program.as_os_str()]).env("LD_LIBRARY_PATH", paths).current_dir(work.path());
    command.env("FAKEGPU_PROFILES", "a100:2").env("FAKEGPU_UNSUPPORTED_API", policy).envs(environment.iter().copied());
    run(&mut command, &format!("{name}.c on {}", cuda.runtime))
}

fn check(name: &str) {
    check_with(&CUDA_12, name, &[]);
    check_with(&CUDA_13, name, &[]);
}

#[test]
fn device() {
    check("device");
}

#[test]
fn a_rank_between_spaces_is_that_rank_in_the_device_report() {
    let work = tempfile::tempdir().unwrap();
    let path = work.path().join("report-{rank}.json");
    let environment = [("RANK", " 3\n"), ("FAKEGPU_REPORT_PATH", path.to_str().unwrap())];
    check_in(&environment, "allow", &CUDA_13, "device", &[]);
    let report = fs::read_to_string(work.path().join("report-3.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["measured"]["rank"], 3);
}

#[test]
fn driver() {
    check("driver");
}

#[test]
fn host_calls() {
    check("host_calls");
}

#[test]
fn variables() {
    check("variables");
    check_under("error", &CUDA_13, "variables", &[]);
}

#[test]
fn kernels_are_named_once_each() {
    let said = check_under("warn", &CUDA_13, "kernels", &[]);
    let lines = |part: &str| said.lines().filter(|line| line.contains(part)).count();
    let full = "cuLaunchKernel (libcuda): kernel0: not supported on this simulated GPU; counted as a gap";
    assert_eq!(lines(full), 1, "{said}");
    assert_eq!(lines("cuLaunchKernel (libcuda): kernel7: not supported either"), 1, "{said}");
    assert_eq!(lines("cuLaunchKernel (libcuda): kernel"), 16, "{said}");
    assert_eq!(lines("cuLaunchKernel (libcuda): more of them follow"), 1, "{said}");
    assert_eq!(lines("cuLaunchKernel (libcuda): 20 different ones, 60 uses in total"), 1, "{said}");
}

#[test]
fn modules() {
    check("modules");
    let said = check_in(&[("FAKEGPU_PROFILES", "h100:1")], "stop", &CUDA_13, "modules", &[]);
    let gap = "fakegpu: cuLaunchKernel (libcuda): multicast, line 5:59: `multimem.st.relaxed.gpu.global.e5m2x4 [%d], %f;`: not executed here";
    assert_eq!(said.matches(gap).count(), 1, "{said}");
}

#[test]
fn linking() {
    check("linking");
}

#[test]
fn random() {
    // Where none is installed.
    check_in(&[("PATH", "/usr/bin:/bin")], "allow", &CUDA_13, "random", &[]);
    let toolkit = tempfile::tempdir().unwrap();
    fs::create_dir(toolkit.path().join("lib64")).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/random_library.c");
    let library = toolkit.path().join("lib64/libcurand.so.10");
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(library).arg(source), "compiling a library");
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&[("CUDA_PATH", toolkit.path().to_str().unwrap())], "allow", cuda, "random", &[]);
    }
}

#[test]
fn copies_of_the_runtime() {
    let work = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/copy_library.c");
    let library = work.path().join("libcopy.so");
    run(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source), "compiling a library");
    check_in(&[("LIBRARY", library.to_str().unwrap())], "error", &CUDA_13, "copies", &[]);
}

#[test]
fn registered_kernels() {
    check_with(&CUDA_12, "registered", &[]);
    let said = check_under("error", &CUDA_13, "registered", &[]);
    let printed = "before\nlaunched\n-3 and one\n-3 and one\nafter\n";
    assert!(said.starts_with(printed), "{said}");
}

#[test]
fn a_kernel_that_goes_wrong_is_an_error_with_its_place() {
    check_with(&CUDA_12, "traps", &[]);
    let said = check_under("warn", &CUDA_13, "traps", &[]);
    let store = "kernel store (PTX line 9: `st.global.u32 [%d1], %r;`)";
    for line in [
        format!(
            "out_of_range_copy: thread (32,0,0) of block (0,0,0) of {store} writes 4 bytes on device 0, 0 bytes past the end of an allocation of 128 bytes, allocated in "
        ),
        format!(
            "use_after_free: thread (0,0,0) of block (0,0,0) of {store} writes 4 bytes of an allocation of 128 bytes on device 0 that was freed, allocated in "
        ),
        format!("out_of_range_copy: thread (0,0,0) of block (0,0,0) of {store} writes 4 bytes of memory that is not the GPU's"),
        format!("out_of_range_copy: thread (0,0,0) of block (0,0,0) of {store} writes 4 bytes through a null pointer"),
        format!("misaligned_access: thread (0,0,0) of block (0,0,0) of {store} writes 4 bytes at an address that is 2 more than a multiple of 4"),
        "kernel_trap: thread (0,0,0) of block (0,0,0) of kernel stop (PTX line 10: `trap;`) stops the kernel".to_owned(),
        "kernel_trap: thread (0,0,0) of block (0,0,0) of kernel jump (PTX line 11: `call %d, (), prototype;`) calls through a pointer that is not a function".to_owned(),
        "waits forever: the threads of the block wait at PTX lines 13".to_owned(),
        "device_assert: thread (0,0,0) of block (0,0,0) of kernel test (PTX line 20: `call.uni __assertfail, (m, f, l, n, s);`) fails an assertion".to_owned(),
        "kernel store: misaligned address".to_owned(),
        "kernel stop: trap in block (0,0,0), thread (0,0,0), PTX line 10: `trap;`".to_owned(),
        "kernel meet: all threads wait".to_owned(),
        "a.cu:12: test: block: [0,0,0], thread: [0,0,0] Assertion `x > 0` failed.".to_owned(),
    ] {
        assert!(said.contains(&line), "{line}: {said}");
    }
}

#[test]
fn a_graph_of_cudnn_is_built_and_skipped_where_nothing_computes() {
    let skips = [("FAKEGPU_COMPUTE", "skip")];
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&skips, "allow", cuda, "cudnn_graph", &[]);
    }
}

#[test]
fn neighbors() {
    check("neighbors");
}

#[test]
fn device_files() {
    check("device_files");
}

#[test]
fn memory() {
    check("memory");
}

#[test]
fn mapped_host_memory() {
    check("mapped");
}

#[test]
fn multicast() {
    for cuda in [&CUDA_12, &CUDA_13] {
        // No switch of a100 can.
        let said = check_in(&[], "allow", cuda, "multicast", &[]);
        assert!(said.contains("not supported"), "{said}");
    }
    let switched = [("FAKEGPU_PROFILES", "h100:2"), ("FAKEGPU_COORDINATOR_TIMEOUT_MS", "100")];
    let said = check_in(&switched, "warn", &CUDA_12, "multicast", &[]);
    assert!(said.contains("at a multicast address to which some device of the team has bound no memory"), "{said}");
    let said = check_in(&switched, "warn", &CUDA_13, "multicast", &[]);
    assert!(said.contains("writes 4 bytes at a multicast address, where only multimem instructions may"), "{said}");
}

#[test]
fn arrays() {
    check("arrays");
}

#[test]
fn ipc() {
    check("ipc");
}

#[test]
fn exported() {
    check("exported");
}

#[test]
fn stream() {
    check("stream");
}

#[test]
fn clock() {
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&[("FAKEGPU_CLOCK", "modeled")], "error", cuda, "clock", &[]);
    }
}

#[test]
fn fast_clock() {
    check_in(&[("FAKEGPU_CLOCK", "fast")], "error", &CUDA_13, "fast_clock", &[]);
}

#[test]
fn fft() {
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&[], "allow", cuda, "fft", &[]);
    }
}

#[test]
fn solver() {
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&[], "allow", cuda, "solver", &[]);
    }
}

#[test]
fn sparse() {
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&[], "allow", cuda, "sparse", &[]);
    }
}

#[test]
fn fresh_stack() {
    check_in(&[("FAKEGPU_FRESH_MEMORY", "60")], "error", &CUDA_13, "fresh_stack", &[]);
}

#[test]
fn graphs() {
    check("graphs");
}

#[test]
fn graph_memory() {
    check("graph_memory");
}

#[test]
fn entry_point() {
    check("entry_point");
}

#[test]
fn nvml() {
    check("nvml");
}

#[test]
fn gpm() {
    for cuda in [&CUDA_12, &CUDA_13] {
        check_in(&[("FAKEGPU_PROFILES", "h100:1,a100:1")], "error", cuda, "gpm", &[]);
    }
}

/// `FTEST_FAULTS` as the runner makes it.
fn gpu_events() -> String {
    let seconds = |seconds: u32| serde_json::json!({ "secs": seconds, "nanos": 0 });
    let after = |rank: u32, time| serde_json::json!({ "after": { "rank": rank, "elapsed": seconds(time) } });
    let all_reduce = |rank: u32| {
        serde_json::json!({ "collective":
        { "rank": rank, "communicator": 1, "operation": "all_reduce", "sequence": null } })
    };
    let tired = serde_json::json!({
        "ecc": { "corrected": 12, "uncorrected": 1, "earlier_corrected": 40, "earlier_uncorrected": 2 },
        "remapped_rows": { "corrected": 2, "failed": true }, "throttle": "thermal", "pcie_generation": 3, "pcie_width": 8
    });
    let lost = serde_json::json!({ "lost": true, "xid": 79 });
    let failing = serde_json::json!({ "ecc": { "uncorrected": 1 }, "xid": 94 });
    let old = serde_json::json!({ "retired_pages": { "corrected": 1, "uncorrected": 2, "pending": true } });
    let events = [
        (0, after(0, 0), tired),
        (1, after(1, 0), lost.clone()),
        (2, all_reduce(2), failing),
        (3, all_reduce(3), lost),
        (4, after(4, 2), serde_json::json!({ "xid": 31 })),
        (5, after(5, 0), old),
    ];
    let fault = |(gpu, at, health): &(u32, serde_json::Value, serde_json::Value)| {
        let event = serde_json::json!({ "gpu": format!("node0/{gpu}"), "node": 0, "local": gpu, "slot": gpu, "health": health });
        serde_json::json!({ "number": gpu + 1, "origin": "suite.yaml:1:1", "at": at, "action": { "gpu": event } })
    };
    serde_json::Value::from_iter(events.iter().map(fault)).to_string()
}

#[test]
fn health() {
    let events = gpu_events();
    let environment = [("FAKEGPU_PROFILES", "a100:5,v100"), ("FTEST_FAULTS", events.as_str())];
    check_in(&environment, "allow", &CUDA_12, "health", &[NCCL_2_27]);
    // All processes of a machine see the same: here by way of its file.
    let work = tempfile::tempdir().unwrap();
    let file = work.path().join("gpus");
    let environment = [environment[0], environment[1], ("FTEST_GPUS", file.to_str().unwrap())];
    check_in(&environment, "allow", &CUDA_13, "health", &[NCCL_2_30]);
}

#[test]
fn cupti() {
    check_with(&CUDA_12, "cupti", &[CUPTI_12]);
    check_with(&CUDA_13, "cupti", &[CUPTI_13]);
}

#[test]
fn libraries() {
    check("libraries");
}

#[test]
fn gemm() {
    check("gemm");
}

#[test]
fn blas() {
    check("blas");
}

#[test]
fn blas2() {
    check("blas2");
}

#[test]
fn blas3() {
    check("blas3");
}

#[test]
fn epilogue() {
    // 8-bit floats want a GPU that has them.
    check_in(&[("FAKEGPU_PROFILES", "h100:1")], "allow", &CUDA_13, "epilogue", &[]);
}

#[test]
fn int8() {
    check("int8");
}

#[test]
fn nccl() {
    check_with(&CUDA_12, "nccl", &[NCCL_2_27]);
    check_with(&CUDA_13, "nccl", &[NCCL_2_30]);
}

/// The places of the two ranks' calls are those of the functions in the file, the second of which is static.
#[test]
fn a_failure_says_which_function_called() {
    let environment = [("FAKEGPU_COORDINATOR_TIMEOUT_MS", "2000")];
    let said = check_in(&environment, "allow", &CUDA_13, "call_site", &[NCCL_2_30]);
    for function in ["calls_eight", "calls_four"] {
        let line = format!("called at {function} (call_site)");
        assert_eq!(said.matches(&line).count(), 1, "{line}: {said}");
    }
}

/// Ranks of two processes that wait for each other without a coordinator hear of it long before their time is up.
#[test]
fn a_rank_that_nobody_can_come_to_says_so() {
    let environment = [("FAKEGPU_COORDINATOR_TIMEOUT_MS", "400")];
    let said = check_in(&environment, "allow", &CUDA_13, "nccl_alone", &[NCCL_2_30]);
    let line = "fakegpu: rank 0 waits for rank 1 of 2, and no other process can join: there is no coordinator; `ftest exec -- COMMAND`";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

#[test]
fn a_rank_whose_others_do_not_exist_forms_what_it_knows() {
    let environment = [("FTEST_AS_RANK", "3/8")];
    let said = check_in(&environment, "warn", &CUDA_13, "nccl_one_of_many", &[NCCL_2_30]);
    let gap = "fakegpu: ncclCommSplit (libnccl): as one rank whose others do not exist (--as-rank): not supported";
    assert_eq!(said.matches(gap).count(), 1, "{said}");
}

/// Rank 2 is another process, which ends up with the numbers of the first.
#[test]
fn a_rank_gets_what_the_one_before_it_sent() {
    let sent = tempfile::tempdir().unwrap();
    for rank in ["0/4", "2/4"] {
        let sent = sent.path().to_str().unwrap();
        let environment = [("FTEST_AS_RANK", rank), ("FTEST_SENT", sent), ("FAKEGPU_COMPUTE", "skip")];
        check_in(&environment, "warn", &CUDA_13, "nccl_donor", &[NCCL_2_30]);
    }
}

#[test]
fn two_devices() {
    check("two_devices");
}

#[test]
fn nccl_two_devices() {
    check_with(&CUDA_12, "nccl_two_devices", &[NCCL_2_27]);
    check_with(&CUDA_13, "nccl_two_devices", &[NCCL_2_30]);
}

#[test]
fn bfloat16_on_every_architecture() {
    for profile in ["p100:1", "v100:1", "t4:1", "a100:1"] {
        check_in(&[("FAKEGPU_PROFILES", profile)], "error", &CUDA_12, "bf16", &[]);
    }
}

#[test]
fn nccl_profiler() {
    check_with(&CUDA_13, "nccl_profiler", &[NCCL_2_30]);
}

#[test]
fn nccl_resize() {
    check_with(&CUDA_12, "nccl_resize", &[NCCL_2_27]);
    check_with(&CUDA_13, "nccl_resize", &[NCCL_2_30]);
}

#[test]
fn nccl_one_sided() {
    check_with(&CUDA_13, "nccl_one_sided", &[NCCL_2_30]);
}

#[test]
fn nccl_device_api() {
    check_with(&CUDA_13, "nccl_device_api", &[NCCL_2_30]);
}
