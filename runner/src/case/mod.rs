//! One test, fully expanded: what the plan hands to execution and to the checks. Nothing here is read from a file any more.

pub mod cluster;
pub mod fixture;
pub mod network;
pub mod policy;
pub mod python;
pub mod requirement;
pub mod srun;

use crate::case::python::PythonNeed;
use crate::host::deadline;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use protocol::plan::ClusterPlan;
use protocol::schedule::Schedule;

use crate::case::fixture::Fixture;
use crate::case::network::Network;
use crate::case::policy::{Retries, Xfail};
use crate::case::srun::{Program, Srun};
use crate::check::Expectations;
use crate::check::repeat::Deterministic;
use crate::host::version::Range;
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
    /// Where the case is written.
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

/// How ranks reach the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A socket in the scratch directory.
    #[default]
    Unix,
    /// A port on loopback that the kernel chooses.
    Tcp,
}

/// Deadlines of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// After this a passing case is marked slow.
    pub slow: Duration,
    /// After this the case is ended; its verdict is timeout.
    pub kill: Duration,
    /// Between SIGTERM and SIGKILL.
    pub grace: Duration,
    /// The case has hung when no collective, send or recv ended for this long while a rank waits in one.
    pub idle: Option<Duration>,
    /// How long the others may go on after a rank or launcher ended with an error that the case does not expect.
    pub survivors: Option<Duration>,
}

impl Timeout {
    /// Every deadline times `factor`, for a machine that is slower than the suite's author thought.
    pub fn scaled(self, factor: f64) -> Timeout {
        Timeout {
            slow: self.slow.mul_f64(factor),
            kill: self.kill.mul_f64(factor),
            grace: self.grace.mul_f64(factor),
            idle: self.idle.map(|idle| idle.mul_f64(factor)),
            survivors: self.survivors.map(|survivors| survivors.mul_f64(factor)),
        }
    }
}

impl Default for Timeout {
    fn default() -> Self {
        Timeout {
            slow: deadline::SLOW,
            kill: deadline::CASE,
            grace: deadline::GRACE,
            idle: None,
            survivors: Some(deadline::SURVIVORS),
        }
    }
}

/// A condition under which a case runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// `os` or `os-arch`: `linux`, `linux-x86_64`.
    Platform(String),
    /// A program on PATH.
    Command(String),
    /// A variable that is set and not empty, or has this value.
    Env {
        /// Name.
        name: String,
        /// The wanted value, if any.
        value: Option<String>,
    },
    /// A file, absolute or from the suite's directory.
    File(PathBuf),
    /// A module that the case's Python can import. The executor asks it, once there is a Python.
    PythonModule {
        /// Its name.
        name: String,
        /// The versions that will do.
        version: Option<Range>,
    },
    /// So many CPUs.
    Cpus(u32),
    /// So many bytes of memory, used or not.
    Memory(u64),
    /// So many bytes free in `/dev/shm`.
    Shm(u64),
    /// That this one is not met.
    Not(Box<Requirement>),
    /// At least one of these.
    Any(Vec<Requirement>),
    /// Each of these.
    All(Vec<Requirement>),
}

/// What a case takes from the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// CPU slots, at least 1; more than there are counts as all of them.
    pub cpus: u32,
    /// Bytes; more than there are counts as all of them.
    pub memory: u64,
    /// Groups that it runs in, and how many of the group may run at once.
    pub groups: BTreeMap<String, u32>,
}

impl Default for Resources {
    fn default() -> Self {
        Resources { cpus: 1, memory: 0, groups: BTreeMap::new() }
    }
}

impl Default for Launch {
    /// Nothing: no program has an empty name.
    fn default() -> Self {
        Launch::Argv { argv: Vec::new(), ranks: None }
    }
}

/// What a case says about warm starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Warm {
    /// Nothing: what can be started warm is.
    #[default]
    Possible,
    /// It wants them, and gets the reason where they cannot be; the warm process imports these modules too.
    Wanted(Vec<String>),
    /// None.
    Never,
}

/// What a case starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A program, without a shell.
    Argv {
        /// Program and arguments.
        argv: Vec<String>,
        /// That many ranks placed on the cluster's nodes; absent means one plain process (`Role::Launcher(0)`).
        ranks: Option<u32>,
    },
    /// PyTorch's launcher, once per node.
    Torchrun {
        /// Ranks per node.
        nproc_per_node: u32,
        /// Nodes, one launcher each.
        nnodes: u32,
        /// The Python script, from the suite's directory.
        script: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// How often torchrun starts the workers again.
        max_restarts: u32,
    },
    /// Slurm's launcher, the user's own.
    Srun(Srun),
}

/// A process to kill, and when.
#[derive(Clone, Debug)]
pub struct Kill {
    /// Whom.
    pub target: KillTarget,
    /// Signal number.
    pub signal: i32,
    /// Whose stdout is watched; the target's, unless that is the coordinator or a node: then rank 0's.
    pub watch: u32,
    /// Matches a line of that stdout.
    pub output: regex::bytes::Regex,
    /// Where it is written.
    pub place: SourceLocation,
}

/// A fault, and where it is written.
#[derive(Clone, Debug)]
pub struct Fault {
    /// As it is passed to the ranks.
    pub fault: protocol::fault::Fault,
    /// Where it is written.
    pub place: SourceLocation,
}

/// Whom a [`Kill`] hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// The process of a global rank.
    Rank(u32),
    /// The coordinator.
    Coordinator,
    /// All processes of a node, by its index.
    Node(u32),
}
