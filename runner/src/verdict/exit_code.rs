//! The exit codes of `ftest`: documented and stable.

use crate::verdict::Verdict;

/// How a run ended, as its exit code. The highest applicable code counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitCode {
    /// Every selected case passed, was skipped, or failed as its `xfail` expects.
    Passed = 0,
    /// A case failed or ran into its deadline.
    Failed = 1,
    /// Wrong usage, or a suite with mistakes.
    Usage = 2,
    /// A case could not be run, or used a feature that ftest does not implement.
    CouldNotRun = 3,
    /// No case was selected.
    NothingSelected = 4,
    /// SIGHUP.
    HungUp = 129,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGQUIT.
    Quit = 131,
    /// SIGTERM.
    Terminated = 143,
}

/// What each code means, for `--help` and docs/cli.md.
pub const MEANINGS: &[(ExitCode, &str)] = &[
    (ExitCode::Passed, "every selected case passed, was skipped, or failed as its `xfail` expects"),
    (ExitCode::Failed, "a case failed or ran into its deadline"),
    (ExitCode::Usage, "wrong usage, or a mistake in a suite"),
    (
        ExitCode::CouldNotRun,
        "a case could not be run, or used something that ftest does not implement, or a teardown failed, or a report could not be written, or a merge lacks a part of its run",
    ),
    (ExitCode::NothingSelected, "no case was selected"),
    (ExitCode::HungUp, "ended by SIGHUP"),
    (ExitCode::Interrupted, "interrupted by Ctrl-C"),
    (ExitCode::Quit, "ended at once by SIGQUIT"),
    (ExitCode::Terminated, "ended by SIGTERM"),
];

/// The exit codes as `--help` lists them.
pub fn help() -> String {
    let lines: Vec<String> =
        MEANINGS.iter().map(|(code, meaning)| format!("  {:<4} {}", *code as u8, meaning.replace('`', ""))).collect();
    format!("Exit codes:\n{}", lines.join("\n"))
}

impl ExitCode {
    /// The code with this number.
    pub fn of_number(number: u8) -> Option<ExitCode> {
        MEANINGS.iter().map(|(code, _)| *code).find(|code| *code as u8 == number)
    }

    /// The exit code that a verdict leads to.
    pub fn from_verdict(verdict: &Verdict) -> ExitCode {
        match verdict {
            Verdict::Passed | Verdict::Skipped { .. } | Verdict::Xfailed { .. } => ExitCode::Passed,
            Verdict::Failed | Verdict::Timeout => ExitCode::Failed,
            Verdict::Broken => ExitCode::CouldNotRun,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        std::process::ExitCode::from(code as u8)
    }
}
