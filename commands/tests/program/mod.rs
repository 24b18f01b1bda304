//! The `ftest` under test, without what a CI job around the test would change.

use std::process::Command;

/// The program, with the environment of a person's terminal.
pub(crate) fn ftest() -> Command {
    behind(&[])
}

/// The same at the end of a command line that begins with these words.
pub(crate) fn behind(words: &[&str]) -> Command {
    let mut words = words.iter().copied().chain([env!("CARGO_BIN_EXE_ftest")]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    for name in ["CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE", "FTEST_RUNS_DIR"] {
        command.env_remove(name);
    }
    command
}
