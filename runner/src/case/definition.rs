//! A case with all its settings, and the properties that follow from them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::plan::ClusterPlan;
use protocol::schedule::Schedule;

use super::condition::Requirement;
use super::disturbance::{Fault, Kill};
use super::fixture::Fixture;
use super::launch::{Launch, Transport, Warm};
use super::limits::{Resources, Timeout};
use super::network::Network;
use super::policy::{Retries, Xfail};
use super::python::PythonNeed;
use super::relation::Relations;
use super::srun::{Program, Srun};
use crate::check::Expectations;
use crate::check::repeat::Deterministic;
use crate::source::SourceLocation;

/// A case: one launch on one cluster and its expected results.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// Unique in its suite, with the matrix values: `all_reduce[dtype=bf16,world=4]`.
    pub id: String,
    /// Free text.
    pub title: Option<String>,
    /// Words to filter by.
    pub tags: Vec<String>,
    /// Name of the suite.
    pub suite: String,
    /// Where the suite defines it.
    pub place: SourceLocation,
    /// Matrix values of this expansion, in order of their names.
    pub matrix: BTreeMap<String, serde_json::Value>,
    /// The simulated machines; without one there is no coordinator and no shim.
    pub cluster: Option<ClusterPlan>,
    /// Whether a coordinator is started. Never true without a cluster.
    pub coordinator: bool,
    /// How ranks reach the coordinator.
    pub transport: Transport,
    /// The network between its nodes when each node runs in its own network namespace.
    pub network: Option<Network>,
    /// Variables set for every process of the case.
    pub env: BTreeMap<String, String>,
    /// Variables removed from the inherited environment.
    pub env_unset: Vec<String>,
    /// If set, only these names are inherited.
    pub env_inherit: Option<Vec<String>>,
    /// Time limit for all cases of its suite together, counted from the start of the first.
    pub suite_timeout: Option<Duration>,
    /// When the case counts as slow, and when it is ended.
    pub timeout: Timeout,
    /// Conditions; a case with an unmet one is skipped.
    pub requires: Vec<Requirement>,
    /// The managed Python environment the case runs in, if it needs one.
    pub python: Option<PythonNeed>,
    /// The machine resources it needs.
    pub resources: Resources,
    /// What is started.
    pub launch: Launch,
    /// Whether its Python processes are forked from a warm one.
    pub warm: Warm,
    /// Processes to kill while it runs.
    pub kill: Vec<Kill>,
    /// Faults injected into NCCL.
    pub faults: Vec<Fault>,
    /// Its fixtures, in setup order.
    pub uses: Vec<Arc<Fixture>>,
    /// When it is retried.
    pub retries: Option<Retries>,
    /// Set if the case is known to fail.
    pub xfail: Option<Xfail>,
    /// Its expected results.
    pub expect: Expectations,
    /// Globs over `library.name` of the gaps that do not break the case.
    pub allow_gaps: Vec<String>,
    /// The sanitizers to run in addition to the checks; the default set if absent.
    pub sanitize: Option<Vec<&'static str>>,
    /// Whether its processes are told the times of the simulated GPUs.
    pub is_clock_modeled: bool,
    /// The delays injected into its processes.
    pub schedule: Option<Schedule>,
    /// The directory that its processes share (FTEST_SCRATCH), if an earlier run left it.
    pub shared: Option<PathBuf>,
    /// Whether its processes start in the reverse order, one a while after the other.
    pub starts_reversed: bool,
    /// Whether its processes have another date, and a faster clock after their first call of CUDA.
    pub has_other_clock: bool,
    /// Whether its whole cluster report is compared with another run's.
    pub is_compared: bool,
    /// If set, the case runs twice and the two runs must not differ.
    pub deterministic: Option<Deterministic>,
    /// Changes that must not change the result: the case runs again with each of them.
    pub holds_under: Option<Relations>,
    /// Whether its ranks record the tensors of each optimizer step.
    pub records_tensors: bool,
    /// Whether its ranks record the optimizer steps and their samples.
    pub records_steps: bool,
    /// The directory of the suite file.
    pub dir: PathBuf,
    /// Working directory of its processes.
    pub cwd: PathBuf,
}

impl Case {
    /// `suite/id`, unique in a run.
    pub fn full_id(&self) -> String {
        format!("{}/{}", self.suite, self.id)
    }

    /// Whether a line in a rank's output can trigger something.
    pub fn watches_output(&self) -> bool {
        !self.kill.is_empty() || self.network.as_ref().is_some_and(|network| !network.cuts.is_empty())
    }

    /// Number of ranks that the launch starts; `None` for a plain process.
    pub fn world_size(&self) -> Option<u32> {
        self.launch.world_size()
    }

    /// Ranks per torchrun, and the number of torchruns; `None` if the ranks are not started by torchrun.
    pub fn torchruns(&self) -> Option<(u32, u32)> {
        match &self.launch {
            Launch::Torchrun { nproc_per_node, nnodes, .. } => Some((*nproc_per_node, *nnodes)),
            Launch::Srun(Srun { ntasks, program: Program::Torchrun { nproc_per_node, .. }, .. }) => {
                Some((*nproc_per_node, *ntasks))
            }
            Launch::Argv { .. } | Launch::Srun(_) => None,
        }
    }

    /// The Python of the case, or the default for its launch if the case names none. torchrun is part of PyTorch, so it gets
    /// the usual environment. A Python program may not need PyTorch, so it gets the same Python as from a shell.
    pub fn python_need(&self) -> Option<PythonNeed> {
        let program = match &self.launch {
            Launch::Torchrun { .. } | Launch::Srun(Srun { program: Program::Torchrun { .. }, .. }) => "torchrun",
            Launch::Argv { argv, .. } | Launch::Srun(Srun { program: Program::Rank { argv }, .. }) => {
                argv.first().map_or("", String::as_str)
            }
        };
        self.python.clone().or_else(|| match program {
            "torchrun" => Some(PythonNeed::Managed(Vec::new())),
            "python" | "python3" => Some(PythonNeed::System),
            _ => None,
        })
    }
}
