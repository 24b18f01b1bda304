//! The second stage of a case: its coordinator and its ranks are started.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::prepare::{ALL_APART, Needs, Prepared};
use super::watch::Running;
use super::{CaseExecution, Over};
use crate::case::{Launch, Transport};
use crate::execute::collect::reports;
use crate::execute::launch::environment::{Endpoint, Environment};
use crate::execute::launch::placement::Shared;
use crate::execute::launch::port::HeldPort;
use crate::execute::launch::{no_capture, ranks};
use crate::execute::machines::StartError;
use crate::execute::run::clock::{Instant, sleep_until};
use crate::execute::srun::{self, Tasks};
use crate::execute::{coordinator, warm};
use crate::observation::{Execution, Exit, ProcessObservation};

/// How long after the one before it a process starts where the order of starts is reversed: long enough to come to whatever it does
/// first. Any order is a right one, so no verdict depends on it.
const APART: Duration = Duration::from_secs(1);

impl<'a> Prepared<'a> {
    /// Starts everything.
    pub(super) async fn start(mut self) -> Result<Running<'a>, Over<'a>> {
        match self.execution.launch(&self.needs).await {
            Ok(port) => Ok(Running { execution: self.execution, needs: self.needs, port }),
            Err(refusal) => Err(self.execution.refuse(refusal)),
        }
    }
}

impl CaseExecution<'_> {
    /// Starts the coordinator and the ranks. The port stays held until they are done, so that it is theirs alone.
    async fn launch(&mut self, needs: &Needs) -> Result<Option<HeldPort>, Execution> {
        let endpoint = if self.case.coordinator { Some(self.start_coordinator().await?) } else { None };
        let port = match self.case.world_size() {
            Some(_) => {
                // Between machines, firewalls let those ports through that the kernel gives.
                let between_machines = self.reached_at().is_some() || srun::is_apart(self.case);
                let port = if between_machines { HeldPort::given() } else { HeldPort::take() };
                Some(port.map_err(|error| Execution::NotStarted(format!("no free port: {error}")))?)
            }
            None => None,
        };
        let ftest = self.context.install.ftest().map_err(|error| Execution::NotStarted(error.to_string()))?;
        let shared = Shared {
            environment: self.for_ranks(needs.environment.clone(), endpoint.as_ref()),
            own: self.case.env.keys().chain(&self.case.env_unset).cloned().collect(),
            cookie: &self.tree.sweep().cookie,
            scratch: &self.scratch,
            ftest: &ftest,
            python: needs.python.as_ref().map(|python| python.program.as_path()),
            port: port.as_ref().map_or(0, |port| port.number),
            network: self.network.as_ref(),
            reached_at: self.reached_at(),
        };
        let mut planned = ranks::plan(self.case, &shared).map_err(|error| Execution::NotStarted(error.to_string()))?;
        if let Some(secrets) = &self.context.no_capture {
            no_capture::show(self.case, &mut planned, secrets);
        }
        if let Some(debug) = &self.context.debug_rank {
            debug.apply(self.case, &mut planned);
        }
        if let Launch::Srun(srun) = &self.case.launch {
            let secrets = self.context.no_capture.as_ref();
            self.tree.scatter();
            let tasks = Tasks::prepare(self.case, srun, &self.scratch, self.tree.events(), secrets);
            self.tasks = Some(tasks.map_err(Execution::NotStarted)?);
        }
        let notes = warm::file(&self.scratch);
        if let Some(Ok(server)) = &needs.warm {
            server.without().iter().for_each(|module| warm::without(&notes, module));
        }
        if self.case.starts_reversed {
            planned.reverse();
        }
        let apart = ALL_APART / (planned.len().max(2) as u32 - 1);
        for (index, process) in planned.into_iter().enumerate() {
            if index > 0 && self.case.starts_reversed && !self.wait_before_next_start(apart.min(APART)).await {
                break;
            }
            let watched = self.case.watches_output();
            let started = match (&needs.warm, self.start_elsewhere(&process).await) {
                (_, Some(started)) => started,
                (Some(Ok(server)), None) if process.leads_session() => {
                    let started = self.tree.start_warm(&process, (&self.scratch, watched), server, &notes).await;
                    started.map_err(|error| StartError::NotStarted(error.to_string()))
                }
                (warm, None) => {
                    if let Some(Err(why)) = warm {
                        warm::cold(&notes, process.role, why);
                    }
                    let started = self.tree.start(&process, &self.scratch, watched);
                    started.map_err(|error| StartError::NotStarted(error.to_string()))
                }
            };
            if let Err(error) = started {
                let (error, exit) = match error {
                    StartError::NotStarted(why) => {
                        let why = format!("{}: {why}", process.role);
                        (why.clone(), Exit::NotStarted(why))
                    }
                    StartError::Unanswered(why) => (why, Exit::Unknown),
                };
                let (stdout, stderr) = Default::default();
                self.observation.processes.push(ProcessObservation { role: process.role, exit, stdout, stderr });
                // Others may run already.
                self.ran.infra_error = Some(error);
                break;
            }
        }
        Ok(port)
    }

    /// Watches what runs for a while; false if the user wants to stop.
    async fn wait_before_next_start(&mut self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        loop {
            tokio::select! {
                biased;
                () = self.context.cancel.raised(1) => return false,
                () = sleep_until(until) => return true,
                event = self.tree.next() => self.observe(event),
            }
        }
    }

    /// Where it listens.
    async fn start_coordinator(&mut self) -> Result<Endpoint, Execution> {
        let program = self.context.install.coordinator().map_err(|error| Execution::NotStarted(error.to_string()))?;
        let mut environment = Environment::new();
        environment.isolate().set("TZ", "UTC");
        for (name, value) in &self.case.env {
            if name.starts_with("FAKEGPU_") {
                environment.set(name, value);
            }
        }
        self.set_faults(&mut environment);
        environment.machine(&reports::machine(&self.scratch));
        let plan = coordinator::Plan {
            program: &program,
            cluster: self.case.cluster.as_ref(),
            transport: self.elsewhere.as_ref().map_or(self.case.transport, |_| Transport::Tcp),
            network: self.network.as_ref(),
            reached_at: self.reached_at().or(srun::is_apart(self.case).then_some(Ipv4Addr::UNSPECIFIED.into())),
            scratch: &self.scratch,
            report: &coordinator::report_path(&self.scratch),
            directory: &self.case.cwd,
            idle: self.case.timeout.idle,
            environment,
            successor: self.context.successor(),
        };
        let starting = plan.start(&mut self.tree).map_err(Execution::NotStarted)?;
        let endpoint = tokio::select! {
            biased;
            () = self.context.cancel.raised(1) => return Err(Execution::Interrupted),
            endpoint = starting.endpoint(&mut self.tree) => endpoint,
        };
        match endpoint {
            Err(why) => Err(Execution::NotStarted(coordinator::not_started(&mut self.tree, &why).await)),
            Ok(endpoint) => Ok(self.endpoint.insert(endpoint).clone()),
        }
    }
}
