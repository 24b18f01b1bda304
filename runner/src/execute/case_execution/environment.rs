//! What the processes of a case see in their environment.

use super::CaseExecution;
use crate::execute::launch::environment::{Endpoint, Environment};
use crate::execute::launch::holder_cache;
use crate::execute::python::Python;
use crate::execute::reports;

impl CaseExecution<'_> {
    /// The environment of every process of the case but the coordinator.
    pub(super) fn environment(&self, python: Option<&Python>) -> Result<Environment, String> {
        let install = &self.context.install;
        let mut environment = Environment::new();
        environment.isolate();
        if let Some(names) = &self.case.env_inherit {
            environment.only(names);
        }
        environment.reproducible();
        for name in &self.case.env_unset {
            environment.remove(name);
        }
        for directory in install.binary_directories().filter(|directory| directory.is_dir()) {
            environment.prepend("PATH", directory);
        }
        if let Some(python) = python {
            environment.python(&python.bin);
        }
        // Ranks meet in the one, and what programs put into the other goes with the case.
        for (variable, name) in [("FTEST_SCRATCH", "shared"), ("TMPDIR", "tmp")] {
            let directory = self.scratch.join(name);
            std::fs::create_dir(&directory).map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
            environment.set(variable, directory);
        }
        if let Some(cluster) = &self.case.cluster {
            let shim = install.shim().map_err(|error| error.to_string())?;
            let libraries = python.and_then(|python| python.torch_libraries.as_deref());
            environment.preload(&shim, &holder_cache::directory(&shim, libraries)?).cluster(cluster);
            environment.machine(&reports::machine(&self.scratch));
            environment.set(protocol::env::REPORT_PATH.name, reports::device_report_pattern(&self.scratch));
        }
        Ok(environment)
    }

    /// What the suite sets comes last and wins.
    pub(super) fn for_ranks(&self, mut environment: Environment, endpoint: Option<&Endpoint>) -> Environment {
        if let Some(endpoint) = endpoint {
            environment.coordinator(endpoint);
        }
        if !self.case.faults.is_empty() {
            let faults: Vec<_> = self.case.faults.iter().map(|fault| fault.fault.clone()).collect();
            environment.set(protocol::env::FAULTS.name, protocol::fault::to_json(&faults));
        }
        for (name, value) in &self.case.env {
            environment.set(name, value);
        }
        environment
    }
}
