//! Communicators that are gone, so that a call on one of them is a finding.

use std::collections::VecDeque;

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::CommunicatorId;

use crate::report::finding;

/// Maximum number of handles remembered.
const MOST: usize = 4096;

struct Ended {
    handle: usize,
    communicator: Option<CommunicatorId>,
    how: &'static str,
}

static ENDED: Mutex<VecDeque<Ended>> = Mutex::new(VecDeque::new());

/// Records that the program destroyed or aborted (`how`) the communicator behind `handle`.
pub(super) fn note(handle: usize, communicator: Option<CommunicatorId>, how: &'static str) {
    let mut ended = ENDED.lock();
    if ended.len() == MOST {
        ended.pop_front();
    }
    ended.push_back(Ended { handle, communicator, how });
}

/// Called when a call got `handle`, which has no communicator.
pub(super) fn used(handle: usize) {
    let ended = ENDED.lock();
    let Some(Ended { communicator, how, .. }) = ended.iter().rev().find(|ended| ended.handle == handle) else { return };
    let name = communicator.map_or_else(|| "a communicator".to_owned(), |id| format!("communicator {id}"));
    let function = finding::function();
    let sentence = format!("{function} is called on {name} after it was {how}");
    finding::record(FindingKind::UseAfterDestroy, function, *communicator, sentence);
}
