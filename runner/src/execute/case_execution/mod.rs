//! The execution of one case: scratch directory, coordinator, ranks, watching, ending, collecting. Every wait has a deadline.

mod elsewhere;
mod ending;
mod environment;
mod idle;
mod surroundings;

use protocol::announcement::Announcement;
use protocol::ids::Rank;
use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

use super::clock::{Instant, sleep_until};
use super::context::PythonUnavailable;
use super::control::ControlError;
use super::cuts::Cuts;
use super::deaths::Deaths;
use super::journal::Journal;
use super::kills::Kills;
use super::limit::Limit;
use super::machines::Elsewhere;
use super::network::{Network, NetworkError};
use super::placement::Shared;
use super::port::HeldPort;
use super::process_tree::capture;
use super::process_tree::sweep::Process;
use super::process_tree::{Event, ProcessTree};
use super::ranks;
use super::shared_memory;
use super::srun::{self, Tasks};
use super::{RunContext, coordinator, faults, gaps, hang, loader, no_capture, reports, torchrun, warm};
use crate::case::requirement;
use crate::case::{Case, Launch, Transport, Warm};
use crate::check::need::Need;
use crate::execute::launch::environment::{Endpoint, Environment};
use crate::execute::python::Python;
use crate::host::{deadline, machine};
use crate::observation::{Execution, Exit, Hang, Observation, ProcessObservation, Ran, Role, Stop, Waiting};

/// Runs a case and returns the observation. Returns once no process of the case runs, or the remaining ones are named
/// in the observation.
///
/// A case that cannot be run gives an observation that says so, never a panic.
pub async fn run_case(case: &Case, context: &RunContext) -> Observation {
    if context.cancel.is_raised() {
        return Execution::Interrupted.into();
    }
    let mut execution = match CaseExecution::new(case, context) {
        Ok(execution) => execution,
        Err(error) => return Execution::NotStarted(error).into(),
    };
    let watch = context.lives.begin();
    if let Err(error) = execution.run().await {
        execution.fail(error);
    }
    execution.end().await;
    execution.find_shared_memory(watch);
    execution.into_observation()
}

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
    /// The limit, if it comes before the case's own deadline.
    limit: Option<Limit>,
    /// Memory state when the case began.
    memory: machine::Memory,
    /// The share of the run's descriptors that its processes take.
    room: Option<OwnedSemaphorePermit>,
    /// Why the case is not run, if it is not.
    refusal: Option<Execution>,
    /// The execution of the case if it is.
    ran: Ran,
    /// What else was seen.
    observation: Observation,
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
            limit: None,
            memory: machine::Memory::now(),
            room: None,
            refusal: None,
            ran: Ran::default(),
            observation: Observation { scratch: scratch.clone(), ..Observation::default() },
            scratch,
        })
    }
}

impl CaseExecution<'_> {
    /// Starts everything and watches until the ranks have ended, the deadline has passed or the user wants to stop.
    async fn run(&mut self) -> Result<(), String> {
        let need = self.case.python_need();
        let python = match &need {
            Some(need) => match self.context.python(need, self.case).await {
                Ok(python) => Some(python),
                Err(PythonUnavailable::Interrupted) => None,
                Err(error) => return Err(error.to_string()),
            },
            None => None,
        };
        if self.context.cancel.is_raised() {
            self.interrupted();
            return Ok(());
        }
        if let (Some(need), Some(python)) = (&need, &python) {
            self.ask_python(need, python).await;
            if self.refusal.is_some() {
                return Ok(());
            }
        }
        if let Some(reason) = self.unmet(python.as_ref()).await {
            self.refusal = Some(Execution::Skipped(reason));
            return Ok(());
        }
        if let (Some(wanted), Some(cluster)) = (&self.case.network, &self.case.cluster) {
            match Network::make(wanted, cluster) {
                Ok(network) => self.network = Some(network),
                Err(error @ NetworkError::Unavailable { .. }) => {
                    self.refusal = Some(Execution::Skipped(error.to_string()));
                    return Ok(());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        self.reserve_machines()?;
        self.check_loopback()?;
        self.room = tokio::select! {
            room = self.context.descriptors.room(self.case) => Some(room.map_err(|error| error.to_string())?),
            () = self.context.cancel.raised(1) => {
                self.interrupted();
                return Ok(());
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
        let own = started + self.case.timeout.kill;
        self.limit = self.context.limits.for_case(self.case).filter(|limit| limit.at < own);
        let deadline = self.limit.as_ref().map_or(own, |limit| limit.at);
        let base = self.environment(python.as_ref()).map_err(|error| error.to_string())?;
        self.prepare_machines(python.as_ref())?;
        let mut endpoint = None;
        if self.case.coordinator {
            endpoint = self.start_coordinator().await?;
            if endpoint.is_none() {
                self.interrupted();
                return Ok(());
            }
        }
        // Held until the ranks are done, so that the port is theirs alone.
        let port = match self.case.world_size() {
            Some(_) => {
                // Between machines, firewalls let those ports through that the kernel gives.
                let between_machines = self.reached_at().is_some() || srun::is_apart(self.case);
                let port = if between_machines { HeldPort::given() } else { HeldPort::take() };
                Some(port.map_err(|error| format!("no free port: {error}"))?)
            }
            None => None,
        };
        let ftest = self.context.install.ftest().map_err(|error| error.to_string())?;
        let shared = Shared {
            environment: self.for_ranks(base, endpoint.as_ref()),
            own: self.case.env.keys().chain(&self.case.env_unset).cloned().collect(),
            cookie: &self.tree.sweep().cookie,
            scratch: &self.scratch,
            ftest: &ftest,
            python: python.as_ref().map(|python| python.program.as_path()),
            port: port.as_ref().map_or(0, |port| port.number),
            network: self.network.as_ref(),
            reached_at: self.reached_at(),
        };
        let mut planned = ranks::plan(self.case, &shared).map_err(|error| error.to_string())?;
        if let Some(secrets) = &self.context.no_capture {
            no_capture::show(self.case, &mut planned, secrets);
        }
        if let Some(debug) = &self.context.debug_rank {
            debug.apply(self.case, &mut planned);
        }
        if let Launch::Srun(srun) = &self.case.launch {
            let secrets = self.context.no_capture.as_ref();
            self.tree.scatter();
            self.tasks = Some(Tasks::prepare(self.case, srun, &self.scratch, self.tree.events(), secrets)?);
        }
        let notes = warm::file(&self.scratch);
        if let Some(Ok(server)) = &warm {
            server.without().iter().for_each(|module| warm::without(&notes, module));
        }
        for process in planned {
            let watched = self.case.watches_output();
            let started = match (&warm, self.start_elsewhere(&process).await) {
                (_, Some(started)) => started,
                (Some(Ok(server)), None) if process.leads_session() => {
                    let started = self.tree.start_warm(&process, (&self.scratch, watched), server, &notes).await;
                    started.map_err(|error| error.to_string())
                }
                (warm, None) => {
                    if let Some(Err(why)) = warm {
                        warm::cold(&notes, process.role, why);
                    }
                    self.tree.start(&process, &self.scratch, watched).map_err(|error| error.to_string())
                }
            };
            if let Err(error) = started {
                let error = format!("{}: {error}", process.role);
                let exit = Exit::NotStarted(error.clone());
                let (stdout, stderr) = Default::default();
                self.observation.processes.push(ProcessObservation { role: process.role, exit, stdout, stderr });
                return Err(error);
            }
        }
        self.watch(deadline).await;
        Ok(())
    }

    /// The user wants to stop before a rank was started.
    fn interrupted(&mut self) {
        self.refusal = Some(Execution::Interrupted);
    }

    /// The case is broken, unless it is not run for another reason.
    fn fail(&mut self, error: String) {
        let has_begun = self.tree.processes().iter().any(|running| running.role != Role::Coordinator)
            || !self.observation.processes.is_empty();
        match &mut self.refusal {
            Some(_) => {}
            None if has_begun => drop(self.ran.infra_error.get_or_insert(error)),
            None => self.refusal = Some(Execution::NotStarted(error)),
        }
    }

    /// Everything that was seen.
    fn into_observation(mut self) -> Observation {
        let duration = self.started.map(|started| started.elapsed()).unwrap_or_default();
        let execution = self.refusal.take().unwrap_or_else(|| Execution::Ran(Box::new(std::mem::take(&mut self.ran))));
        Observation { execution, duration, ..std::mem::take(&mut self.observation) }
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

    /// Where it listens; `None` if the user wants to stop before it does.
    async fn start_coordinator(&mut self) -> Result<Option<Endpoint>, String> {
        let program = self.context.install.coordinator().map_err(|error| error.to_string())?;
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
        let starting = plan.start(&mut self.tree)?;
        let endpoint = tokio::select! {
            biased;
            () = self.context.cancel.raised(1) => return Ok(None),
            endpoint = starting.endpoint(&mut self.tree) => endpoint,
        };
        match endpoint {
            Err(why) => Err(coordinator::not_started(&mut self.tree, &why).await),
            Ok(endpoint) => Ok(Some(self.endpoint.insert(endpoint).clone())),
        }
    }

    async fn watch(&mut self, deadline: Instant) {
        let mut still = self.stillness();
        // Without its coordinator, the case cannot continue.
        while self.tree.is_alive() && self.ran.infra_error.is_none() {
            let until = self.deaths.limit(self.case.timeout.survivors).map_or(deadline, |limit| limit.min(deadline));
            let cut_short = until < deadline;
            let look = self.next_look(&still);
            tokio::select! {
                biased;
                () = self.context.cancel.raised(1) => {
                    self.ran.stop = Stop::Interrupted;
                    return;
                }
                event = self.tree.next() => {
                    let hangs = matches!(&event, Event::Line(Role::Coordinator, line)
                        if matches!(coordinator::announcement(line), Some(Announcement::Hang(_))));
                    self.observe(event);
                    if hangs {
                        match self.hang(true).await {
                            // A late rank has arrived in the meantime.
                            Ok(None) => {}
                            hang => {
                                let waiting = Waiting::new(hang.unwrap_or_default());
                                self.ran.stop = Stop::TimedOut { limit: None, waiting };
                                return;
                            }
                        }
                    }
                }
                () = idle::time_to_look(look) => {
                    if let Some(hang) = self.stuck(&mut still).await {
                        self.ran.stop = Stop::TimedOut { limit: None, waiting: Waiting::Hang(Box::new(hang)) };
                        return;
                    }
                }
                () = sleep_until(until) => {
                    let waiting = match self.hang(false).await {
                        Ok(Some(hang)) => Waiting::Hang(Box::new(hang)),
                        Ok(None) | Err(_) => Waiting::Whereabouts(self.whereabouts()),
                    };
                    self.ran.stop = if cut_short {
                        Stop::CutShort(waiting)
                    } else {
                        Stop::TimedOut { limit: self.limit.take().map(|limit| limit.whose), waiting }
                    };
                    return;
                }
            }
        }
        // While the coordinator still runs, because it may be the target of a kill.
        self.drain_output().await;
    }

    /// Reads the last output of the ranks if a line may trigger something.
    async fn drain_output(&mut self) {
        if !self.case.watches_output() {
            return;
        }
        self.tree.drain_output().await;
        if let Some(tasks) = &mut self.tasks {
            tasks.drain_output(Instant::now() + deadline::LEAVING).await;
        }
        self.see_all();
    }

    /// Handles the events that have arrived.
    fn see_all(&mut self) {
        while let Some(event) = self.tree.try_next() {
            self.observe(event);
        }
    }

    /// Asks the coordinator which ranks wait for which, before anything is ended. An error if it cannot be asked.
    async fn hang(&mut self, idle: bool) -> Result<Option<Hang>, ControlError> {
        let running = self.endpoint.as_ref().filter(|_| self.tree.running_coordinator().is_some());
        let endpoint = running.ok_or(ControlError::Ended)?;
        let ranks: Vec<Process> =
            self.tree.sweep().find().into_iter().filter(|process| process.rank.is_some()).collect();
        // Stacks are not needed for an expected hang.
        let stacks = self.case.expect.hang.is_none();
        let mut hang = hang::look(endpoint, idle, &ranks, stacks, &self.scratch).await?;
        if let Some(hang) = &mut hang {
            self.add_state_elsewhere(hang, stacks).await;
        }
        Ok(hang)
    }

    fn observe(&mut self, event: Event) {
        let coordinator = self.tree.running_coordinator().map(|running| running.pid);
        self.kills.observe(&event, (self.tree.sweep(), coordinator), self.elsewhere.as_ref());
        if let Some(network) = &self.network {
            self.cuts.observe(&event, network);
        }
        let (role, exit) = match event {
            Event::Ended(role, exit) => (role, exit),
            Event::Lost(why) => {
                self.ran.infra_error.get_or_insert(why);
                return;
            }
            Event::Line(..) | Event::Hit(..) => return,
        };
        if role == Role::Coordinator {
            if !self.kills.coordinator_hit && self.tree.is_alive() {
                self.ran.infra_error = Some(format!("the coordinator {} during the case", exit.clause()));
            }
            return;
        }
        self.ran.ends.push(role);
        let running = self.tree.processes().iter().find(|running| running.role == role).map(|running| running.pid);
        let of_task = || self.tasks.as_ref().and_then(|tasks| tasks.pid_of(role));
        let Some(pid) = running.or_else(of_task) else { return };
        if self.tree.is_alive() {
            let heard = coordinator.is_some() && self.is_heard(role);
            let endpoint = self.endpoint.as_ref().filter(|_| heard);
            self.deaths.observe(self.case, (role, pid), &exit, endpoint);
        }
    }

    /// The user stopped the run before the case was over.
    fn is_interrupted(&self) -> bool {
        matches!(self.refusal, Some(Execution::Interrupted)) || matches!(self.ran.stop, Stop::Interrupted)
    }

    /// Whether the coordinator could learn that a rank ended; it cannot if it does not reach the rank's host.
    fn is_heard(&self, role: Role) -> bool {
        let (Role::Rank(rank), Some(network), Some(cluster)) = (role, &self.network, &self.case.cluster) else {
            return true;
        };
        cluster.node_of(Rank(rank)).is_none_or(|(node, _)| network.reaches_coordinator(node))
    }

    /// Handles events until no rank is left or `deadline` passes.
    async fn pump(&mut self, deadline: Instant) {
        while let Some(event) = self.tree.next_while_alive(deadline).await {
            self.observe(event);
        }
    }

    async fn collect(&mut self) {
        let deadline = Instant::now() + deadline::LEAVING;
        for running in self.tree.take_processes() {
            let role = running.role;
            let (process, ended) = running.observe(deadline).await;
            if !ended {
                self.observation.leaked.push(format!("a process still holds the output of {role} open"));
            }
            self.observation.processes.push(process);
        }
        if let Some(tasks) = self.tasks.take() {
            let started = tasks.started();
            self.observation.processes.append(&mut tasks.observe(Instant::now() + deadline::LEAVING).await);
            self.hear_slurm(started);
        }
        // Output written while the case is being ended counts, too.
        self.see_all();
        self.add_workers();
        self.note_places();
        if let Some(running) = self.tree.take_coordinator() {
            let (process, _) = running.observe(deadline).await;
            self.observation.processes.push(process);
        }
        self.observation.processes.sort_by_key(|process| process.role);
        self.observation.notes.append(&mut self.kills.notes);
        self.observation.notes.append(&mut self.cuts.notes);
        self.observation.notes.extend(self.network.iter().flat_map(Network::account));
        let lost = self.observation.processes.iter().flat_map(ProcessObservation::write_errors);
        self.observation.notes.extend(lost);
        if self.ran.infra_error.is_none() {
            self.ran.missed.kills = self.kills.missed();
            self.ran.missed.cuts = self.cuts.missed().collect();
        }
        self.read_reports();
        let mut fired = faults::look_up(self.case, self.observation.cluster_report.as_ref());
        self.observation.notes.append(&mut fired.notes);
        if self.ran.infra_error.is_none() {
            self.ran.missed.faults = fired.missed;
        }
        self.find_files();
    }

    fn read_reports(&mut self) {
        let (report, journal) = (coordinator::report_path(&self.scratch), reports::journal(&self.scratch));
        let mut noted = Journal::read(&journal);
        let added = noted.add_to(&report);
        let need = if self.case.is_compared { Need::ALL } else { Need::from_expectations(&self.case.expect) };
        let cluster = reports::cluster(&report, need);
        let devices = reports::devices(&self.scratch);
        for error in [added.as_ref().err(), cluster.as_ref().err(), devices.as_ref().err()].into_iter().flatten() {
            self.fail(error.clone());
        }
        self.observation.findings = added.unwrap_or_default();
        self.observation.left = std::mem::take(&mut noted.left);
        if let Ok(Some((report, file))) = cluster {
            self.observation.cluster_report = Some(report);
            self.observation.report_file = Some(Arc::new(file));
        }
        self.observation.device_reports = devices.unwrap_or_default();
        self.observation.refused = reports::refusals(&self.scratch);
        self.note_surroundings();
        self.observation.gaps =
            gaps::in_reports(self.observation.cluster_report.as_ref(), &self.observation.device_reports);
        noted.add_gaps_to(&mut self.observation.gaps);
        self.observation.gaps.extend(loader::gaps(&self.observation.processes));
        self.observation.gaps.extend(gaps::in_output(&self.observation.processes));
    }

    /// Finds sockets that should have disappeared with their owner.
    fn find_files(&mut self) {
        let _ = std::fs::remove_file(reports::machine(&self.scratch));
        let _ = std::fs::remove_file(reports::journal(&self.scratch));
        let starts = warm::file(&self.scratch);
        self.observation.starts = warm::read(&starts);
        let _ = std::fs::remove_file(starts);
        let socket = self.scratch.join("c.sock");
        if socket.exists() && !self.kills.coordinator_hit {
            self.observation.leaked.push(format!("socket {}", socket.display()));
            let _ = std::fs::remove_file(socket);
        }
    }

    /// Finds objects in `/dev/shm` that no process uses any more. A killed process could not remove its own.
    fn find_shared_memory(&mut self, watch: shared_memory::Watch) {
        let left = self.context.lives.end(watch);
        let killed = self.observation.processes.iter().any(|process| matches!(process.exit, Exit::Signal(_)));
        if !killed && !self.is_interrupted() {
            self.observation.shared_memory = left.own;
            let unclear = left.unclear.iter().map(|object| {
                format!("{} was left by this case or by one that ran at the same time", object.display())
            });
            self.observation.notes.extend(unclear);
        }
    }

    /// If Slurm failed to do something, or intervened by itself, the case is broken: that is not the program's fault.
    fn hear_slurm(&mut self, (started, missing): (bool, Option<Role>)) {
        let seen = &self.observation;
        let ended_by_us = self.ran.unfinished.contains(&Role::Srun);
        if self.is_interrupted() || self.ran.infra_error.is_some() {
            return;
        }
        let said = match srun::refusal(&seen.processes) {
            None if started && ended_by_us => None,
            None => srun::why(&seen.processes, started),
            refusal => refusal,
        };
        // A task that is killed early leaves no trace, either.
        let missing = missing.filter(|_| !ended_by_us && self.case.kill.is_empty());
        let untraced = || srun::untraced(missing?, &seen.processes, self.scratch.ancestors().nth(2)?);
        self.ran.infra_error = said.or_else(untraced);
    }

    /// torchrun's workers are not our children: their output is in torchrun's logs, and their exits are in its summary.
    fn add_workers(&mut self) {
        let Some((nproc_per_node, nnodes)) = self.case.torchruns() else { return };
        let mut ends = std::collections::BTreeMap::new();
        let mut fine = HashSet::new();
        for process in &self.observation.processes {
            if let Role::Launcher(node) = process.role {
                let stderr = if process.stderr.truncated { &process.stderr.tail } else { &process.stderr.head };
                let mut failures = torchrun::failures(stderr);
                // Only for a launcher that ended by itself: then the exits are the workers' own, not caused by ftest.
                if !self.ran.unfinished.contains(&process.role) {
                    self.ran.unfinished.retain(|role| match role {
                        Role::Rank(rank) => !failures.contains_key(rank),
                        _ => true,
                    });
                }
                ends.append(&mut failures);
                if process.exit == Exit::Code(0) {
                    fine.insert(node);
                }
            }
        }
        let mut spoke_last = Vec::new();
        for node in 0..nnodes {
            for local_rank in 0..nproc_per_node {
                let rank = node * nproc_per_node + local_rank;
                let Some((stdout, stderr)) = torchrun::logs_of(&self.scratch, node, local_rank) else { continue };
                let exit = match ends.remove(&rank) {
                    Some(exit) => exit,
                    None if fine.contains(&node) => Exit::Code(0),
                    None => Exit::Unknown,
                };
                // The last thing that a worker does is to say why it ends.
                let spoke = std::fs::metadata(&stderr).and_then(|file| file.modified());
                spoke_last.push((spoke.ok(), Role::Rank(rank)));
                let (stdout, stderr) = (capture::from_file(&stdout), capture::from_file(&stderr));
                self.observation.processes.push(ProcessObservation { role: Role::Rank(rank), exit, stdout, stderr });
            }
        }
        spoke_last.sort_unstable();
        self.ran.ends.extend(spoke_last.into_iter().map(|(_, role)| role));
    }
}

#[cfg(test)]
mod tests;
