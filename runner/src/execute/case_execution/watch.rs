//! The third stage of a case: it is watched until its ranks have ended, a deadline has passed, nothing moves any more or the user
//! wants to stop.

use protocol::announcement::Announcement;
use protocol::ids::Rank;

use super::prepare::Needs;
use super::{CaseExecution, Over, idle};
use crate::execute::coordinator::control::ControlError;
use crate::execute::launch::port::HeldPort;
use crate::execute::process_tree::Event;
use crate::execute::process_tree::sweep::Process;
use crate::execute::run::clock::{Instant, sleep_until};
use crate::execute::{coordinator, hang};
use crate::host::deadline;
use crate::observation::{Hang, Role, Stop, Waiting};

/// A case whose processes were started.
pub(super) struct Running<'a> {
    pub(super) execution: CaseExecution<'a>,
    pub(super) needs: Needs,
    /// The port that its ranks meet at.
    pub(super) port: Option<HeldPort>,
}

impl<'a> Running<'a> {
    /// Watches until the ranks have ended, the deadline has passed or the user wants to stop.
    pub(super) async fn watch(self) -> Over<'a> {
        let Running { mut execution, needs, port } = self;
        if execution.ran.infra_error.is_none() {
            execution.watch(&needs).await;
        }
        drop(port);
        Over { execution, refusal: None }
    }
}

impl CaseExecution<'_> {
    async fn watch(&mut self, needs: &Needs) {
        let mut still = self.stillness();
        let (deadline, limit) = (needs.deadline, needs.limit.as_ref());
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
                        Stop::TimedOut { limit: limit.map(|limit| limit.whose.clone()), waiting }
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
    pub(super) fn see_all(&mut self) {
        while let Some(event) = self.tree.try_next() {
            self.observe(event);
        }
    }

    /// Asks the coordinator which ranks wait for which, before anything is ended. An error if it cannot be asked.
    pub(super) async fn hang(&mut self, idle: bool) -> Result<Option<Hang>, ControlError> {
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

    pub(super) fn observe(&mut self, event: Event) {
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

    /// Whether the coordinator could learn that a rank ended; it cannot if it does not reach the rank's host.
    fn is_heard(&self, role: Role) -> bool {
        let (Role::Rank(rank), Some(network), Some(cluster)) = (role, &self.network, &self.case.cluster) else {
            return true;
        };
        cluster.node_of(Rank(rank)).is_none_or(|(node, _)| network.reaches_coordinator(node))
    }

    /// Handles events until no rank is left or `deadline` passes.
    pub(super) async fn pump(&mut self, deadline: Instant) {
        while let Some(event) = self.tree.next_while_alive(deadline).await {
            self.observe(event);
        }
    }
}
