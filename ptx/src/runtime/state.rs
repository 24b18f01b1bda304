//! The state that compiled code and the machine share: contexts, warps, blocks, and the codes of traps.

use std::ops::Range;

use crate::host::footprint::Sampler;
use crate::host::memory_ops::{Access, AddressSpace};
use crate::host::mistake::Checks;
use crate::host::texture::{Texels, Texture};
use crate::host::unwritten::Unwritten;
use crate::host::{Host, Memory, Multicast};
use crate::runtime::shared_memory::Watch;

/// Lanes that run at once.
pub(crate) const LANES: u32 = 4;

/// What `Warp::resume` is when the thread has ended.
pub(crate) const EXITED: u32 = u32::MAX;

/// Says that the lanes of a warp do not all continue at one place.
pub(crate) const APART: u32 = u32::MAX;

/// How many turns a loop that may wait takes before its thread lets others run.
pub(crate) const FUEL: i64 = 64;

pub(crate) const TRAP_ILLEGAL: u64 = 1;

pub(crate) const TRAP_MISALIGNED: u64 = 2;

pub(crate) const TRAP_TRAP: u64 = 3;

pub(crate) const TRAP_ASSERT: u64 = 4;

pub(crate) const TRAP_BREAKPOINT: u64 = 5;

pub(crate) const TRAP_STACK: u64 = 6;

pub(crate) const TRAP_POINTER: u64 = 7;

pub(crate) const TRAP_BARRIER: u64 = 8;

pub(crate) const TRAP_DEADLOCK: u64 = 9;

/// The range that an access last fell into: `rotate(address - low) < count` is the whole check, alignment included.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SiteCache {
    pub(crate) low: u64,
    pub(crate) count: u64,
    /// The same for the first of four lanes whose accesses follow each other.
    pub(crate) rows: u64,
}

/// What code sees of the machine. One per worker.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) helpers: *const usize,
    pub(crate) params: *const u8,
    pub(crate) param_bytes: u64,
    pub(crate) shared: *mut u8,
    pub(crate) shared_bytes: u64,
    pub(crate) sites: *mut SiteCache,
    pub(crate) globals: *const u64,
    pub(crate) local_bytes: u64,
    pub(crate) grid: u64,
    pub(crate) fuel: i64,
    /// All ones if rows of a block have a multiple of four threads, so that four lanes can run at once; else zero.
    pub(crate) together: u32,
    pub(crate) trap: u64,
    pub(crate) lane: u64,
    pub(crate) site: u64,
    pub(crate) warp: *mut Warp,
    pub(crate) args: [u128; 16],
    pub(crate) result: u128,
    pub(crate) ntid: [u32; 4],
    pub(crate) ctaid: [u32; 4],
    pub(crate) nctaid: [u32; 4],
    pub(crate) clusterid: [u32; 4],
    pub(crate) nclusterid: [u32; 4],
    pub(crate) cluster_ctaid: [u32; 4],
    pub(crate) cluster_nctaid: [u32; 4],
    pub(crate) cluster_rank: u32,
    pub(crate) cluster_size: u32,
    pub(crate) explicit_cluster: u32,
    pub(crate) nwarp: u32,
    pub(crate) sm: u32,
    pub(crate) nsm: u32,
    pub(crate) dynamic_shared: u32,
    pub(crate) total_shared: u32,
    /// An address, its low half first.
    pub(crate) workspace: [u32; 2],
    // From here on, only the machine uses the fields.
    pub(crate) trap_address: u64,
    pub(crate) trap_access: Option<TrapAccess>,
    /// Not 0 if helpers show their accesses to the checks.
    pub(crate) watched: u64,
    /// The watch of the block that runs, if there are checks.
    pub(crate) watch: *mut Watch,
    pub(crate) unwritten: *const Unwritten,
    /// The allocation in which each site's last access was that [`SiteCache`] did not know.
    pub(crate) ranges: Vec<Range<u64>>,
    /// The sampler, if the caller wants to know where global memory is touched.
    pub(crate) sampler: Option<Sampler>,
    pub(crate) blocks: *mut Block,
    pub(crate) memory: *const dyn Memory,
    pub(crate) host: *const dyn Host,
    pub(crate) images: Images,
    /// The multicast memory that was accessed last.
    pub(crate) multicast: Option<Multicast>,
}

/// Textures and surfaces that a launch has used, by their handles; all of their texels were found in memory that it may touch.
#[derive(Default)]
pub(crate) struct Images {
    pub(crate) textures: Vec<(u64, Texture)>,
    pub(crate) surfaces: Vec<(u64, Texels)>,
}

impl Images {
    /// Keeps one, the last used ones first.
    pub(crate) fn keep<T>(list: &mut Vec<(u64, T)>, handle: u64, image: T) {
        const MOST: usize = 16;
        list.truncate(MOST - 1);
        list.insert(0, (handle, image));
    }
}

/// The access that went wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrapAccess {
    pub(crate) space: AddressSpace,
    pub(crate) writes: bool,
    pub(crate) bytes: u32,
    /// What was touched, if that is not memory with addresses.
    pub(crate) image: Option<&'static str>,
}

impl TrapAccess {
    pub(crate) fn new(space: AddressSpace, access: Access, bytes: u64) -> Option<Self> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Some(Self { space, writes: access.writes(), bytes, image: None })
    }

    /// An access to a surface, or to an image that does not exist.
    pub(crate) fn of_image(image: &'static str, access: Access, bytes: u64) -> Option<Self> {
        Some(Self { image: Some(image), ..Self::new(AddressSpace::Global, access, bytes)? })
    }
}

/// A warp's threads.
#[repr(C)]
pub(crate) struct Warp {
    pub(crate) resume: [u32; 32],
    pub(crate) slots: *mut u8,
    pub(crate) local: *mut u8,
    /// %tid.x, .y and .z of the lanes.
    pub(crate) threads: *const u32,
    pub(crate) index: u32,
    pub(crate) exists: u32,
    pub(crate) runnable: u32,
    pub(crate) exited: u32,
    /// Lanes that a barrier of the block (or cluster) has counted.
    pub(crate) counted: u32,
    /// Phase of the cluster's barrier at which each lane arrived, plus one.
    pub(crate) phase: [u32; 32],
}

impl Warp {
    /// Where all 32 lanes continue, if that is one place.
    pub(crate) fn one_place(&self) -> Option<u32> {
        let first = self.resume[0];
        // There is no branch for each lane, so that this is done in vectors.
        let mut differ = [0; 8];
        for eight in self.resume.as_chunks::<8>().0 {
            differ.iter_mut().zip(eight).for_each(|(differ, lane)| *differ |= lane ^ first);
        }
        (differ == [0; 8]).then_some(first)
    }

    pub(crate) fn live(&self) -> u32 {
        self.exists & !self.exited
    }
}

/// Barriers of a block that instructions name.
pub(crate) const NUMBERED: usize = 16;
/// All barriers of a block: those, and one for each of the eight warpgroups that a block can have.
pub(crate) const BARRIERS: usize = NUMBERED + 8;

#[derive(Clone, Default)]
pub(crate) struct Barrier {
    pub(crate) arrived: u32,
    /// How many threads it waits for; 0 for all threads of the block.
    pub(crate) expected: u32,
    pub(crate) popc: u32,
    pub(crate) reds: u32,
    /// The threads that wait: warp, lanes, place.
    pub(crate) waiting: Vec<(u32, u32, u32)>,
}

/// A block's threads and memory.
pub(crate) struct Block {
    pub(crate) ctaid: [u32; 3],
    pub(crate) rank: u32,
    pub(crate) warps: Vec<Warp>,
    _slots: Vec<u128>,
    _local: Vec<u128>,
    pub(crate) shared: Vec<u128>,
    pub(crate) shared_bytes: u64,
    pub(crate) barriers: Vec<Barrier>,
    /// Barriers at which threads have arrived since all were new, one bit each.
    pub(crate) begun: u32,
    pub(crate) alive: u32,
    pub(crate) watch: Option<Box<Watch>>,
}

/// Facts of a launch that all blocks share.
pub(crate) struct Shape {
    pub(crate) threads: u32,
    pub(crate) shared_bytes: u64,
    pub(crate) local_bytes: u64,
    pub(crate) home_bytes: u32,
    pub(crate) cluster: u32,
    /// %tid.x, .y and .z of each warp's lanes: 96 numbers a warp.
    pub(crate) table: Vec<u32>,
    pub(crate) checks: Checks,
    /// Whether strong accesses order threads, as [`Watch::new`] wants to know.
    pub(crate) ordered: bool,
    pub(crate) cell_shift: u32,
}

impl Block {
    pub(crate) fn new(shape: &Shape) -> Self {
        let warps = shape.threads.div_ceil(32) as usize;
        let mut slots = vec![0u128; warps * (shape.home_bytes as usize).div_ceil(16)];
        let mut local = vec![0u128; warps * 32 * (shape.local_bytes as usize).div_ceil(16)];
        let shared = vec![0u128; (shape.shared_bytes as usize).div_ceil(16)];
        let mut list = Vec::with_capacity(warps);
        for index in 0..warps {
            let lanes = (shape.threads - index as u32 * 32).min(32);
            list.push(Warp {
                resume: [0; 32],
                slots: slots[index * (shape.home_bytes as usize).div_ceil(16)..].as_mut_ptr().cast(),
                local: local[index * 32 * (shape.local_bytes as usize).div_ceil(16)..].as_mut_ptr().cast(),
                threads: shape.table[index * 96..].as_ptr(),
                index: index as u32,
                exists: if lanes == 32 { u32::MAX } else { (1 << lanes) - 1 },
                runnable: 0,
                exited: 0,
                counted: 0,
                phase: [0; 32],
            });
        }
        Self {
            ctaid: [0; 3],
            rank: 0,
            warps: list,
            _slots: slots,
            _local: local,
            shared,
            shared_bytes: shape.shared_bytes,
            barriers: vec![Barrier::default(); BARRIERS],
            begun: 0,
            alive: 0,
            watch: shape.checks.any().then(|| {
                let Shape { checks, threads, shared_bytes, ordered, cell_shift, .. } = *shape;
                Box::new(Watch::new(checks, threads, shared_bytes, ordered, cell_shift))
            }),
        }
    }

    pub(crate) fn start(&mut self, ctaid: [u32; 3], rank: u32, threads: u32) {
        self.ctaid = ctaid;
        self.rank = rank;
        self.alive = threads;
        if let Some(watch) = &mut self.watch {
            watch.start();
        }
        for warp in &mut self.warps {
            warp.resume = [0; 32];
            warp.phase = [0; 32];
            (warp.runnable, warp.exited, warp.counted) = (warp.exists, 0, 0);
        }
        let mut begun = std::mem::take(&mut self.begun);
        while begun != 0 {
            let barrier = &mut self.barriers[begun.trailing_zeros() as usize];
            begun &= begun - 1;
            if barrier.arrived != 0 || !barrier.waiting.is_empty() {
                *barrier = Barrier::default();
            }
        }
    }
}
