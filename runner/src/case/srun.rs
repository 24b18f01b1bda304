//! A launch by Slurm: how many tasks srun starts on how many nodes, and what they are.

use std::path::PathBuf;

use crate::observation::Role;

/// What srun is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srun {
    /// `--nodes`.
    pub nodes: u32,
    /// `--ntasks`.
    pub ntasks: u32,
    /// `--ntasks-per-node`, where all nodes get the same number.
    pub ntasks_per_node: Option<u32>,
    /// Further options of srun, as the suite writes them.
    pub options: Vec<String>,
    /// What is started in each task.
    pub program: Program,
}

/// What a task runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A program; every task is a rank.
    Rank {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// PyTorch's launcher, one task per node, which starts the ranks of its node.
    Torchrun {
        /// Ranks per node.
        nproc_per_node: u32,
        /// The Python script, from the suite's directory.
        script: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// How often torchrun starts the workers again.
        max_restarts: u32,
    },
}

impl Srun {
    /// Number of ranks.
    pub fn world_size(&self) -> u32 {
        match self.program {
            Program::Rank { .. } => self.ntasks,
            Program::Torchrun { nproc_per_node, .. } => self.ntasks.saturating_mul(nproc_per_node),
        }
    }

    /// What the task with this number is in the case.
    pub fn role(&self, task: u32) -> Role {
        match self.program {
            Program::Rank { .. } => Role::Rank(task),
            Program::Torchrun { .. } => Role::Launcher(task),
        }
    }
}
