//! The last stage of a case: what its processes wrote, reported and left behind.

use std::sync::Arc;

use super::{CaseExecution, Ended};
use crate::check::need::Need;
use crate::execute::collect::journal::Journal;
use crate::execute::collect::{faults, gaps, loader, operations, reports, shared_memory, time};
use crate::execute::network::Network;
use crate::execute::run::clock::Instant;
use crate::execute::{coordinator, warm};
use crate::host::deadline;
use crate::observation::{Execution, Exit, Observation, ProcessObservation};

impl Ended<'_> {
    /// Everything that was seen. `watch` began before the case did.
    pub(super) async fn collect(self, watch: shared_memory::Watch) -> Observation {
        let Ended { mut execution, refusal } = self;
        execution.collect().await;
        let (ran, started) = (std::mem::take(&mut execution.ran), execution.started);
        let ended = refusal.unwrap_or_else(|| Execution::Ran(Box::new(ran)));
        execution.find_shared_memory(watch, ended.is_interrupted());
        let duration = started.map(|started| started.elapsed()).unwrap_or_default();
        Observation { execution: ended, duration, ..execution.observation }
    }
}

impl CaseExecution<'_> {
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
        let devices = reports::devices(&self.scratch);
        let timed = time::add_to(&report, devices.as_deref().unwrap_or_default());
        let need = if self.case.is_compared { Need::ALL } else { Need::from_expectations(&self.case.expect) };
        let cluster = reports::cluster(&report, need);
        let errors = [added.as_ref().err(), timed.as_ref().err(), cluster.as_ref().err(), devices.as_ref().err()];
        for error in errors.into_iter().flatten() {
            self.ran.infra_error.get_or_insert(error.clone());
        }
        self.observation.findings = added.unwrap_or_default();
        self.observation.left = std::mem::take(&mut noted.left);
        self.observation.is_changed = noted.is_changed;
        if let Ok(Some((report, file))) = cluster {
            self.observation.cluster_report = Some(report);
            self.observation.report_file = Some(Arc::new(file));
        }
        self.observation.device_reports = devices.unwrap_or_default();
        self.observation.operations = operations::files(&self.scratch);
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
    fn find_shared_memory(&mut self, watch: shared_memory::Watch, is_interrupted: bool) {
        let left = self.context.lives.end(watch);
        let killed = self.observation.processes.iter().any(|process| matches!(process.exit, Exit::Signal(_)));
        if !killed && !is_interrupted {
            self.observation.shared_memory = left.own;
            let unclear = left.unclear.iter().map(|object| {
                format!("{} was left by this case or by one that ran at the same time", object.display())
            });
            self.observation.notes.extend(unclear);
        }
    }
}
