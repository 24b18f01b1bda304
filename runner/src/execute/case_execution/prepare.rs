//! The first stage of a case: what it needs is there, or it is not run. Nothing of it runs yet.

use std::sync::Arc;
use std::time::Duration;

use super::{CaseExecution, Over};
use crate::case::{Warm, requirement};
use crate::execute::launch::environment::Environment;
use crate::execute::network::{Network, NetworkError};
use crate::execute::python::Python;
use crate::execute::run::clock::Instant;
use crate::execute::run::context::PythonUnavailable;
use crate::execute::run::limit::Limit;
use crate::execute::warm;
use crate::observation::Execution;

/// The most that the starts of a case are apart, all together, where their order is reversed.
pub(super) const ALL_APART: Duration = Duration::from_secs(5);

/// A case that can be started.
pub(super) struct Prepared<'a> {
    pub(super) execution: CaseExecution<'a>,
    pub(super) needs: Needs,
}

/// What the processes of a case need.
pub(super) struct Needs {
    pub(super) python: Option<Python>,
    /// A warm process to fork them from, or why there is none, if the case wants one.
    pub(super) warm: Option<Result<Arc<warm::Server>, String>>,
    /// The limit, if it comes before the case's own deadline.
    pub(super) limit: Option<Limit>,
    /// When the case is ended.
    pub(super) deadline: Instant,
    /// The environment of every process except the coordinator.
    pub(super) environment: Environment,
}

impl<'a> CaseExecution<'a> {
    /// Provides what the case needs: its Python, its network, its machines, room for its processes.
    pub(super) async fn prepare(mut self) -> Result<Prepared<'a>, Over<'a>> {
        match self.provide().await {
            Ok(needs) => Ok(Prepared { execution: self, needs }),
            Err(refusal) => Err(self.refuse(refusal)),
        }
    }

    async fn provide(&mut self) -> Result<Needs, Execution> {
        let need = self.case.python_need();
        let python = match &need {
            Some(need) => match self.context.python(need, self.case).await {
                Ok(python) => Some(python),
                Err(PythonUnavailable::Interrupted) => None,
                Err(error) => return Err(Execution::NotStarted(error.to_string())),
            },
            None => None,
        };
        if self.context.cancel.is_raised() {
            return Err(Execution::Interrupted);
        }
        if let (Some(need), Some(python)) = (&need, &python) {
            self.ask_python(need, python).await.map_err(Execution::NoPython)?;
        }
        if let Some(reason) = self.unmet(python.as_ref()).await {
            return Err(Execution::Skipped(reason));
        }
        if let (Some(wanted), Some(cluster)) = (&self.case.network, &self.case.cluster) {
            match Network::make(wanted, cluster) {
                Ok(network) => self.network = Some(network),
                Err(error @ NetworkError::Unavailable { .. }) => {
                    return Err(Execution::Skipped(error.to_string()));
                }
                Err(error) => return Err(Execution::NotStarted(error.to_string())),
            }
        }
        self.reserve_machines().map_err(Execution::NotStarted)?;
        self.check_loopback().map_err(Execution::NotStarted)?;
        self.room = tokio::select! {
            room = self.context.descriptors.room(self.case) => {
                Some(room.map_err(|error| Execution::NotStarted(error.to_string()))?)
            }
            () = self.context.cancel.raised(1) => {
                return Err(Execution::Interrupted);
            }
        };
        let warm = match self.elsewhere {
            // On other machines there is none.
            Some(_) => matches!(self.case.warm, Warm::Wanted(_)).then(|| Err("it runs on several machines".into())),
            None => self.context.warm(self.case, python.as_ref()).await,
        };
        // Time for making an environment, or for waiting for room or a warm process, counts for the run, not for the
        // case.
        let started = *self.started.insert(Instant::now());
        let starts = if self.case.starts_reversed { ALL_APART } else { Duration::ZERO };
        let own = started + self.case.timeout.kill + starts;
        let limit = self.context.limits.for_case(self.case).filter(|limit| limit.at < own);
        let deadline = limit.as_ref().map_or(own, |limit| limit.at);
        let environment =
            self.environment(python.as_ref()).map_err(|error| Execution::NotStarted(error.to_string()))?;
        self.prepare_machines(python.as_ref()).map_err(Execution::NotStarted)?;
        Ok(Needs { python, warm, limit, deadline, environment })
    }

    /// An unmet requirement that needs the case's Python to be checked.
    async fn unmet(&self, python: Option<&Python>) -> Option<String> {
        let mut modules = requirement::Modules::new();
        if let Some(python) = python {
            for module in requirement::modules(self.case) {
                modules.insert(module.to_owned(), python.version_of(module).await);
            }
        }
        requirement::unmet_by_python(self.case, python.map(|python| (python.program.as_path(), &modules)))
    }
}
