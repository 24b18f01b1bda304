//! This process's part of a run: its settings, its data socket, its rendezvous with other ranks, and the communicators it
//! holds.

mod backlog;
mod dial;
mod journal;
mod line;
mod local;
mod rendezvous;
mod resize;
mod session;
mod stream;
mod wanted;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use protocol::fault::FaultRecord;
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::launcher::Launcher;
use protocol::message::{Member, SharedFile, ToCoordinator, ToRank};
use protocol::plan::ClusterPlan;
use protocol::record::{ErrorCode, HoldingRecord};

use journal::ProcessJournal;
use local::LocalRendezvous;
use rendezvous::{Rendezvous, Solo};
use session::Session;
use wanted::Wanted;

use crate::arena::Arena;
use crate::communicator::{Communicator, Formed};
use crate::failure::Failure;
use crate::fault;
use crate::host;
use crate::journal::Journal;
use crate::lock::Mutex;
use crate::losses::Loss;
use crate::refusal;
use crate::settings::{Address, Settings};
use crate::shared::Shared;
use crate::sockets::listener::{Listener, Scope};
use crate::sockets::trust::Trust;

pub use session::ORPHAN_EXIT;

/// A rank that takes part in a communicator: what the others must know about it and its device.
#[derive(Clone, Copy, Debug)]
pub struct Participant {
    /// Global rank in the launch.
    pub global_rank: u32,
    /// Device ordinal in this process.
    pub device: u32,
    /// PCI address of its GPU, as [`Member::gpu`].
    pub gpu: u64,
    /// The device's memory file; `None` forces sockets.
    pub arena: Option<SharedFile>,
    /// Where its program requests the communicator.
    pub site: SiteId,
    /// No other rank of the communicator comes from this process, as [`Member::is_only`].
    pub is_only: bool,
}

/// This process's part of the run.
pub struct Process {
    settings: Settings,
    rendezvous: Rendezvous,
    listener: Arc<Listener>,
    host: String,
    pid: u32,
    joined: Instant,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    communicators: HashMap<(CommunicatorId, u32), Weak<Communicator>>,
    /// Losses reported before the communicator was set up here, for the latest communicators.
    early: BTreeMap<CommunicatorId, Vec<Loss>>,
    /// Communicators formed so far, per global rank.
    formed: HashMap<Rank, u64>,
}

/// Number of communicators whose losses are remembered for late set-up.
const REMEMBERED: usize = 1024;

static CURRENT: OnceLock<Mutex<Option<Arc<Process>>>> = OnceLock::new();

/// The global rank that the launcher gave this process.
pub fn rank() -> Option<u32> {
    Launcher::read_or_task(|name| std::env::var(name).ok()).rank.map(|rank| rank.0)
}

impl Process {
    /// The process's part of the run, from its environment; connects on the first call.
    ///
    /// # Errors
    /// A bad variable, an unreachable coordinator, or a process forked from one that had joined: its children cannot use
    /// its part.
    pub fn current() -> Result<Arc<Self>, Failure> {
        let mut current = CURRENT.get_or_init(Mutex::default).lock();
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
        let current = CURRENT.get()?.lock();
        current.as_ref().filter(|process| process.pid == std::process::id()).cloned()
    }

    /// Joins with explicit settings.
    ///
    /// # Errors
    /// An unreachable coordinator or a socket error.
    pub fn join(mut settings: Settings) -> Result<Arc<Self>, Failure> {
        let session = settings.coordinator.as_ref().map(|address| Session::connect(address, &settings)).transpose()?;
        let mut is_apart = false;
        if let Some(between_ranks) = session.as_ref().and_then(|session| session.between_ranks()) {
            settings.token = between_ranks;
            is_apart = true;
        }
        let token = settings.token.clone();
        let trust = if is_apart && settings.encrypts { Trust::with_keys(token)? } else { Trust::by(token) };
        let scope = match settings.coordinator {
            Some(Address::Tcp(_)) => {
                let host = session.as_ref().and_then(|session| session.local());
                Scope::Network(host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
            }
            _ => Scope::Host,
        };
        let listener = Listener::open(scope, trust)
            // Of all this only starting the thread may fail for lack of a resource.
            .map_err(|error| refusal::explain_thread("cannot listen for data connections", &error))
            .map_err(|detail| Failure::new(ErrorCode::System, detail))?;
        let is_alone = settings.is_alone;
        let process = Arc::new(Self {
            settings,
            rendezvous: match session {
                Some(session) => Rendezvous::Coordinator(session),
                None if is_alone => Rendezvous::Alone(Solo::default()),
                None => Rendezvous::Local(LocalRendezvous::default()),
            },
            listener,
            host: host::identity(),
            pid: std::process::id(),
            joined: Instant::now(),
            held: Mutex::default(),
        });
        if let Some(session) = process.rendezvous.session() {
            let listening = Arc::downgrade(&process);
            session.listen(Box::new(move |message| {
                let Some(process) = listening.upgrade() else { return };
                match message {
                    ToRank::MemberLost { communicator, rank, code, detail } => {
                        process.lose(communicator, rank.0, code, detail);
                    }
                    ToRank::Inquire { request } => process.report_activity(request),
                    _ => {}
                }
            }));
        }
        let announcer = Arc::downgrade(&process);
        let fires = move |record| announcer.upgrade().map(|process| process.fault_fires(record));
        fault::start_clock(&process.settings.faults, rank(), process.joined, fires);
        Ok(process)
    }

    /// The settings from the environment.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The cluster, if the coordinator was given one.
    pub fn cluster(&self) -> Option<&ClusterPlan> {
        self.rendezvous.session().and_then(Session::cluster)
    }

    /// Meets `size - 1` other ranks that bring the same unique id.
    ///
    /// # Errors
    /// The failure of the rendezvous or of the communicator's set-up.
    pub fn init_communicator(
        self: &Arc<Self>,
        unique_id: &[u8],
        size: u32,
        rank: u32,
        participant: Participant,
    ) -> Result<Arc<Communicator>, Failure> {
        let offer = self.offer(participant, size);
        let offer = offer.inspect_err(|failure| self.join_failed(participant.global_rank, &failure.detail))?;
        let wanted = Wanted::Init { unique_id: unique_id.to_vec(), size };
        let (formed, control) = self.meet(&wanted, rank, offer)?;
        self.form(formed, control)
    }

    /// Meets the other ranks of `wanted`, which gives every rank a communicator; also returns the offered control segment.
    fn meet(&self, wanted: &Wanted, rank: u32, (member, control): (Member, Arena)) -> Result<(Formed, Arena), Failure> {
        let formed = self.rendezvous.meet(wanted, rank, member, self.settings.timeout)?;
        let none = || Failure::new(ErrorCode::System, "the rendezvous formed no communicator");
        Ok((formed.ok_or_else(none)?, control))
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
        participant: Participant,
    ) -> Result<Option<Arc<Communicator>>, Failure> {
        if let Some(failure) = parent.failure().filter(|_| !parent.revoked()) {
            return Err(failure);
        }
        let (member, control) = self.offer(participant, parent.size())?;
        let wanted = Wanted::Split { parent: parent.id(), sequence, size: parent.size(), color, key };
        let child = self.rendezvous.meet(&wanted, parent.rank(), member, self.settings.timeout)?;
        child.map(|formed| self.form(formed, control)).transpose()
    }

    /// If the other ranks do not exist, sets the parent's `ranks` that the next split takes. NCCL would learn them from
    /// the other ranks.
    pub fn split_takes(&self, ranks: Vec<u32>) {
        if let Rendezvous::Alone(solo) = &self.rendezvous {
            solo.split_takes(ranks);
        }
    }

    /// Whether the other ranks do not exist.
    pub fn is_alone(&self) -> bool {
        matches!(self.rendezvous, Rendezvous::Alone(_))
    }

    /// Whether a split of `parent` finds out which ranks join: not if the others do not exist and nobody has set them.
    pub fn knows_split(&self, parent: &Communicator) -> bool {
        match &self.rendezvous {
            Rendezvous::Alone(solo) => solo.knows_split(parent.size()),
            Rendezvous::Coordinator(_) | Rendezvous::Local(_) => true,
        }
    }

    /// What this process offers the others of a communicator of at most `size` ranks.
    fn offer(&self, participant: Participant, size: u32) -> Result<(Member, Arena), Failure> {
        if size == 0 {
            return Err(Failure::new(ErrorCode::InvalidArgument, "a communicator has at least one rank"));
        }
        let control = Arena::create("ftest control", Shared::bytes(size))
            .map_err(|error| Failure::system("cannot make a control segment", &error))?;
        let file = SharedFile { fd: control.fd(), length: control.length() as u64 };
        let tcp = matches!(self.settings.coordinator, Some(Address::Tcp(_)));
        let sockets = self.settings.force_sockets || tcp;
        let member = Member {
            global_rank: Rank(participant.global_rank),
            device: participant.device,
            pid: self.pid,
            host: self.host.clone(),
            arena: participant.arena.filter(|_| !sockets),
            control: Some(file),
            data_address: self.listener.address.clone(),
            site: participant.site,
            gpu: participant.gpu,
            is_only: participant.is_only,
        };
        Ok((member, control))
    }

    fn form(self: &Arc<Self>, formed: Formed, control: Arena) -> Result<Arc<Communicator>, Failure> {
        let (id, rank) = (formed.communicator, formed.rank.0);
        let journal: Arc<dyn Journal> = Arc::new(ProcessJournal(Arc::downgrade(self)));
        let register = |communicator: &Arc<Communicator>| {
            let mut held = self.held.lock();
            held.communicators.retain(|_, communicator| communicator.strong_count() > 0);
            held.communicators.insert((id, rank), Arc::downgrade(communicator));
            held.early.get(&id).cloned().unwrap_or_default()
        };
        let faults = match formed.members.get(rank as usize) {
            Some(own) if !self.settings.faults.is_empty() => {
                let mut held = self.held.lock();
                let number = held.formed.entry(own.global_rank).or_default();
                *number += 1;
                fault::arm(&self.settings.faults, self.joined, &formed.members, rank, *number)
            }
            _ => Vec::new(),
        };
        let witness = Arc::clone(&journal);
        let nodes = self.nodes_of(&formed.members);
        Communicator::form((formed, nodes), control, self.settings.clone(), journal, &self.listener, faults, &register)
            .inspect_err(|failure| {
                // The others count on this rank.
                let detail = format!("rank {rank} could not set the communicator up: {}", failure.detail);
                witness.left(id, Rank(rank), Some((failure.code, detail.clone())));
                if self.rendezvous.session().is_none() {
                    self.lose(id, rank, failure.code, detail);
                }
            })
    }

    /// The node of each member; empty if a member is on no node.
    fn nodes_of(&self, members: &[Member]) -> Vec<String> {
        let Some(plan) = self.cluster() else { return Vec::new() };
        // One search for all: with a thousand ranks, each looks for a thousand members.
        let node_of: BTreeMap<Rank, &str> =
            plan.nodes.iter().flat_map(|node| node.ranks.iter().map(|rank| (*rank, &*node.id))).collect();
        let node = |member: &Member| node_of.get(&member.global_rank).map(|node| (*node).to_owned());
        members.iter().map(node).collect::<Option<_>>().unwrap_or_default()
    }

    /// Reports that the global rank of this process, or of one of its devices, could not join a communicator, for a reason that
    /// only this process knows.
    pub fn join_failed(&self, global_rank: u32, why: &str) {
        if let Some(session) = self.rendezvous.session() {
            session.send(&ToCoordinator::JoinFailed { rank: Rank(global_rank), why: why.to_owned() });
        }
    }

    fn held(&self) -> Vec<Arc<Communicator>> {
        self.held.lock().communicators.values().filter_map(Weak::upgrade).collect()
    }

    /// Reports to the coordinator which operation each communicator of this process is in.
    fn report_activity(&self, request: u64) {
        let Some(session) = self.rendezvous.session() else { return };
        let mut activities: Vec<_> = self.held().iter().map(|communicator| communicator.activity()).collect();
        activities.sort_unstable_by_key(|activity| (activity.communicator, activity.rank));
        for activity in &activities {
            activity.current.iter().chain(&activity.recent).for_each(|activation| session.place(activation.site));
        }
        session.send(&ToCoordinator::Active { request, activities });
    }

    /// Reports to the coordinator that a fault is about to fire. False if it must not: it fired before, or the coordinator cannot
    /// be reached.
    fn fault_fires(&self, record: FaultRecord) -> bool {
        let Some(session) = self.rendezvous.session() else { return true };
        let answer =
            session.request("a fault", self.settings.timeout, |request| ToCoordinator::FaultFires { request, record });
        matches!(answer, Ok(ToRank::FaultNoted { first: true, .. }))
    }

    /// Records that a member of one of our communicators is gone.
    fn lose(&self, communicator: CommunicatorId, rank: u32, code: ErrorCode, detail: String) {
        let mine: Vec<Arc<Communicator>> = {
            let mut held = self.held.lock();
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

    /// Reports what a rank holds around an optimizer step. Does nothing without a coordinator.
    pub fn holds(&self, record: HoldingRecord) {
        if let Some(session) = self.rendezvous.session() {
            session.place(record.site);
            session.send(&ToCoordinator::Holds(record));
        }
    }

    /// Whether there is a coordinator, which brings ranks together and reports what goes wrong between them.
    pub fn has_coordinator(&self) -> bool {
        self.rendezvous.session().is_some()
    }

    /// Whether it said [`goodbye`](Self::goodbye): later failures are due to its leaving.
    pub fn is_leaving(&self) -> bool {
        self.rendezvous.session().is_some_and(Session::is_leaving)
    }

    /// Sends pending records and says goodbye, for an orderly exit of the process.
    pub fn goodbye(&self) {
        if let Some(session) = self.rendezvous.session()
            && self.pid == std::process::id()
        {
            if !session.is_leaving() {
                self.held().iter().for_each(|communicator| communicator.measure());
            }
            session.goodbye();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A rank that cannot reach another while a communicator is set up does not leave the others waiting for it.
    #[test]
    fn a_rank_that_cannot_set_a_communicator_up_notifies_the_others() {
        let timeout = Duration::from_secs(60);
        let process = Process::join(Settings { timeout, ..Settings::default() }).unwrap();
        let arenas = [0, 1].map(|_| Arena::create("test arena", 1 << 20).unwrap());
        let meet = |rank: u32| {
            let arena = &arenas[rank as usize];
            let file = SharedFile { fd: arena.fd(), length: arena.length() as u64 };
            let (member, control) = process
                .offer(
                    Participant {
                        global_rank: rank,
                        device: 0,
                        gpu: u64::from(rank),
                        arena: Some(file),
                        site: SiteId::default(),
                        is_only: false,
                    },
                    2,
                )
                .unwrap();
            let wanted = Wanted::Init { unique_id: b"id".to_vec(), size: 2 };
            process.meet(&wanted, rank, (member, control)).unwrap()
        };
        let start = Instant::now();
        let failure = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let (mut formed, control) = meet(0);
                formed.members[1].data_address = "unix:@ftest-nobody-is-there".to_owned();
                process.form(formed, control).map(drop).unwrap_err()
            });
            let (formed, control) = meet(1);
            let failure = process.form(formed, control).map(drop).unwrap_err();
            assert!(first.join().unwrap().detail.contains("rank 1"));
            failure
        });
        assert!(failure.detail.contains("rank 0 could not set the communicator up"), "{failure}");
        assert!(start.elapsed() < timeout / 2, "it waited for its deadline");
    }
}
