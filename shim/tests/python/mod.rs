//! Lines of Python programs, read from the frames of the interpreters that this machine has: one of each version that we know.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions with a layout of their own.
const VERSIONS: [&str; 5] = ["3.10", "3.11", "3.12", "3.13", "3.14"];

/// An installed package: its frames are not the user's.
const PACKAGE: &str =
    "def all_reduce(nccl, arguments, after=lambda: None):\n    nccl.ncclAllReduce(*arguments)\n    after()\n";

/// The version that `python` says it is, if it starts.
fn version(python: &Path) -> Option<String> {
    let output =
        Command::new(python).args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// An interpreter of each version: those of FTEST_PYTHON, of PATH, of pyenv and of uv.
fn interpreters() -> BTreeMap<String, PathBuf> {
    let mut candidates: Vec<PathBuf> = std::env::var_os("FTEST_PYTHON").map(PathBuf::from).into_iter().collect();
    candidates.push("python3".into());
    candidates.extend(VERSIONS.iter().map(|version| format!("python{version}").into()));
    let pyenv = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let pyenv = pyenv.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")));
    let uv = std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/share/uv/python"));
    for directory in pyenv.map(|root| root.join("versions")).into_iter().chain(uv) {
        let installed = std::fs::read_dir(directory).into_iter().flatten().flatten();
        candidates.extend(installed.map(|entry| entry.path().join("bin/python3")));
    }
    let mut found = BTreeMap::new();
    for python in candidates {
        if let Some(version) = version(&python) {
            found.entry(version).or_insert(python);
        }
    }
    found
}

/// What `call_site.py` says on stderr with `plan`.
fn printed(python: &Path, plan: &str) -> String {
    let work = tempfile::tempdir().unwrap();
    let packages = work.path().join("site-packages");
    std::fs::create_dir(&packages).unwrap();
    std::fs::write(packages.join("package.py"), PACKAGE).unwrap();
    let test = std::env::current_exe().unwrap();
    let shim = test.parent().unwrap().join("libfakegpu.so");
    assert!(shim.exists(), "{} is not there: cargo builds it with this test", shim.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/call_site.py");
    let mut command = Command::new("timeout");
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        let ours = ["FAKEGPU_", "FTEST_", "CUDA_", "NCCL_", "PYTHON"].iter().any(|prefix| text.starts_with(prefix));
        if ours || ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"].contains(&text.as_ref()) {
            command.env_remove(&variable);
        }
    }
    command.arg("60").arg(python).arg(script).arg(plan).env("LD_PRELOAD", shim).env("PYTHONPATH", packages);
    command.env("FAKEGPU_PROFILES", "a100:2").env("FAKEGPU_COORDINATOR_TIMEOUT_MS", "1000");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{} {plan} ended with {}:\n{text}", python.display(), output.status);
    text
}

/// The number of the line of `call_site.py` that is marked as that of `call`.
fn marked(call: &str) -> usize {
    let script = include_str!("call_site.py");
    1 + script.lines().position(|line| line.ends_with(&format!("# {call}"))).expect("a line is marked")
}

#[test]
fn every_version_gives_the_line_that_a_traceback_would() {
    let found = interpreters();
    let known: Vec<_> = found.iter().filter(|(version, _)| VERSIONS.contains(&version.as_str())).collect();
    assert!(!known.is_empty(), "no Python of {VERSIONS:?}; found: {found:?}");
    for version in VERSIONS.iter().filter(|version| !found.contains_key(**version)) {
        eprintln!("not tested: Python {version} is not on this machine");
    }
    for (version, python) in known {
        // Functions have a qualified name since 3.11.
        let name = |short: &'static str, long: &'static str| if version == "3.10" { short } else { long };
        let text = printed(python, "forms");
        for (call, function) in [
            ("rank 0 in forms", name("generated", "forms.<locals>.generated")),
            ("rank 1 in forms", name("call", "Rank.call")),
        ] {
            let place = format!("/call_site.py:{} ({function})\n", marked(call));
            assert_eq!(text.matches(&place).count(), 1, "Python {version}, {place}: {text}");
        }
        let text = printed(python, "strange");
        for place in ["called at <zelle 日>:3 (größe_é日)\n", "/site-packages/package.py:2 (all_reduce)\n"] {
            assert_eq!(text.matches(place).count(), 1, "Python {version}, {place}: {text}");
        }
    }
}

/// A version whose structures we do not know has the C function, and no line.
#[test]
fn a_version_that_is_not_known_has_no_line() {
    let found = interpreters();
    let Some((version, python)) =
        found.iter().find(|(version, _)| version.starts_with("3.") && !VERSIONS.contains(&version.as_str()))
    else {
        eprintln!("not tested: every Python of this machine is one of {VERSIONS:?}");
        return;
    };
    let text = printed(python, "forms");
    assert_eq!(text.matches("; called at ").count(), 2, "Python {version}: {text}");
    assert!(!text.contains("call_site.py:"), "Python {version}: {text}");
}
