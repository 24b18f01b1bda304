//! The cluster as a value: [`Cluster::step`] takes one input and the time and says what to send. Nothing else happens.

pub mod hang;
pub mod report;
mod status;

use std::collections::BTreeMap;

use protocol::datatype::Operation;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{Member, ProcessInfo, ToCoordinator, ToRank};
use protocol::plan::ClusterPlan;
use protocol::record::{ErrorCode, OperationRecord};

use crate::cluster::hang::Diagnosis;
use crate::communicator::{self, Communicator, Presence, SplitApplicant};
use crate::ending::Endings;
use crate::failure::{Failures, RankFailure};
use crate::fault::FiredFaults;
use crate::gathering::{Gathering, list};
use crate::ledger::Ledger;
use crate::rendezvous::{Applicant, GivenUp};
use crate::resize::Recovery;

/// A connection, numbered by whoever accepts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What a cluster is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Nodes and fabrics, when there is a cluster file.
    pub plan: Option<ClusterPlan>,
    /// How long a rank waits for the others at a rendezvous or split, us.
    pub timeout_us: u64,
    /// Operations kept in the report's timeline.
    pub max_operations: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { plan: None, timeout_us: 600_000_000, max_operations: 4096 }
    }
}

/// Something that happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A process said an acceptable hello.
    Joined {
        /// Its connection, new.
        connection: ConnectionId,
        /// Who it is.
        info: ProcessInfo,
    },
    /// A process that joined said something.
    Message {
        /// Its connection.
        connection: ConnectionId,
        /// What it said.
        message: ToCoordinator,
    },
    /// A connection closed.
    Disconnected {
        /// Which.
        connection: ConnectionId,
        /// Why, when the coordinator closed it: "sent a malformed frame".
        reason: Option<String>,
    },
    /// Operations that a process completed and did not tell of itself, because it died. Those that it told of are passed over.
    LeftBehind {
        /// Its connection, which is about to close.
        connection: ConnectionId,
        /// In the order of completion.
        records: Vec<OperationRecord>,
    },
    /// The process that was started as a rank ended, as the one who started it saw. It need not have joined.
    RankEnded {
        /// Place in the launch.
        rank: Rank,
        /// The process.
        pid: u32,
        /// "ended with exit code 7": completes a sentence about the rank.
        how: String,
    },
    /// Time passed: [`Cluster::deadline`] may be over.
    Tick,
}

/// Something to do outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Send a message.
    Send {
        /// To whom.
        connection: ConnectionId,
        /// What.
        message: ToRank,
    },
    /// Close a connection that broke the rules; `Disconnected` follows with the same reason.
    Close {
        /// Which.
        connection: ConnectionId,
        /// One sentence.
        reason: String,
    },
}

/// A rank of a communicator in the words of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Position in the launch.
    pub global: Rank,
    /// Number of the communicator.
    pub number: CommunicatorId,
    /// Everybody's position in the launch, in the communicator's order.
    pub members: Vec<Rank>,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) info: ProcessInfo,
    /// It announced its end.
    pub(crate) leaving: bool,
}

/// Everybody and everything of one run.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) settings: Settings,
    pub(crate) processes: BTreeMap<ConnectionId, Process>,
    pub(crate) rendezvous: BTreeMap<Vec<u8>, Gathering<Applicant>>,
    pub(crate) given_up: BTreeMap<Vec<u8>, GivenUp>,
    /// Unique ids that formed a communicator.
    pub(crate) spent: BTreeMap<Vec<u8>, CommunicatorId>,
    pub(crate) communicators: BTreeMap<CommunicatorId, Communicator>,
    pub(crate) ledger: Ledger,
    pub(crate) failures: Failures,
    pub(crate) recoveries: Vec<Recovery>,
    pub(crate) hang: Option<Diagnosis>,
    pub(crate) fired: FiredFaults,
    pub(crate) endings: Endings,
    pub(crate) revision: u64,
    now_us: u64,
}

impl Cluster {
    /// Nobody is there yet.
    pub fn new(settings: Settings) -> Self {
        let ledger = Ledger::new(settings.plan.as_ref(), settings.max_operations);
        Self {
            settings,
            processes: BTreeMap::new(),
            rendezvous: BTreeMap::new(),
            given_up: BTreeMap::new(),
            spent: BTreeMap::new(),
            communicators: BTreeMap::new(),
            ledger,
            failures: Failures::default(),
            recoveries: Vec::new(),
            hang: None,
            fired: FiredFaults::default(),
            endings: Endings::default(),
            revision: 0,
            now_us: 0,
        }
    }

    /// The cluster file's content, if there is one.
    pub fn plan(&self) -> Option<&ClusterPlan> {
        self.settings.plan.as_ref()
    }

    /// A number that grows whenever the report may have changed.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// When somebody's patience ends next, us: pass [`Input::Tick`] then.
    pub fn deadline(&self) -> Option<u64> {
        let splits = self.communicators.values().flat_map(|communicator| communicator.splits.values());
        let rendezvous = self.rendezvous.values().map(Gathering::deadline_us);
        let resizes = self.communicators.values().flat_map(|communicator| communicator.resizes.deadlines());
        rendezvous.chain(splits.map(Gathering::deadline_us)).chain(resizes).min()
    }

    /// Who `rank` of communicator `id` is in the report.
    pub fn place(&self, id: CommunicatorId, rank: Rank) -> Option<Place> {
        let communicator = self.communicators.get(&id)?;
        let (global, members) = (communicator.global_rank(rank)?, communicator.global_ranks());
        Some(Place { global, number: self.numbers()[&id], members })
    }

    /// Keeps why nothing moves any more for the report, or that it moves again; the last word counts.
    pub fn hangs(&mut self, diagnosis: Option<Diagnosis>) {
        if self.hang.is_some() || diagnosis.is_some() {
            self.hang = diagnosis;
            self.revision += 1;
        }
    }

    /// The processes that joined and have not gone, in the order of their connections.
    pub fn processes(&self) -> impl Iterator<Item = (ConnectionId, &ProcessInfo)> {
        self.processes.iter().map(|(connection, process)| (*connection, &process.info))
    }

    /// Takes one input at time `now_us` (of any clock that does not go back) and says what follows.
    pub fn step(&mut self, input: Input, now_us: u64) -> Vec<Output> {
        let mut out = Vec::new();
        self.now_us = now_us;
        match input {
            Input::Joined { connection, info } => {
                self.processes.insert(connection, Process { info, leaving: false });
                send(
                    &mut out,
                    connection,
                    ToRank::Welcome { version: protocol::message::VERSION, cluster: self.settings.plan.clone() },
                );
            }
            Input::Message { connection, message } => self.receive(connection, message, now_us, &mut out),
            Input::Disconnected { connection, reason } => self.disconnect(connection, reason, &mut out),
            Input::LeftBehind { connection, records } => self.book_what_is_left(connection, &records),
            Input::RankEnded { rank, pid, how } => self.rank_ended(rank, pid, how, &mut out),
            Input::Tick => self.expire(now_us, &mut out),
        }
        out
    }

    fn receive(&mut self, from: ConnectionId, message: ToCoordinator, now_us: u64, out: &mut Vec<Output>) {
        match message {
            ToCoordinator::InitCommunicator { request, unique_id, size, rank, member } => {
                let applicant = Applicant { connection: from, request, member };
                self.init(unique_id, size, rank, applicant, now_us, out);
            }
            ToCoordinator::SplitCommunicator { request, parent, sequence, rank, color, key, member } => {
                let applicant = SplitApplicant { connection: from, request, color, key, member };
                self.split(parent, sequence, rank, applicant, now_us, out);
            }
            ToCoordinator::ShrinkCommunicator { request, parent, sequence, rank, excluded, abort, member } => {
                let applicant = Applicant { connection: from, request, member };
                self.shrink((parent, sequence, rank), excluded, abort, applicant, now_us, out);
            }
            ToCoordinator::GrowCommunicator { request, parent, sequence, size, rank, member } => {
                let applicant = Applicant { connection: from, request, member };
                self.grow((parent, sequence, rank), size, applicant, now_us, out);
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
                    if communicator.seat_of(record.rank, from).is_none() {
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
                    self.revision += 1;
                }
            }
            ToCoordinator::Failed { failure } => {
                let communicator = failure.communicator.and_then(|id| self.communicators.get(&id));
                if failure.communicator.is_some()
                    && communicator.is_none_or(|communicator| communicator.seat_of(failure.rank, from).is_none())
                {
                    return close(out, from, "reported a failure of a communicator that it is not in".to_owned());
                }
                let global = communicator.and_then(|communicator| communicator.global_rank(failure.rank));
                let own = self.processes.get(&from).and_then(|process| process.info.rank);
                self.ledger.count_failure(global.or(own).unwrap_or(failure.rank), failure.code);
                self.failures.report(communicator, &failure);
                self.revision += 1;
                if let Some(communicator) = failure.communicator.and_then(|id| self.communicators.get_mut(&id)) {
                    communicator.failed_at_us.get_or_insert(now_us);
                }
            }
            ToCoordinator::FaultFires { request, record } => {
                let known = |(id, ..): &(CommunicatorId, _, _)| self.communicators.contains_key(id);
                if !record.collective.as_ref().is_none_or(known) {
                    return close(out, from, "told of a fault in a communicator that is not known".to_owned());
                }
                let first = self.fired.note(record);
                self.revision += u64::from(first);
                send(out, from, ToRank::FaultNoted { request, first });
            }
            ToCoordinator::Goodbye => {
                if let Some(process) = self.processes.get_mut(&from) {
                    process.leaving = true;
                }
                self.lose_process(from, "exited", out);
            }
            ToCoordinator::JoinFailed { rank, why } => self.join_failed(rank, &why),
            // The connection's owner deals with these before they get here.
            ToCoordinator::Hello { .. }
            | ToCoordinator::RankEnded { .. }
            | ToCoordinator::Flushed { .. }
            | ToCoordinator::Active { .. }
            | ToCoordinator::Shutdown
            | ToCoordinator::Diagnose { .. }
            | ToCoordinator::QueryStatus => {}
        }
    }

    fn book_what_is_left(&mut self, from: ConnectionId, records: &[OperationRecord]) {
        for record in records {
            let communicator = self.communicators.get(&record.communicator);
            let Some(communicator) = communicator.filter(|known| known.seat_of(record.rank, from).is_some()) else {
                continue;
            };
            // One that was told of is refused as a second.
            self.revision += u64::from(self.ledger.book(communicator, record).is_ok());
        }
    }

    fn split(
        &mut self,
        parent: CommunicatorId,
        sequence: Sequence,
        rank: Rank,
        applicant: SplitApplicant,
        now_us: u64,
        out: &mut Vec<Output>,
    ) {
        let plan = self.settings.plan.as_ref();
        let Some(communicator) = self.communicators.get_mut(&parent) else {
            let detail = format!("communicator {parent} is not known");
            return fail_request(out, &applicant, ErrorCode::UnknownCommunicator, detail);
        };
        if communicator.seat_of(rank, applicant.connection).is_none() {
            let detail = format!("this process is not rank {rank} of communicator {parent}");
            return fail_request(out, &applicant, ErrorCode::InvalidArgument, detail);
        }
        if let Some((_, absent)) = communicator.first_absent() {
            let detail = format!("{} is not there any more", describe(plan, &absent.member));
            return fail_request(out, &applicant, ErrorCode::RankLost, detail);
        }
        let size = communicator.size();
        let deadline = now_us.saturating_add(self.settings.timeout_us);
        let gathering = communicator.splits.entry(sequence).or_insert_with(|| Gathering::new(size, deadline));
        if gathering.seat(rank).is_some() {
            let detail = format!("rank {rank} came to split {sequence} of communicator {parent} twice");
            return fail_request(out, &applicant, ErrorCode::DuplicateRank, detail);
        }
        gathering.sit(rank, applicant);
        if !gathering.is_full() {
            return;
        }
        let gathering = communicator.splits.remove(&sequence).expect("it is there");
        let (by_color, colorless) = communicator::children(gathering);
        for applicants in by_color.into_values() {
            let applicants = applicants
                .into_iter()
                .map(|SplitApplicant { connection, request, member, .. }| Applicant { connection, request, member })
                .collect();
            self.form(Some(parent), applicants, out);
        }
        for applicant in colorless {
            send(out, applicant.connection, ToRank::NoCommunicator { request: applicant.request });
        }
    }

    fn fail_splits(
        &mut self,
        id: CommunicatorId,
        code: ErrorCode,
        which: impl Fn(&Gathering<SplitApplicant>) -> bool,
        detail: impl Fn(&Gathering<SplitApplicant>) -> String,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get_mut(&id) else { return };
        let failed: Vec<Sequence> =
            communicator.splits.iter().filter(|(_, split)| which(split)).map(|(sequence, _)| *sequence).collect();
        for sequence in failed {
            let Some(split) = communicator.splits.remove(&sequence) else { continue };
            self.revision += 1;
            let detail = detail(&split);
            let missing = split.missing();
            for (rank, applicant) in split.seated() {
                fail_request(out, applicant, code, detail.clone());
                self.ledger.count_failure(applicant.member.global_rank, code);
                self.failures.by_rank(
                    communicator,
                    RankFailure {
                        sequence,
                        rank,
                        operation: Operation::Split,
                        code,
                        detail: &detail,
                        culprits: &missing,
                        attempted_bytes: 0,
                    },
                );
            }
        }
    }

    fn leave(
        &mut self,
        from: ConnectionId,
        id: CommunicatorId,
        rank: Rank,
        aborted: Option<(ErrorCode, String)>,
        out: &mut Vec<Output>,
    ) {
        let Some(communicator) = self.communicators.get_mut(&id) else {
            return close(out, from, format!("left unknown communicator {id}"));
        };
        if communicator.seat_of(rank, from).is_none() {
            return close(out, from, format!("left communicator {id} as rank {rank}, which it is not"));
        }
        let seat = &mut communicator.seats[rank.0 as usize];
        if seat.presence != Presence::Present {
            return;
        }
        seat.presence = if aborted.is_some() { Presence::Aborted } else { Presence::Left };
        let name = describe(self.settings.plan.as_ref(), &seat.member);
        if let Some((code, why)) = aborted {
            // What failed before is the reason, whoever of the two is heard first.
            let detail = if code == ErrorCode::Aborted { format!("{name} called ncclCommAbort") } else { why };
            tell_others(communicator, rank, from, code, &detail, out);
        }
        let detail = format!("{name} left the communicator");
        self.fail_splits(id, ErrorCode::RankLost, |_| true, |_| detail.clone(), out);
        self.fail_hopeless_resizes(id, None, "left the communicator", out);
    }

    fn disconnect(&mut self, connection: ConnectionId, reason: Option<String>, out: &mut Vec<Output>) {
        let Some(process) = self.processes.get(&connection) else { return };
        if !process.leaving {
            match reason {
                Some(reason) => self.lose_process(connection, &format!("was cut off: it {reason}"), out),
                None => self.lose_process(connection, "ended unexpectedly", out),
            }
        }
        self.processes.remove(&connection);
        self.fail_hopeless_rendezvous(out);
    }

    /// Takes a process out of everything it is part of. `how` completes "rank 2 (pid 4711, node1) ...".
    fn lose_process(&mut self, connection: ConnectionId, how: &str, out: &mut Vec<Output>) {
        let died = self.processes.get(&connection).is_some_and(|process| !process.leaving);
        let plan = self.settings.plan.clone();
        let waiting: Vec<(Vec<u8>, Member)> = self
            .rendezvous
            .iter()
            .filter_map(|(id, gathering)| {
                let (_, applicant) = gathering.seated().find(|(_, applicant)| applicant.connection == connection)?;
                Some((id.clone(), applicant.member.clone()))
            })
            .collect();
        for (unique_id, member) in waiting {
            let Some(gathering) = self.rendezvous.remove(&unique_id) else { continue };
            let (size, untold) = (gathering.size(), gathering.missing());
            let (lost, others): (Vec<_>, Vec<_>) =
                gathering.into_seated().partition(|(_, applicant)| applicant.connection == connection);
            let culprits: Vec<Rank> = lost.iter().map(|(rank, _)| *rank).collect();
            let detail = format!("{} {how} before the communicator formed", describe(plan.as_ref(), &member));
            self.give_up(unique_id, size, untold, ErrorCode::RankLost, &detail);
            let others = others.into_iter().map(|(_, applicant)| applicant).collect();
            self.fail_init(others, ErrorCode::RankLost, &culprits, detail, out);
        }
        let ids: Vec<CommunicatorId> = self.communicators.keys().copied().collect();
        for id in ids {
            let Some(communicator) = self.communicators.get_mut(&id) else { continue };
            let mut last = None;
            for index in 0..communicator.seats.len() {
                let seat = &mut communicator.seats[index];
                if seat.connection != connection || seat.presence == Presence::Gone {
                    continue;
                }
                let aborted = seat.presence == Presence::Aborted;
                if aborted && !died {
                    continue;
                }
                let was_present = seat.presence == Presence::Present;
                seat.presence = Presence::Gone;
                let rank = Rank(index as u32);
                let detail = format!("{} {how}", describe(plan.as_ref(), &seat.member));
                tell_others(communicator, rank, connection, ErrorCode::RankLost, &detail, out);
                if died && was_present {
                    communicator.failed_at_us.get_or_insert(self.now_us);
                    self.failures.lost(communicator, rank, &detail);
                    self.revision += 1;
                }
                // Of one that aborted the others heard; they may have waited for what it still moved.
                if !aborted {
                    last = Some(detail);
                }
            }
            if let Some(detail) = last {
                self.fail_splits(id, ErrorCode::RankLost, |_| true, |_| detail.clone(), out);
            }
            self.fail_hopeless_resizes(id, Some(connection), how, out);
        }
    }

    fn expire(&mut self, now_us: u64, out: &mut Vec<Output>) {
        let seconds = self.settings.timeout_us as f64 / 1e6;
        let late: Vec<Vec<u8>> = self
            .rendezvous
            .iter()
            .filter(|(_, gathering)| gathering.deadline_us() <= now_us)
            .map(|(id, _)| id.clone())
            .collect();
        for unique_id in late {
            let Some(gathering) = self.rendezvous.remove(&unique_id) else { continue };
            let missing = gathering.missing();
            let detail = format!(
                "waited {seconds} s for ranks of a communicator of {}; missing: {}",
                gathering.size(),
                list(&missing)
            );
            let code = ErrorCode::TimeoutWaitingForRanks;
            self.give_up(unique_id, gathering.size(), missing.clone(), code, &detail);
            let applicants = gathering.into_seated().map(|(_, applicant)| applicant).collect();
            self.fail_init(applicants, code, &missing, detail, out);
        }
        let ids: Vec<CommunicatorId> = self.communicators.keys().copied().collect();
        for id in ids {
            let detail = |split: &Gathering<SplitApplicant>| {
                format!("waited {seconds} s for ranks to split communicator {id}; missing: {}", list(&split.missing()))
            };
            let late = |split: &Gathering<SplitApplicant>| split.deadline_us() <= now_us;
            self.fail_splits(id, ErrorCode::TimeoutWaitingForSplit, late, detail, out);
            self.expire_resizes(id, now_us, out);
        }
    }

    /// Who waits for whom, for [`crate::cluster::status`]: (what, present, missing).
    pub(crate) fn waiting(&self) -> Vec<(String, Vec<Rank>, Vec<Rank>)> {
        let rendezvous = self.rendezvous.values().map(|gathering| {
            let present = gathering.seated().map(|(rank, _)| rank).collect();
            (format!("communicator of {} ranks", gathering.size()), present, gathering.missing())
        });
        let splits = self.communicators.values().flat_map(|communicator| {
            communicator.splits.iter().map(|(sequence, split)| {
                let present = split.seated().map(|(rank, _)| rank).collect();
                (format!("split {sequence} of communicator {}", communicator.id), present, split.missing())
            })
        });
        let resizes =
            self.communicators.values().flat_map(|communicator| communicator.resizes.waiting(communicator.id));
        rendezvous.chain(splits).chain(resizes).collect()
    }
}

pub(crate) fn send(out: &mut Vec<Output>, connection: ConnectionId, message: ToRank) {
    out.push(Output::Send { connection, message });
}

fn close(out: &mut Vec<Output>, connection: ConnectionId, reason: String) {
    out.push(Output::Close { connection, reason });
}

fn fail_request(out: &mut Vec<Output>, applicant: &SplitApplicant, code: ErrorCode, detail: String) {
    send(out, applicant.connection, ToRank::RequestFailed { request: applicant.request, code, detail });
}

pub(crate) fn tell_others(
    communicator: &Communicator,
    rank: Rank,
    from: ConnectionId,
    code: ErrorCode,
    detail: &str,
    out: &mut Vec<Output>,
) {
    for connection in communicator.listeners(from) {
        let detail = detail.to_owned();
        send(out, connection, ToRank::MemberLost { communicator: communicator.id, rank, code, detail });
    }
}

/// "rank 2 (pid 4711, node1)".
pub(crate) fn describe(plan: Option<&ClusterPlan>, member: &Member) -> String {
    format!("rank {} ({})", member.global_rank, whereabouts(plan, member))
}

/// "pid 4711, node1".
pub(crate) fn whereabouts(plan: Option<&ClusterPlan>, member: &Member) -> String {
    match plan.and_then(|plan| plan.node_of(member.global_rank)) {
        Some((_, node)) => format!("pid {}, {}", member.pid, node.id),
        None => format!("pid {}", member.pid),
    }
}
