//! What is left in a backlog, and what becomes of one that holds anything else.

use protocol::backlog::Backlog;
use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ids::{CommunicatorId, Rank, Sequence, SiteId};
use protocol::record::{BufferTransport, Issue, OperationRecord};

/// The record with the longest encoding.
fn record(sequence: u64) -> OperationRecord {
    OperationRecord {
        communicator: CommunicatorId(u64::MAX),
        sequence: Sequence(sequence),
        rank: Rank(u32::MAX),
        operation: Operation::WaitSignal,
        count: u64::MAX,
        datatype: Datatype::Bfloat16,
        reduction_op: Some(ReductionOp::Avg),
        root: Some(Rank(u32::MAX)),
        peer: Some(Rank(u32::MAX)),
        transport: BufferTransport::Control,
        wait_us: f64::MAX,
        execute_us: f64::MIN_POSITIVE,
        ended_ns: u64::MAX,
        site: SiteId(u32::MAX),
        issue: Issue { place: u64::MAX, together: u32::MAX, thread: u32::MAX },
    }
}

/// A file in which `written` records were written, of which `reported` were reported.
fn file(backlog: Backlog, written: u64, reported: u64) -> Vec<u8> {
    let mut bytes = vec![0; Backlog::BYTES];
    for (at, word) in [(Backlog::MARK, backlog.mark), (Backlog::WRITTEN, written), (Backlog::REPORTED, reported)] {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    for number in reported..written {
        let (slot, used) = Backlog::slot(&record(u64::MAX - number));
        bytes[Backlog::place(number)..][..used].copy_from_slice(&slot[..used]);
    }
    bytes
}

#[test]
fn what_was_not_reported_is_left_in_order_also_across_the_end() {
    let backlog = Backlog { fd: 3, mark: 7 };
    let slots = Backlog::SLOTS as u64;
    for (written, reported) in
        [(0, 0), (5, 5), (5, 2), (slots + 3, slots - 2), (slots, 0), (3 * slots + 1, 2 * slots + 1)]
    {
        let left = backlog.unreported(&file(backlog, written, reported));
        let expected: Vec<OperationRecord> = (reported..written).map(|number| record(u64::MAX - number)).collect();
        assert_eq!(left, expected, "{written} written, {reported} reported");
    }
}

#[test]
fn what_is_no_backlog_holds_nothing() {
    let backlog = Backlog { fd: 3, mark: 7 };
    let whole = file(backlog, 4, 1);
    assert_eq!(Backlog { mark: 8, ..backlog }.unreported(&whole), []);
    assert_eq!(backlog.unreported(&whole[..20]), []);
    assert_eq!(backlog.unreported(&[]), []);
    assert_eq!(backlog.unreported(&whole[..Backlog::place(3)]).len(), 2, "cut off before its last record");
    let slots = Backlog::SLOTS as u64;
    for (written, reported) in [(1, 2_u64), (slots + 1, 0), (u64::MAX, 0)] {
        let mut bytes = whole.clone();
        bytes[Backlog::WRITTEN..][..8].copy_from_slice(&written.to_le_bytes());
        bytes[Backlog::REPORTED..][..8].copy_from_slice(&reported.to_le_bytes());
        assert_eq!(backlog.unreported(&bytes), [], "{written} written, {reported} reported");
    }
    let mut spoiled = whole;
    spoiled[Backlog::place(2)..][..Backlog::SLOT_BYTES].fill(0xff);
    assert_eq!(backlog.unreported(&spoiled).len(), 1, "nothing behind what is not a record");
}
