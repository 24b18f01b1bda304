//! Builds the environment of a process from an installation, a Python and a cluster: for cases, fixture steps, and
//! commands of `ftest exec` or `fgpu`.

use std::path::Path;

use protocol::plan::ClusterPlan;

use super::environment::{Environment, SCRATCH};
use super::holder_cache;
use crate::execute::python::Python;
use crate::host::cache_directory::cache_directory;
use crate::host::install::{Install, Missing};
use crate::host::plain_path;

/// Why an environment cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// A part of ftest is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// A directory cannot be created.
    #[error("cannot make {directory}: {source}")]
    Directory {
        /// Its path.
        directory: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The libraries that replace NVIDIA's cannot be created.
    #[error("{0}")]
    Holders(String),
    /// A path cannot be in a variable that is a list.
    #[error("{0}")]
    Path(String),
}

/// An environment under construction. In `PATH` and the other lists, the entry added last comes first.
#[derive(Debug)]
pub struct EnvironmentBuilder<'a> {
    install: &'a Install,
    environment: Environment,
    python: Option<&'a Python>,
    /// A path that cannot be in a list.
    unlisted: Option<String>,
}

impl<'a> EnvironmentBuilder<'a> {
    /// The user's environment, for a command that the user typed, with the Python it needs.
    pub fn foreground(install: &'a Install, environment: Environment, python: Option<&'a Python>) -> Self {
        let mut builder = EnvironmentBuilder { install, environment, python, unlisted: None };
        builder.add_python();
        builder.environment.python_defaults();
        builder
    }

    /// The user's environment, without anything that would differ between machines or come from an outer run. If `inherit` is
    /// given, only those names are kept; names in `unset` are removed. Programs of the installation and the Python come first
    /// in `PATH`.
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
        let mut builder = EnvironmentBuilder { install, environment, python, unlisted: None };
        for directory in install.binary_directories().filter(|directory| directory.is_dir()) {
            builder.add_programs(directory);
        }
        builder.add_python();
        builder
    }

    fn add_python(&mut self) {
        if let Some(python) = self.python {
            self.add_programs(&python.bin);
        }
    }

    fn add_programs(&mut self, directory: &Path) {
        match plain_path::for_list(directory) {
            Ok(directory) => _ = self.environment.prepend("PATH", &directory),
            Err(why) => self.unlisted = Some(why),
        }
    }

    /// Creates two directories below `directory`: `files`, shared by the processes, and `tmp`, for files that programs put
    /// into TMPDIR.
    ///
    /// # Errors
    /// [`EnvironmentError::Directory`], [`EnvironmentError::Path`].
    pub fn directories(mut self, directory: &Path, files: &str) -> Result<Self, EnvironmentError> {
        if let Some(why) = self.unlisted.take() {
            return Err(EnvironmentError::Path(why));
        }
        for (variable, name) in [(SCRATCH, files), ("TMPDIR", "tmp")] {
            let path = directory.join(name);
            std::fs::create_dir(&path)
                .map_err(|source| EnvironmentError::Directory { directory: path.display().to_string(), source })?;
            self.environment.set(variable, path);
        }
        Ok(self)
    }

    /// Gives the processes another date.
    ///
    /// # Errors
    /// [`EnvironmentError::Missing`], [`EnvironmentError::Path`].
    pub fn other_date(mut self) -> Result<Self, EnvironmentError> {
        let library = plain_path::for_loader(&self.install.other_date()?).map_err(EnvironmentError::Path)?;
        self.environment.append("LD_PRELOAD", &library);
        Ok(self)
    }

    /// Loads the shim `shim`, or the installed one, with its GPUs.
    ///
    /// # Errors
    /// [`EnvironmentError`]: the shim is missing, or its holders cannot be created.
    pub fn gpus(mut self, shim: Option<&Path>) -> Result<Self, EnvironmentError> {
        if let Some(why) = self.unlisted.take() {
            return Err(EnvironmentError::Path(why));
        }
        let shim = match shim {
            Some(shim) => shim.to_owned(),
            None => self.install.shim()?,
        };
        let libraries = self.python.and_then(|python| python.torch_libraries.as_deref());
        let smi = self.install.smi().ok();
        let holders = holder_cache::directory(&shim, libraries, smi.as_deref()).map_err(EnvironmentError::Holders)?;
        self.environment.preload(&plain_path::for_loader(&shim).map_err(EnvironmentError::Path)?, &holders);
        if smi.is_some() {
            self.environment.prepend("PATH", &holders.join(holder_cache::PROGRAMS));
        }
        if let Ok(assembler) = self.install.assembler() {
            self.environment.triton(&plain_path::for_loader(&assembler).map_err(EnvironmentError::Path)?);
        }
        let cache = cache_directory().map_err(EnvironmentError::Holders)?;
        self.environment.kernels(&cache.join("kernels"));
        Ok(self)
    }

    /// Sets the cluster that the GPUs belong to.
    pub fn cluster(mut self, plan: &ClusterPlan) -> Self {
        self.environment.cluster(plan);
        self
    }

    /// Sets the file through which processes share the GPUs' memory.
    pub fn machine(mut self, file: &Path) -> Self {
        self.environment.machine(file);
        self
    }

    /// Returns the finished environment.
    pub fn finish(self) -> Environment {
        self.environment
    }
}
