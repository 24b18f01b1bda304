//! A program in C on communicators that do not block, on an NCCL in C that plays the real one (`c/slow_nccl.c`), with the books at a
//! real coordinator.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use serde_json::Value;

/// Where the workspace's programs are built.
fn built(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let file = test.ancestors().nth(2).unwrap().join(name);
    assert!(file.is_file(), "{} is not there: build the workspace (cargo build --workspace --bins)", file.display());
    file
}

/// The library that is tested: Cargo builds it beside the test.
fn tested() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libfakegpu_nccl.so")
}

fn compile(output: &Path, name: &str, options: &[&str], libraries: &[&Path]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name);
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compiler.args(["-Wall", "-Werror"]).args(options).arg("-o").arg(output).arg(source).args(libraries);
    let result = compiler.output().unwrap();
    assert!(result.status.success(), "{compiler:?}: {}", String::from_utf8_lossy(&result.stderr));
}

#[test]
fn the_books_follow_communicators_that_do_not_block() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    compile(&file("slow_nccl.so"), "slow_nccl.c", &["-shared", "-fPIC"], &[]);
    compile(&file("program"), "nonblocking.c", &[], &[&tested()]);

    let mut coordinator = Command::new(built("fakegpu-coordinator"));
    coordinator.args(["--transport", "unix", "--lifeline-fd", "0", "--markdown-report", "none"]);
    coordinator.arg("--address").arg(file("books")).arg("--report").arg(file("report.json"));
    let mut coordinator = coordinator.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut announced = String::new();
    BufReader::new(coordinator.stdout.take().unwrap()).read_line(&mut announced).unwrap();
    assert!(announced.contains("listening"), "{announced}");

    let mut program = Command::new("timeout");
    program.arg("60").arg(file("program")).env("LD_PRELOAD", tested()).env_remove("RANK");
    program.env("FAKEGPU_REAL_NCCL_PATH", file("slow_nccl.so")).env("FAKEGPU_DIST_MODE", "proxy");
    program.env("FAKEGPU_COORDINATOR_ADDR", file("books"));
    let output = program.output().unwrap();
    drop(coordinator.stdin.take());
    assert!(coordinator.wait().unwrap().success());
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("nonblocking: ok"), "{}\n{out}\n{error}", output.status);

    let report: Value = serde_json::from_slice(&fs::read(file("report.json")).unwrap()).unwrap();
    // The world, two of both ranks and the one of a single rank; each made one all_reduce, of 7, 3, 2 and 1 floats on each rank.
    assert_eq!(report["cluster"]["communicators"], 4, "{report:#}");
    assert_eq!(report["collectives"]["all_reduce"]["calls"], 4);
    assert_eq!(report["collectives"]["all_reduce"]["bytes"], (7 + 3 + 2) * 4 * 2 + 4);
    assert_eq!(report["resilience"]["failure_count"], 0);
}
