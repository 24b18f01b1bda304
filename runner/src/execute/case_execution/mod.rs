//! The execution of one case as stages, each of which consumes the one before: a case is prepared, started, watched, ended and
//! collected. Every wait has a deadline.

mod collect;
mod elsewhere;
mod ending;
mod environment;
mod idle;
mod prepare;
mod start;
mod surroundings;
mod watch;
mod workers;

use std::path::PathBuf;

use tokio::sync::OwnedSemaphorePermit;

use super::RunContext;
use super::machines::Elsewhere;
use super::network::Network;
use super::process_tree::ProcessTree;
use super::srun::Tasks;
use crate::case::Case;
use crate::execute::launch::environment::Endpoint;
use crate::execute::run::clock::Instant;
use crate::execute::watch::cuts::Cuts;
use crate::execute::watch::deaths::Deaths;
use crate::execute::watch::kills::Kills;
use crate::host::machine;
use crate::observation::{Execution, Observation, Ran};

/// Runs a case and returns the observation. Returns once no process of the case runs, or the remaining ones are named
/// in the observation.
///
/// A case that cannot be run gives an observation that says so, never a panic.
pub async fn run_case(case: &Case, context: &RunContext) -> Observation {
    if context.cancel.is_raised() {
        return Execution::Interrupted.into();
    }
    let execution = match CaseExecution::new(case, context) {
        Ok(execution) => execution,
        Err(error) => return Execution::NotStarted(error).into(),
    };
    let watch = context.lives.begin();
    let over = match execution.prepare().await {
        Ok(prepared) => match prepared.start().await {
            Ok(running) => running.watch().await,
            Err(over) => over,
        },
        Err(over) => over,
    };
    over.end().await.collect(watch).await
}

/// What every stage of a case has.
struct CaseExecution<'a> {
    case: &'a Case,
    context: &'a RunContext,
    scratch: PathBuf,
    tree: ProcessTree,
    /// The tasks that srun started, in a case that it launches.
    tasks: Option<Tasks>,
    /// The part of the case on other machines, if it has one.
    elsewhere: Option<Elsewhere>,
    endpoint: Option<Endpoint>,
    kills: Kills<'a>,
    cuts: Cuts<'a>,
    /// The network between its nodes if they run in separate namespaces.
    network: Option<Network>,
    deaths: Deaths,
    started: Option<Instant>,
    /// Memory state when the case began.
    memory: machine::Memory,
    /// The share of the run's descriptors that its processes take.
    room: Option<OwnedSemaphorePermit>,
    /// The execution of the case; of no interest if it is not run.
    ran: Ran,
    /// What else was seen.
    observation: Observation,
}

/// A case that is no longer watched, or was not started: what runs of it is to be ended.
struct Over<'a> {
    execution: CaseExecution<'a>,
    /// Why the case was not run, if it was not.
    refusal: Option<Execution>,
}

/// A case of which nothing runs any more.
struct Ended<'a> {
    execution: CaseExecution<'a>,
    refusal: Option<Execution>,
}

impl<'a> CaseExecution<'a> {
    /// Nothing runs yet.
    ///
    /// # Errors
    /// One sentence if there is no scratch directory.
    fn new(case: &'a Case, context: &'a RunContext) -> Result<CaseExecution<'a>, String> {
        let (scratch, cookie) = context.open_case()?;
        Ok(CaseExecution {
            case,
            context,
            tree: ProcessTree::new(cookie),
            tasks: None,
            elsewhere: None,
            endpoint: None,
            kills: Kills::new(case),
            cuts: Cuts::new(case),
            network: None,
            deaths: Deaths::default(),
            started: None,
            memory: machine::Memory::now(),
            room: None,
            ran: Ran::default(),
            observation: Observation { scratch: scratch.clone(), ..Observation::default() },
            scratch,
        })
    }
}

impl<'a> CaseExecution<'a> {
    /// The case is not run.
    fn refuse(self, refusal: Execution) -> Over<'a> {
        Over { execution: self, refusal: Some(refusal) }
    }
}

#[cfg(test)]
mod tests;
