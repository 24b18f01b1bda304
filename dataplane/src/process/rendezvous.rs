//! Where ranks meet to form communicators: at the coordinator or, if there is none, within the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::ids::{CommunicatorId, Rank};
use protocol::message::{Member, ToRank};
use protocol::record::ErrorCode;

use super::local::LocalRendezvous;
use super::session::Session;
use super::wanted::Wanted;
use crate::communicator::Formed;
use crate::failure::Failure;
use crate::lock::Mutex;

/// Where ranks meet.
pub(crate) enum Rendezvous {
    Coordinator(Arc<Session>),
    Local(LocalRendezvous),
    /// No other ranks exist.
    Alone(Solo),
}

impl Rendezvous {
    /// The connection to the coordinator, if there is one.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Coordinator(session) => Some(session),
            Self::Local(_) | Self::Alone(_) => None,
        }
    }

    /// Meets the other ranks of `wanted` as `rank`; `None` for a rank that gets no communicator.
    pub(crate) fn meet(
        &self,
        wanted: &Wanted,
        rank: u32,
        member: Member,
        timeout: Duration,
    ) -> Result<Option<Formed>, Failure> {
        let session = match self {
            Self::Coordinator(session) => session,
            Self::Local(local) => return local.meet(wanted, rank, member, Instant::now() + timeout),
            Self::Alone(solo) => return solo.meet(wanted, rank, &member),
        };
        session.place(member.site);
        match session.request(wanted.function(), timeout, |request| wanted.message(request, Rank(rank), member))? {
            ToRank::CommunicatorFormed { communicator, rank, members, .. } => {
                Ok(Some(Formed { communicator, rank, members }))
            }
            ToRank::NoCommunicator { .. } => Ok(None),
            other => Err(Failure::new(
                ErrorCode::System,
                format!("the coordinator answered a rendezvous with {}", other.kind()),
            )),
        }
    }
}

/// Forms communicators when the other ranks do not exist.
#[derive(Default)]
pub(crate) struct Solo {
    /// Communicators so far.
    formed: AtomicU64,
    /// The parent's ranks, including this one, that the next split takes.
    split: Mutex<Option<Vec<u32>>>,
}

impl Solo {
    /// Sets the parent's ranks that the next split takes; without any, they are not known.
    pub(super) fn split_takes(&self, ranks: Vec<u32>) {
        *self.split.lock() = Some(ranks).filter(|ranks| !ranks.is_empty());
    }

    /// Whether the next split of a communicator of `size` ranks takes ranks that are known.
    pub(super) fn knows_split(&self, size: u32) -> bool {
        size == 1 || self.split.lock().is_some()
    }

    /// A communicator whose other ranks are known only by number.
    fn meet(&self, wanted: &Wanted, rank: u32, own: &Member) -> Result<Option<Formed>, Failure> {
        let unknown = |why| Failure::new(ErrorCode::InvalidArgument, format!("{}: {why}", wanted.function()));
        let ranks = match wanted {
            Wanted::Split { color: None, .. } => {
                self.split.lock().take();
                return Ok(None);
            }
            Wanted::Split { size, .. } => self
                .split
                .lock()
                .take()
                .or_else(|| (*size == 1).then(|| vec![rank]))
                .ok_or_else(|| unknown("which ranks join is unknown, since the other ranks do not exist"))?,
            Wanted::Init { .. } | Wanted::Shrink { .. } | Wanted::Grow { .. } => wanted.ranks(),
        };
        let Some(place) = ranks.iter().position(|other| *other == rank) else {
            return Err(unknown("this rank is not among those that join"));
        };
        let member = |other: u32| {
            if other == rank { own.clone() } else { Member { global_rank: Rank(other), ..own.clone() } }
        };
        let communicator = CommunicatorId(self.formed.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(Some(Formed { communicator, rank: Rank(place as u32), members: ranks.into_iter().map(member).collect() }))
    }
}
