//! What a case starts, and how its ranks reach the coordinator.

use std::path::PathBuf;

use super::srun::Srun;

/// What a case starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// A program, without a shell.
    Argv {
        /// Program and arguments.
        argv: Vec<String>,
        /// The number of ranks, placed on the cluster's nodes; if absent, one plain process (`Role::Launcher(0)`).
        ranks: Option<u32>,
    },
    /// PyTorch's launcher, once per node.
    Torchrun {
        /// Ranks per node.
        nproc_per_node: u32,
        /// Nodes, one launcher each.
        nnodes: u32,
        /// The Python script, from the case's working directory.
        script: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// How many times torchrun may restart the workers.
        max_restarts: u32,
    },
    /// Slurm's launcher; the user's installation of it.
    Srun(Srun),
}

impl Launch {
    /// Number of ranks; `None` for one plain process.
    pub fn world_size(&self) -> Option<u32> {
        match self {
            Launch::Argv { ranks, .. } => *ranks,
            Launch::Torchrun { nproc_per_node, nnodes, .. } => Some(nproc_per_node * nnodes),
            Launch::Srun(srun) => Some(srun.world_size()),
        }
    }
}

impl Default for Launch {
    /// Starts nothing: no program has an empty name.
    fn default() -> Self {
        Launch::Argv { argv: Vec::new(), ranks: None }
    }
}

/// A case's setting for warm starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Warm {
    /// Not set: the case starts warm if it can.
    #[default]
    Possible,
    /// Warm starts are requested, and the reason is reported if they are not possible. The warm process also imports
    /// these modules.
    Wanted(Vec<String>),
    /// The case never starts warm.
    Never,
}

/// How ranks reach the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A socket in the scratch directory.
    #[default]
    Unix,
    /// A port that the kernel chooses: on loopback, or on all addresses for tasks of srun.
    Tcp,
}
