//! What was seen of one run of a case.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::device_report::Left;
use protocol::report::Finding;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Execution, Gap, Number, ProcessObservation, PythonUsed, Role};
use crate::host::machine::Machine;

/// The directory below [`Observation::scratch`] that the processes of a case share (FTEST_SCRATCH).
pub const SHARED: &str = "shared";

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Whether the case ran, and how that ended.
    pub execution: Execution,
    /// Every process the runner started, and torchrun's workers and srun's tasks if their streams are known: ranks first, by
    /// rank.
    pub processes: Vec<ProcessObservation>,
    /// The cluster report, if a coordinator ran and left one.
    pub cluster_report: Option<Value>,
    /// The whole report. The file may have been removed with the scratch directory; its text can still be read here.
    pub report_file: Option<Arc<File>>,
    /// The device reports, by rank, then pid.
    pub device_reports: Vec<Value>,
    /// The operations of its processes under the modeled clock: name and size of each file, and the file.
    pub operations: Vec<(String, u64, Arc<File>)>,
    /// Uses of unimplemented features, from the device reports and the cluster report.
    pub gaps: Vec<Gap>,
    /// Findings of processes, if there is no cluster report that contains them.
    pub findings: Vec<Finding>,
    /// GPU resources that processes with exit code 0 had not released.
    pub left: Vec<Left>,
    /// Whether a relation has changed something inside a program.
    pub is_changed: bool,
    /// What the operating system refused to the shim, one sentence each: the refusal and, after `; `, what to do.
    pub refused: Vec<String>,
    /// What the machine allowed, and what it did.
    pub machine: Machine,
    /// From the first spawn to the last exit.
    pub duration: Duration,
    /// The interpreter of its processes, if it has one.
    pub python: Option<PythonUsed>,
    /// Descriptions of processes, sockets or shared memory still there after the case.
    pub leaked: Vec<String>,
    /// Objects in `/dev/shm` that appeared while only this case ran, and that no process uses any more.
    pub shared_memory: Vec<PathBuf>,
    /// Messages about what was killed on purpose, and about triggers that never came.
    pub notes: Vec<String>,
    /// How its processes were started, if warm starts were wanted.
    pub starts: Option<Starts>,
    /// Where streams and reports are kept.
    pub scratch: PathBuf,
    /// The observation of the second run of a `deterministic` case that passed the first time.
    pub again: Option<Box<Observation>>,
    /// The part of this run that was killed, if it was started again in the same directory.
    pub before: Option<Box<Observation>>,
    /// The numbers of such a part, as its files were when it was killed, or why they could not be read.
    pub numbers: Option<Result<Vec<Number>, String>>,
    /// The observations of the variants of a case with `holds_under`, in the order of its relations.
    pub variants: Vec<Observation>,
}

impl From<Execution> for Observation {
    /// The observation of a case of which nothing else is known.
    fn from(execution: Execution) -> Self {
        Observation { execution, ..Observation::default() }
    }
}

impl Observation {
    /// The directory that its processes shared (FTEST_SCRATCH).
    pub fn shared(&self) -> PathBuf {
        self.before.as_ref().map_or(&self.scratch, |before| &before.scratch).join(SHARED)
    }

    /// The process with this role.
    pub fn process(&self, role: Role) -> Option<&ProcessObservation> {
        self.processes.iter().find(|process| process.role == role)
    }

    /// Processes that ended by themselves.
    pub fn finished(&self) -> impl Iterator<Item = &ProcessObservation> {
        let unfinished = self.execution.unfinished();
        self.processes.iter().filter(move |process| !unfinished.contains(&process.role))
    }

    /// The device report of a rank; if it has several processes, that of the first.
    pub fn device_report(&self, rank: u32) -> Option<&Value> {
        self.device_reports.iter().find(|report| report["measured"]["rank"] == rank)
    }

    /// The ranks, by rank.
    pub fn ranks(&self) -> impl Iterator<Item = (u32, &ProcessObservation)> {
        self.processes.iter().filter_map(|process| match process.role {
            Role::Rank(rank) => Some((rank, process)),
            Role::Launcher(_) | Role::Srun | Role::Coordinator => None,
        })
    }
}

/// How many processes were forked from a warm process, and why others were not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Starts {
    /// Processes that were forked, also by torchrun and by ranks.
    pub warm: u32,
    /// The others that could have been, each with the reason: `rank 1: the script may set ...`.
    pub cold: Vec<String>,
    /// Modules that the suite wants imported before, and that cannot be, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<String>,
}
