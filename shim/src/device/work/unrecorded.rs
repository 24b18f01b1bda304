//! Waits for events that nobody has recorded yet, which CUDA lets through. Often the first round of a loop has one, on purpose; if the
//! event is never recorded, the wait was a mistake.

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;

use crate::call_site;
use crate::report::finding;

/// The first wait for an event without a record.
#[derive(Debug, Default)]
pub(super) struct Waits(Mutex<Option<Wait>>);

#[derive(Debug)]
struct Wait {
    function: &'static str,
    site: SiteId,
}

impl Waits {
    /// Called when the program waits for the event, which has no record.
    #[cold]
    pub(super) fn note(&self) {
        let mut first = self.0.lock();
        if first.is_none() {
            let site = call_site::of_mistake().unwrap_or_default();
            *first = Some(Wait { function: finding::function(), site });
        }
    }

    /// Called when the event is recorded.
    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }

    /// Called when the event can no longer be recorded.
    pub(super) fn judge(&self) {
        if let Some(Wait { function, site }) = self.0.lock().take() {
            let sentence = format!("{function} waits for an event that is never recorded, which is no wait at all");
            finding::record_at(FindingKind::UnrecordedEvent, function, sentence, site);
        }
    }
}
