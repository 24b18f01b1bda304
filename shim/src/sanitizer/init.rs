//! Reads of device memory that nobody has written since it was allocated. We keep track of the unwritten bytes: a block is added
//! when it is handed out, and work that may write it removes its bytes. Memory that is not known to be fresh counts as written,
//! so a read may be missed, but there are no false reports. The order is that of the calls: which stream waits for which is
//! checked by the races sanitizer.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;

use super::ranges::Ranges;
use super::{forward, source_line};
use crate::call_site;
use crate::process::fork;
use crate::report::finding;
use crate::settings;

/// Maximum number of different reads reported: results computed from such numbers are read as well.
const REPORTED: usize = 16;

/// How much of a range must have been written before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Every byte: it is used in a computation.
    All,
    /// One byte: it is moved, or only part of it is read. Partially filled buffers are moved as a whole.
    Any,
}

/// Bytes that work reads as one argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Address and length of each piece.
    pub(crate) pieces: Vec<(usize, usize)>,
    pub(crate) needs: Needs,
}

impl Read {
    /// Contiguous bytes.
    pub(crate) fn line(address: usize, bytes: usize, needs: Needs) -> Self {
        Self { pieces: vec![(address, bytes)], needs }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Unwritten bytes, and where they were allocated.
    unwritten: Ranges<SiteId>,
    /// Where others may write (first byte, end): memory handed out there is not known to be fresh.
    shared: Vec<(usize, usize)>,
    reported: BTreeSet<(&'static str, SiteId)>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);
/// The number of pieces; if 0, nothing has to be looked up.
static PIECES: AtomicUsize = AtomicUsize::new(0);

/// Whether the sanitizer is enabled.
pub(crate) fn is_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.init) && !fork::is_lost()
}

/// Called when memory gets a new owner.
pub(crate) fn handed_out(address: usize, bytes: usize) {
    if is_wanted() {
        let site = call_site::of_python().unwrap_or_default();
        change(|state| state.hand_out(address, address.saturating_add(bytes), site));
    }
}

/// Records that others may write this memory from now on: another process, or another rank that knows it as a window.
pub(crate) fn shared(address: usize, bytes: usize) {
    if is_wanted() {
        let end = address.saturating_add(bytes);
        change(|state| {
            state.shared.push((address, end));
            state.unwritten.remove(address, end);
        });
    }
}

/// Called when memory is returned to the GPU.
pub(crate) fn freed(address: usize, bytes: usize) {
    if is_wanted() {
        let end = address.saturating_add(bytes);
        change(|state| {
            state.shared.retain(|(start, _)| !(address..end).contains(start));
            state.unwritten.remove(address, end);
        });
    }
}

/// The unwritten memory that a kernel finds when it is launched, and where it was allocated; `None` if nobody wants to know,
/// or there is none.
pub(crate) fn for_kernel() -> Option<Vec<(Range<usize>, SiteId)>> {
    if PIECES.load(Ordering::Relaxed) == 0 || !is_wanted() {
        return None;
    }
    let state = STATE.lock();
    Some(state.unwritten.iter().map(|(start, piece)| (start..piece.end, piece.value)).collect())
}

/// Called when a kernel ran that found `before` unwritten and left `after` unwritten: pieces of these, in order.
pub(crate) fn kernel_wrote(before: &[(Range<usize>, SiteId)], after: &[Range<u64>]) {
    let mut after = after.iter().map(|range| range.start as usize..range.end as usize).peekable();
    change(|state| {
        for (Range { start, end }, _) in before {
            let mut at = *start;
            while let Some(left) = after.next_if(|left| left.start < *end) {
                state.unwritten.remove(at, left.start);
                at = left.end;
            }
            state.unwritten.remove(at, *end);
        }
    });
}

/// ` (at train.py:12)`, for memory that was allocated there.
pub(crate) fn allocated_at(site: SiteId) -> String {
    source_line::within("at", site)
}

/// Memory is written.
pub(crate) fn written(address: usize, bytes: usize) {
    if PIECES.load(Ordering::Relaxed) > 0 {
        change(|state| state.unwritten.remove(address, address.saturating_add(bytes)));
    }
}

/// Called when work ran whose writes are unknown.
pub(crate) fn all_written() {
    if PIECES.load(Ordering::Relaxed) > 0 {
        change(|state| state.unwritten.clear());
    }
}

/// Called when bytes are copied: unwritten bytes stay unwritten.
pub(crate) fn copied(to: usize, from: usize, bytes: usize) {
    if PIECES.load(Ordering::Relaxed) > 0 {
        change(|state| state.unwritten.copy(to, from, bytes));
    }
}

/// Whether all of these bytes are unwritten, and where they were allocated.
pub(crate) fn is_unwritten(address: usize, bytes: usize) -> Option<SiteId> {
    if bytes == 0 || PIECES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let (unwritten, site) = STATE.lock().unwritten.within(address, address.saturating_add(bytes))?;
    (unwritten == bytes).then_some(site)
}

/// Marks the bytes as unwritten, as part of an allocation at `site`.
pub(crate) fn carried(address: usize, bytes: usize, site: SiteId) {
    change(|state| state.unwritten.add(address, address.saturating_add(bytes), site));
}

/// Checks the reads of the work `name`.
pub(crate) fn read(name: &'static str, reads: &[Read]) {
    if let Some(sentence) = looked_at(name, reads) {
        finding::record(FindingKind::UninitializedRead, name, None, sentence);
    }
}

/// The same, for work that was called at `site`.
pub(crate) fn read_at(site: SiteId, name: &'static str, reads: &[Read]) {
    if let Some(sentence) = looked_at(name, reads) {
        finding::record_at(FindingKind::UninitializedRead, name, sentence, site);
    }
}

fn looked_at(name: &'static str, reads: &[Read]) -> Option<String> {
    if PIECES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut sentence = None;
    change(|state| sentence = state.read(name, reads));
    sentence
}

fn change(body: impl FnOnce(&mut State)) {
    if fork::is_lost() {
        return;
    }
    let mut state = STATE.lock();
    body(&mut state);
    PIECES.store(state.unwritten.len(), Ordering::Relaxed);
}

impl State {
    fn hand_out(&mut self, start: usize, end: usize, site: SiteId) {
        self.unwritten.add(start, end, site);
        for (from, to) in &self.shared {
            self.unwritten.remove((*from).max(start), (*to).min(end));
        }
    }

    /// The message about the first read of unwritten bytes.
    fn read(&mut self, name: &'static str, reads: &[Read]) -> Option<String> {
        let mut sentence = None;
        for Read { pieces, needs } in reads {
            let ranges = || pieces.iter().map(|(address, bytes)| (*address, address.saturating_add(*bytes)));
            let found: Vec<_> = ranges().filter_map(|(start, end)| self.unwritten.within(start, end)).collect();
            let Some((_, site)) = found.first().copied() else { continue };
            let unwritten: usize = found.iter().map(|(bytes, _)| bytes).sum();
            let bytes: usize = pieces.iter().map(|(_, bytes)| bytes).sum();
            if *needs == Needs::Any && unwritten < bytes {
                continue;
            }
            // Each is reported where it is read first.
            ranges().for_each(|(start, end)| self.unwritten.remove(start, end));
            let is_new = sentence.is_none() && self.reported.len() < REPORTED && !self.reported.contains(&(name, site));
            if is_new && !call_site::is_in_trial() {
                self.reported.insert((name, site));
                let whose = if unwritten == bytes {
                    format!("{bytes} bytes that nobody has")
                } else {
                    format!("{bytes} bytes, {unwritten} of which nobody has")
                };
                sentence = Some(format!(
                    "{name} reads {whose} written since they were allocated{}{}",
                    source_line::within("at", site),
                    forward::words(forward::now()),
                ));
            }
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_reported_once_and_where_it_happens_first() {
        let mut state = State::default();
        state.unwritten.add(100, 200, SiteId::default());
        state.unwritten.remove(150, 200);
        assert_eq!(state.read("add", &[Read::line(160, 40, Needs::All)]), None, "written");
        assert_eq!(state.read("copy", &[Read::line(100, 100, Needs::Any)]), None, "written in part");
        assert_eq!(
            state.read("add", &[Read::line(140, 20, Needs::All)]).as_deref(),
            Some("add reads 20 bytes, 10 of which nobody has written since they were allocated")
        );
        assert_eq!(state.read("add", &[Read::line(140, 20, Needs::All)]), None, "reported");
        assert_eq!(
            state.read("copy", &[Read::line(100, 8, Needs::Any)]).as_deref(),
            Some("copy reads 8 bytes that nobody has written since they were allocated")
        );
        let parts = Read { pieces: vec![(96, 8), (108, 8)], needs: Needs::Any };
        assert_eq!(state.read("cat", std::slice::from_ref(&parts)), None, "written in part");
        assert_eq!(
            state.read("mul", &[Read { needs: Needs::All, ..parts }]).as_deref(),
            Some("mul reads 16 bytes, 8 of which nobody has written since they were allocated")
        );
        assert_eq!(state.read("add", &[Read::line(116, 4, Needs::All)]), None, "from the same line");
    }

    #[test]
    fn what_others_may_write_is_never_fresh() {
        let mut state = State { shared: vec![(100, 200)], ..State::default() };
        state.hand_out(50, 120, SiteId::default());
        assert_eq!(state.unwritten.within(0, 1000), Some((50, SiteId::default())));
        state.hand_out(150, 250, SiteId::default());
        assert_eq!(state.unwritten.within(100, 1000), Some((50, SiteId::default())));
    }
}
