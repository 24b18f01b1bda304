//! Communicators made from one by leaving ranks out (shrink) or adding some (grow).

use std::sync::Arc;

use super::wanted::Wanted;
use super::{Participant, Process};
use crate::communicator::{Communicator, GrowTicket, ShrinkTicket};
use crate::failure::Failure;

impl Process {
    /// Meets the ranks of the parent that stay. A failed parent can shrink only with `NCCL_SHRINK_ABORT` or once
    /// revoked.
    ///
    /// # Errors
    /// As [`Process::init_communicator`]; also the failure of the parent.
    pub fn shrink(
        self: &Arc<Self>,
        ticket: ShrinkTicket,
        participant: Participant,
    ) -> Result<Arc<Communicator>, Failure> {
        let ShrinkTicket { parent, excluded, sequence, abort, .. } = &ticket;
        if let Some(failure) = parent.failure().filter(|_| !abort && !parent.revoked()) {
            let detail = format!("{}; a failed communicator shrinks only with NCCL_SHRINK_ABORT", failure.detail);
            return Err(Failure { detail, ..failure });
        }
        let wanted = Wanted::Shrink {
            parent: parent.id(),
            sequence: *sequence,
            size: parent.size(),
            excluded: excluded.clone(),
            abort: *abort,
        };
        let offer = self.offer(participant, wanted.ranks().len() as u32)?;
        let (child, control) = self.meet(&wanted, parent.rank(), offer)?;
        ticket.used();
        self.form(child, control)
    }

    /// Meets the ranks of a larger communicator: `parent` is the smaller communicator for its ranks, and `None` for new
    /// ranks.
    ///
    /// # Errors
    /// As [`Process::init_communicator`]; also the failure of the parent.
    pub fn grow(
        self: &Arc<Self>,
        parent: Option<&Communicator>,
        ticket: GrowTicket,
        size: u32,
        rank: u32,
        participant: Participant,
    ) -> Result<Arc<Communicator>, Failure> {
        if let Some(failure) = parent.filter(|parent| !parent.revoked()).and_then(|parent| parent.failure()) {
            return Err(failure);
        }
        let GrowTicket { parent: id, sequence } = ticket;
        let offer = self.offer(participant, size)?;
        let (child, control) = self.meet(&Wanted::Grow { parent: id, sequence, size }, rank, offer)?;
        if let Some(parent) = parent {
            parent.has_grown(sequence);
        }
        self.form(child, control)
    }
}
