//! A rank of a large job gets what the ranks sent that a preflight ran before it. Here are the names under which NCCL's
//! operations and the exchanges that PyTorch makes without NCCL find each other; `record` keeps the contents.

mod record;

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::sync::Arc;

use dataplane::call::Call;
use dataplane::communicator::Communicator as Ranks;
use dataplane::lock::Mutex;
use protocol::datatype::Operation as Kind;

use crate::call_site;
use crate::device::memory::address::{self, Known};
use crate::report::unknown_reads;
use crate::sanitizer::known::{self, Absent, Missing, Origin};
use crate::settings;
use record::Content;

/// Size of an `ncclUniqueId`.
const ID_BYTES: usize = 128;

/// Which communicator of the job this is, the same on all its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    name: String,
    /// Its ranks as ranks of the job, if they are known.
    ranks: Option<Vec<u32>>,
}

/// What PyTorch's store calls the communicator with a unique id.
static NAMED: Mutex<BTreeMap<[u8; ID_BYTES], Identity>> = Mutex::new(BTreeMap::new());

/// The communicator of `size` ranks with the unique id `id`. Without a name from PyTorch it can be told from others only if it has
/// all ranks of the job, in their order, as these make their communicators in one order. `None` if it cannot.
pub(super) fn formed(id: &[u8; ID_BYTES], size: u32, rank: u32) -> Option<Arc<Identity>> {
    if !record::is_wanted() {
        return None;
    }
    if let Some(Identity { name, ranks }) = NAMED.lock().remove(id) {
        let ranks = ranks.filter(|ranks| ranks.len() == size as usize);
        return Some(Arc::new(Identity { name, ranks }));
    }
    let one_of = settings::get().ok()?.sent.as_ref()?.one_of;
    (one_of == (rank, size))
        .then(|| Arc::new(Identity { name: record::numbered("all ranks"), ranks: Some((0..size).collect()) }))
}

/// The communicator `child` that some ranks of `parent` made, which has this `identity`.
pub(super) fn derived(identity: Option<&Arc<Identity>>, parent: &Ranks, child: &Ranks) -> Option<Arc<Identity>> {
    let identity = identity?;
    let place = |(place, other): (usize, u32)| if place as u32 == child.rank() { parent.rank() } else { other };
    // Without the others, a member has the number that it has in the parent, and this rank the one of the job.
    let taken: Vec<u32> = child.members().iter().map(|member| member.global_rank.0).enumerate().map(place).collect();
    let ranks = identity.ranks.as_ref();
    let ranks = ranks.and_then(|ranks| taken.iter().map(|place| ranks.get(*place as usize).copied()).collect());
    Some(Arc::new(Identity { name: record::numbered(&format!("{} {taken:?}", identity.name)), ranks }))
}

/// What comes from another rank, or why it is not known.
type Received = Result<Arc<[u8]>, Absent>;

/// Something that this rank sends.
struct Sent {
    name: String,
    address: usize,
    bytes: usize,
    is_known: bool,
}

/// What the operations of a launch send and receive, in so far as ranks are run one after the other.
#[derive(Default)]
pub(super) struct Exchange {
    sent: Vec<Sent>,
    /// What each operation receives from another rank, if it does.
    received: Vec<Option<Received>>,
    delivered: Vec<(usize, Arc<[u8]>)>,
}

impl Exchange {
    /// Called when the program requests the operations.
    pub(super) fn begin(
        name: &'static str,
        identity: Option<&Arc<Identity>>,
        calls: &[Call],
        rank: u32,
        size: u32,
    ) -> Self {
        let mut exchange = Self::default();
        let site = call_site::of_python().unwrap_or_default();
        for call in calls {
            let absent = Absent { operation: name, site, sender: None, missing: Missing::NotRun };
            let received = match identity {
                Some(identity) => exchange.add(identity, call, (rank, size), absent),
                None => sender(call, rank).map(|_| Err(absent)),
            };
            exchange.received.push(received);
        }
        exchange
    }

    /// What `call` of `rank` of `size` receives from another rank; `absent` if that is not known.
    fn add(&mut self, identity: &Identity, call: &Call, (rank, size): (u32, u32), absent: Absent) -> Option<Received> {
        let broadcast = |root: u32| format!("{}: broadcast from {root}", identity.name);
        let part = |root: u32, to: u32| format!("{}: scatter from {root} to {to}", identity.name);
        let sent = |from: u32, to: u32| format!("{}: send from {from} to {to}", identity.name);
        let (from, block) = (call.send.address as usize, call.block_bytes());
        match (call.operation, call.root, call.peer) {
            (Kind::Broadcast, Some(root), _) if root == rank => self.send(&broadcast(root), from, block),
            (Kind::Send, _, Some(peer)) => self.send(&sent(rank, peer), from, block),
            (Kind::Scatter, Some(root), _) if root == rank => {
                (0..size).for_each(|to| self.send(&part(root, to), from + to as usize * block, block));
            }
            _ => {}
        }
        let sender = sender(call, rank)?;
        let name = record::numbered(&match call.operation {
            Kind::Broadcast => broadcast(sender),
            Kind::Scatter => part(sender, rank),
            _ => sent(sender, rank),
        });
        let of_job = identity.ranks.as_ref().and_then(|ranks| ranks.get(sender as usize).copied());
        let found = record::find(&name, of_job, Some(block));
        if let Ok(bytes) = &found {
            self.delivered.push((call.receive.address as usize, Arc::clone(bytes)));
        }
        Some(found.map_err(|missing| Absent { sender: of_job, missing, ..absent }))
    }

    fn send(&mut self, name: &str, address: usize, bytes: usize) {
        let is_host = || matches!(address::known(address, bytes), Ok(Known::Host));
        let is_computed = is_host() || known::unknown(std::iter::once((address, bytes))).is_none();
        let is_known = is_computed && !unknown_reads::decide();
        self.sent.push(Sent { name: record::numbered(name), address, bytes, is_known });
    }

    /// What operation number `place` receives from another rank: nothing, what that rank sent, or why that is not known.
    pub(super) fn received(&self, place: usize) -> Option<Result<(), Absent>> {
        Some(self.received.get(place)?.as_ref()?.as_ref().map(|_| ()).map_err(|absent| *absent))
    }

    /// Called when the streams have come to the operations.
    pub(super) fn record(&self) {
        for Sent { name, address, bytes, is_known } in &self.sent {
            let content = if *bytes > protocol::skip::MOVED {
                Content::Large
            } else if *bytes == 0 {
                // Of an empty tensor, which has no address.
                Content::Bytes([].into())
            } else if *is_known {
                // SAFETY: the send buffer of an operation, which the program leaves alone until it is done.
                Content::Bytes(unsafe { std::slice::from_raw_parts(*address as *const u8, *bytes) }.into())
            } else {
                Content::Unknown
            };
            record::write(name, content);
        }
    }

    /// Called when the operations are done.
    pub(super) fn deliver(&self) {
        for (address, bytes) in self.delivered.iter().filter(|(_, bytes)| !bytes.is_empty()) {
            // SAFETY: the receive buffer of an operation, which has this size and is the operation's until the stream goes on.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), *address as *mut u8, bytes.len()) };
        }
    }
}

/// The rank from which `call` receives on `rank`, if it is another one.
fn sender(call: &Call, rank: u32) -> Option<u32> {
    match call.operation {
        Kind::Broadcast | Kind::Scatter => call.root.filter(|root| *root != rank),
        Kind::Recv => call.peer,
        _ => None,
    }
}

/// For `ftest exec --as-rank`: the communicator with the unique id `id` is the one that PyTorch's store calls `name`, of these `count`
/// ranks of the job (0 if they are not known).
///
/// # Safety
/// `id` has 128 bytes, `name` ends with 0, and `ranks` holds `count` ranks.
pub(crate) unsafe fn name_communicator(id: *const u8, name: *const c_char, ranks: *const u32, count: usize) {
    // SAFETY: the caller's promise.
    let (id, name, ranks) = unsafe {
        (id.cast::<[u8; ID_BYTES]>().read_unaligned(), text(name), std::slice::from_raw_parts(ranks, count).to_vec())
    };
    NAMED.lock().insert(id, Identity { name, ranks: Some(ranks).filter(|ranks| !ranks.is_empty()) });
}

/// Records that this rank sends `bytes` at `data` under `name`, by other means than NCCL; without `data`, that nobody computed them.
///
/// # Safety
/// `name` ends with 0, and `data` is null or has `bytes`.
pub(crate) unsafe fn send(name: *const c_char, data: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let content = if bytes > protocol::skip::MOVED {
        Content::Large
    } else if bytes == 0 {
        Content::Bytes([].into())
    } else if data.is_null() || unknown_reads::decide() {
        Content::Unknown
    } else {
        // SAFETY: the caller's promise.
        Content::Bytes(unsafe { std::slice::from_raw_parts(data, bytes) }.into())
    };
    record::write(&name, content);
}

/// Writes what rank `sender` of the job (or any, if negative) sent under `name` to `room` bytes at `data`. Returns its size, which may be
/// more than `room`; -1 if it is not known.
///
/// # Safety
/// `name` ends with 0, and `data` has `room` bytes.
pub(crate) unsafe fn receive(name: *const c_char, sender: i64, data: *mut u8, room: usize) -> i64 {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) };
    let Ok(found) = record::find(&name, u32::try_from(sender).ok(), None) else { return -1 };
    if found.len() <= room {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), data, found.len()) };
    }
    found.len() as i64
}

/// `bytes` at `address` on a GPU are what rank `sender` of the job would have sent under `name` by `operation` and without NCCL, which is
/// not known.
///
/// # Safety
/// `name` and `operation` end with 0.
pub(crate) unsafe fn lacks(name: *const c_char, operation: *const c_char, sender: u32, address: usize, bytes: usize) {
    if !known::is_wanted() {
        return;
    }
    // SAFETY: the caller's promise.
    let (name, operation) = unsafe { (text(name), text(operation)) };
    let operation = ["broadcast", "scatter"].into_iter().find(|one| **one == operation).unwrap_or("recv");
    let missing = record::find(&name, Some(sender), Some(bytes)).err().unwrap_or(Missing::Different);
    let site = call_site::of_python().unwrap_or_default();
    known::put(address, bytes, Origin::Absent(Absent { operation, site, sender: Some(sender), missing }));
}

/// Keeps `sentence` for the report: the program reads what a rank that does not exist would have sent by other means than NCCL.
///
/// # Safety
/// `sentence` ends with 0.
pub(crate) unsafe fn misses(sentence: *const c_char) {
    if known::is_wanted() {
        record::lacks();
        // SAFETY: the caller's promise.
        unknown_reads::record(unsafe { text(sentence) }, false);
    }
}

/// Keeps `sentence` for the report: the program decides by a floating-point number that nobody computed, which says nothing if such
/// numbers are assumed to be 0.
///
/// # Safety
/// `sentence` ends with 0.
pub(crate) unsafe fn decides(sentence: *const c_char) {
    if known::is_wanted() {
        let is_assumed = settings::get().is_ok_and(|settings| settings.assumes_zeros);
        // SAFETY: the caller's promise.
        unknown_reads::record(unsafe { text(sentence) }, is_assumed);
    }
}

/// # Safety
/// `text` ends with 0.
unsafe fn text(text: *const c_char) -> String {
    // SAFETY: the caller's promise.
    unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
