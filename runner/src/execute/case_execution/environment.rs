//! The environment of a case's processes.

use std::ffi::OsString;

use protocol::sanitizer::{self, Sanitizers};

use super::CaseExecution;
use crate::case::Case;
use crate::case::python::PythonNeed;
use crate::case::variables::SHARED_PATHS;
use crate::check::{steps, tensors};
use crate::execute::collect::{operations, reports};
use crate::execute::launch::builder::{EnvironmentBuilder, EnvironmentError};
use crate::execute::launch::environment::{Endpoint, Environment, SCRATCH, changed};
use crate::execute::machines;
use crate::execute::python::Python;
use crate::execute::srun;
use crate::observation::{PythonError, PythonUsed, SHARED};

/// The sanitizers of a case, unless they are the default. Comparing two runs needs the contents of replicas, too.
fn sanitizers(case: &Case) -> Option<String> {
    let mut wanted = match (&case.sanitize, &case.deterministic) {
        (None, None) => return None,
        (Some(wanted), _) => wanted.clone(),
        (None, Some(_)) => Sanitizers::default().words(),
    };
    if case.deterministic.is_some() && !wanted.contains(&sanitizer::REPLICAS) {
        wanted.push(sanitizer::REPLICAS);
    }
    Some(if wanted.is_empty() { sanitizer::NONE.to_owned() } else { wanted.join(",") })
}

/// Libraries that are loaded before a program's own.
const PRELOAD: &str = "LD_PRELOAD";

fn is_shared_path(name: &str) -> bool {
    SHARED_PATHS.contains(&name)
}

impl CaseExecution<'_> {
    /// The environment of every process of the case except the coordinator.
    pub(super) fn environment(&self, python: Option<&Python>) -> Result<Environment, EnvironmentError> {
        let case = self.case;
        let inherit = case.env_inherit.as_deref();
        let builder = EnvironmentBuilder::isolated(&self.context.install, inherit, &case.env_unset, python)
            .directories(&self.scratch, SHARED)?;
        let builder = if case.has_other_clock { builder.other_date()? } else { builder };
        let Some(cluster) = &case.cluster else { return Ok(self.continued(builder.finish())) };
        let mut environment = builder.gpus(None)?.cluster(cluster).machine(&reports::machine(&self.scratch)).finish();
        environment.set(protocol::env::REPORT_PATH.name, reports::device_report_pattern(&self.scratch));
        environment.journal(&reports::journal(&self.scratch));
        if !case.allow_gaps.is_empty() || !case.expect.gaps.is_empty() {
            environment.set(protocol::env::UNSUPPORTED_API.name, "warn");
        }
        if let Some(words) = sanitizers(case) {
            environment.set(protocol::env::SANITIZE.name, words);
        }
        if case.is_clock_modeled {
            environment.set(protocol::env::CLOCK.name, protocol::clock::MODELED);
            environment.set(protocol::env::OPERATIONS.name, operations::directory(&self.scratch));
        } else if case.has_other_clock {
            environment.set(protocol::env::CLOCK.name, protocol::clock::FAST);
        }
        if let Some(schedule) = &case.schedule {
            environment.set(protocol::env::SCHEDULE.name, schedule.to_string());
        }
        if case.records_tensors {
            environment.set(protocol::env::TENSORS.name, self.scratch.join(tensors::DIRECTORY));
        }
        if case.records_steps {
            environment.set(protocol::env::STEPS.name, self.scratch.join(steps::DIRECTORY));
        }
        Ok(self.continued(environment))
    }

    /// With the directory that an earlier run left, if the case goes on from there.
    fn continued(&self, mut environment: Environment) -> Environment {
        if let Some(shared) = &self.case.shared {
            environment.set(SCRATCH, shared);
        }
        environment
    }

    /// Asks the interpreter what it has of what the case declares, which must be there unless ftest put it there.
    ///
    /// # Errors
    /// It is not there.
    pub(super) async fn ask_python(&mut self, need: &PythonNeed, python: &Python) -> Result<(), PythonError> {
        let case = self.case;
        let environment = changed(&case.env, &case.env_unset, case.env_inherit.as_deref());
        let started = (&environment, case.cwd.as_path());
        let used = self.context.python_used((python, need), started, case.torchruns().is_some()).await;
        let joined = self.context.machines.is_some() && machines::nodes_elsewhere(case) > 0;
        let only_here = joined || srun::is_apart(case);
        self.observation.python = Some(PythonUsed { only_here, ..used.python });
        used.error.map_or(Ok(()), Err)
    }

    /// Sets the injected faults, for the ranks and for the coordinator.
    pub(super) fn set_faults(&self, environment: &mut Environment) {
        if !self.case.faults.is_empty() {
            let faults: Vec<_> = self.case.faults.iter().map(|fault| fault.fault.clone()).collect();
            environment.set(protocol::env::FAULTS.name, protocol::fault::to_json(&faults));
        }
    }

    /// Values set by the suite come last and win. In paths of libraries they stand beside ours.
    pub(super) fn for_ranks(&self, mut environment: Environment, endpoint: Option<&Endpoint>) -> Environment {
        if let Some(endpoint) = endpoint {
            environment.coordinator(endpoint);
        }
        self.set_faults(&mut environment);
        for name in self.case.env_unset.iter().filter(|name| *name != "PATH" && !is_shared_path(name)) {
            environment.remove(name);
        }
        for (name, value) in &self.case.env {
            let has_ours = self.case.cluster.is_some() || self.case.has_other_clock;
            let ours = environment.get(name).filter(|_| is_shared_path(name) && has_ours);
            let mut value = OsString::from(value);
            match ours {
                // The loader takes the first library that has a symbol: a sanitizer must come before the shim.
                Some(ours) if name == PRELOAD && !value.is_empty() => {
                    value.push(":");
                    value.push(ours);
                }
                Some(mut ours) => {
                    if !value.is_empty() {
                        ours.push(":");
                    }
                    ours.push(value);
                    value = ours;
                }
                None => {}
            }
            environment.set(name, value);
        }
        environment
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::repeat::Deterministic;

    #[test]
    fn a_deterministic_case_looks_at_replicas() {
        let words = |sanitize: Option<Vec<&'static str>>, is_deterministic: bool| {
            let deterministic = is_deterministic.then(Deterministic::default);
            sanitizers(&Case { sanitize, deterministic, ..Case::default() })
        };
        assert_eq!(words(None, false), None);
        assert_eq!(words(Some(vec![]), false).as_deref(), Some("none"));
        assert_eq!(words(Some(vec!["races", "init"]), false).as_deref(), Some("races,init"));
        assert_eq!(words(None, true).as_deref(), Some("races,replicas"));
        assert_eq!(words(Some(vec![]), true).as_deref(), Some("replicas"));
        assert_eq!(words(Some(vec!["replicas"]), true).as_deref(), Some("replicas"));
    }
}
