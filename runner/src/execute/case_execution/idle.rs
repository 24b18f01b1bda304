//! A case in which nothing moves although no rank waits in NCCL: when that is a hang, and where its processes are.

use super::CaseExecution;
use crate::execute::hang::{native_state, python_stack, stuck};
use crate::execute::process_tree::sweep::Process;
use crate::execute::run::clock::{Instant, sleep_until};
use crate::execute::watch::stillness::{self, Stillness};
use crate::observation::{Hang, Ran, Waiting};

/// Until it is time to look again; never for a case without `timeout.idle`, or whose processes are not all here.
pub(super) async fn time_to_look(next: Option<Instant>) {
    match next {
        Some(next) => sleep_until(next).await,
        None => std::future::pending().await,
    }
}

impl CaseExecution<'_> {
    /// What the processes have done so far.
    pub(super) fn stillness(&self) -> Stillness {
        Stillness::measure(&self.tree.sweep().find())
    }

    /// When to look whether they still do something.
    pub(super) fn next_look(&self, still: &Stillness) -> Option<Instant> {
        let idle = self.case.timeout.idle.filter(|_| self.elsewhere.is_none() && self.tasks.is_none());
        idle.map(|idle| still.since + idle)
    }

    /// The hang, if no process has done anything since `still`, and none is going to. `still` begins anew.
    pub(super) async fn stuck(&mut self, still: &mut Stillness) -> Option<Hang> {
        let processes = self.tree.sweep().find();
        let before = std::mem::replace(still, Stillness::measure(&processes));
        // Somebody is still to be killed, or a link to be cut.
        let is_pending = !self.kills.missed().is_empty() || self.cuts.missed().next().is_some();
        if is_pending || !before.lasted_until(still) || native_state::any_runs(&processes) {
            return None;
        }
        let ranks: Vec<Process> =
            stuck::ranks(&processes, self.tree.processes()).into_iter().map(|(_, process)| process).collect();
        if ranks.is_empty() || stillness::has_sleeper(&ranks) {
            return None;
        }
        // In NCCL more is known.
        if let Ok(Some(hang)) = self.hang(true).await {
            return Some(hang);
        }
        let sentences = stuck::sentences(&processes, self.tree.processes(), self.case.world_size());
        let stacks = self.case.expect.hang.is_none();
        let state = native_state::collect(&ranks, &[], stacks, &self.scratch.join("native-state")).await;
        let mut details = state.lines;
        details.push(match state.files {
            Ok(directory) => format!("every thread: {}/rank_N.PID.txt", directory.display()),
            Err(error) => error,
        });
        Some(stuck::hang(&sentences, details))
    }

    /// What the processes wait for that are about to be ended and that do not wait in NCCL.
    pub(super) fn whereabouts(&self) -> Vec<String> {
        stuck::sentences(&self.tree.sweep().find(), self.tree.processes(), None)
    }

    /// Notes where in their programs they were, once Python has printed its stacks.
    pub(super) fn note_places(&mut self) {
        let processes = &self.observation.processes;
        let Ran { stop, unfinished, .. } = &mut self.ran;
        match stop.waiting_mut() {
            Some(Waiting::Hang(hang)) => {
                python_stack::locate_missing(hang, processes);
                // Its lines are those of NCCL's calls.
                if hang.missing.is_empty() && hang.lines.is_empty() {
                    hang.lines = stuck::places(processes, unfinished);
                }
            }
            Some(Waiting::Whereabouts(lines)) => lines.extend(stuck::places(processes, unfinished)),
            None => {}
        }
    }
}
