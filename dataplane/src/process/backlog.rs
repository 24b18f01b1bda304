//! Completed operations not yet reported to the coordinator, kept in a memory file. If the process is killed before it can
//! report them, the coordinator reads them there.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::backlog::Backlog as Layout;
use protocol::record::OperationRecord;

use crate::arena::Arena;

/// This process's backlog. Changes require exclusive access.
pub(crate) struct Backlog {
    file: Arena,
    mark: u64,
    written: u64,
    reported: u64,
}

impl Backlog {
    pub(crate) fn create() -> io::Result<Self> {
        let backlog = Self {
            file: Arena::create("ftest backlog", Layout::BYTES)?,
            mark: crate::unique::random_u64()?,
            written: 0,
            reported: 0,
        };
        backlog.word(Layout::MARK).store(backlog.mark.to_le(), Ordering::Release);
        Ok(backlog)
    }

    /// What the coordinator needs to find it.
    pub(crate) fn address(&self) -> Layout {
        Layout { fd: self.file.fd(), mark: self.mark }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(
            at.is_multiple_of(align_of::<AtomicU64>()) && at + size_of::<AtomicU64>() <= Layout::HEADER_BYTES
        );
        // SAFETY: within the mapping, which is aligned to pages, and of plain memory that nothing reads otherwise.
        unsafe { AtomicU64::from_ptr(self.file.base().add(at).cast()) }
    }

    /// Adds a record, in case it is never reported.
    pub(crate) fn note(&mut self, record: &OperationRecord) {
        let (slot, used) = Layout::slot(record);
        // SAFETY: slots are within the mapping; no reader looks at this one before the word below announces it.
        unsafe {
            std::ptr::copy_nonoverlapping(slot.as_ptr(), self.file.base().add(Layout::place(self.written)), used);
        }
        self.written += 1;
        self.word(Layout::WRITTEN).store(self.written.to_le(), Ordering::Release);
    }

    /// Marks the first `count` unreported records as reported.
    pub(crate) fn mark_reported(&mut self, count: usize) {
        self.reported += count as u64;
        self.word(Layout::REPORTED).store(self.reported.to_le(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use protocol::datatype::{Datatype, Operation};
    use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
    use protocol::record::{BufferTransport, Issue};

    use super::*;

    fn record(sequence: u64) -> OperationRecord {
        OperationRecord {
            communicator: CommunicatorId(1),
            sequence: Sequence(sequence),
            rank: Rank(2),
            operation: Operation::AllReduce,
            count: 4,
            datatype: Datatype::Float32,
            reduction_op: None,
            root: None,
            peer: None,
            transport: BufferTransport::SharedMemory,
            wait_us: 1.5,
            execute_us: 0.25,
            ended_ns: 17,
            site: SiteId::default(),
            issue: Issue::default(),
        }
    }

    #[test]
    fn another_process_finds_what_was_not_reported() {
        let mut backlog = Backlog::create().unwrap();
        let address = backlog.address();
        let file = std::fs::File::open(format!("/proc/{}/fd/{}", std::process::id(), address.fd)).unwrap();
        let found = || {
            let mut bytes = vec![0; Layout::BYTES];
            file.read_exact_at(&mut bytes, 0).unwrap();
            address.unreported(&bytes).iter().map(|record| record.sequence.0).collect::<Vec<u64>>()
        };
        assert_eq!(found(), Vec::<u64>::new());
        // These are enough to go around the end of the backlog more than once.
        for sequence in 1..=3000 {
            backlog.note(&record(sequence));
            if sequence % 500 == 0 {
                assert_eq!(found(), (sequence - 499..=sequence).collect::<Vec<u64>>());
                backlog.mark_reported(500);
            }
        }
        backlog.note(&record(3001));
        drop(backlog);
        assert_eq!(found(), [3001], "the file outlives its owner");
    }
}
