//! Where ranks meet to form communicators: at the coordinator or, without one, within the process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol::ids::Rank;
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
}

impl Rendezvous {
    /// The connection to the coordinator, if there is one.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Coordinator(session) => Some(session),
            Self::Local(_) => None,
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
