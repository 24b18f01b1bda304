//! Where ranks meet to form communicators: at the coordinator or, without one, within the process.

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

/// Where ranks meet.
pub(crate) enum Rendezvous {
    Coordinator(Arc<Session>),
    Local(LocalRendezvous),
    /// Nobody else is there. Counts communicators.
    Alone(AtomicU64),
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
            Self::Alone(formed) => return alone(formed, wanted, rank, &member).map(Some),
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

/// A communicator whose other ranks do not exist: they are known by their number alone.
fn alone(formed: &AtomicU64, wanted: &Wanted, rank: u32, own: &Member) -> Result<Formed, Failure> {
    let Wanted::Init { size, .. } = wanted else {
        let detail =
            format!("{}: which ranks come along is not known where the others do not exist", wanted.function());
        return Err(Failure::new(ErrorCode::InvalidArgument, detail));
    };
    let member = |other: u32| {
        if other == rank { own.clone() } else { Member { global_rank: Rank(other), ..own.clone() } }
    };
    let communicator = CommunicatorId(formed.fetch_add(1, Ordering::Relaxed) + 1);
    Ok(Formed { communicator, rank: Rank(rank), members: (0..*size).map(member).collect() })
}
