//! What a rank holds around its optimizer steps: hashed in the order of a stream, and sent to the coordinator, which compares.

use std::collections::{BTreeMap, HashMap};

use abi::library::Library;
use dataplane::lock::Mutex;
use protocol::ids::{Rank, SiteId};
use protocol::record::HoldingRecord;
use xxhash_rust::xxh64::xxh64;

use super::NAME;
use crate::boundary::gap;
use crate::nccl::communicator::process;
use crate::process::at_exit::at_exit;
use crate::sanitizer::averaged;

/// Maximum number of tensors in one message.
const TOGETHER: usize = 2000;

/// A tensor that other ranks should hold, too.
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) address: usize,
    pub(super) bytes: usize,
    /// Whether it is compared only while it stays unchanged.
    pub(super) is_constant: bool,
    /// That of a CPU tensor, which the host may change before the stream gets there.
    pub(super) hash: Option<u64>,
}

impl Tensor {
    /// # Safety
    /// The tensor is still there.
    unsafe fn hash(&self) -> u64 {
        // SAFETY: the caller's promise; the memory of a simulated GPU is this process's.
        self.hash.unwrap_or_else(|| unsafe { hash(self.address, self.bytes) })
    }
}

/// The hash of memory.
///
/// # Safety
/// There are as many bytes.
pub(super) unsafe fn hash(address: usize, bytes: usize) -> u64 {
    // An empty tensor may have no address.
    // SAFETY: the caller's promise.
    xxh64(if bytes == 0 { &[] } else { unsafe { std::slice::from_raw_parts(address as *const u8, bytes) } }, 0)
}

/// A step of an optimizer, as one group of ranks shares it.
pub(super) struct Step {
    pub(super) rank: Rank,
    pub(super) group: Vec<Rank>,
    /// From 1; 0 is before the first.
    pub(super) number: u64,
    pub(super) site: SiteId,
    /// Whether the program asked DDP not to average the gradients.
    pub(super) is_local: bool,
    pub(super) tensors: Vec<Tensor>,
}

#[derive(Default)]
struct Group {
    /// The names that were sent last.
    sent: Vec<String>,
    /// The last hashes of tensors that are compared only while they stay unchanged.
    constants: HashMap<String, u64>,
    /// The first of the local steps since the last one that was sent.
    kept: Option<Kept>,
    /// Whether the program averages parameters instead of gradients now and then (local SGD).
    averages: bool,
}

/// A step that is not sent yet: if the program averages the parameters later, they differ on purpose.
struct Kept {
    record: HoldingRecord,
    /// Where the parameters are, and their length.
    parameters: Vec<(usize, usize)>,
}

impl Kept {
    /// A sum of the largest parameter, or of all of them in one buffer, counts even if it did not go back there in one piece.
    fn is_averaged(&self) -> bool {
        let lengths = || self.parameters.iter().map(|(_, bytes)| *bytes);
        self.parameters.iter().any(|(address, bytes)| averaged::is_sum(*address, *bytes))
            || averaged::is_length(lengths().sum())
            || lengths().max().is_some_and(averaged::is_length)
    }
}

static GROUPS: Mutex<BTreeMap<Vec<Rank>, Group>> = Mutex::new(BTreeMap::new());

/// Called in the order of a stream: hashes what the rank holds, and sends it.
///
/// # Safety
/// The tensors are still there.
pub(super) unsafe fn report(step: Step) {
    let Step { rank, group, number, site, is_local, mut tensors } = step;
    let mut groups = GROUPS.lock();
    let known = groups.entry(group.clone()).or_default();
    // SAFETY: the caller's promise.
    let mut hashes: Vec<u64> = tensors.iter().map(|tensor| unsafe { tensor.hash() }).collect();
    let compares = |(tensor, hash): (&Tensor, &u64)| {
        !tensor.is_constant || known.constants.insert(tensor.name.clone(), *hash) == Some(*hash)
    };
    let compared: Vec<bool> = tensors.iter().zip(&hashes).map(compares).collect();
    let is_compared = || compared.iter().copied();
    let (mut of_tensors, mut of_hashes) = (is_compared(), is_compared());
    tensors.retain(|_| of_tensors.next() == Some(true));
    hashes.retain(|_| of_hashes.next() == Some(true));
    let parameters = tensors.iter().filter(|tensor| tensor.name.starts_with("parameter "));
    let parameters: Vec<(usize, usize)> = parameters.map(|tensor| (tensor.address, tensor.bytes)).collect();
    let names: Vec<String> = tensors.into_iter().map(|tensor| tensor.name).collect();
    let record = HoldingRecord { rank, group, step: number, site, names, hashes, is_continued: false };
    known.averages |= known.kept.take_if(|kept| kept.is_averaged()).is_some();
    if !is_local || averaged::is_asked() {
        known.send_kept();
        known.send(record);
    } else if known.kept.is_none() && !known.averages {
        // Sums from before, such as the program's first exchange of parameters, say nothing about what comes.
        parameters.iter().for_each(|(address, bytes)| averaged::forget(*address, *bytes));
        averaged::forget_lengths();
        known.kept = Some(Kept { record, parameters });
        at_exit(|_| GROUPS.lock().values_mut().for_each(Group::send_kept));
    }
}

impl Group {
    /// Sends the local step that was kept, unless its parameters were averaged since.
    fn send_kept(&mut self) {
        if let Some(kept) = self.kept.take().filter(|kept| !kept.is_averaged()) {
            self.send(kept.record);
        }
    }

    fn send(&mut self, record: HoldingRecord) {
        let is_known = self.sent == record.names;
        let Ok(process) = process() else { return };
        if !process.has_coordinator() {
            if averaged::is_asked() {
                gap::record(Library::Torch, NAME, "no coordinator compares the ranks; use ftest, or ftest exec");
            }
            return;
        }
        let HoldingRecord { names, hashes, .. } = record;
        let parts = hashes.chunks(TOGETHER).count();
        for (part, hashes) in hashes.chunks(TOGETHER).enumerate() {
            let first = part * TOGETHER;
            process.holds(HoldingRecord {
                names: if is_known { Vec::new() } else { names[first..first + hashes.len()].to_vec() },
                hashes: hashes.to_vec(),
                is_continued: part + 1 < parts,
                group: record.group.clone(),
                ..record
            });
        }
        self.sent = names;
    }
}
