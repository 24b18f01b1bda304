//! The state that code and machine share, and the scheduler: warps run until their threads meet, meetings are carried out, and a group of
//! blocks that only waits for others gives way to them.

use crate::kernel::{Code, Kernel};
use crate::launch::{Host, Memory};
use crate::matrix::{Fragment, MatrixAccess, Mma};

/// In `Warp::resume`: the thread has ended.
pub(crate) const EXITED: u32 = u32::MAX;
/// Turns of a loop that could wait before the thread lets others run.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uniform,
    Ballot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReduxOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    FloatMin { absolute: bool, nan: bool },
    FloatMax { absolute: bool, nan: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BarrierKind {
    Sync,
    Arrive,
    Popc,
    And,
    Or,
}

/// What is done with threads that have met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SyncOp {
    Yield,
    Shfl(ShflMode),
    Vote(VoteMode),
    Match {
        all: bool,
        wide: bool,
    },
    /// Signed where the flag is set.
    Redux(ReduxOp, bool),
    ActiveMask,
    Elect,
    WarpSync,
    Barrier {
        kind: BarrierKind,
        aligned: bool,
    },
    ClusterArrive,
    ClusterWait,
    Mma(Mma),
    LoadMatrix(MatrixAccess),
    StoreMatrix(MatrixAccess),
    MoveMatrix,
    /// The flag: in shared memory, else generic.
    LoadFragment(Fragment, bool),
    StoreFragment(Fragment, bool),
}

/// The range that an access last fell into: `rotate(address - low) < count` is the whole check, alignment included.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SiteCache {
    pub(crate) low: u64,
    pub(crate) count: u64,
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
    // What only the machine uses.
    pub(crate) trap_address: u64,
    pub(crate) blocks: *mut Block,
    pub(crate) memory: *const dyn Memory,
    pub(crate) host: *const dyn Host,
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
    fn live(&self) -> u32 {
        self.exists & !self.exited
    }
}

#[derive(Clone, Default)]
struct Barrier {
    arrived: u32,
    /// 0: all threads of the block.
    expected: u32,
    popc: u32,
    reds: u32,
    /// Lanes that wait, by warp.
    waiting: Vec<(u32, u32, u32)>,
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
    barriers: Vec<Barrier>,
    alive: u32,
}

/// Blocks that are scheduled together: a cluster, or one block.
pub(crate) struct Unit {
    pub(crate) blocks: Vec<Block>,
    arrived: u32,
    phase: u32,
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
}

pub(crate) enum Status {
    Done,
    /// Nothing to do but to wait for other blocks.
    Waiting,
}

/// Where a thread stopped for good.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) kind: u64,
    pub(crate) address: u64,
    pub(crate) site: u32,
    pub(crate) ctaid: [u32; 3],
    pub(crate) tid: [u32; 3],
    pub(crate) waiting: Vec<u32>,
}

impl Block {
    fn new(shape: &Shape) -> Self {
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
            barriers: vec![Barrier::default(); 16],
            alive: 0,
        }
    }

    fn start(&mut self, ctaid: [u32; 3], rank: u32, threads: u32) {
        self.ctaid = ctaid;
        self.rank = rank;
        self.alive = threads;
        for warp in &mut self.warps {
            warp.resume = [0; 32];
            warp.phase = [0; 32];
            (warp.runnable, warp.exited, warp.counted) = (warp.exists, 0, 0);
        }
        for barrier in &mut self.barriers {
            if barrier.arrived != 0 || !barrier.waiting.is_empty() {
                *barrier = Barrier::default();
            }
        }
    }
}

impl Unit {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self { blocks: (0..shape.cluster).map(|_| Block::new(shape)).collect(), arrived: 0, phase: 0 }
    }

    pub(crate) fn start(&mut self, coordinates: &[[u32; 3]], shape: &Shape) {
        (self.arrived, self.phase) = (0, 0);
        for (rank, (block, ctaid)) in self.blocks.iter_mut().zip(coordinates).enumerate() {
            block.start(*ctaid, rank as u32, shape.threads);
        }
    }
}

/// One worker's side of a launch.
pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) code: &'a Code,
    pub(crate) context: Box<Context>,
    /// What `Context::sites` points to.
    pub(crate) _sites: Vec<SiteCache>,
    pub(crate) shape: &'a Shape,
}

struct Turn {
    progress: bool,
    yielded: bool,
}

impl Machine<'_> {
    pub(crate) fn run(&mut self, unit: &mut Unit) -> Result<Status, Stop> {
        self.context.blocks = unit.blocks.as_mut_ptr();
        let mut idle = 0;
        loop {
            let mut turn = Turn { progress: false, yielded: false };
            for index in 0..unit.blocks.len() {
                if unit.blocks[index].alive > 0 {
                    self.enter(&mut unit.blocks[index]);
                    self.run_block(unit, index, &mut turn)?;
                }
            }
            if unit.blocks.iter().all(|block| block.alive == 0) {
                return Ok(Status::Done);
            }
            if turn.progress {
                idle = 0;
                continue;
            }
            if !turn.yielded {
                return Err(self.deadlock(unit));
            }
            idle += 1;
            if idle == 8 {
                return Ok(Status::Waiting);
            }
        }
    }

    /// What of the context belongs to a block.
    fn enter(&mut self, block: &mut Block) {
        let context = &mut *self.context;
        context.shared = block.shared.as_mut_ptr().cast();
        context.shared_bytes = block.shared_bytes;
        context.ctaid[..3].copy_from_slice(&block.ctaid);
        context.cluster_rank = block.rank;
        for axis in 0..3 {
            let size = context.cluster_nctaid[axis].max(1);
            context.clusterid[axis] = block.ctaid[axis] / size;
            context.cluster_ctaid[axis] = block.ctaid[axis] % size;
        }
    }

    fn run_block(&mut self, unit: &mut Unit, index: usize, turn: &mut Turn) -> Result<(), Stop> {
        for warp in 0..unit.blocks[index].warps.len() {
            self.run_warp(unit, index, warp, turn)?;
        }
        Ok(())
    }

    fn run_warp(&mut self, unit: &mut Unit, block: usize, index: usize, turn: &mut Turn) -> Result<(), Stop> {
        loop {
            let warp = &mut unit.blocks[block].warps[index];
            let mask = warp.runnable;
            if mask != 0 {
                self.context.fuel = FUEL;
                self.context.warp = warp;
                warp.runnable = 0;
                self.code.call(&mut self.context, warp, mask);
                if self.context.trap != 0 {
                    let lane = self.context.lane as u32;
                    return Err(self.stop(&unit.blocks[block], index, lane));
                }
                let warp = &mut unit.blocks[block].warps[index];
                let mut gone = 0;
                for lane in 0..32 {
                    gone |= u32::from(warp.resume[lane] == EXITED) << lane;
                }
                gone &= mask;
                if gone != 0 {
                    turn.progress = true;
                    warp.exited |= gone;
                    unit.blocks[block].alive -= gone.count_ones();
                    if unit.blocks[block].alive > 0 {
                        self.check_barriers(unit, block, None);
                    }
                    self.check_cluster(unit);
                }
            }
            if !self.meet(unit, block, index, turn)? {
                return Ok(());
            }
        }
    }

    /// Carries out what lanes of the warp wait for. True where lanes can go on at once.
    fn meet(&mut self, unit: &mut Unit, block: usize, index: usize, turn: &mut Turn) -> Result<bool, Stop> {
        let mut yielded = false;
        loop {
            let warp = &unit.blocks[block].warps[index];
            let waiting = warp.live() & !warp.runnable & !warp.counted;
            if waiting == 0 {
                return Ok(unit.blocks[block].warps[index].runnable != 0 && !yielded);
            }
            let mut done = 0u32;
            let mut moved = false;
            while let Some(first) = lowest(waiting & !done) {
                let warp = &unit.blocks[block].warps[index];
                let sync = warp.resume[first as usize] - 1;
                let point = &self.kernel.syncs[sync as usize];
                // Lanes at the same operation, wherever in the code.
                let mut group = 0u32;
                for lane in lanes(waiting & !done) {
                    let other = warp.resume[lane as usize] - 1;
                    let same = other == sync || (self.kernel.syncs[other as usize].key == point.key && point.key != 0);
                    group |= u32::from(same) << lane;
                }
                done |= group;
                match self.meet_group(unit, block, index, sync, group)? {
                    Outcome::Wait => {}
                    Outcome::Moved(lanes) => {
                        moved = true;
                        turn.progress = true;
                        unit.blocks[block].warps[index].runnable |= lanes;
                    }
                    Outcome::Counted => {
                        moved = true;
                        turn.progress = true;
                    }
                    Outcome::Yielded(lanes) => {
                        yielded = true;
                        turn.yielded = true;
                        unit.blocks[block].warps[index].runnable |= lanes;
                    }
                    Outcome::Chained => {
                        moved = true;
                        turn.progress = true;
                        done &= !group;
                        // The lanes stand at the next operation already.
                        continue;
                    }
                }
            }
            if !moved || unit.blocks[block].warps[index].runnable != 0 {
                return Ok(unit.blocks[block].warps[index].runnable != 0 && !yielded);
            }
        }
    }

    fn meet_group(
        &mut self,
        unit: &mut Unit,
        block: usize,
        index: usize,
        sync: u32,
        group: u32,
    ) -> Result<Outcome, Stop> {
        use crate::ir::Meeting;
        let kernel = self.kernel;
        let point = &kernel.syncs[sync as usize];
        let warp = &mut unit.blocks[block].warps[index];
        let live = warp.live();
        match point.meeting {
            Meeting::Alone => Ok(Outcome::Yielded(group)),
            Meeting::Arrived => {
                let here = at(warp, group, sync);
                self.execute(unit, block, index, sync, here, here)?;
                Ok(self.go_on(unit, block, index, here))
            }
            Meeting::Warp => {
                let here = at(warp, group, sync);
                if here != live {
                    return Ok(Outcome::Wait);
                }
                self.execute(unit, block, index, sync, here, here)?;
                Ok(self.go_on(unit, block, index, here))
            }
            Meeting::Mask(which) => {
                let (mut left, mut released) = (group, 0);
                while let Some(first) = lowest(left) {
                    let warp = &unit.blocks[block].warps[index];
                    let mask_of = |lane: u32| {
                        kernel.syncs[warp.resume[lane as usize] as usize - 1].src[which as usize].read(warp, lane)
                            as u32
                    };
                    let mask = mask_of(first);
                    let members =
                        lanes(left).filter(|lane| mask_of(*lane) == mask).fold(0, |all, lane| all | 1 << lane);
                    left &= !members;
                    if mask & live & !members == 0 {
                        self.execute(unit, block, index, sync, members, mask)?;
                        released |= members;
                    }
                }
                Ok(if released != 0 { self.go_on(unit, block, index, released) } else { Outcome::Wait })
            }
            Meeting::Block => {
                self.arrive(unit, block, index, group)?;
                Ok(Outcome::Counted)
            }
            Meeting::Cluster => Ok(self.cluster(unit, block, index, sync, group)),
        }
    }

    /// Lanes that are done go on in code, or straight to the next operation where nothing is between.
    fn go_on(&mut self, unit: &mut Unit, block: usize, index: usize, group: u32) -> Outcome {
        let warp = &mut unit.blocks[block].warps[index];
        let Some(first) = lowest(group) else { return Outcome::Wait };
        let resume = warp.resume[first as usize];
        let chain = self.kernel.syncs[resume as usize - 1].chain;
        if chain != 0 && lanes(group).all(|lane| warp.resume[lane as usize] == resume) {
            for lane in lanes(group) {
                warp.resume[lane as usize] = chain;
            }
            return Outcome::Chained;
        }
        Outcome::Moved(group)
    }

    fn stop(&self, block: &Block, warp: usize, lane: u32) -> Stop {
        let base = warp * 96 + lane as usize;
        let table = &self.shape.table;
        Stop {
            kind: self.context.trap,
            address: self.context.trap_address,
            site: self.context.site as u32,
            ctaid: block.ctaid,
            tid: [table[base], table[base + 32], table[base + 64]],
            waiting: Vec::new(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "who, where, what")]
    fn trap(&mut self, unit: &Unit, block: usize, warp: usize, lane: u32, sync: u32, kind: u64, address: u64) -> Stop {
        self.context.trap = kind;
        self.context.trap_address = address;
        self.context.site = u64::from(self.kernel.syncs[sync as usize].site);
        self.stop(&unit.blocks[block], warp, lane)
    }

    fn deadlock(&mut self, unit: &Unit) -> Stop {
        let mut sites = Vec::new();
        let mut first = None;
        for (index, block) in unit.blocks.iter().enumerate() {
            for (number, warp) in block.warps.iter().enumerate() {
                for lane in lanes(warp.live()) {
                    let sync = warp.resume[lane as usize].wrapping_sub(1);
                    if let Some(point) = self.kernel.syncs.get(sync as usize) {
                        first = first.or(Some((index, number, lane, sync)));
                        sites.push(point.site);
                    }
                }
            }
        }
        sites.sort_unstable();
        sites.dedup();
        let (block, warp, lane, sync) = first.unwrap_or_default();
        let mut stop = self.trap(unit, block, warp, lane, sync, TRAP_DEADLOCK, 0);
        stop.waiting = sites;
        stop
    }

    // ---- barriers ----

    fn arrive(&mut self, unit: &mut Unit, block: usize, index: usize, group: u32) -> Result<(), Stop> {
        for lane in lanes(group) {
            let warp = &unit.blocks[block].warps[index];
            let sync = warp.resume[lane as usize] - 1;
            let point = &self.kernel.syncs[sync as usize];
            let SyncOp::Barrier { kind, aligned } = point.op else { continue };
            let id = point.src[0].read(warp, lane);
            let count = point.src[1].read(warp, lane) as u32;
            let value = point.src.get(2).map(|source| source.read(warp, lane));
            let (live, exited) = (warp.live(), warp.exited);
            if id >= 16 || !count.is_multiple_of(32) || (kind == BarrierKind::Arrive && count == 0) {
                return Err(self.trap(unit, block, index, lane, sync, TRAP_BARRIER, 0));
            }
            let block_state = &mut unit.blocks[block];
            let barrier = &mut block_state.barriers[id as usize];
            if barrier.arrived > 0 && barrier.expected != count {
                return Err(self.trap(unit, block, index, lane, sync, TRAP_BARRIER, 0));
            }
            barrier.expected = count;
            barrier.arrived += 1;
            if let Some(value) = value {
                barrier.reds += 1;
                barrier.popc += u32::from(value & 1 != 0);
            }
            // A warp counts with all its threads, those that are gone included.
            if aligned && count > 0 && exited != 0 && lane == 31 - live.leading_zeros() {
                barrier.arrived += exited.count_ones();
            }
            let warp = &mut block_state.warps[index];
            if kind == BarrierKind::Arrive {
                warp.runnable |= 1 << lane;
            } else {
                warp.counted |= 1 << lane;
                barrier.waiting.push((index as u32, lane, sync));
            }
            self.check_barriers(unit, block, Some(id as usize));
        }
        Ok(())
    }

    fn check_barriers(&mut self, unit: &mut Unit, block: usize, only: Option<usize>) {
        let state = &mut unit.blocks[block];
        let range = only.map_or(0..16, |id| id..id + 1);
        for id in range {
            let barrier = &mut state.barriers[id];
            let expected = if barrier.expected == 0 { state.alive } else { barrier.expected };
            if barrier.arrived == 0 || barrier.arrived < expected {
                continue;
            }
            let done = std::mem::take(barrier);
            for (warp, lane, sync) in done.waiting {
                let warp = &mut state.warps[warp as usize];
                warp.counted &= !(1 << lane);
                warp.runnable |= 1 << lane;
                let point = &self.kernel.syncs[sync as usize];
                if let (SyncOp::Barrier { kind, .. }, Some(Some(dst))) = (point.op, point.dst.first()) {
                    let value = match kind {
                        BarrierKind::And => u64::from(done.popc == done.reds),
                        BarrierKind::Or => u64::from(done.popc > 0),
                        _ => u64::from(done.popc),
                    };
                    dst.write(warp, lane, value);
                }
            }
        }
    }

    fn cluster(&mut self, unit: &mut Unit, block: usize, index: usize, sync: u32, group: u32) -> Outcome {
        let phase = unit.phase;
        let warp = &mut unit.blocks[block].warps[index];
        let here = at(warp, group, sync);
        if self.kernel.syncs[sync as usize].op == SyncOp::ClusterArrive {
            for lane in lanes(here) {
                warp.phase[lane as usize] = phase + 1;
            }
            unit.arrived += here.count_ones();
            self.check_cluster(unit);
            return Outcome::Moved(here);
        }
        let ready: u32 = lanes(here).filter(|lane| warp.phase[*lane as usize] <= phase).map(|lane| 1 << lane).sum();
        if ready != 0 { Outcome::Moved(ready) } else { Outcome::Wait }
    }

    fn check_cluster(&mut self, unit: &mut Unit) {
        let alive: u32 = unit.blocks.iter().map(|block| block.alive).sum();
        if unit.arrived > 0 && unit.arrived >= alive {
            unit.arrived = 0;
            unit.phase += 1;
        }
    }
}

enum Outcome {
    Wait,
    Moved(u32),
    Counted,
    Yielded(u32),
    Chained,
}

fn lowest(mask: u32) -> Option<u32> {
    (mask != 0).then(|| mask.trailing_zeros())
}

pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = u32> {
    let mut mask = mask;
    std::iter::from_fn(move || {
        let lane = lowest(mask)?;
        mask &= mask - 1;
        Some(lane)
    })
}

/// The lanes of the group that are at exactly this point.
fn at(warp: &Warp, group: u32, sync: u32) -> u32 {
    lanes(group).filter(|lane| warp.resume[*lane as usize] == sync + 1).fold(0, |all, lane| all | 1 << lane)
}

/// Where a register's lanes are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) offset: u32,
    /// Logarithm of the bytes of a lane.
    pub(crate) shift: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Imm(u64),
    Slot(Slot),
}

impl Slot {
    fn place(self, warp: &Warp, lane: u32) -> *mut u8 {
        // SAFETY: homes are within the warp's slots, 32 lanes of `1 << shift` bytes from `offset`.
        unsafe { warp.slots.add(self.offset as usize + ((lane as usize) << self.shift)) }
    }

    pub(crate) fn read(self, warp: &Warp, lane: u32) -> u64 {
        let place = self.place(warp, lane);
        // SAFETY: a home of this size is there, aligned to it, and only this worker uses it.
        unsafe {
            match self.shift {
                0 => u64::from(*place),
                1 => u64::from(*place.cast::<u16>()),
                2 => u64::from(*place.cast::<u32>()),
                _ => *place.cast::<u64>(),
            }
        }
    }

    pub(crate) fn write(self, warp: &Warp, lane: u32, value: u64) {
        let place = self.place(warp, lane);
        // SAFETY: as in `read`.
        unsafe {
            match self.shift {
                0 => *place = value as u8,
                1 => *place.cast::<u16>() = value as u16,
                2 => *place.cast::<u32>() = value as u32,
                3 => *place.cast::<u64>() = value,
                _ => *place.cast::<u128>() = u128::from(value),
            }
        }
    }
}

impl Source {
    pub(crate) fn read(self, warp: &Warp, lane: u32) -> u64 {
        match self {
            Self::Imm(value) => value,
            Self::Slot(slot) => slot.read(warp, lane),
        }
    }
}

mod exchange;
