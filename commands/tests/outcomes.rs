//! Black-box cases: `tests/cases/<outcome>/<name>/suite.yaml` is run by the built `ftest`, and stdout, stderr and exit
//! code must be the texts beside it. `cargo xtask regen outcomes` rewrites them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use regex::Regex;

use crate::program;

#[test]
fn pass() {
    outcome("pass", &[0]);
}

#[test]
fn fail() {
    outcome("fail", &[1]);
}

#[test]
fn invalid() {
    outcome("invalid", &[2, 4]);
}

#[test]
fn broken() {
    outcome("broken", &[3]);
}

fn outcome(kind: &str, codes: &[i32]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(kind);
    let mut cases: Vec<PathBuf> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no case in {}", root.display());
    let differences: Vec<String> = cases.iter().flat_map(|case| run(case, codes)).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Runs one case and returns what differs.
fn run(case: &Path, codes: &[i32]) -> Vec<String> {
    let words = fs::read_to_string(case.join("args")).unwrap_or_else(|_| "run suite.yaml --no-fail-fast".to_owned());
    let runs = tempfile::tempdir().unwrap();
    let output = program::ftest()
        .args(words.split_whitespace())
        .current_dir(case)
        .env("FTEST_HOME", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/home"))
        .env("NO_COLOR", "1")
        .env("FTEST_RUNS_DIR", runs.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let code = output.status.code().unwrap_or(-1);
    if !codes.contains(&code) {
        // Not rewritten either: this is not the output that the case is about.
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        return vec![format!("{}: exit code {code}, not one of {codes:?}\n{printed}", case.display())];
    }
    let mut differences = Vec::new();
    let texts = [
        ("stdout", plain(case, runs.path(), &output.stdout)),
        ("stderr", plain(case, runs.path(), &output.stderr)),
        ("exit", format!("{code}\n")),
    ];
    let rewrite = std::env::var_os("FTEST_REGEN").is_some();
    for (name, text) in texts {
        let path = case.join(name);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if rewrite {
            if text.is_empty() { drop(fs::remove_file(&path)) } else { fs::write(&path, &text).unwrap() }
        } else if expected != text {
            let diff =
                similar::TextDiff::from_lines(&expected, &text).unified_diff().header("expected", "got").to_string();
            differences.push(format!("{}\n{diff}", path.display()));
        }
    }
    differences
}

/// Output without what differs from run to run.
fn plain(case: &Path, runs: &Path, bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace(&case.display().to_string(), "$CASE");
    let text = text.replace(&runs.display().to_string(), "$RUNS");
    let rules = [
        (r"\[ *\d+\.\d{3} s\]", "[TIME]"),
        (r"\bin \d+\.\d s", "in TIME"),
        (r"PATH=\S+", "PATH=..."),
        (r"\$RUNS/\d{8}T\d{6}\.\d{3}-[0-9a-f]{4}", "$$RUN"),
        (r"/tmp/ft-[0-9a-f]+", "$$SCRATCH"),
    ];
    rules.iter().fold(text, |text, (pattern, with)| Regex::new(pattern).unwrap().replace_all(&text, *with).into_owned())
}
