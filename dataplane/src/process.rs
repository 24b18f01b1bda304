//! This process among the others: its settings, its data socket, where its ranks meet the rest, and the communicators it holds.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

use protocol::fault::FaultRecord;
use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::{ErrorCode, FailureRecord, Member, OperationRecord, SharedFile, ToCoordinator, ToRank};
use protocol::plan::ClusterPlan;

use crate::arena::Arena;
use crate::communicator::{Communicator, Formed, Journal, Loss};
use crate::control::Segment;
use crate::failure::Failure;
use crate::fault;
use crate::host;
use crate::hub::Hub;
use crate::listener::{Listener, Scope};
use crate::refusal;
use crate::session::Session;
use crate::settings::{Address, Settings};

/// Where a rank sits: what the others must know of its device.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    /// Position in the whole launch.
    pub global_rank: u32,
    /// Device ordinal in this process.
    pub device: u32,
    /// The device's memory file; `None` forces sockets.
    pub arena: Option<SharedFile>,
}

/// The process's part of the run.
pub struct Process {
    pub(crate) settings: Settings,
    pub(crate) meeting: Meeting,
    listener: Arc<Listener>,
    host: String,
    pid: u32,
    joined: Instant,
    held: Mutex<Held>,
}

/// Where ranks find each other.
pub(crate) enum Meeting {
    Coordinator(Arc<Session>),
    Local(Hub),
}

#[derive(Default)]
struct Held {
    communicators: HashMap<(CommunicatorId, u32), Weak<Communicator>>,
    /// Losses heard of before the communicator was set up here; of the latest communicators.
    early: BTreeMap<CommunicatorId, Vec<Loss>>,
    /// Communicators formed so far, per global rank.
    formed: HashMap<Rank, u64>,
}

/// Communicators whose losses are remembered for those that form late.
const REMEMBERED: usize = 1024;

static CURRENT: OnceLock<Mutex<Option<Arc<Process>>>> = OnceLock::new();

impl Process {
    /// The process's part of the run, from its environment; connects on the first call.
    ///
    /// # Errors
    /// A bad variable, an unreachable coordinator, or a process forked from one that had joined: that one's part cannot be
    /// used by its children.
    pub fn current() -> Result<Arc<Self>, Failure> {
        let mut current = CURRENT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(process) = &*current {
            if process.pid != std::process::id() {
                let detail = "this process was forked from one that used NCCL; NCCL does not survive fork";
                return Err(Failure::new(ErrorCode::System, detail));
            }
            return Ok(Arc::clone(process));
        }
        let settings = Settings::from_environment()
            .map_err(|error| Failure::new(ErrorCode::InvalidArgument, error.to_string()))?;
        let process = Self::join(settings)?;
        *current = Some(Arc::clone(&process));
        Ok(process)
    }

    /// The process's part of the run if it has joined and was not forked since.
    pub fn joined() -> Option<Arc<Self>> {
        let current = CURRENT.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|process| process.pid == std::process::id()).cloned()
    }

    /// Joins with explicit settings.
    ///
    /// # Errors
    /// An unreachable coordinator or the system's refusal of a socket.
    pub fn join(settings: Settings) -> Result<Arc<Self>, Failure> {
        let session = settings.coordinator.as_ref().map(|address| Session::connect(address, &settings)).transpose()?;
        let scope = match settings.coordinator {
            Some(Address::Tcp(_)) => {
                let host = session.as_ref().and_then(|session| session.local());
                Scope::Network(host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
            }
            _ => Scope::Host,
        };
        let listener = Listener::open(scope, settings.token.clone())
            // Of all this only the thread's start can be told to try again.
            .map_err(|error| refusal::explain_thread("cannot listen for data connections", &error))
            .map_err(|detail| Failure::new(ErrorCode::System, detail))?;
        let process = Arc::new(Self {
            settings,
            meeting: session.map_or_else(|| Meeting::Local(Hub::default()), Meeting::Coordinator),
            listener,
            host: host::identity(),
            pid: std::process::id(),
            joined: Instant::now(),
            held: Mutex::default(),
        });
        if let Meeting::Coordinator(session) = &process.meeting {
            let listening = Arc::downgrade(&process);
            session.listen(Box::new(move |message| {
                let Some(process) = listening.upgrade() else { return };
                match message {
                    ToRank::MemberLost { communicator, rank, code, detail } => {
                        process.lose(communicator, rank.0, code, detail);
                    }
                    ToRank::Inquire { request } => process.tell(request),
                    _ => {}
                }
            }));
        }
        let rank = std::env::var("RANK").ok().and_then(|rank| rank.trim().parse().ok());
        fault::start_clock(&process.settings.faults, rank, process.joined, Arc::downgrade(&process));
        Ok(process)
    }

    /// What the environment says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The cluster, when the coordinator was given one.
    pub fn cluster(&self) -> Option<&ClusterPlan> {
        match &self.meeting {
            Meeting::Coordinator(session) => session.cluster(),
            Meeting::Local(_) => None,
        }
    }

    /// Meets `size - 1` other ranks that bring the same unique id.
    ///
    /// # Errors
    /// What the rendezvous or the set-up of the communicator fails with.
    pub fn init_communicator(
        self: &Arc<Self>,
        unique_id: &[u8],
        size: u32,
        rank: u32,
        seat: Seat,
    ) -> Result<Arc<Communicator>, Failure> {
        let offer = self.offer(seat, size);
        let (member, control) = offer.inspect_err(|failure| self.join_failed(seat.global_rank, &failure.detail))?;
        let timeout = self.settings.timeout;
        let formed = match &self.meeting {
            Meeting::Local(hub) => hub.init(unique_id, size, rank, member, Instant::now() + timeout)?,
            Meeting::Coordinator(session) => {
                let answer =
                    session.request("ncclCommInitRank", timeout, |request| ToCoordinator::InitCommunicator {
                        request,
                        unique_id: unique_id.to_vec(),
                        size,
                        rank: Rank(rank),
                        member,
                    })?;
                formed(answer)?
                    .ok_or_else(|| Failure::new(ErrorCode::System, "the coordinator gave no communicator"))?
            }
        };
        self.form(formed, control)
    }

    /// Splits `parent`; `None` for a rank without color. `sequence` is the parent's [`Communicator::split_ticket`].
    ///
    /// # Errors
    /// As [`Self::init_communicator`].
    pub fn split(
        self: &Arc<Self>,
        parent: &Communicator,
        sequence: Sequence,
        color: Option<u32>,
        key: i32,
        seat: Seat,
    ) -> Result<Option<Arc<Communicator>>, Failure> {
        if let Some(failure) = parent.failure().filter(|_| !parent.revoked()) {
            return Err(failure);
        }
        let (member, control) = self.offer(seat, parent.size())?;
        let timeout = self.settings.timeout;
        let child = match &self.meeting {
            Meeting::Local(hub) => {
                let which = (parent.id(), sequence, parent.size());
                hub.split(which, parent.rank(), color, key, member, Instant::now() + timeout)?
            }
            Meeting::Coordinator(session) => {
                let answer = session.request("ncclCommSplit", timeout, |request| ToCoordinator::SplitCommunicator {
                    request,
                    parent: parent.id(),
                    sequence,
                    rank: Rank(parent.rank()),
                    color,
                    key,
                    member,
                })?;
                formed(answer)?
            }
        };
        child.map(|formed| self.form(formed, control)).transpose()
    }

    /// What this process offers the others of a communicator of at most `size` ranks.
    pub(crate) fn offer(&self, seat: Seat, size: u32) -> Result<(Member, Arena), Failure> {
        if size == 0 {
            return Err(Failure::new(ErrorCode::InvalidArgument, "a communicator has at least one rank"));
        }
        let control = Arena::create("ftest control", Segment::bytes(size))
            .map_err(|error| Failure::system("cannot make a control segment", &error))?;
        let file = SharedFile { fd: control.fd(), length: control.length() as u64 };
        let tcp = matches!(self.settings.coordinator, Some(Address::Tcp(_)));
        let sockets = self.settings.force_sockets || tcp;
        let member = Member {
            global_rank: Rank(seat.global_rank),
            device: seat.device,
            pid: self.pid,
            host: self.host.clone(),
            arena: seat.arena.filter(|_| !sockets),
            control: Some(file),
            data_address: self.listener.address.clone(),
        };
        Ok((member, control))
    }

    pub(crate) fn form(self: &Arc<Self>, formed: Formed, control: Arena) -> Result<Arc<Communicator>, Failure> {
        let (id, rank) = (formed.communicator, formed.rank.0);
        let journal: Arc<dyn Journal> = Arc::new(ProcessJournal(Arc::downgrade(self)));
        let register = |communicator: &Arc<Communicator>| {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.communicators.retain(|_, communicator| communicator.strong_count() > 0);
            held.communicators.insert((id, rank), Arc::downgrade(communicator));
            held.early.get(&id).cloned().unwrap_or_default()
        };
        let faults = match formed.members.get(rank as usize) {
            Some(own) if !self.settings.faults.is_empty() => {
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                let number = held.formed.entry(own.global_rank).or_default();
                *number += 1;
                fault::arm(&self.settings.faults, self.joined, &formed.members, rank, *number)
            }
            _ => Vec::new(),
        };
        let told = Arc::clone(&journal);
        Communicator::form(formed, control, self.settings.clone(), journal, &self.listener, faults, &register)
            .inspect_err(|failure| {
                // The others count on this rank.
                let detail = format!("rank {rank} could not set the communicator up: {}", failure.detail);
                told.left(id, Rank(rank), Some((failure.code, detail.clone())));
                if matches!(self.meeting, Meeting::Local(_)) {
                    self.lose(id, rank, failure.code, detail);
                }
            })
    }

    /// The rank of the launch that this process plays, or one of its devices, could not join a communicator, for a reason that
    /// nobody else knows.
    pub fn join_failed(&self, global_rank: u32, why: &str) {
        if let Meeting::Coordinator(session) = &self.meeting {
            session.send(&ToCoordinator::JoinFailed { rank: Rank(global_rank), why: why.to_owned() });
        }
    }

    /// Tells the coordinator what every communicator of this process is in.
    fn tell(&self, request: u64) {
        let Meeting::Coordinator(session) = &self.meeting else { return };
        let held: Vec<Arc<Communicator>> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.communicators.values().filter_map(Weak::upgrade).collect()
        };
        let mut activities: Vec<_> = held.iter().map(|communicator| communicator.activity()).collect();
        activities.sort_unstable_by_key(|activity| (activity.communicator, activity.rank));
        session.send(&ToCoordinator::Active { request, activities });
    }

    /// Tells the coordinator that a fault is about to fire. False when it must not: it fired before, or it cannot be told.
    pub(crate) fn fault_fires(&self, record: FaultRecord) -> bool {
        let Meeting::Coordinator(session) = &self.meeting else { return true };
        let answer =
            session.request("a fault", self.settings.timeout, |request| ToCoordinator::FaultFires { request, record });
        matches!(answer, Ok(ToRank::FaultNoted { first: true, .. }))
    }

    /// A member of one of our communicators is gone.
    fn lose(&self, communicator: CommunicatorId, rank: u32, code: ErrorCode, detail: String) {
        let mine: Vec<Arc<Communicator>> = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.early.entry(communicator).or_default().push((rank, code, detail.clone()));
            if held.early.len() > REMEMBERED {
                held.early.pop_first();
            }
            held.communicators
                .iter()
                .filter(|(key, _)| key.0 == communicator)
                .filter_map(|(_, communicator)| communicator.upgrade())
                .collect()
        };
        for communicator in mine {
            communicator.lose(rank, code, &detail);
        }
    }

    /// Sends what is noted and says goodbye: for an orderly exit of the process.
    pub fn goodbye(&self) {
        if let Meeting::Coordinator(session) = &self.meeting
            && self.pid == std::process::id()
        {
            session.goodbye();
        }
    }
}

pub(crate) fn formed(answer: ToRank) -> Result<Option<Formed>, Failure> {
    match answer {
        ToRank::CommunicatorFormed { communicator, rank, members, .. } => {
            Ok(Some(Formed { communicator, rank, members }))
        }
        ToRank::NoCommunicator { .. } => Ok(None),
        other => {
            Err(Failure::new(ErrorCode::System, format!("the coordinator answered a rendezvous with {}", other.kind())))
        }
    }
}

/// Hands what communicators note to the coordinator.
struct ProcessJournal(Weak<Process>);

impl ProcessJournal {
    fn with_session(&self, use_it: impl FnOnce(&Session)) {
        if let Some(process) = self.0.upgrade()
            && let Meeting::Coordinator(session) = &process.meeting
        {
            use_it(session);
        }
    }
}

impl Journal for ProcessJournal {
    fn completed(&self, record: OperationRecord) {
        self.with_session(|session| session.record(record));
    }

    fn failed(&self, failure: FailureRecord) {
        self.with_session(|session| session.send(&ToCoordinator::Failed { failure }));
    }

    fn fault_fires(&self, record: FaultRecord) -> bool {
        self.0.upgrade().is_some_and(|process| process.fault_fires(record))
    }

    fn stopped(&self, communicator: CommunicatorId, rank: Rank, code: ErrorCode, detail: &str) {
        let Some(process) = self.0.upgrade() else { return };
        match &process.meeting {
            Meeting::Coordinator(session) if code == ErrorCode::Revoked => {
                session.send(&ToCoordinator::RevokeCommunicator { communicator, rank });
            }
            // It learns of this with the abort or the shrink.
            Meeting::Coordinator(_) => {}
            Meeting::Local(_) => process.lose(communicator, rank.0, code, detail.to_owned()),
        }
    }

    fn left(&self, communicator: CommunicatorId, rank: Rank, aborted: Option<(ErrorCode, String)>) {
        self.with_session(|session| {
            session.send(&ToCoordinator::LeaveCommunicator { communicator, rank, aborted });
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A rank that cannot reach another while a communicator is set up does not leave the others waiting for it.
    #[test]
    fn who_cannot_set_a_communicator_up_tells_the_others() {
        let timeout = Duration::from_secs(60);
        let process = Process::join(Settings { timeout, ..Settings::default() }).unwrap();
        let Meeting::Local(hub) = &process.meeting else { panic!("there is no coordinator") };
        let arenas = [0, 1].map(|_| Arena::create("test arena", 1 << 20).unwrap());
        let meet = |rank: u32| {
            let arena = &arenas[rank as usize];
            let file = SharedFile { fd: arena.fd(), length: arena.length() as u64 };
            let (member, control) = process.offer(Seat { global_rank: rank, device: 0, arena: Some(file) }, 2).unwrap();
            (hub.init(b"id", 2, rank, member, Instant::now() + timeout).unwrap(), control)
        };
        let start = Instant::now();
        let told = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let (mut formed, control) = meet(0);
                formed.members[1].data_address = "unix:@ftest-nobody-is-there".to_owned();
                process.form(formed, control).map(drop).unwrap_err()
            });
            let (formed, control) = meet(1);
            let told = process.form(formed, control).map(drop).unwrap_err();
            assert!(first.join().unwrap().detail.contains("rank 1"));
            told
        });
        assert!(told.detail.contains("rank 0 could not set the communicator up"), "{told}");
        assert!(start.elapsed() < timeout / 2, "it waited for its deadline");
    }
}
