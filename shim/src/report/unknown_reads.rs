//! Reads of the host that got numbers which nobody computed: kept for the device report, by sentence.

use std::collections::BTreeMap;

use dataplane::lock::Mutex;
use protocol::device_report::UnknownRead;

/// Maximum number of different reads kept.
const KEPT: usize = 64;

static READS: Mutex<BTreeMap<(bool, String), u64>> = Mutex::new(BTreeMap::new());

/// A read happened. `is_real` says whether it was of floating-point numbers.
pub(crate) fn record(sentence: String, is_real: bool) {
    let mut reads = READS.lock();
    let is_full = reads.len() >= KEPT;
    match reads.get_mut(&(is_real, sentence.clone())) {
        Some(count) => *count += 1,
        // Of floating-point numbers there may be many, and the others decide.
        None if is_full && is_real => {}
        None => {
            reads.insert((is_real, sentence), 1);
        }
    }
}

/// Whether the program may have decided by numbers that nobody computed.
pub(crate) fn decide() -> bool {
    READS.lock().keys().any(|(is_real, _)| !is_real)
}

/// All of them.
pub(super) fn all() -> Vec<UnknownRead> {
    let reads = READS.lock();
    let read = |((is_real, sentence), count): (&(bool, String), &u64)| UnknownRead {
        sentence: sentence.clone(),
        is_real: *is_real,
        count: *count,
    };
    reads.iter().map(read).collect()
}
