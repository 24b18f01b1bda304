//! The fast path for warps whose 32 lanes are all at one place, as they nearly always are: no per-lane checks.

use super::barrier::check_barriers;
use super::*;
use crate::analysis::synchronization::Point;
use crate::runtime::home::Source;
use crate::runtime::state::NUMBERED;

const ALL: u32 = u32::MAX;

/// Carries out what a whole warp is waiting for. False if its lanes have to be looked at individually.
pub(super) fn in_step(machine: &mut Machine<'_>, unit: &mut Unit, block: usize, index: usize) -> Result<bool, Stop> {
    let kernel = machine.kernel;
    loop {
        let warp = &mut unit.blocks[block].warps[index];
        let sync = warp.resume[0] - 1;
        let point = &kernel.syncs[sync as usize];
        if !point.is_met_by_warp() {
            let counts = point.convergence == Convergence::Block;
            return Ok(counts && arrive_together(machine, unit, block, index, sync));
        }
        if !shuffle(warp, point) {
            machine.execute(unit, block, index, sync, ALL)?;
        }
        let warp = &mut unit.blocks[block].warps[index];
        if point.chain == 0 {
            warp.runnable = ALL;
            return Ok(true);
        }
        warp.resume = [point.chain; 32];
    }
}

/// A whole warp arrives at a barrier of its block. False if that is not a plain one.
fn arrive_together(machine: &Machine<'_>, unit: &mut Unit, block: usize, index: usize, sync: u32) -> bool {
    let point = &machine.kernel.syncs[sync as usize];
    let (SyncOp::Barrier { kind: BarrierKind::Sync, .. }, [Source::Imm(id), Source::Imm(count)]) =
        (point.op, &point.src[..])
    else {
        return false;
    };
    let (id, count) = (*id as usize, *count as u32);
    let state = &mut unit.blocks[block];
    if id >= NUMBERED || !count.is_multiple_of(32) {
        return false;
    }
    let barrier = &mut state.barriers[id];
    if barrier.arrived > 0 && barrier.expected != count {
        return false;
    }
    barrier.expected = count;
    barrier.arrived += 32;
    barrier.waiting.push((index as u32, ALL, sync));
    state.begun |= 1 << id;
    state.warps[index].counted = ALL;
    check_barriers(machine.kernel, machine.shape, state, Some(id));
    true
}
/// Carries out a shuffle whose partners are known. False if the point is something else.
fn shuffle(warp: &mut Warp, point: &Point) -> bool {
    let (Some(partners), Some(Source::Slot(from))) = (&point.partners, point.src.first()) else { return false };
    let Some(values) = from.words(warp) else { return false };
    if let Some(Some(slot)) = point.dst.first() {
        slot.set_words(warp, &values, &partners.0);
    }
    if let Some(Some(slot)) = point.dst.get(1) {
        slot.set_bytes(warp, &partners.1);
    }
    true
}
