//! The processes of one case, of `ftest exec` or of one fixture step, from the first to the last. They are always ended
//! in the same order: SIGTERM, the grace, SIGKILL, reaping.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::capture::Capture;
use super::cookie::{COORDINATOR, Cookie};
use super::process::{Event, ProcessPlan, Running, StartError};
use super::sweep::{Process, Sweep, Swept};
use crate::execute::run::cancel::Cancel;
use crate::execute::run::clock::{Instant, timeout_at};
use crate::execute::warm::Server;
use crate::host::deadline;
use crate::observation::{Exit, Role};

/// Processes that carry one cookie. The coordinator is handled separately: it ends last, in order.
#[derive(Debug)]
pub struct ProcessTree {
    sweep: Sweep,
    processes: Vec<Running>,
    coordinator: Option<Running>,
    sender: UnboundedSender<Event>,
    received: UnboundedReceiver<Event>,
    /// Received and recorded, but not yet handed out.
    kept: VecDeque<Event>,
}

impl ProcessTree {
    /// No process yet.
    pub fn new(cookie: Cookie) -> ProcessTree {
        let (sender, received) = unbounded_channel();
        ProcessTree {
            sweep: Sweep::new(cookie),
            processes: Vec::new(),
            coordinator: None,
            sender,
            received,
            kept: VecDeque::new(),
        }
    }

    /// The sweep that finds all of them except the coordinator.
    pub fn sweep(&self) -> &Sweep {
        &self.sweep
    }

    /// Starts a process; its files go to `directory`. Its end will be among the events, and if `watched` its lines too.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub fn start(&mut self, plan: &ProcessPlan, directory: &Path, watched: bool) -> Result<(), StartError> {
        let running = plan.start(directory, &self.sender, watched)?;
        self.add(running, plan.leads_session());
        Ok(())
    }

    /// As [`ProcessTree::start`], but as a fork of `server`; how it was started is recorded in `notes`.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub(in crate::execute) async fn start_warm(
        &mut self,
        plan: &ProcessPlan,
        (directory, watched): (&Path, bool),
        server: &Server,
        notes: &Path,
    ) -> Result<(), StartError> {
        let running = plan.start_warm((directory, &self.sender, watched), server, notes).await?;
        self.add(running, plan.leads_session());
        Ok(())
    }

    /// As [`ProcessTree::start`], but returns the process's id, its standard output and its standard error.
    ///
    /// # Errors
    /// [`StartError`]; then nothing runs.
    pub(in crate::execute) fn start_open(&mut self, plan: &ProcessPlan) -> Result<(i32, [Receiver; 2]), StartError> {
        let (running, pipes) = plan.start_open(&self.sender)?;
        let pid = running.pid;
        self.add(running, plan.leads_session());
        Ok((pid, pipes))
    }

    /// Adds a process that runs on another machine. Whoever started it sends its events.
    pub(in crate::execute) fn adopt(&mut self, role: Role, pid: i32, captures: [Capture; 2]) {
        self.processes.push(Running::elsewhere(role, pid, captures));
    }

    fn add(&mut self, running: Running, leads_session: bool) {
        if running.role == Role::Coordinator {
            self.sweep.spared.insert(running.pid);
            self.sweep.spared_cookie = Some(self.sweep.cookie.part(COORDINATOR));
            self.coordinator = Some(running);
        } else {
            self.sweep.awaited.insert(running.pid);
            if leads_session {
                self.sweep.groups.insert(running.pid);
            }
            self.processes.push(running);
        }
    }

    /// The started processes, without the coordinator.
    pub fn processes(&self) -> &[Running] {
        &self.processes
    }

    /// Those that have not ended.
    pub fn unfinished(&self) -> impl Iterator<Item = &Running> {
        self.processes.iter().filter(|running| running.exit.is_none())
    }

    /// Whether any of them has not ended.
    pub fn is_alive(&self) -> bool {
        self.unfinished().next().is_some()
    }

    /// Where to send events of processes that it did not start itself.
    pub(in crate::execute) fn events(&self) -> &UnboundedSender<Event> {
        &self.sender
    }

    /// Records that something else starts processes as well, which are not reparented to us when their parents end.
    pub(in crate::execute) fn scatter(&mut self) {
        self.sweep.scattered = true;
    }

    /// The coordinator, if one was started, whether it runs or has ended.
    pub fn coordinator(&self) -> Option<&Running> {
        self.coordinator.as_ref()
    }

    /// The coordinator while it runs.
    pub fn running_coordinator(&self) -> Option<&Running> {
        self.coordinator.as_ref().filter(|running| running.exit.is_none())
    }

    /// Hands the processes over, to be observed.
    pub fn take_processes(&mut self) -> Vec<Running> {
        std::mem::take(&mut self.processes)
    }

    /// Hands the coordinator over, to be observed.
    pub fn take_coordinator(&mut self) -> Option<Running> {
        self.coordinator.take()
    }

    /// Waits for the next event. May be dropped while it waits; no event is lost.
    pub async fn next(&mut self) -> Event {
        match self.try_next() {
            Some(event) => event,
            None => self.receive().await,
        }
    }

    /// The next event, if one has already arrived.
    pub fn try_next(&mut self) -> Option<Event> {
        self.kept.pop_front().or_else(|| {
            let event = self.received.try_recv().ok()?;
            self.book(&event);
            Some(event)
        })
    }

    /// The next event; `None` when no process is left or at `deadline`.
    pub async fn next_while_alive(&mut self, deadline: Instant) -> Option<Event> {
        if !self.is_alive() {
            return None;
        }
        timeout_at(deadline, self.next()).await.ok()
    }

    /// Queues an event, possibly one that was handed out before, behind the others.
    #[cfg(test)]
    pub(in crate::execute) fn keep(&mut self, event: Event) {
        self.kept.push_back(event);
    }

    async fn receive(&mut self) -> Event {
        match self.received.recv().await {
            Some(event) => {
                self.book(&event);
                event
            }
            // Cannot happen while we own a sender.
            None => std::future::pending().await,
        }
    }

    fn book(&mut self, event: &Event) {
        let Event::Ended(role, exit) = event else { return };
        if *role == Role::Coordinator {
            if let Some(running) = &mut self.coordinator {
                running.exit = Some(exit.clone());
            }
        } else if let Some(running) = self.processes.iter_mut().find(|running| running.role == *role) {
            if running.is_here() {
                self.sweep.awaited.remove(&running.pid);
            }
            running.exit = Some(exit.clone());
        }
    }

    /// Waits until all that the processes wrote to stdout is among the events; their end may be known earlier.
    pub async fn drain_output(&mut self) {
        let deadline = Instant::now() + deadline::LEAVING;
        for running in &mut self.processes {
            running.drain_output(deadline).await;
        }
    }

    /// Sends SIGTERM, to ranks first, and waits until all are gone, `grace` is over or the user presses a second time.
    pub async fn terminate(&self, grace: Duration, cancel: &Cancel) {
        let asked = self.ask_to_end();
        let grace = Instant::now() + grace;
        tokio::select! {
            _ = self.sweep.wait(asked, grace) => {}
            () = cancel.raised(2) => {}
        }
    }

    /// Sends SIGTERM, to ranks first, and returns whom it was sent to.
    pub(in crate::execute) fn ask_to_end(&self) -> Vec<Process> {
        let (ranks, others): (Vec<Process>, Vec<Process>) =
            self.sweep.find().into_iter().partition(|process| process.rank.is_some());
        for process in ranks.iter().chain(&others) {
            process.signal(Signal::TERM);
            // A stopped process would keep the signal for later.
            process.signal(Signal::CONT);
        }
        // Through their own handles, because a sweep sees no processes when no descriptor is left.
        let unseen = |running: &&Running| !ranks.iter().chain(&others).any(|process| process.pid == running.pid);
        for running in self.unfinished().filter(unseen) {
            running.signal(Signal::TERM);
        }
        ranks.into_iter().chain(others).collect()
    }

    /// Gives exiting helpers time to finish.
    pub async fn let_leave(&self, cancel: &Cancel) {
        let deadline = Instant::now() + deadline::LEAVING;
        loop {
            let leaving = self.sweep.leftovers();
            if leaving.is_empty() || Instant::now() >= deadline {
                return;
            }
            tokio::select! {
                _ = self.sweep.wait(leaving, deadline) => {}
                () = cancel.raised(2) => return,
            }
        }
    }

    /// Kills what is left, except the coordinator. The ends are among the events soon after: see
    /// [`ProcessTree::next_while_alive`].
    pub async fn kill(&self) -> Swept {
        let swept = self.sweep.clear(deadline::KILLED).await;
        self.kill_unfinished();
        swept
    }

    /// As [`ProcessTree::kill`], if all processes ended by themselves.
    pub async fn kill_leftovers(&self) -> Swept {
        let swept = self.sweep.clear_leftovers(deadline::KILLED).await;
        self.kill_unfinished();
        swept
    }

    fn kill_unfinished(&self) {
        self.unfinished().for_each(|running| running.signal(Signal::KILL));
    }

    /// Ends everything except the coordinator: SIGTERM, `grace`, SIGKILL, reaping.
    pub async fn escalate(&mut self, grace: Duration, cancel: &Cancel) -> Swept {
        self.terminate(grace, cancel).await;
        let swept = self.kill().await;
        let deadline = Instant::now() + deadline::KILLED;
        while self.is_alive() {
            match timeout_at(deadline, self.receive()).await {
                Ok(event) => self.kept.push_back(event),
                Err(_) => break,
            }
        }
        swept
    }

    /// Ends the coordinator: SIGTERM, the time to write its report, SIGKILL. After that, no process is spared.
    ///
    /// # Errors
    /// One sentence if it did not end by itself.
    pub async fn stop_coordinator(&mut self, cancel: &Cancel) -> Result<(), String> {
        let Some(running) = self.running_coordinator() else {
            self.spare_nobody();
            return Ok(());
        };
        let mut sweep = Sweep::new(self.sweep.cookie.part(COORDINATOR));
        sweep.awaited.insert(running.pid);
        let alive = sweep.leftovers();
        if alive.is_empty() {
            // As in `terminate`.
            running.signal(Signal::TERM);
        }
        for process in &alive {
            process.signal(Signal::TERM);
        }
        let left = tokio::select! {
            left = sweep.wait(alive, Instant::now() + deadline::COORDINATOR_REPORT) => Some(left),
            () = cancel.raised(2) => None,
        };
        let late = left.as_ref().is_some_and(|left| !left.is_empty());
        if left.is_none() || late {
            sweep.clear(deadline::KILLED).await;
        }
        for _ in 0..2 {
            let deadline = Instant::now() + deadline::KILLED;
            while self.running_coordinator().is_some() {
                let Ok(event) = timeout_at(deadline, self.receive()).await else { break };
                self.kept.push_back(event);
            }
            if let Some(running) = self.running_coordinator() {
                running.signal(Signal::KILL);
            }
        }
        self.spare_nobody();
        if late {
            let limit = deadline::COORDINATOR_REPORT.as_secs();
            return Err(format!("the coordinator did not end within {limit} s after SIGTERM"));
        }
        Ok(())
    }

    fn spare_nobody(&mut self) {
        self.sweep.spared.clear();
        self.sweep.spared_cookie = None;
    }

    /// How the coordinator ended, once it has.
    pub fn coordinator_exit(&self) -> Option<&Exit> {
        self.coordinator.as_ref()?.exit.as_ref()
    }
}
