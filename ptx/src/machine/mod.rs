//! The scheduler: warps run until their threads converge, then the operation at that point is carried out. A group of blocks that
//! only waits for others yields to them.

mod barrier;
mod exchange;
mod step;
mod unit;

use crate::host::mistake::{MistakeKind, Note};
use crate::ir::Convergence;
use crate::kernel::{Execution, Kernel};
use crate::runtime::home::{lanes, lowest};
use crate::runtime::state::*;
use crate::runtime::sync::*;

use barrier::{arrive, arrive_in_cluster, check_barriers, check_cluster};
use exchange::Exchange;
use step::in_step;
pub(crate) use unit::Unit;

pub(crate) enum Status {
    Done,
    /// There is nothing to do except wait for other blocks.
    Waiting,
}

/// Where a thread stopped permanently.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    pub(crate) kind: u64,
    pub(crate) address: u64,
    pub(crate) site: u32,
    pub(crate) ctaid: [u32; 3],
    pub(crate) tid: [u32; 3],
    pub(crate) waiting: Vec<u32>,
    pub(crate) access: Option<TrapAccess>,
}

/// How often the threads of a unit meet before other units get their turn, in a kernel that may wait for memory.
const TURNS: u32 = 256;

/// One worker's side of a launch.
pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a Kernel,
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
        let (mut idle, mut turns) = (0u32, 0u32);
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
            turns += 1;
            if turn.progress {
                // One thread may ask whether another block is done and pass the answer on at a barrier, making progress forever.
                if turns == TURNS && self.kernel.may_wait() {
                    return Ok(Status::Waiting);
                }
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

    /// Forgets the trap of a unit that stopped, because others may go on.
    pub(crate) fn forget(&mut self) {
        (self.context.trap, self.context.trap_address, self.context.trap_access) = (0, 0, None);
    }

    /// Sets the part of the context that belongs to a block.
    fn enter(&mut self, block: &mut Block) {
        let context = &mut *self.context;
        context.watch = block.watch.as_deref_mut().map_or(std::ptr::null_mut(), |watch| watch);
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
        let mut known = None;
        loop {
            let warp = &mut unit.blocks[block].warps[index];
            let mask = warp.runnable;
            if mask != 0 {
                self.context.fuel = FUEL;
                self.context.warp = warp;
                warp.runnable = 0;
                let place = match &self.kernel.execution {
                    Execution::Compiled(code) => code.call(&mut self.context, warp, mask, known.take()),
                    Execution::Interpreted(interpreter) => {
                        known = None;
                        interpreter.call(&self.kernel.program, &mut self.context, warp, mask)
                    }
                };
                if self.context.trap != 0 {
                    let lane = self.context.lane as u32;
                    return Err(self.stop(&unit.blocks[block], index, lane));
                }
                let is_whole = place.is_some_and(|place| place != EXITED);
                if is_whole && !self.shape.checks.any() && in_step(self, unit, block, index)? {
                    turn.progress = true;
                    let warp = &unit.blocks[block].warps[index];
                    if warp.runnable == 0 {
                        return Ok(());
                    }
                    // All lanes took the same steps.
                    known = Some(warp.resume[0]);
                    continue;
                }
                let warp = &mut unit.blocks[block].warps[index];
                let gone = match place {
                    Some(EXITED) => mask,
                    Some(_) => 0,
                    None => (0..32).fold(0, |all, lane| all | u32::from(warp.resume[lane] == EXITED) << lane) & mask,
                };
                if gone != 0 {
                    turn.progress = true;
                    warp.exited |= gone;
                    unit.blocks[block].alive -= gone.count_ones();
                    if unit.blocks[block].alive > 0 {
                        check_barriers(self.kernel, self.shape, &mut unit.blocks[block], None);
                    }
                    check_cluster(unit);
                }
            }
            if !self.converge(unit, block, index, turn)? {
                return Ok(());
            }
        }
    }

    /// Carries out what lanes of the warp are waiting for. True if lanes can continue at once.
    fn converge(&mut self, unit: &mut Unit, block: usize, index: usize, turn: &mut Turn) -> Result<bool, Stop> {
        let mut yielded = false;
        loop {
            let warp = &unit.blocks[block].warps[index];
            let waiting = warp.live() & !warp.runnable & !warp.counted;
            if waiting == 0 {
                return Ok(unit.blocks[block].warps[index].runnable != 0 && !yielded);
            }
            let mut done = 0u32;
            let mut moved = false;
            // The first place where lanes wait for the others of their warp without need, and the lanes there.
            let mut pacing: Option<(u32, u32)> = None;
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
                match self.converge_group(unit, block, index, sync, group)? {
                    Outcome::Wait => {}
                    Outcome::Ahead => {
                        pacing = pacing.into_iter().chain([(sync, group)]).min();
                    }
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
                        // The lanes are already at the next operation.
                        continue;
                    }
                }
            }
            if let Some((_, lanes)) = pacing.filter(|_| !moved) {
                turn.progress = true;
                unit.blocks[block].warps[index].runnable |= lanes;
            }
            if !moved || unit.blocks[block].warps[index].runnable != 0 {
                return Ok(unit.blocks[block].warps[index].runnable != 0 && !yielded);
            }
        }
    }

    fn converge_group(
        &mut self,
        unit: &mut Unit,
        block: usize,
        index: usize,
        sync: u32,
        group: u32,
    ) -> Result<Outcome, Stop> {
        let kernel = self.kernel;
        let point = &kernel.syncs[sync as usize];
        let warp = &mut unit.blocks[block].warps[index];
        let live = warp.live();
        match point.convergence {
            Convergence::Alone => Ok(Outcome::Yielded(group)),
            Convergence::Pace if group == live => Ok(self.go_on(unit, block, index, group)),
            Convergence::Pace => Ok(Outcome::Ahead),
            Convergence::Arrived => {
                let here = lanes_at(warp, group, sync);
                self.execute(unit, block, index, sync, here)?;
                Ok(self.go_on(unit, block, index, here))
            }
            Convergence::Warp => {
                let here = lanes_at(warp, group, sync);
                if here != live {
                    return Ok(Outcome::Wait);
                }
                self.execute(unit, block, index, sync, here)?;
                Ok(self.go_on(unit, block, index, here))
            }
            Convergence::Mask(which) => {
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
                    self.check_masks(unit, block, index, members, mask, left);
                    if mask & live & !members == 0 {
                        self.execute(unit, block, index, sync, members)?;
                        released |= members;
                    }
                }
                Ok(if released != 0 { self.go_on(unit, block, index, released) } else { Outcome::Wait })
            }
            Convergence::Block => match arrive(kernel, self.shape, unit, block, index, group) {
                Ok(()) => Ok(Outcome::Counted),
                Err((lane, sync)) => Err(self.trap(unit, block, index, lane, sync, TRAP_BARRIER, 0)),
            },
            Convergence::Cluster => {
                let here = lanes_at(warp, group, sync);
                Ok(arrive_in_cluster(point.op, unit, block, index, here).map_or(Outcome::Wait, Outcome::Moved))
            }
        }
    }

    /// Notes lanes that wait for `mask` without being in it. Also notes lanes that still wait at the same operation if they and
    /// these lanes name each other in different masks.
    fn check_masks(&self, unit: &mut Unit, block: usize, index: usize, members: u32, mask: u32, others: u32) {
        if !self.shape.checks.sync {
            return;
        }
        let warp = &unit.blocks[block].warps[index];
        let point = |lane: u32| &self.kernel.syncs[warp.resume[lane as usize] as usize - 1];
        let thread = |lane: u32| index as u32 * 32 + lane;
        let note = |kind, lane: u32, other: Option<u32>| Note {
            kind,
            site: point(lane).site,
            thread: thread(lane),
            other: other.map(|other| (thread(other), point(other).site)),
            address: 0,
            bytes: 0,
        };
        let mut notes = Vec::new();
        if let Some(lane) = lowest(members & !mask) {
            notes.push(note(MistakeKind::NotInMask, lane, None));
        }
        for other in lanes(others & mask) {
            let Convergence::Mask(which) = point(other).convergence else { continue };
            let theirs = point(other).src[which as usize].read(warp, other) as u32;
            if let Some(lane) = lowest(theirs & members).filter(|_| theirs != mask) {
                notes.push(note(MistakeKind::UnequalMasks, lane, Some(other)));
                break;
            }
        }
        if let Some(watch) = &mut unit.blocks[block].watch {
            notes.into_iter().for_each(|note| watch.note(note));
        }
    }

    /// Lanes that are done continue in code, or go straight to the next operation if there is nothing in between.
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

    /// Carries out an operation for these lanes.
    fn execute(&mut self, unit: &mut Unit, block: usize, index: usize, sync: u32, members: u32) -> Result<(), Stop> {
        Exchange { machine: self, unit, block, index, sync }.execute(members)
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
            access: self.context.trap_access,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "who, where, what")]
    fn trap(&mut self, unit: &Unit, block: usize, warp: usize, lane: u32, sync: u32, kind: u64, address: u64) -> Stop {
        self.context.trap = kind;
        self.context.trap_address = address;
        self.context.site = u64::from(self.kernel.syncs[sync as usize].site);
        self.stop(&unit.blocks[block], warp, lane)
    }
}

enum Outcome {
    Wait,
    Moved(u32),
    Counted,
    /// The lanes wait for others of their warp, but need not.
    Ahead,
    Yielded(u32),
    Chained,
}

/// The lanes of the group that are at exactly this point.
fn lanes_at(warp: &Warp, group: u32, sync: u32) -> u32 {
    lanes(group).filter(|lane| warp.resume[*lane as usize] == sync + 1).fold(0, |all, lane| all | 1 << lane)
}
