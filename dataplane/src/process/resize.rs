//! Communicators made from one by leaving ranks out (shrink) or adding some (grow).

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use protocol::ids::{CommunicatorId, Rank, Sequence};
use protocol::message::ToCoordinator;
use protocol::record::ErrorCode;

use crate::communicator::Communicator;
use crate::failure::Failure;
use crate::process::{Meeting, Process, Seat, formed};

/// What a communicator remembers of its shrinks and grows.
#[derive(Debug, Default)]
pub(crate) struct Resizes {
    /// Shrinks that came about or are under way, by the ranks left out.
    shrinks: BTreeMap<Vec<u32>, u64>,
    /// Grows that came about.
    grown: u64,
    /// The next grow has its unique id.
    id_given: bool,
}

/// A shrink that the program asked for. A dropped ticket gives the place back, so that who comes late and who comes again
/// meet.
pub struct ShrinkTicket {
    parent: Arc<Communicator>,
    excluded: Vec<u32>,
    sequence: Sequence,
    abort: bool,
    used: bool,
}

impl Drop for ShrinkTicket {
    fn drop(&mut self) {
        if !self.used
            && let Some(count) = self.parent.remembered().shrinks.get_mut(&self.excluded)
        {
            *count -= 1;
        }
    }
}

/// Which grow of which communicator: what a unique id of `ncclCommGetUniqueId` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowTicket {
    parent: CommunicatorId,
    sequence: Sequence,
}

/// How a unique id for growing begins.
const GROW_ID: &[u8; 16] = b"ftest grow id v1";

impl GrowTicket {
    /// The ticket in a unique id, if it is one for growing.
    pub fn from_id(id: &[u8; 128]) -> Option<Self> {
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&id[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let ticket = Self { parent: CommunicatorId(number(16)), sequence: Sequence(number(24)) };
        (id[..16] == *GROW_ID).then_some(ticket)
    }

    fn id(self) -> [u8; 128] {
        let mut id = [0; 128];
        id[..16].copy_from_slice(GROW_ID);
        id[16..24].copy_from_slice(&self.parent.0.to_le_bytes());
        id[24..32].copy_from_slice(&self.sequence.0.to_le_bytes());
        id
    }
}

impl Communicator {
    fn remembered(&self) -> MutexGuard<'_, Resizes> {
        self.resizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place among the shrinks without `excluded`, taken when the program asks. `abort` is `NCCL_SHRINK_ABORT`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list, a rank that is none, a rank listed twice, and the caller's own rank.
    pub fn shrink_ticket(self: &Arc<Self>, mut excluded: Vec<u32>, abort: bool) -> Result<ShrinkTicket, Failure> {
        excluded.sort_unstable();
        let (rank, size) = (self.rank(), self.size());
        let wrong = if excluded.is_empty() {
            Some("no rank to leave out".to_owned())
        } else if let Some(stranger) = excluded.iter().find(|excluded| **excluded >= size) {
            Some(format!("rank {stranger} to leave out is not a rank of a communicator of {size}"))
        } else if let Some(twice) = excluded.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(format!("rank {} to leave out is listed twice", twice[0]))
        } else if excluded.contains(&rank) {
            Some(format!("rank {rank} leaves itself out; only the ranks that stay call ncclCommShrink"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(Failure::new(ErrorCode::InvalidArgument, wrong));
        }
        let mut remembered = self.remembered();
        let count = remembered.shrinks.entry(excluded.clone()).or_default();
        *count += 1;
        let sequence = Sequence(*count);
        drop(remembered);
        Ok(ShrinkTicket { parent: Arc::clone(self), excluded, sequence, abort, used: false })
    }

    /// The next grow.
    pub fn grow_ticket(&self) -> GrowTicket {
        GrowTicket { parent: self.id(), sequence: Sequence(self.remembered().grown + 1) }
    }

    /// `ncclCommGetUniqueId`: the id of the next grow; `None` while the last one has not been used.
    pub fn grow_id(&self) -> Option<[u8; 128]> {
        let ticket = self.grow_ticket();
        let given = std::mem::replace(&mut self.remembered().id_given, true);
        (!given).then(|| ticket.id())
    }
}

impl Process {
    /// Meets the ranks of the parent that stay. A failed one shrinks only with `NCCL_SHRINK_ABORT` or once revoked.
    ///
    /// # Errors
    /// As [`Process::init_communicator`]; the failure of the parent.
    pub fn shrink(self: &Arc<Self>, mut ticket: ShrinkTicket, seat: Seat) -> Result<Arc<Communicator>, Failure> {
        let ShrinkTicket { parent, excluded, sequence, abort, .. } = &ticket;
        if let Some(failure) = parent.failure().filter(|_| !abort && !parent.revoked()) {
            let detail = format!("{}; a failed communicator shrinks only with NCCL_SHRINK_ABORT", failure.detail);
            return Err(Failure { detail, ..failure });
        }
        let survivors: Vec<u32> = (0..parent.size()).filter(|rank| !excluded.contains(rank)).collect();
        let (member, control) = self.offer(seat, survivors.len() as u32)?;
        let timeout = self.settings.timeout;
        let child = match &self.meeting {
            Meeting::Local(hub) => {
                let (which, deadline) = ((parent.id(), *sequence), Instant::now() + timeout);
                hub.shrink(which, excluded, survivors, parent.rank(), member, deadline)?
            }
            Meeting::Coordinator(session) => {
                let answer =
                    session.request("ncclCommShrink", timeout, |request| ToCoordinator::ShrinkCommunicator {
                        request,
                        parent: parent.id(),
                        sequence: *sequence,
                        rank: Rank(parent.rank()),
                        excluded: excluded.iter().copied().map(Rank).collect(),
                        abort: *abort,
                        member,
                    })?;
                formed(answer)?.ok_or_else(none)?
            }
        };
        ticket.used = true;
        self.form(child, control)
    }

    /// Meets the ranks of a larger communicator: `parent` is the smaller one for its ranks and `None` for new ones.
    ///
    /// # Errors
    /// As [`Process::init_communicator`]; the failure of the parent.
    pub fn grow(
        self: &Arc<Self>,
        parent: Option<&Communicator>,
        ticket: GrowTicket,
        size: u32,
        rank: u32,
        seat: Seat,
    ) -> Result<Arc<Communicator>, Failure> {
        if let Some(failure) = parent.filter(|parent| !parent.revoked()).and_then(|parent| parent.failure()) {
            return Err(failure);
        }
        let (member, control) = self.offer(seat, size)?;
        let timeout = self.settings.timeout;
        let GrowTicket { parent: id, sequence } = ticket;
        let child = match &self.meeting {
            Meeting::Local(hub) => hub.grow((id, sequence), size, rank, member, Instant::now() + timeout)?,
            Meeting::Coordinator(session) => {
                let answer = session.request("ncclCommGrow", timeout, |request| ToCoordinator::GrowCommunicator {
                    request,
                    parent: id,
                    sequence,
                    size,
                    rank: Rank(rank),
                    member,
                })?;
                formed(answer)?.ok_or_else(none)?
            }
        };
        if let Some(parent) = parent {
            let mut remembered = parent.remembered();
            remembered.grown = remembered.grown.max(sequence.0);
            remembered.id_given = false;
        }
        self.form(child, control)
    }
}

fn none() -> Failure {
    Failure::new(ErrorCode::System, "the coordinator gave no communicator")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grow_id_says_which_grow_and_no_other_id_does() {
        let ticket = GrowTicket { parent: CommunicatorId(7), sequence: Sequence(300) };
        assert_eq!(GrowTicket::from_id(&ticket.id()), Some(ticket));
        assert_eq!(GrowTicket::from_id(&[0; 128]), None);
    }
}
