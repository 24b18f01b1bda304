//! Which allocation a byte belongs to, and on which line it was made: for the messages of findings, and for the sanitizer
//! `memory`, which lets kernels touch only memory that the program's allocator has handed out.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;

use super::shadow::Access;
use super::{forward, source_line};
use crate::call_site;
use crate::report::finding;
use crate::settings;

/// An allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner {
    end: usize,
    made: Made,
    is: Is,
    /// Different for each time that memory is handed out.
    number: u64,
}

/// Who allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Made {
    site: SiteId,
    /// The operator of a backward pass, because all of them share one line.
    by: Option<&'static str>,
    /// The line of the operator that it is the derivative of.
    forward: SiteId,
}

impl Made {
    /// ` at train.py:31, by aten::mul.Tensor in the backward pass of model.py:12`, or as much of that as is known.
    fn place(self) -> String {
        let of = source_line::describe(self.forward).map_or_else(String::new, |place| format!(" of {place}"));
        let by = self.by.map_or_else(String::new, |operator| format!(", by {operator} in the backward pass{of}"));
        source_line::after(self.site) + &by
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    /// A separate allocation.
    Whole,
    /// A block that the program's allocator handed out.
    Block,
    /// A block that was returned to it.
    Back,
    /// A block of a graph's memory, which becomes live with each replay.
    Graphs,
}

/// Allocations by their first byte; they do not overlap.
#[derive(Clone, Debug, Default)]
struct Owners(BTreeMap<usize, Owner>);

/// Copied on change if a kernel still holds the state at its launch.
static OWNERS: Mutex<Option<Arc<Owners>>> = Mutex::new(None);

/// Whether an allocator of the program hands out parts of its memory unobserved.
static IS_BLIND: AtomicBool = AtomicBool::new(false);

thread_local! {
    static UNDER_WAY: Cell<Option<Made>> = const { Cell::new(None) };
    static IS_REPLAY: Cell<bool> = const { Cell::new(false) };
}

/// Until dropped, this thread's allocations belong to one line, which need not be looked up again.
pub(crate) struct Line(Option<Made>);

impl Line {
    /// The line at which `operator` is called.
    pub(crate) fn begin(site: SiteId, operator: &'static str) -> Self {
        let by = call_site::is_in_backward_pass().then_some(operator);
        Self(UNDER_WAY.replace(Some(Made { site, by, forward: forward::now() })))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        UNDER_WAY.set(self.0);
    }
}

/// Until dropped, this thread's launches belong to a graph: its memory is its own, regardless of the state in PyTorch's
/// allocator.
pub(crate) struct Replay(bool);

impl Replay {
    pub(crate) fn begin() -> Self {
        Self(IS_REPLAY.replace(true))
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        IS_REPLAY.set(self.0);
    }
}

/// From now on, it is unknown what the program's allocator hands out.
pub(crate) fn is_blind() {
    IS_BLIND.store(true, Ordering::Relaxed);
}

/// Whether kernels may touch only memory that was handed out.
pub(crate) fn is_exact() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.memory)
}

/// Called when memory gets a new owner.
pub(crate) fn handed_out(address: usize, bytes: usize) {
    own(address, bytes, Is::Whole);
}

/// Called when a block of the program's allocator gets a new owner, perhaps while a graph is captured.
pub(crate) fn block_handed_out(address: usize, bytes: usize, is_captured: bool) {
    own(address, bytes, if is_captured { Is::Graphs } else { Is::Block });
}

fn own(address: usize, bytes: usize, is: Is) {
    if IS_BLIND.load(Ordering::Relaxed) {
        return;
    }
    let made = UNDER_WAY.get().unwrap_or_else(|| {
        let site = call_site::of_this_thread().or_else(call_site::of_allocation).unwrap_or_default();
        Made { site, ..Made::default() }
    });
    change(|owners| owners.add(address, address.saturating_add(bytes), made, is));
}

/// Called when a block is returned to the program's allocator.
pub(crate) fn block_came_back(address: usize) {
    change(|owners| {
        if let Some(owner) = owners.0.get_mut(&address).filter(|owner| owner.is == Is::Block) {
            owner.is = Is::Back;
        }
    });
}

/// Memory goes back.
pub(super) fn freed(address: usize, bytes: usize) {
    change(|owners| owners.remove(address, address.saturating_add(bytes)));
}

fn change(body: impl FnOnce(&mut Owners)) {
    body(Arc::make_mut(OWNERS.lock().get_or_insert_default()));
}

fn now() -> Arc<Owners> {
    Arc::clone(OWNERS.lock().get_or_insert_default())
}

/// `; the memory is of an allocation of 4096 bytes at train.py:12`, or nothing if that is not known.
pub(super) fn sentence(address: usize) -> String {
    let Some((bytes, made)) = now().find(address) else { return String::new() };
    format!("; the memory is of an allocation of {bytes} bytes{}", made.place())
}

/// Where the allocation of this byte was made, if that is known.
pub(crate) fn site(address: usize) -> SiteId {
    now().find(address).map_or_else(SiteId::default, |(_, made)| made.site)
}

/// `, allocated at train.py:12`, for the allocation of this byte.
pub(crate) fn describe(address: usize) -> String {
    now().find(address).map_or_else(String::new, |(_, made)| allocated(made))
}

/// The same for a line.
pub(crate) fn allocated_at(site: SiteId) -> String {
    allocated(Made { site, ..Made::default() })
}

fn allocated(made: Made) -> String {
    let place = made.place();
    if place.is_empty() { place } else { format!(", allocated{place}") }
}

/// The neighbors of an address outside all blocks of the program's allocator, as the end of a sentence; `None` for other memory.
pub(crate) fn outside(address: usize) -> Option<(FindingKind, String)> {
    if !is_exact() {
        return None;
    }
    let owners = now();
    let (start, owner) = owners.0.range(..=address).next_back()?;
    let bytes = owner.end - start;
    let place = allocated(owner.made);
    match owner.is {
        Is::Whole | Is::Graphs => None,
        Is::Back if address < owner.end => {
            Some((FindingKind::UseAfterFree, format!("of a block of {bytes} bytes that was returned to PyTorch{place}")))
        }
        Is::Block | Is::Back => (address >= owner.end).then(|| {
            let behind = address - owner.end;
            let what = format!(
                "that PyTorch's allocator has not handed out, {behind} bytes past the end of a block of {bytes} bytes{place}"
            );
            (FindingKind::OutOfRangeCopy, what)
        }),
    }
}

/// A block of the program's allocator, as handed out to its present owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenancy {
    address: usize,
    number: u64,
}

impl Tenancy {
    /// That of the block of this byte; `None` if it is in no block, or in one of a graph's own.
    pub(crate) fn now(address: usize) -> Option<Self> {
        let owners = now();
        let (_, owner) = owners.0.range(..=address).next_back()?;
        (address < owner.end && owner.is == Is::Block).then_some(Self { address, number: owner.number })
    }

    /// Where the memory was handed out to somebody else since, as the end of a sentence; `None` if it was not.
    pub(crate) fn successor(self) -> Option<String> {
        let owners = now();
        let (start, owner) = owners.0.range(..=self.address).next_back()?;
        let is_other = self.address < owner.end && owner.is == Is::Block && owner.number != self.number;
        is_other.then(|| format!("{} bytes{}", owner.end - start, allocated(owner.made)))
    }
}

/// Reports that an operator, captured into a graph at `site`, touches what was its tensor's memory and is now `successor`'s.
pub(crate) fn replayed(operator: &'static str, access: Access, successor: &str, site: SiteId) {
    let does = if access.writes { "writes" } else { "reads" };
    let sentence = format!(
        "{operator} in a CUDA graph {does} {} bytes of a tensor that was freed after the capture; PyTorch has handed the memory out again, to an \
         allocation of {successor}",
        access.bytes
    );
    finding::record_at(FindingKind::UseAfterFree, operator, sentence, site);
}

/// The blocks that were handed out when a kernel was launched.
#[derive(Clone, Debug)]
pub(crate) struct Blocks(Arc<Owners>);

impl Blocks {
    /// The current state; `None` if kernels may touch everything that is allocated.
    pub(crate) fn now() -> Option<Self> {
        (is_exact() && !IS_BLIND.load(Ordering::Relaxed) && !IS_REPLAY.get()).then(|| Self(now()))
    }

    /// The part of the allocation `whole` around `address` that a kernel may touch.
    pub(crate) fn part(&self, address: usize, whole: Range<usize>) -> Option<Range<usize>> {
        let mut inside = self.0.0.range(..whole.end).rev().take_while(|(_, owner)| owner.end > whole.start).peekable();
        // Memory of which no block is known is not an allocator's.
        if inside.peek().is_none_or(|(_, owner)| owner.is == Is::Whole) {
            return Some(whole);
        }
        let (start, owner) = self.0.0.range(..=address).next_back()?;
        match owner.is {
            Is::Graphs if address < owner.end => Some(*start..owner.end),
            Is::Block if address < owner.end => Some(*start..owner.end),
            _ => None,
        }
    }
}

impl Owners {
    fn add(&mut self, start: usize, end: usize, made: Made, is: Is) {
        static LAST: AtomicU64 = AtomicU64::new(0);
        self.remove(start, end);
        if start < end {
            let number = 1 + LAST.fetch_add(1, Ordering::Relaxed);
            self.0.insert(start, Owner { end, made, is, number });
        }
    }

    /// Removes whatever reaches into a range: an allocator that hands out part of a block must have got it back.
    fn remove(&mut self, start: usize, end: usize) {
        while let Some((at, _)) = self.0.range(..end).next_back().filter(|(_, owner)| owner.end > start) {
            let at = *at;
            self.0.remove(&at);
        }
    }

    fn find(&self, address: usize) -> Option<(usize, Made)> {
        let (start, owner) = self.0.range(..=address).next_back()?;
        (address < owner.end).then_some((owner.end - start, owner.made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_on(line: u32) -> Made {
        Made { site: SiteId(line), ..Made::default() }
    }

    #[test]
    fn the_last_owner_of_a_byte_counts() {
        let mut owners = Owners::default();
        owners.add(100, 200, made_on(1), Is::Whole);
        owners.add(300, 400, made_on(2), Is::Whole);
        assert_eq!(
            (owners.find(99), owners.find(100), owners.find(199)),
            (None, Some((100, made_on(1))), Some((100, made_on(1))))
        );
        assert_eq!(owners.find(200), None);
        owners.add(150, 320, made_on(3), Is::Block);
        assert_eq!((owners.find(120), owners.find(310), owners.find(330)), (None, Some((170, made_on(3))), None));
        owners.remove(0, 1000);
        assert_eq!(owners.find(160), None);
    }

    #[test]
    fn a_kernel_may_touch_what_was_handed_out_at_its_launch() {
        let mut owners = Owners::default();
        owners.add(1000, 1100, made_on(1), Is::Block);
        owners.add(1512, 1600, made_on(1), Is::Back);
        owners.add(5000, 5100, made_on(1), Is::Whole);
        owners.add(9000, 9100, made_on(1), Is::Graphs);
        let blocks = Blocks(Arc::new(owners));
        let part = |address| blocks.part(address, 1000..3000);
        assert_eq!([1000, 1099].map(part), [Some(1000..1100), Some(1000..1100)]);
        assert_eq!([1100, 1512, 1700].map(part), [None, None, None]);
        assert_eq!(blocks.part(5100, 5000..6000), Some(5000..6000), "an allocation of its own");
        assert_eq!(blocks.part(7000, 6000..8000), Some(6000..8000), "nothing is known of it");
        assert_eq!([9050, 9100].map(|address| blocks.part(address, 9000..9500)), [Some(9000..9100), None]);
    }
}
