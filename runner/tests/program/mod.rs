//! The `ftest` under test, without what a CI job around the test would change.

use std::process::Command;

/// The program, with the environment of a person's terminal.
pub(crate) fn ftest() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ftest"));
    for name in ["CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "FTEST_RUNS_DIR"] {
        command.env_remove(name);
    }
    command
}
