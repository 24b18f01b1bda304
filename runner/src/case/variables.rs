//! Variables that belong to launchers: those of an outer one, which no case inherits, and those that the launcher of a case sets,
//! with what that means for a value in `env`.

use super::Launch;
use super::srun::{Program, Srun};

/// Set for every case that does not set them itself: a locale and a time zone that are the same everywhere.
pub const REPRODUCIBLE: [(&str, &str); 2] = [("LC_ALL", "C.UTF-8"), ("TZ", "UTC")];

/// Set where neither the case nor the environment does. Python does not buffer its output and prints its stacks when it is aborted;
/// one thread per rank; PyTorch does not wait its 10 s for a thread that sleeps because Python is gone (the shim's `pthread_exit`).
pub const OF_PYTHON: [(&str, &str); 4] = [
    ("PYTHONUNBUFFERED", "1"),
    ("PYTHONFAULTHANDLER", "1"),
    ("OMP_NUM_THREADS", "1"),
    ("TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT", "0.1"),
];

/// Prefixes of variables left by a launcher or an outer run that would place the ranks of a case wrongly.
const OUTER_PREFIXES: &[&str] = &["TORCHELASTIC_", "PET_", "NCCL_", "CUDA_", "FAKEGPU_", "SLURM_STEP_"];
/// The same by full name.
const OUTER_NAMES: &[&str] = &[
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_NAME",
    "ROLE_WORLD_SIZE",
    "NODE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "FTEST_CLUSTER",
    "FTEST_FAULTS",
    "FTEST_TENSORS",
    "FTEST_RELATION",
    "FTEST_AFTER_TORCH",
    "FTEST_ASSUME",
    "FTEST_SENT",
    "FTEST_CASE_COOKIE",
    "FTEST_GPUS",
    "FTEST_AS_RANK",
    "FTEST_NODE",
    "FTEST_TASK",
    "FTEST_AGENT_TOKEN",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_GTIDS",
    "SLURM_STEPID",
    "SLURM_TASK_PID",
    "PYTHONSTARTUP",
];

/// Whether no case inherits this variable: a launcher around ftest, or an outer run, may have set it.
pub fn is_of_outer_launcher(name: &str) -> bool {
    OUTER_NAMES.contains(&name) || OUTER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Paths of libraries, to which ftest adds its own: a value of the case keeps its place beside them.
pub const SHARED_PATHS: [&str; 3] = ["LD_PRELOAD", "LD_LIBRARY_PATH", "LIBRARY_PATH"];

/// Variables that ftest alone sets in the processes of cases, besides those of the table in `protocol::env`.
pub const OURS: [&str; 4] = ["FTEST_SCRATCH", "FTEST_ATTEMPT", "FTEST_OUTPUT", "FTEST_TASK"];

/// What becomes of a value that `env` has for a variable of a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing else sets it, or it wins.
    Honored,
    /// It is refused: the value is another one in each rank.
    PerRank,
    /// It is refused: torchrun sets it in its workers.
    ByTorchrun,
    /// It is refused: it has to agree with an option that ftest gives to torchrun.
    OfTorchrun,
    /// It is refused: srun sets it in each task.
    BySrun,
}

impl Fate {
    fn describe(self) -> &'static str {
        match self {
            Fate::Honored => "honored",
            Fate::PerRank => "refused: differs from rank to rank",
            Fate::ByTorchrun => "refused: set by torchrun",
            Fate::OfTorchrun => "refused: an option of torchrun",
            Fate::BySrun => "refused: set by srun",
        }
    }
}

/// The kinds of launches, in the order of the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One plain process.
    Plain,
    /// `ranks: N`.
    Ranks,
    /// `torchrun`.
    Torchrun,
    /// `srun` with `argv`.
    Srun,
    /// `srun` with `torchrun`.
    SrunTorchrun,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Plain, Kind::Ranks, Kind::Torchrun, Kind::Srun, Kind::SrunTorchrun];

    /// As the language has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Plain => "`argv`",
            Kind::Ranks => "`argv` with `ranks`",
            Kind::Torchrun => "`torchrun`",
            Kind::Srun => "`srun` with `argv`",
            Kind::SrunTorchrun => "`srun` with `torchrun`",
        }
    }

    fn is_torchrun(self) -> bool {
        matches!(self, Kind::Torchrun | Kind::SrunTorchrun)
    }

    fn is_srun(self) -> bool {
        matches!(self, Kind::Srun | Kind::SrunTorchrun)
    }
}

impl Launch {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Launch::Argv { ranks: None, .. } => Kind::Plain,
            Launch::Argv { ranks: Some(_), .. } => Kind::Ranks,
            Launch::Torchrun { .. } => Kind::Torchrun,
            Launch::Srun(Srun { program: Program::Rank { .. }, .. }) => Kind::Srun,
            Launch::Srun(Srun { program: Program::Torchrun { .. }, .. }) => Kind::SrunTorchrun,
        }
    }
}

/// Variables of launchers, and who sets them.
pub struct Group {
    /// Their names; `*` at the end of one stands for any rest.
    pub names: &'static [&'static str],
    fate: fn(Kind) -> Fate,
}

/// All that launchers set, in the order of the documentation.
pub const GROUPS: &[Group] = &[
    Group {
        names: &["RANK", "LOCAL_RANK", "GROUP_RANK"],
        fate: |kind| match kind {
            Kind::Plain => Fate::Honored,
            Kind::Ranks | Kind::Srun => Fate::PerRank,
            Kind::Torchrun | Kind::SrunTorchrun => Fate::ByTorchrun,
        },
    },
    Group {
        names: &["NODE_RANK"],
        fate: |kind| if matches!(kind, Kind::Ranks | Kind::Srun) { Fate::PerRank } else { Fate::Honored },
    },
    Group {
        names: &["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"],
        fate: |kind| if kind.is_torchrun() { Fate::ByTorchrun } else { Fate::Honored },
    },
    Group {
        names: &[
            "ROLE_RANK",
            "ROLE_NAME",
            "ROLE_WORLD_SIZE",
            "TORCHELASTIC_RESTART_COUNT",
            "TORCHELASTIC_MAX_RESTARTS",
            "TORCHELASTIC_RUN_ID",
            "TORCHELASTIC_USE_AGENT_STORE",
            "TORCHELASTIC_ERROR_FILE",
        ],
        fate: |kind| if kind.is_torchrun() { Fate::ByTorchrun } else { Fate::Honored },
    },
    Group {
        names: &[
            "PET_NNODES",
            "PET_NPROC_PER_NODE",
            "PET_MAX_RESTARTS",
            "PET_RDZV_BACKEND",
            "PET_RDZV_ENDPOINT",
            "PET_NODE_RANK",
            "PET_MASTER_ADDR",
            "PET_MASTER_PORT",
            "PET_LOG_DIR",
            "PET_REDIRECTS",
            "PET_TEE",
        ],
        fate: |kind| if kind.is_torchrun() { Fate::OfTorchrun } else { Fate::Honored },
    },
    Group {
        names: &[
            "SLURM_PROCID",
            "SLURM_LOCALID",
            "SLURM_NODEID",
            "SLURM_GTIDS",
            "SLURM_STEP_*",
            "SLURM_STEPID",
            "SLURM_TASK_PID",
            "SLURM_NTASKS",
            "SLURM_NPROCS",
            "SLURM_NNODES",
        ],
        fate: |kind| if kind.is_srun() { Fate::BySrun } else { Fate::Honored },
    },
];

impl Group {
    /// What becomes of a value of the case in a launch of this kind.
    pub fn fate(&self, kind: Kind) -> Fate {
        (self.fate)(kind)
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| match known.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => *known == name,
        })
    }
}

/// The table of the documentation: by launch, whether a value in `env` is honored, or why it is refused.
pub fn table() -> String {
    let heads: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    let mut out = format!("| variables in `env` | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    for group in GROUPS {
        let names: Vec<String> = group.names.iter().map(|name| format!("`{name}`")).collect();
        let fates: Vec<&str> = Kind::ALL.iter().map(|kind| group.fate(*kind).describe()).collect();
        out.push_str(&format!("| {} | {} |\n", names.join(", "), fates.join(" | ")));
    }
    out
}

/// What becomes of the variable `name` of `env` in a launch of this kind.
pub fn fate(name: &str, kind: Kind) -> Fate {
    GROUPS.iter().find(|group| group.has(name)).map_or(Fate::Honored, |group| group.fate(kind))
}
