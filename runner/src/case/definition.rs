//! A case with all that it has, and what follows from that.

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
    /// Where the case is defined.
    pub place: SourceLocation,
    /// Matrix values of this expansion, in order of their names.
    pub matrix: BTreeMap<String, serde_json::Value>,
    /// The simulated machines; without one there is no coordinator and no shim.
    pub cluster: Option<ClusterPlan>,
    /// Whether a coordinator is started. Never true without a cluster.
    pub coordinator: bool,
    /// How ranks reach the coordinator.
    pub transport: Transport,
    /// What connects its nodes where they are apart, each in a network namespace of its own.
    pub network: Option<Network>,
    /// Variables set for every process of the case.
    pub env: BTreeMap<String, String>,
    /// Variables removed from the inherited environment.
    pub env_unset: Vec<String>,
    /// The only names that are inherited, where that is limited.
    pub env_inherit: Option<Vec<String>>,
    /// What the cases of its suite may take together, from the first.
    pub suite_timeout: Option<Duration>,
    /// When the case is slow, and when it is ended.
    pub timeout: Timeout,
    /// Conditions; a case with an unmet one is skipped.
    pub requires: Vec<Requirement>,
    /// The managed Python environment the case runs in, where it needs one.
    pub python: Option<PythonNeed>,
    /// What it takes from the machine.
    pub resources: Resources,
    /// What is started.
    pub launch: Launch,
    /// Whether its Python processes are forked from a warm one.
    pub warm: Warm,
    /// Processes to kill while it runs.
    pub kill: Vec<Kill>,
    /// What goes wrong on purpose, in NCCL.
    pub faults: Vec<Fault>,
    /// What is made around it, in this order.
    pub uses: Vec<Arc<Fixture>>,
    /// When it is tried again.
    pub retries: Option<Retries>,
    /// That it fails is known.
    pub xfail: Option<Xfail>,
    /// Its expected results.
    pub expect: Expectations,
    /// Globs over `library.name` of the gaps that do not break the case.
    pub allow_gaps: Vec<String>,
    /// What is looked for beside its results; the default where it is left out.
    pub sanitize: Option<Vec<&'static str>>,
    /// Which delays its processes get.
    pub schedule: Option<Schedule>,
    /// Its whole cluster report is compared with that of another run.
    pub is_compared: bool,
    /// It is run twice, and the two runs must not differ.
    pub deterministic: Option<Deterministic>,
    /// Working directory of its processes: the directory of the suite file.
    pub dir: PathBuf,
}

impl Case {
    /// `suite/id`, unique in a run.
    pub fn full_id(&self) -> String {
        format!("{}/{}", self.suite, self.id)
    }

    /// Whether lines that ranks write trigger something.
    pub fn watches_output(&self) -> bool {
        !self.kill.is_empty() || self.network.as_ref().is_some_and(|network| !network.cuts.is_empty())
    }

    /// Number of ranks that the launch starts; none for a plain process.
    pub fn world_size(&self) -> Option<u32> {
        match &self.launch {
            Launch::Argv { ranks, .. } => *ranks,
            Launch::Torchrun { nproc_per_node, nnodes, .. } => Some(nproc_per_node * nnodes),
            Launch::Srun(srun) => Some(srun.world_size()),
        }
    }

    /// Ranks per torchrun, and how many torchruns there are; none where no torchrun starts the ranks.
    pub fn torchruns(&self) -> Option<(u32, u32)> {
        match &self.launch {
            Launch::Torchrun { nproc_per_node, nnodes, .. } => Some((*nproc_per_node, *nnodes)),
            Launch::Srun(Srun { ntasks, program: Program::Torchrun { nproc_per_node, .. }, .. }) => {
                Some((*nproc_per_node, *ntasks))
            }
            Launch::Argv { .. } | Launch::Srun(_) => None,
        }
    }

    /// The Python of the case, or of its launch where it names none. torchrun is PyTorch's, so it gets the usual environment;
    /// a Python program may need nothing of that, and gets what a shell would give it.
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
