//! The cluster as a value: [`Cluster::step`] takes one input and the time and returns what to send. Nothing else happens.

mod departures;
mod findings;
mod forming;
pub mod hang;
mod order_findings;
pub mod report;
mod status;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use protocol::fault::Fault;
use protocol::gpu_event::board::Times;
use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Clock, ProcessInfo, ToCoordinator, ToRank};
use protocol::plan::ClusterPlan;
use protocol::record::{ErrorCode, OperationRecord};

use crate::communicator::Communicator;
use crate::ending::Endings;
use crate::exchange::{ConnectionId, Input, Output, close, send};
use crate::failure::Failures;
use crate::fault::FiredFaults;
use crate::gathering::{Applicant, Waiting};
use crate::ledger::Ledger;
use crate::order::Orders;
use crate::paths::Paths;
use crate::processes::Processes;
use crate::rendezvous::Rendezvous;
use crate::replicas::Replicas;
use crate::resize::{Recovery, Resizes};
use crate::shift::Shifts;
use crate::site::{Call, Sites};
use crate::split::{SplitApplicant, Splits};
use hang::FoundHang;

/// What a cluster is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Nodes and fabrics, when there is a cluster file.
    pub plan: Option<ClusterPlan>,
    /// How long a rank waits for the others at a rendezvous or split, us.
    pub timeout_us: u64,
    /// Operations kept in the report's timeline.
    pub max_operations: usize,
    /// The host's boot id: ranks on a host with a different one have a different clock.
    pub boot: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { plan: None, timeout_us: 600_000_000, max_operations: 4096, boot: String::new() }
    }
}

/// A rank of a communicator in the words of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Position in the launch.
    pub global: Rank,
    /// Number of the communicator.
    pub number: CommunicatorId,
    /// All ranks' positions in the launch, in the communicator's order.
    pub members: Vec<Rank>,
}

/// The complete state of one run.
#[derive(Debug)]
pub struct Cluster {
    settings: Settings,
    processes: Processes,
    rendezvous: Rendezvous,
    splits: Splits,
    resizes: Resizes,
    communicators: BTreeMap<CommunicatorId, Communicator>,
    ledger: Ledger,
    failures: Failures,
    recoveries: Vec<Recovery>,
    hang: Option<FoundHang>,
    fired: FiredFaults,
    endings: Endings,
    sites: Sites,
    orders: Orders,
    shifts: Shifts,
    replicas: Replicas,
    paths: Paths,
    revision: u64,
    /// The time of the input that is being processed.
    now_us: u64,
}

impl Cluster {
    /// A cluster that no process has joined.
    pub fn new(settings: Settings) -> Self {
        let ledger = Ledger::new(settings.plan.as_ref(), settings.max_operations);
        Self {
            settings,
            processes: Processes::default(),
            rendezvous: Rendezvous::default(),
            splits: Splits::default(),
            resizes: Resizes::default(),
            communicators: BTreeMap::new(),
            ledger,
            failures: Failures::default(),
            recoveries: Vec::new(),
            hang: None,
            fired: FiredFaults::default(),
            endings: Endings::default(),
            sites: Sites::default(),
            orders: Orders::default(),
            shifts: Shifts::default(),
            replicas: Replicas::default(),
            paths: Paths::default(),
            revision: 0,
            now_us: 0,
        }
    }

    /// Takes the faults that the case asks for, so the report can say what they did.
    pub fn asks_for(&mut self, faults: Vec<Fault>) {
        self.fired.ask(faults);
    }

    /// Notes what has happened to GPUs by the time `now` (us), according to the machine's file.
    pub fn gpus_changed(&mut self, times: &Times, now: u64) {
        self.revision += u64::from(self.fired.note_gpus(times, now));
    }

    /// The cluster file's content, if there is one.
    pub fn plan(&self) -> Option<&ClusterPlan> {
        self.settings.plan.as_ref()
    }

    /// A number that grows whenever the report may have changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When the next wait times out, us: pass [`Input::Tick`] then.
    pub fn deadline(&self) -> Option<u64> {
        self.rendezvous.deadlines().chain(self.splits.deadlines()).chain(self.resizes.deadlines()).min()
    }

    /// `rank` of communicator `id` as the report names it.
    pub fn place(&self, id: CommunicatorId, rank: Rank) -> Option<Place> {
        let communicator = self.communicators.get(&id)?;
        let (global, members) = (communicator.global_rank(rank)?, communicator.global_ranks());
        Some(Place { global, number: self.numbers()[&id], members })
    }

    /// Records for the report why nothing moves anymore, or that things move again; the last call counts.
    pub fn hangs(&mut self, found: Option<FoundHang>) {
        if self.hang.is_some() || found.is_some() {
            self.failures.hang(found.is_some());
            self.hang = found;
            self.revision += 1;
        }
    }

    /// The processes that joined and have not left, in the order of their connections.
    pub fn processes(&self) -> impl Iterator<Item = (ConnectionId, &ProcessInfo)> {
        self.processes.iter().map(|(connection, process)| (connection, &process.info))
    }

    /// Takes one input at time `now_us` (of the monotonic clock by which ranks time what they do) and returns what follows.
    pub fn step(&mut self, input: Input, now_us: u64) -> Vec<Output> {
        let mut out = Vec::new();
        self.now_us = now_us;
        self.failures.time_is(now_us);
        match input {
            Input::Joined { connection, info } => {
                self.processes.join(connection, info);
                self.replicas.opened(connection);
                let clock = Box::new(Clock { boot: self.settings.boot.clone(), now_us });
                send(
                    &mut out,
                    connection,
                    ToRank::Welcome { version: protocol::message::VERSION, cluster: self.settings.plan.clone(), clock },
                );
            }
            Input::Message { connection, message } => self.receive(connection, message, now_us, &mut out),
            Input::Disconnected { connection, reason } => self.disconnect(connection, reason, &mut out),
            Input::Unreachable { connection } => self.give_up(connection, &mut out),
            Input::LeftBehind { connection, records } => self.book_what_is_left(connection, &records),
            Input::RankEnded { rank, pid, how } => self.rank_ended(rank, pid, how, &mut out),
            Input::Tick => self.expire(&mut out),
        }
        out
    }

    fn receive(&mut self, from: ConnectionId, message: ToCoordinator, now_us: u64, out: &mut Vec<Output>) {
        match message {
            ToCoordinator::InitCommunicator { request, unique_id, size, rank, member } => {
                let applicant = Applicant { connection: from, request, member };
                self.init(unique_id, size, rank, applicant, out);
            }
            ToCoordinator::SplitCommunicator { request, parent, sequence, rank, color, key, member } => {
                let who = SplitApplicant::new(from, request, member, color, key);
                self.split((parent, sequence, rank), who, out);
            }
            ToCoordinator::ShrinkCommunicator { request, parent, sequence, rank, excluded, abort, member } => {
                let applicant = Applicant { connection: from, request, member };
                self.shrink((parent, sequence, rank), excluded, abort, applicant, out);
            }
            ToCoordinator::GrowCommunicator { request, parent, sequence, size, rank, member } => {
                let applicant = Applicant { connection: from, request, member };
                self.grow((parent, sequence, rank), size, applicant, out);
            }
            ToCoordinator::RevokeCommunicator { communicator, rank } => self.revoke(from, communicator, rank, out),
            ToCoordinator::LeaveCommunicator { communicator, rank, aborted } => {
                self.leave(from, communicator, rank, aborted, out);
            }
            ToCoordinator::Completed { records } => {
                for record in records {
                    let Some(communicator) = self.communicators.get(&record.communicator) else {
                        return close(
                            out,
                            from,
                            format!("reported an operation of unknown communicator {}", record.communicator),
                        );
                    };
                    if communicator.participant(record.rank, from).is_none() {
                        let (rank, id) = (record.rank, record.communicator);
                        return close(
                            out,
                            from,
                            format!("reported an operation as rank {rank} of communicator {id}, which it is not"),
                        );
                    }
                    if let Err(reason) = self.ledger.book(communicator, &record) {
                        return close(out, from, reason);
                    }
                    self.completed(from, &record);
                }
            }
            ToCoordinator::Failed { failure } => {
                let communicator = failure.communicator.and_then(|id| self.communicators.get(&id));
                if failure.communicator.is_some()
                    && communicator.is_none_or(|communicator| communicator.participant(failure.rank, from).is_none())
                {
                    return close(out, from, "reported a failure of a communicator that it is not in".to_owned());
                }
                let global = communicator.and_then(|communicator| communicator.global_rank(failure.rank));
                let own = self.processes.get(from).and_then(|process| process.info.rank);
                self.ledger.count_failure(global.or(own).unwrap_or(failure.rank), failure.code);
                self.failures.report(from, communicator, &failure);
                self.orders.leave_holes(from);
                self.revision += 1;
                if let Some(communicator) = failure.communicator.and_then(|id| self.communicators.get_mut(&id)) {
                    communicator.failed_at_us.get_or_insert(now_us);
                }
            }
            ToCoordinator::FaultFires { request, record } => {
                let known = |(id, ..): &(CommunicatorId, _, _)| self.communicators.contains_key(id);
                if !record.collective.as_ref().is_none_or(known) {
                    return close(out, from, "reported a fault in a communicator that is not known".to_owned());
                }
                let first = self.fired.note(record);
                self.revision += u64::from(first);
                send(out, from, ToRank::FaultNoted { request, first });
            }
            ToCoordinator::Goodbye => {
                self.processes.say_goodbye(from);
                self.lose_process(from, (ErrorCode::RankLost, "exited"), out);
            }
            ToCoordinator::JoinFailed { rank, why } => {
                self.endings.join_failed(self.processes.rank_of(from, rank), &why);
            }
            ToCoordinator::Site { id, site } => self.sites.define(from, id, site),
            ToCoordinator::Holds(record) => match self.replicas.note(from, record, now_us) {
                Ok(()) => self.revision += 1,
                Err(reason) => close(out, from, reason),
            },
            // That time passes is no news: the revision stays.
            ToCoordinator::Paths { communicator, rank, paths } => {
                let known = self.communicators.get(&communicator);
                let Some(known) = known.filter(|known| known.participant(rank, from).is_some()) else {
                    return close(out, from, "measured for a communicator that it is not in".to_owned());
                };
                if let Some(plan) = &self.settings.plan {
                    self.paths.note(plan, known, rank, paths);
                }
            }
            // The connection's owner deals with these before they get here.
            ToCoordinator::Hello { .. }
            | ToCoordinator::RankEnded { .. }
            | ToCoordinator::Flushed { .. }
            | ToCoordinator::Received { .. }
            | ToCoordinator::Active { .. }
            | ToCoordinator::Shutdown
            | ToCoordinator::Diagnose { .. }
            | ToCoordinator::QueryStatus => {}
        }
    }

    fn book_what_is_left(&mut self, from: ConnectionId, records: &[OperationRecord]) {
        for record in records {
            let communicator = self.communicators.get(&record.communicator);
            let Some(communicator) = communicator.filter(|known| known.participant(record.rank, from).is_some()) else {
                continue;
            };
            // One that was reported is refused as a second.
            if self.ledger.book(communicator, record).is_ok() {
                self.completed(from, record);
            }
        }
    }

    /// A rank of a communicator completed an operation, which is booked.
    fn completed(&mut self, from: ConnectionId, record: &OperationRecord) {
        self.sites.completed(from, record);
        self.revision += 1;
        let Some(communicator) = self.communicators.get(&record.communicator) else { return };
        let Some(participant) = communicator.participant(record.rank, from) else { return };
        let call = Call::new(from, record.site, Some(record.operation), record.sequence).ended(record.ended_ns / 1000);
        self.shifts.note(communicator.size(), record, call, &self.sites);
        self.orders.note(communicator, participant, record);
    }

    /// The connection of the process that ended as `rank`, as long as it is open: what the process sent last may still be on its
    /// way.
    pub fn connection_of_ended(&self, rank: Rank) -> Option<ConnectionId> {
        self.endings.connection(rank, &self.processes)
    }

    /// The numbers of communicators in the report.
    fn numbers(&self) -> BTreeMap<CommunicatorId, CommunicatorId> {
        self.canonical_order().into_iter().zip(1..).map(|(id, number)| (id, CommunicatorId(number))).collect()
    }

    /// The largest communicators first, then by member ranks, then by formation, which alone would depend on timing.
    fn canonical_order(&self) -> Vec<CommunicatorId> {
        let mut order: Vec<CommunicatorId> = self.communicators.keys().copied().collect();
        order.sort_by_cached_key(|id| {
            let ranks = self.communicators[id].global_ranks();
            (Reverse(ranks.len()), ranks, *id)
        });
        order
    }

    /// Which ranks wait for which.
    fn waiting(&self) -> impl Iterator<Item = Waiting> {
        self.rendezvous.waiting().chain(self.splits.waiting()).chain(self.resizes.waiting())
    }
}
