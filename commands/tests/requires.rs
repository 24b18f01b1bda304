//! Requirements that only the case's Python can answer: a script that answers what the test wants takes its place.

use std::fs;
use std::process::Stdio;

use crate::executable;
use crate::program;

/// Answers for `-c QUESTION MODULE` as the real one would; anything else succeeds.
const PYTHON: &str = "#!/bin/sh
case \"$3\" in
  versioned) echo 2.9.1+cpu ;;
  unversioned) ;;
  missing) exit 1 ;;
esac
";

fn run(cases: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let python = directory.path().join("python");
    executable::write(&python, PYTHON);
    fs::write(directory.path().join("suite.yaml"), format!("ftest: 1\nsuite: s\ncases:\n{cases}")).unwrap();
    let output = program::ftest()
        .args(["suite.yaml", "--no-fail-fast", "--jobs", "1"])
        .current_dir(directory.path())
        .env("FTEST_PYTHON", &python)
        .env("TMPDIR", directory.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn modules_are_looked_for_with_their_versions() {
    let printed = run("\
- { id: new, requires: [{ python_module: { name: versioned, version: '>=2.6,<3' } }], launch: { argv: [python] } }
- { id: old, requires: [{ python_module: { name: versioned, version: '<2.9' } }], launch: { argv: [python] } }
- { id: any, requires: [{ python_module: unversioned }], launch: { argv: [python] } }
- { id: none, requires: [{ python_module: { name: unversioned, version: '1' } }], launch: { argv: [python] } }
- { id: gone, requires: [{ python_module: missing }], launch: { argv: [python] } }
- { id: not, requires: [{ not: { python_module: missing } }], launch: { argv: [python] } }
- { id: either, requires: [{ any: [{ python_module: missing }, { command: sh }] }], launch: { argv: [python] } }
- { id: shell, requires: [{ python_module: versioned }], launch: { argv: ['true'] } }
");
    for line in [
        "s/old (requires the Python module versioned <2.9 (there is 2.9.1+cpu))",
        "s/none (requires the Python module unversioned 1, whose version is unknown)",
        "s/gone (requires the Python module missing, which ",
        "s/shell (requires the Python module versioned, and there is no Python)",
        "8 cases: 4 passed, 4 skipped",
    ] {
        assert!(printed.contains(line), "{line}\n{printed}");
    }
}
