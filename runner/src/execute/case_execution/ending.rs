//! The fourth stage of a case, how it is ended: its running processes, its leftovers, its coordinator. Every step has a deadline.

use rustix::process::Signal;

use super::{CaseExecution, Ended, Over};
use crate::check::exit;
use crate::execute::process_tree::sweep::Process;
use crate::execute::run::clock::Instant;
use crate::execute::srun::Tasks;
use crate::host::deadline;
use crate::observation::{Execution, Role, Stop};

impl<'a> Over<'a> {
    /// Ends what still runs.
    pub(super) async fn end(mut self) -> Ended<'a> {
        // Whatever was started by then did not end in an orderly way.
        let is_refused = matches!(self.refusal, Some(Execution::NotStarted(_) | Execution::Interrupted));
        self.execution.end(is_refused).await;
        Ended { execution: self.execution, refusal: self.refusal }
    }
}

impl CaseExecution<'_> {
    /// Ends what still runs. Order: ranks, their leftovers, coordinator.
    async fn end(&mut self, is_refused: bool) {
        let cancel = &self.context.cancel;
        if self.tree.is_alive() {
            self.note_unfinished().await;
            self.note_survivors();
            self.escalate().await;
        }
        let normal = !is_refused && matches!(self.ran.stop, Stop::Finished) && self.ran.infra_error.is_none();
        let swept = if normal {
            self.tree.let_leave(cancel).await;
            let swept = self.tree.kill_leftovers().await;
            let left = swept.killed.iter().map(|process| format!("process {process} outlived its ranks"));
            self.observation.leaked.extend(left);
            swept
        } else {
            let sweep = self.tree.sweep();
            tokio::select! {
                _ = sweep.wait(sweep.find(), Instant::now() + deadline::LEAVING) => {}
                () = cancel.raised(2) => {}
            }
            self.tree.kill().await
        };
        for process in swept.unkillable {
            self.observation.leaked.push(format!("process {process} cannot be ended"));
        }
        self.end_elsewhere(normal).await;
        self.pump(Instant::now() + deadline::KILLED).await;
        if let Err(wrong) = self.tree.stop_coordinator(cancel).await {
            self.ran.infra_error.get_or_insert(wrong);
        }
        if self.endpoint.is_some() || !normal {
            // No process is spared now: whatever the coordinator left is ended too, however the coordinator itself
            // ended.
            if normal {
                self.tree.kill_leftovers().await
            } else {
                self.tree.kill().await
            };
        }
        self.fetch_files().await;
    }

    /// Notes what still runs; the exits of these processes do not count. torchrun's workers and srun's tasks are not our
    /// children; they are found by their rank.
    async fn note_unfinished(&mut self) {
        let running: Vec<_> = self.tree.unfinished().collect();
        let mut unfinished: Vec<Role> = running.iter().map(|running| running.role).collect();
        let is_stopped = |pid| Process::read(pid).is_some_and(|process| process.is_stopped());
        let here = running.iter().filter(|running| running.is_here());
        let stopped = here.filter(|running| is_stopped(running.pid)).map(|running| running.role);
        let mut stopped: Vec<Role> = stopped.collect();
        unfinished.extend(self.tasks.iter().flat_map(Tasks::unfinished));
        if self.case.torchruns().is_some() || self.tasks.is_some() {
            let workers = self.tree.sweep().find();
            let rank_of = |process: &Process| process.rank.map(Role::Rank);
            unfinished.extend(workers.iter().filter_map(rank_of));
            stopped.extend(workers.iter().filter(|process| process.is_stopped()).filter_map(rank_of));
        }
        self.add_running_elsewhere(&mut unfinished, &mut stopped).await;
        for roles in [&mut unfinished, &mut stopped] {
            roles.sort_unstable();
            roles.dedup();
        }
        self.ran.unfinished = unfinished;
        self.ran.stopped = stopped;
    }

    /// Notes which processes are ended after a failure, and what they waited for, if known.
    fn note_survivors(&mut self) {
        let Some(failed) = self.deaths.failed() else { return };
        let left: Vec<String> = self.ran.unfinished.iter().map(Role::to_string).collect();
        let when = match self.case.timeout.survivors.filter(|_| matches!(self.ran.stop, Stop::CutShort(_))) {
            Some(survivors) => format!("{} s after", survivors.as_secs_f64()),
            None => "at the deadline, after".to_owned(),
        };
        let (was, role, how) =
            (if left.len() == 1 { "was" } else { "were" }, failed.role, exit::describe(&failed.exit));
        let note = format!("{} still ran {when} {role} ended with {how}, and {was} ended", left.join(", "));
        self.observation.notes.push(note);
        if let Some(hang) = self.ran.stop.hang() {
            self.observation.notes.push(hang.sentence.clone());
        }
    }

    /// Collects stacks where they help, then sends SIGTERM and waits for the grace period.
    async fn escalate(&mut self) {
        let cancel = &self.context.cancel;
        if self.ran.stop.waiting().is_some() {
            let sweep = self.tree.sweep();
            let pythons: Vec<Process> = sweep.find().into_iter().filter(Process::prints_stacks).collect();
            for process in &pythons {
                process.signal(Signal::ABORT);
            }
            let stacks = async {
                sweep.wait(pythons, Instant::now() + deadline::STACKS).await;
                if let Some(elsewhere) = &mut self.elsewhere {
                    elsewhere.print_stacks(cancel).await;
                }
            };
            tokio::select! {
                () = stacks => {}
                () = cancel.raised(2) => {}
            }
        }
        let grace = self.case.timeout.grace;
        let until = Instant::now() + grace;
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.terminate();
        }
        self.tree.terminate(grace, cancel).await;
        if let Some(elsewhere) = &mut self.elsewhere {
            elsewhere.gone(until, cancel).await;
        }
    }
}
