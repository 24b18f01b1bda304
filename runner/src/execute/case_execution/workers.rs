//! Processes of a case that are not our children: the workers of torchrun, the tasks of srun.

use std::collections::{BTreeMap, HashSet};

use super::CaseExecution;
use crate::execute::launch::torchrun;
use crate::execute::process_tree::capture;
use crate::execute::srun;
use crate::observation::{Exit, ProcessObservation, Role, Stop};

impl CaseExecution<'_> {
    /// If Slurm failed to do something, or intervened by itself, the case is broken: that is not the program's fault.
    pub(super) fn hear_slurm(&mut self, (started, missing): (bool, Option<Role>)) {
        let seen = &self.observation;
        let ended_by_us = self.ran.unfinished.contains(&Role::Srun);
        if matches!(self.ran.stop, Stop::Interrupted) || self.ran.infra_error.is_some() {
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
    pub(super) fn add_workers(&mut self) {
        let Some((nproc_per_node, nnodes)) = self.case.torchruns() else { return };
        let mut ends = BTreeMap::new();
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
