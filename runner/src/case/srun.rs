//! A launch through Slurm: how many tasks srun starts on how many nodes, and what each task runs.

use std::path::PathBuf;

use crate::observation::Role;

/// The options passed to srun, and the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Srun {
    /// `--nodes`.
    pub nodes: u32,
    /// `--ntasks`.
    pub ntasks: u32,
    /// `--ntasks-per-node`, if all nodes get the same number.
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
        /// The Python script, from the case's working directory.
        script: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// How many times torchrun may restart the workers.
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

    /// The role in the case of the task with this number.
    pub fn role(&self, task: u32) -> Role {
        match self.program {
            Program::Rank { .. } => Role::Rank(task),
            Program::Torchrun { .. } => Role::Launcher(task),
        }
    }
}
