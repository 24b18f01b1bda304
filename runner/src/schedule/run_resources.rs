//! What all cases of a run share: what starts their processes, where their files stay, what must not be shown.

use std::path::{Path, PathBuf};

use crate::execute::RunContext;
use crate::host::secrets::Secrets;
use crate::record::ArtifactStore;
use crate::schedule::slurm::Slurm;

/// Shared by all cases of a run.
pub struct RunResources {
    /// Starts processes.
    pub execution: RunContext,
    /// Where the files of attempts are kept; without one they stay in their scratch directories.
    pub artifacts: Option<ArtifactStore>,
    /// What is masked in everything that is written.
    pub secrets: Secrets,
    /// Starts cases elsewhere.
    pub slurm: Option<Slurm>,
}

impl RunResources {
    /// A run whose files stay in their scratch directories, and that masks nothing.
    pub fn bare(execution: RunContext) -> RunResources {
        RunResources { execution, artifacts: None, secrets: Secrets::default(), slurm: None }
    }

    /// Where a directory of the run stays: with the run's other files, under `name`, or where it is.
    pub fn settle(&self, directory: &Path, name: &str) -> PathBuf {
        let moved = self.artifacts.as_ref().and_then(|artifacts| artifacts.take(directory, name).ok());
        moved.unwrap_or_else(|| directory.to_owned())
    }
}
