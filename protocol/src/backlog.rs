//! Operations that a process completed but has not reported to the coordinator yet, in a memory file of that process. The file
//! outlives a process that is killed; the coordinator then reads what is left in it.

use serde::{Deserialize, Serialize};

use crate::record::OperationRecord;

/// Such a file. It begins with three words of 8 bytes, little-endian: the mark, how many records were written in total, and how
/// many of these were reported. After [`Backlog::HEADER_BYTES`], record number n, from 0, is in slot n modulo [`Backlog::SLOTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// File descriptor number in the process.
    pub fd: i32,
    /// Random; the file begins with it, so that no other file of another process is mistaken for this one.
    pub mark: u64,
}

impl Backlog {
    /// Bytes before the slots.
    pub const HEADER_BYTES: usize = 128;
    /// Records that fit.
    pub const SLOTS: usize = 1024;
    /// Bytes of a slot.
    pub const SLOT_BYTES: usize = 128;
    /// Length of the file, bytes.
    pub const BYTES: usize = Self::HEADER_BYTES + Self::SLOTS * Self::SLOT_BYTES;
    /// Where the mark is, bytes from the start.
    pub const MARK: usize = 0;
    /// Where the number of records written is, bytes from the start.
    pub const WRITTEN: usize = 8;
    /// Where the number of records reported is, bytes from the start.
    pub const REPORTED: usize = 16;

    /// Where record number `number` is, bytes from the start.
    pub fn place(number: u64) -> usize {
        Self::HEADER_BYTES + (number % Self::SLOTS as u64) as usize * Self::SLOT_BYTES
    }

    /// A record as it is in a slot: at most [`Backlog::SLOT_BYTES`].
    ///
    /// # Panics
    /// Never: a record always serializes, and fits into a slot.
    pub fn slot(record: &OperationRecord) -> ([u8; Self::SLOT_BYTES], usize) {
        let mut slot = [0; Self::SLOT_BYTES];
        let used = postcard::to_slice(record, &mut slot).expect("a record fits its slot").len();
        (slot, used)
    }

    /// The records in the `bytes` of the file that were not reported. There are none in a file of another kind, and none after
    /// something that is not a record: a process can have written anything there.
    pub fn unreported(&self, bytes: &[u8]) -> Vec<OperationRecord> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 8)?;
            Some(u64::from_le_bytes(word.try_into().ok()?))
        };
        let (Some(mark), Some(written), Some(reported)) = (word(Self::MARK), word(Self::WRITTEN), word(Self::REPORTED))
        else {
            return Vec::new();
        };
        if mark != self.mark || written.checked_sub(reported).is_none_or(|open| open > Self::SLOTS as u64) {
            return Vec::new();
        }
        let record = |number: u64| {
            let place = Self::place(number);
            let slot = bytes.get(place..place + Self::SLOT_BYTES)?;
            postcard::take_from_bytes(slot).ok().map(|(record, _)| record)
        };
        (reported..written).map_while(record).collect()
    }
}
