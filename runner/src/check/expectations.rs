//! What a case expects: all its checks.

use std::time::Duration;

use super::{exit, finding, gap, hang, invariant, output, perf, report, snapshot};
use crate::source::SourceLocation;

/// The expected results of a case.
#[derive(Clone, Debug, Default)]
pub struct Expectations {
    /// How processes end.
    pub exit: exit::ExitExpectation,
    /// What they write.
    pub output: Vec<output::OutputCheck>,
    /// Values of reports.
    pub report: Vec<report::ReportCheck>,
    /// Expressions that are true.
    pub invariants: Vec<invariant::Invariant>,
    /// Numbers to watch.
    pub perf: Vec<perf::PerfCheck>,
    /// Accepted parts of reports.
    pub snapshots: Vec<snapshot::SnapshotCheck>,
    /// How soon all processes must end, measured from the first start.
    pub within: Option<(Duration, SourceLocation)>,
    /// What the case may leave behind.
    pub leaks: Leaks,
    /// A hang that must be found.
    pub hang: Option<hang::HangExpectation>,
    /// Findings that occur.
    pub findings: Vec<finding::FindingExpectation>,
    /// Gaps that occur.
    pub gaps: Vec<gap::GapExpectation>,
}

/// What a case may leave behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leaks {
    /// No process and no socket.
    #[default]
    Processes,
    /// In addition, nothing in `/dev/shm` or on the GPUs, as far as ftest can tell.
    Strict,
    /// Anything. Processes are ended all the same.
    Allowed,
}
