//! From an installation, a Python and a cluster to the environment of a process: of a case, of a fixture's step, of a
//! command of `ftest exec` or `fgpu`.

use std::path::Path;

use protocol::plan::ClusterPlan;

use super::environment::{Environment, SCRATCH, cache_directory};
use super::holder_cache;
use crate::execute::python::Python;
use crate::host::install::{Install, Missing};

/// Why an environment cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// A part of ftest is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A directory cannot be made.
    #[error("cannot make {directory}: {source}")]
    Directory {
        /// Its path.
        directory: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The libraries that replace NVIDIA's cannot be made.
    #[error("{0}")]
    Holders(String),
}

/// An environment in the making. What comes first in `PATH` and the other lists is what was added last.
#[derive(Debug)]
pub struct EnvironmentBuilder<'a> {
    install: &'a Install,
    environment: Environment,
    python: Option<&'a Python>,
}

impl<'a> EnvironmentBuilder<'a> {
    /// What the user has, for a command that the user typed, in the Python that it needs.
    pub fn foreground(install: &'a Install, environment: Environment, python: Option<&'a Python>) -> Self {
        let mut builder = EnvironmentBuilder { install, environment, python };
        builder.add_python();
        builder.environment.python_defaults();
        builder
    }

    /// What the user has, without anything by which two machines or an outer run would differ; of that only the names in
    /// `inherit` where there are some, and none of `unset`. Programs of the installation and the Python come first in `PATH`.
    pub fn isolated(
        install: &'a Install,
        inherit: Option<&[String]>,
        unset: &[String],
        python: Option<&'a Python>,
    ) -> Self {
        let mut environment = Environment::new();
        environment.isolate();
        if let Some(names) = inherit {
            environment.only(names);
        }
        environment.reproducible();
        for name in unset {
            environment.remove(name);
        }
        for directory in install.binary_directories().filter(|directory| directory.is_dir()) {
            environment.prepend("PATH", directory);
        }
        let mut builder = EnvironmentBuilder { install, environment, python };
        builder.add_python();
        builder
    }

    fn add_python(&mut self) {
        if let Some(python) = self.python {
            self.environment.python(&python.bin);
        }
    }

    /// Makes two directories below `directory`: `files`, where processes meet, and `tmp` for what programs put into TMPDIR.
    ///
    /// # Errors
    /// [`EnvironmentError::Directory`].
    pub fn directories(mut self, directory: &Path, files: &str) -> Result<Self, EnvironmentError> {
        for (variable, name) in [(SCRATCH, files), ("TMPDIR", "tmp")] {
            let path = directory.join(name);
            std::fs::create_dir(&path)
                .map_err(|source| EnvironmentError::Directory { directory: path.display().to_string(), source })?;
            self.environment.set(variable, path);
        }
        Ok(self)
    }

    /// Loads the shim `shim`, else that of the installation, with its GPUs.
    ///
    /// # Errors
    /// [`EnvironmentError`]: the shim is missing, or its holders cannot be made.
    pub fn gpus(mut self, shim: Option<&Path>) -> Result<Self, EnvironmentError> {
        let shim = match shim {
            Some(shim) => shim.to_owned(),
            None => self.install.shim()?,
        };
        let libraries = self.python.and_then(|python| python.torch_libraries.as_deref());
        let smi = self.install.smi().ok();
        let holders = holder_cache::directory(&shim, libraries, smi.as_deref()).map_err(EnvironmentError::Holders)?;
        self.environment.preload(&shim, &holders);
        if smi.is_some() {
            self.environment.prepend("PATH", &holders.join(holder_cache::PROGRAMS));
        }
        if let Ok(assembler) = self.install.assembler() {
            self.environment.triton(&assembler);
        }
        let cache = cache_directory().map_err(EnvironmentError::Holders)?;
        self.environment.kernels(&cache.join("kernels"));
        Ok(self)
    }

    /// The cluster whose GPUs they are.
    pub fn cluster(mut self, plan: &ClusterPlan) -> Self {
        self.environment.cluster(plan);
        self
    }

    /// `file` is how processes share the GPUs' memory.
    pub fn machine(mut self, file: &Path) -> Self {
        self.environment.machine(file);
        self
    }

    /// What has been built.
    pub fn finish(self) -> Environment {
        self.environment
    }
}
