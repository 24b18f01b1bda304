//! Numbers the shrinks and grows that a program requests of a communicator, so that the ranks' calls match.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use protocol::ids::{CommunicatorId, Sequence};
use protocol::record::ErrorCode;

use super::Communicator;
use crate::failure::Failure;

/// What a communicator remembers about its shrinks and grows.
#[derive(Debug, Default)]
pub(super) struct Resizes {
    /// Number of completed or running shrinks, by the ranks left out.
    shrinks: BTreeMap<Vec<u32>, u64>,
    /// Number of completed grows.
    grown: u64,
    /// Whether the next grow already has its unique id.
    id_given: bool,
}

/// A shrink that the program requested. A dropped ticket gives its place back, so that a late call and a repeated call
/// meet.
pub struct ShrinkTicket {
    pub(crate) parent: Arc<Communicator>,
    pub(crate) excluded: Vec<u32>,
    pub(crate) sequence: Sequence,
    pub(crate) abort: bool,
    used: bool,
}

impl ShrinkTicket {
    /// Notes that the shrink was completed, so that it keeps its place.
    pub(crate) fn used(mut self) {
        self.used = true;
    }
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

/// Identifies a grow of a communicator: the content of a unique id from `ncclCommGetUniqueId`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowTicket {
    pub(crate) parent: CommunicatorId,
    pub(crate) sequence: Sequence,
}

/// The prefix of a unique id for growing.
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

    /// The ticket of a new rank whose others do not exist: nobody has another.
    pub fn of_nobody() -> Self {
        Self { parent: CommunicatorId(0), sequence: Sequence(1) }
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
        self.resizes.lock()
    }

    /// A place among the shrinks that exclude `excluded`, taken when the program requests it. `abort` is
    /// `NCCL_SHRINK_ABORT`.
    ///
    /// # Errors
    /// `InvalidArgument` for an empty list, an invalid rank, a rank listed twice, and the caller's own rank.
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

    /// Records that grow number `sequence` was completed.
    pub(crate) fn has_grown(&self, sequence: Sequence) {
        let mut remembered = self.remembered();
        remembered.grown = remembered.grown.max(sequence.0);
        remembered.id_given = false;
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
