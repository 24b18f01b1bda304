//! Which bytes of device memory hold what the program would find there on a GPU, while nothing computes (`FAKEGPU_COMPUTE=skip`).
//! Where the host reads others, a size or a branch may depend on them: each such read is kept for the device report, and gets zeros, so
//! that two runs agree.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use dataplane::lock::Mutex;
use dataplane::site;
use protocol::ids::SiteId;

use super::ranges::Ranges;
use super::source_line;
use crate::call_site;
use crate::process::fork;
use crate::report::unknown_reads;
use crate::settings::{self, Compute};

/// Where the contents of bytes are from. Bytes that nobody wrote have no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The host wrote them, or they were computed.
    Known,
    /// This work would have written them.
    Skipped(&'static str, SiteId),
    /// Another rank would have sent them.
    Absent(Absent),
}

/// What a rank would have sent that does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    pub(crate) operation: &'static str,
    pub(crate) site: SiteId,
    /// The rank of the job, if it is known which one.
    pub(crate) sender: Option<u32>,
    pub(crate) missing: Missing,
}

/// Why the contents are not known, although ranks are run one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The rank was not run before this one.
    NotRun,
    /// It was run, and made no such call.
    Unsent,
    /// It was run, and sent what nobody had computed.
    Unknown,
    /// It is more than is kept.
    Large,
    /// It sent another number of bytes, or several things under one name.
    Different,
}

/// What the host does with the bytes that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// They are floating-point numbers, which programs print, or compare as `float`.
    Real,
    /// They are sizes, indices, conditions, or not known to be anything else.
    Exact,
}

/// Work under way on this thread that may read on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    pub(crate) purpose: Use,
    /// The origin of what goes into it that is not known: it may read results of its own, which are not known for that reason.
    pub(crate) source: Option<Origin>,
}

/// Bytes of what was computed that stay in memory whatever becomes of their owners: touching the same memory again is faster.
const KEPT: usize = 1 << 30;
/// Fewer bytes in one place are not counted.
const COUNTED: usize = 64 << 10;

#[derive(Debug, Default)]
struct State {
    origins: Ranges<Origin>,
    /// What was computed, by this owner of the memory or an earlier one: elsewhere, device memory occupies none of the host's.
    touched: Ranges<()>,
    touched_bytes: usize,
    /// What an allocator of the program handed out: address and size.
    blocks: BTreeMap<usize, usize>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

thread_local! {
    // Boxed, because the loader has little room for what is in each thread.
    static READER: Cell<Option<Box<Reader>>> = const { Cell::new(None) };
}

/// Makes this the reader on this thread, and returns the one before. A thread that ends has none any more.
fn exchange(reader: Option<Box<Reader>>) -> Option<Box<Reader>> {
    READER.try_with(|cell| cell.replace(reader)).unwrap_or_default()
}

/// Who reads on this thread.
fn reader() -> Option<Reader> {
    let held = exchange(None);
    let reader = held.as_deref().copied();
    exchange(held);
    reader
}

/// Whether this is followed.
pub(crate) fn is_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.compute == Compute::Skip) && !fork::is_lost()
}

/// Until dropped, reads of the host on this thread are those of `reader`.
pub(crate) struct Reading(Option<Box<Reader>>);

impl Reading {
    pub(crate) fn begin(reader: Reader) -> Self {
        Self(exchange(Some(Box::new(reader))))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        exchange(self.0.take());
    }
}

/// Whether an operator that answers for what it writes is under way on this thread.
pub(crate) fn is_operator_under_way() -> bool {
    reader().is_some()
}

/// Called when memory gets a new owner, or none.
pub(crate) fn handed_out(address: usize, bytes: usize) {
    change(|state| {
        state.origins.remove(address, address.saturating_add(bytes));
        state.blocks.insert(address, bytes);
    });
}

/// Whether so much was computed in places where it may no longer be needed that memory which is handed out has to be emptied first.
pub(crate) fn keeps_too_much() -> bool {
    is_wanted() && STATE.lock().touched_bytes > KEPT
}

/// What earlier owners of memory that was just handed out left there; it counts as removed.
pub(crate) fn left_behind(address: usize, bytes: usize) -> Vec<(usize, usize)> {
    STATE.lock().untouch(address, address.saturating_add(bytes))
}

/// Called when memory is returned to the GPU.
pub(crate) fn freed(address: usize, bytes: usize) {
    let end = address.saturating_add(bytes);
    change(|state| {
        state.origins.remove(address, end);
        state.untouch(address, end);
        while let Some((block, _)) = state.blocks.range(address..end).next().map(|(block, bytes)| (*block, *bytes)) {
            state.blocks.remove(&block);
        }
    });
}

/// Bytes are as `origin` says.
pub(crate) fn put(address: usize, bytes: usize, origin: Origin) {
    change(|state| {
        state.origins.add(address, address.saturating_add(bytes), origin);
        if origin == Origin::Known && bytes >= COUNTED {
            state.touch(address, address.saturating_add(bytes));
        }
    });
}

/// Bytes are copied.
pub(crate) fn copied(to: usize, from: usize, bytes: usize) {
    change(|state| state.origins.copy(to, from, bytes));
}

/// Work that nobody knows was not done; it would have got `words` as parameters. Whatever they point to may have been written.
pub(crate) fn launched(name: &'static str, words: impl Iterator<Item = usize>) {
    let site = call_site::of_python().unwrap_or_default();
    change(|state| {
        for (address, bytes) in words.filter_map(|word| state.block(word)).collect::<Vec<_>>() {
            state.origins.add(address, address + bytes, Origin::Skipped(name, site));
        }
    });
}

/// What was handed out that `words` point into, once each: address and size.
pub(crate) fn blocks(words: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let state = STATE.lock();
    words.filter_map(|word| state.block(word)).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether all that was written into `blocks` is known. Work that reads what nobody wrote there would not be the same twice on a GPU.
pub(crate) fn is_all_known(blocks: &[(usize, usize)]) -> bool {
    let state = STATE.lock();
    let pieces = |(address, bytes): &(usize, usize)| state.origins.pieces(*address, address + bytes);
    blocks.iter().all(|block| pieces(block).into_iter().all(|(_, piece)| piece.value == Origin::Known))
}

/// The origin of the first byte that is not known, which is none if nobody wrote it; `None` if all are known.
pub(crate) fn unknown(pieces: impl Iterator<Item = (usize, usize)>) -> Option<Option<Origin>> {
    let state = STATE.lock();
    pieces.into_iter().find_map(|(address, bytes)| state.unknown(address, address.saturating_add(bytes)))
}

/// The origin of what a copy or a fill would have written, if it were done.
pub(crate) fn undone(call: &'static str) -> Origin {
    Origin::Skipped(call, call_site::of_python().unwrap_or_default())
}

/// The host reads device memory: bytes that are not known become zeros, if they `reach` it.
///
/// # Safety
/// The bytes are in live device memory.
pub(crate) unsafe fn host_reads(call: &'static str, pieces: &[(usize, usize)], reach: bool) {
    if !is_wanted() {
        return;
    }
    let state = STATE.lock();
    let (mut first, mut unknown) = (None, 0);
    for (address, bytes) in pieces {
        let (mut at, end) = (*address, address.saturating_add(*bytes));
        while let Some((start, stop, origin)) = state.unknown_piece(at, end) {
            // Work that was skipped says more than memory that is fresh.
            first = first.flatten().map(Some).or(Some(origin));
            unknown += stop - start;
            if reach {
                // SAFETY: by the caller.
                unsafe { (start as *mut u8).write_bytes(0, stop - start) };
            }
            at = stop;
        }
    }
    let Some(origin) = first else { return };
    let bytes: usize = pieces.iter().map(|(_, bytes)| bytes).sum();
    // Buffers that are filled in part are moved as a whole.
    if origin.is_none() && unknown < bytes {
        return;
    }
    let reader = reader().unwrap_or(Reader { name: call, purpose: Use::Exact, source: None });
    let site = call_site::of_python().or_else(call_site::of_mistake).unwrap_or_default();
    let sentence = sentence(reader.name, site, bytes, origin.or(reader.source));
    drop(state);
    unknown_reads::record(sentence, reader.purpose == Use::Real);
}

/// `the host reads 8 bytes at train.py:31 that `topk` at train.py:30 would have computed`
fn sentence(name: &str, reads_at: SiteId, bytes: usize, origin: Option<Origin>) -> String {
    let plain = |name: &str| name.rsplit("::").next().unwrap_or(name).split('.').next().unwrap_or(name).to_owned();
    let place =
        |site: SiteId| site::find(site).map_or_else(String::new, |site| format!(" at {}:{}", site.file, site.line));
    let name = match plain(name).as_str() {
        "_local_scalar_dense" => "the host".to_owned(),
        "copy_" => "a copy to the host".to_owned(),
        name => format!("`{name}`"),
    };
    let of = match origin {
        Some(Origin::Skipped(name, site)) => {
            let line = source_line::after(site);
            format!("that `{}`{line} would have computed", plain(name))
        }
        Some(Origin::Absent(absent)) => absent.clause(),
        Some(Origin::Known) | None => "that nobody has written".to_owned(),
    };
    format!("{name} reads {bytes} bytes{} {of}", place(reads_at))
}

impl Absent {
    /// `that rank 17, which was not run before this one, would have sent by broadcast at train.py:16`
    fn clause(self) -> String {
        let Self { operation, site, sender, missing } = self;
        let whose = sender.map_or_else(|| "a rank".to_owned(), |sender| format!("rank {sender}"));
        let why = match missing {
            Missing::NotRun if sender.is_none() => " which does not exist",
            Missing::NotRun => ", which was not run before this one,",
            Missing::Unsent => ", which made no such call,",
            Missing::Unknown => ", which did not know it either,",
            Missing::Large => ", of which no more than 1 MiB is kept,",
            Missing::Different => ", which sent another size or several things,",
        };
        format!("that {whose}{why} would have sent by {operation}{}", source_line::after(site))
    }
}

fn change(body: impl FnOnce(&mut State)) {
    if is_wanted() {
        body(&mut STATE.lock());
    }
}

impl State {
    fn touch(&mut self, start: usize, end: usize) {
        self.untouch(start, end);
        self.touched.add(start, end, ());
        self.touched_bytes += end - start;
    }

    /// The touched parts of a range, address and size, which are no longer counted.
    fn untouch(&mut self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let parts: Vec<_> = self.touched.pieces(start, end).map(|(at, piece)| (at, piece.end - at)).collect();
        self.touched_bytes -= parts.iter().map(|(_, bytes)| bytes).sum::<usize>();
        self.touched.remove(start, end);
        parts
    }

    /// The first bytes of a range that are not known, with their origin.
    fn unknown_piece(&self, start: usize, end: usize) -> Option<(usize, usize, Option<Origin>)> {
        let mut at = start;
        for (from, piece) in self.origins.pieces(start, end) {
            if from > at {
                return Some((at, from, None));
            }
            if piece.value != Origin::Known {
                return Some((from, piece.end, Some(piece.value)));
            }
            at = piece.end;
        }
        (at < end).then_some((at, end, None))
    }

    /// The block that `word` points into.
    fn block(&self, word: usize) -> Option<(usize, usize)> {
        let (address, bytes) = self.blocks.range(..=word).next_back()?;
        (word < address + bytes).then_some((*address, *bytes))
    }

    fn unknown(&self, start: usize, end: usize) -> Option<Option<Origin>> {
        self.unknown_piece(start, end).map(|(_, _, origin)| origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_computed_is_counted_once() {
        let mut state = State::default();
        state.touch(100, 200);
        state.touch(150, 250);
        assert_eq!(state.touched_bytes, 150);
        assert_eq!(state.untouch(90, 120), [(100, 20)]);
        assert_eq!(state.untouch(90, 120), []);
        assert_eq!(state.untouch(240, 300), [(240, 10)]);
        assert_eq!(state.touched_bytes, 120);
    }

    #[test]
    fn unknown_bytes_by_table() {
        let mut state = State::default();
        let skipped = Origin::Skipped("aten::topk", SiteId::default());
        state.origins.add(100, 200, Origin::Known);
        state.origins.add(120, 130, skipped);
        for (start, end, found) in [
            (100, 120, None),
            (130, 200, None),
            (100, 200, Some((120, 130, Some(skipped)))),
            (125, 126, Some((125, 126, Some(skipped)))),
            (90, 110, Some((90, 100, None))),
            (190, 210, Some((200, 210, None))),
            (300, 300, None),
        ] {
            assert_eq!(state.unknown_piece(start, end), found, "{start}..{end}");
        }
    }

    #[test]
    fn a_sentence_names_who_would_have_written() {
        let site = SiteId::default();
        let skipped = Origin::Skipped("aten::topk.values", site);
        assert_eq!(
            sentence("aten::_local_scalar_dense", site, 8, Some(skipped)),
            "the host reads 8 bytes that `topk` would have computed"
        );
        assert_eq!(sentence("aten::nonzero", site, 4, None), "`nonzero` reads 4 bytes that nobody has written");
        let absent = Absent { operation: "broadcast", site, sender: None, missing: Missing::NotRun };
        for (absent, clause) in [
            (absent, "that a rank which does not exist would have sent by broadcast"),
            (
                Absent { sender: Some(16), ..absent },
                "that rank 16, which was not run before this one, would have sent by broadcast",
            ),
            (
                Absent { sender: Some(0), missing: Missing::Unknown, ..absent },
                "that rank 0, which did not know it either, would have sent by broadcast",
            ),
        ] {
            assert_eq!(
                sentence("aten::_local_scalar_dense", site, 8, Some(Origin::Absent(absent))),
                format!("the host reads 8 bytes {clause}")
            );
        }
    }
}
