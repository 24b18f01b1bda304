//! How a case is ended: what still runs of it, its leftovers, its coordinator; every step with a deadline.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;

use super::super::clock::{Instant, sleep_until};
use super::{CaseExecution, LEAVE};
use crate::case::Launch;
use crate::check::exit;
use crate::execute::process_tree::process::Running;
use crate::execute::process_tree::sweep::{Process, Sweep};
use crate::observation::Role;

/// How long a coordinator may take to write its report after SIGTERM.
const REPORT: Duration = Duration::from_secs(10);
/// How long processes may take to vanish after SIGKILL.
const VANISH: Duration = Duration::from_secs(5);
/// How long a rank may take to print its stacks and die of SIGABRT.
const STACKS: Duration = Duration::from_secs(2);

impl CaseExecution<'_> {
    /// Ends what still runs, then collects. Order: ranks, their leftovers, coordinator, streams, reports.
    pub(super) async fn end(&mut self) {
        if self.left() > 0 {
            self.note_unfinished();
            self.note_survivors();
            self.ladder().await;
        }
        let seen = &self.observation;
        let normal = !seen.timed_out && !seen.cut_short && !seen.cancelled && seen.infra_error.is_none();
        let swept = if normal {
            let deadline = Instant::now() + LEAVE;
            loop {
                let leaving = self.sweep.leftovers();
                if leaving.is_empty() || Instant::now() >= deadline {
                    break;
                }
                tokio::select! {
                    _ = self.sweep.wait(leaving, deadline) => {}
                    () = self.context.cancel.raised(2) => break,
                }
            }
            let swept = self.sweep.clear_leftovers(VANISH).await;
            let left = swept.killed.iter().map(|process| format!("process {process} outlived its ranks"));
            self.observation.leaked.extend(left);
            swept
        } else {
            tokio::select! {
                _ = self.sweep.wait(self.sweep.find(), Instant::now() + LEAVE) => {}
                () = self.context.cancel.raised(2) => {}
            }
            self.sweep.clear(VANISH).await
        };
        for process in swept.unkillable {
            self.observation.leaked.push(format!("process {process} does not go away"));
        }
        for running in self.running.iter().filter(|running| running.exit.is_none()) {
            running.signal(Signal::KILL);
        }
        self.pump(Instant::now() + VANISH).await;
        self.end_coordinator().await;
        if self.endpoint.is_some() || !normal {
            // Nobody is spared any more: what a coordinator left goes too, whichever way it ended.
            let rest = Sweep::new(self.cookie.clone());
            if normal {
                rest.clear_leftovers(VANISH).await
            } else {
                rest.clear(VANISH).await
            };
        }
        self.collect().await;
    }

    /// Whoever still runs does not choose how it ends. torchrun's workers are no children of ours, and are found by their rank.
    fn note_unfinished(&mut self) {
        let running: Vec<_> = self.running.iter().filter(|running| running.exit.is_none()).collect();
        let mut unfinished: Vec<Role> = running.iter().map(|running| running.role).collect();
        let is_stopped = |pid| Process::read(pid).is_some_and(|process| process.is_stopped());
        let stopped = running.iter().filter(|running| is_stopped(running.pid)).map(|running| running.role);
        let mut stopped: Vec<Role> = stopped.collect();
        if matches!(self.case.launch, Launch::Torchrun { .. }) {
            let workers = self.sweep.find();
            let rank_of = |process: &Process| process.rank.map(Role::Rank);
            unfinished.extend(workers.iter().filter_map(rank_of));
            stopped.extend(workers.iter().filter(|process| process.is_stopped()).filter_map(rank_of));
        }
        for roles in [&mut unfinished, &mut stopped] {
            roles.sort_unstable();
            roles.dedup();
        }
        self.observation.unfinished = unfinished;
        self.observation.stopped = stopped;
    }

    /// Says who is ended after somebody failed, and what they waited for where that can be told.
    fn note_survivors(&mut self) {
        let Some(failed) = self.deaths.failed() else { return };
        let left: Vec<String> = self.observation.unfinished.iter().map(Role::to_string).collect();
        let when = match self.case.timeout.survivors.filter(|_| self.observation.cut_short) {
            Some(survivors) => format!("{} s after", survivors.as_secs_f64()),
            None => "at the deadline, after".to_owned(),
        };
        let (was, role, how) =
            (if left.len() == 1 { "was" } else { "were" }, failed.role, exit::describe(&failed.exit));
        let note = format!("{} still ran {when} {role} ended with {how}, and {was} ended", left.join(", "));
        self.observation.notes.push(note);
        if let Some(hang) = &self.observation.hang {
            self.observation.notes.push(hang.sentence.clone());
        }
    }

    /// Stacks where they help, then SIGTERM, then, after the grace, SIGKILL by the sweep.
    async fn ladder(&mut self) {
        if self.observation.timed_out || self.observation.cut_short {
            let pythons: Vec<Process> = self.sweep.find().into_iter().filter(prints_stacks).collect();
            for process in &pythons {
                process.signal(Signal::ABORT);
            }
            tokio::select! {
                _ = self.sweep.wait(pythons, Instant::now() + STACKS) => {}
                () = self.context.cancel.raised(2) => {}
            }
        }
        let (ranks, others): (Vec<Process>, Vec<Process>) =
            self.sweep.find().into_iter().partition(|process| process.rank.is_some());
        for process in ranks.iter().chain(&others) {
            process.signal(Signal::TERM);
            // A stopped process would keep the signal for later.
            process.signal(Signal::CONT);
        }
        // By their own handles: a sweep sees nobody where no descriptor is left to look with.
        let unseen = |running: &&Running| !ranks.iter().chain(&others).any(|process| process.pid == running.pid);
        for running in self.running.iter().filter(|running| running.exit.is_none()).filter(unseen) {
            running.signal(Signal::TERM);
        }
        let grace = Instant::now() + self.case.timeout.grace;
        tokio::select! {
            _ = self.sweep.wait(ranks.into_iter().chain(others).collect(), grace) => {}
            () = self.context.cancel.raised(2) => {}
        }
    }

    async fn end_coordinator(&mut self) {
        let Some(running) = self.coordinator.as_ref().filter(|running| running.exit.is_none()) else { return };
        let mut sweep = Sweep::new(self.cookie.part("coordinator"));
        sweep.awaited = HashSet::from([running.pid]);
        let alive = sweep.leftovers();
        if alive.is_empty() {
            // As in `ladder`.
            running.signal(Signal::TERM);
        }
        for process in &alive {
            process.signal(Signal::TERM);
        }
        let left = tokio::select! {
            left = sweep.wait(alive, Instant::now() + REPORT) => Some(left),
            () = self.context.cancel.raised(2) => None,
        };
        if left.is_none() {
            sweep.clear(VANISH).await;
        } else if left.is_some_and(|left| !left.is_empty()) {
            let wrong = format!("the coordinator did not end within {} s after SIGTERM", REPORT.as_secs());
            self.observation.infra_error.get_or_insert(wrong);
            sweep.clear(VANISH).await;
        }
        for _ in 0..2 {
            let deadline = Instant::now() + VANISH;
            while let Some(running) = self.coordinator.as_ref().filter(|running| running.exit.is_none()) {
                tokio::select! {
                    Some(event) = self.received.recv() => self.see(event),
                    () = sleep_until(deadline) => {
                        running.signal(Signal::KILL);
                        break;
                    }
                }
            }
        }
        self.sweep.spared.clear();
    }
}

/// A rank that runs Python: with `PYTHONFAULTHANDLER` it prints where it stands when it is aborted.
fn prints_stacks(process: &Process) -> bool {
    let program = std::fs::read_link(Path::new("/proc").join(process.pid.to_string()).join("exe"));
    let python = program
        .is_ok_and(|program| program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python")));
    process.rank.is_some() && python
}
