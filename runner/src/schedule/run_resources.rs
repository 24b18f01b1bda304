//! Resources shared by all cases of a run: for starting processes, keeping files, and masking secrets.

use std::path::{Path, PathBuf};

use crate::execute::RunContext;
use crate::host::secrets::Secrets;
use crate::record::ArtifactStore;
use crate::schedule::slurm::Slurm;

/// Shared by all cases of a run.
pub struct RunResources {
    /// Starts processes.
    pub execution: RunContext,
    /// Where the files of attempts are kept; if absent, they stay in their scratch directories.
    pub artifacts: Option<ArtifactStore>,
    /// The secrets to mask in all output.
    pub secrets: Secrets,
    /// Starts cases elsewhere.
    pub slurm: Option<Slurm>,
}

impl RunResources {
    /// For a run whose files stay in their scratch directories, and that masks nothing.
    pub fn bare(execution: RunContext) -> RunResources {
        RunResources { execution, artifacts: None, secrets: Secrets::default(), slurm: None }
    }

    /// Decides where a directory of the run is kept: with the run's other files, under `name`, or where it is.
    pub fn settle(&self, directory: &Path, name: &str) -> PathBuf {
        let moved = self.artifacts.as_ref().and_then(|artifacts| artifacts.take(directory, name).ok());
        moved.unwrap_or_else(|| directory.to_owned())
    }
}
