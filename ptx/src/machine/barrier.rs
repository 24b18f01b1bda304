//! Barriers of blocks and clusters: which threads have arrived, which wait, and when all continue.

use super::unit::Unit;
use crate::host::mistake::{MistakeKind, Note};
use crate::kernel::Kernel;
use crate::runtime::home::lanes;
use crate::runtime::state::{Barrier, Block, NUMBERED, Shape};
use crate::runtime::sync::{BarrierKind, SyncOp};

/// Threads of a warp arrive at barriers of their block. An error has the lane that uses one wrongly, and its synchronization.
pub(super) fn arrive(
    kernel: &Kernel,
    shape: &Shape,
    unit: &mut Unit,
    block: usize,
    index: usize,
    group: u32,
) -> Result<(), (u32, u32)> {
    for lane in lanes(group) {
        let warp = &unit.blocks[block].warps[index];
        let sync = warp.resume[lane as usize] - 1;
        let point = &kernel.syncs[sync as usize];
        let SyncOp::Barrier { kind, aligned } = point.op else { continue };
        let read = |which: usize| point.src[which].read(warp, lane);
        let (id, count) = match kind {
            // The barriers of warpgroups come after the numbered ones.
            BarrierKind::Warpgroup => ((NUMBERED + index / 4) as u64, 128),
            _ => (read(0), read(1) as u32),
        };
        let value = point.src.get(2).map(|source| source.read(warp, lane));
        let (live, exited) = (warp.live(), warp.exited);
        if kind != BarrierKind::Warpgroup && id >= NUMBERED as u64
            || !count.is_multiple_of(32)
            || (kind == BarrierKind::Arrive && count == 0)
        {
            return Err((lane, sync));
        }
        let block_state = &mut unit.blocks[block];
        let barrier = &mut block_state.barriers[id as usize];
        if barrier.arrived > 0 && barrier.expected != count {
            return Err((lane, sync));
        }
        barrier.expected = count;
        barrier.arrived += 1;
        block_state.begun |= 1 << id;
        if let Some(value) = value {
            barrier.reds += 1;
            barrier.popc += u32::from(value & 1 != 0);
        }
        // A warp counts with all its threads, those that are gone included.
        if aligned && count > 0 && exited != 0 && lane == 31 - live.leading_zeros() {
            barrier.arrived += exited.count_ones();
        }
        if kind == BarrierKind::Arrive
            && let Some(watch) = &mut block_state.watch
        {
            watch.arrive(index as u32 * 32 + lane, id as u32);
        }
        let warp = &mut block_state.warps[index];
        if kind == BarrierKind::Arrive {
            warp.runnable |= 1 << lane;
        } else {
            warp.counted |= 1 << lane;
            barrier.waiting.push((index as u32, 1 << lane, sync));
        }
        check_barriers(kernel, shape, &mut unit.blocks[block], Some(id as usize));
    }
    Ok(())
}

/// Lets the threads of a block go on that wait at barriers where all have arrived: at one of them, or at any.
pub(super) fn check_barriers(kernel: &Kernel, shape: &Shape, state: &mut Block, only: Option<usize>) {
    for id in lanes(only.map_or(state.begun, |id| 1 << id)) {
        let id = id as usize;
        let barrier = &mut state.barriers[id];
        let expected = if barrier.expected == 0 { state.alive } else { barrier.expected };
        if barrier.arrived == 0 || barrier.arrived < expected {
            continue;
        }
        let mut done = std::mem::take(barrier);
        watch_barrier(kernel, shape, state, id, &done);
        for (warp, members, sync) in done.waiting.drain(..) {
            let warp = &mut state.warps[warp as usize];
            warp.counted &= !members;
            warp.runnable |= members;
            let point = &kernel.syncs[sync as usize];
            if let (SyncOp::Barrier { kind, .. }, Some(Some(dst))) = (point.op, point.dst.first()) {
                let value = match kind {
                    BarrierKind::And => u64::from(done.popc == done.reds),
                    BarrierKind::Or => u64::from(done.popc > 0),
                    _ => u64::from(done.popc),
                };
                lanes(members).for_each(|lane| dst.write(warp, lane, value));
            }
        }
        // The list's memory is reused the next time.
        state.barriers[id].waiting = done.waiting;
    }
}

/// What a finished barrier orders, and whether all threads reached it at one place.
fn watch_barrier(kernel: &Kernel, shape: &Shape, block: &mut Block, id: usize, done: &Barrier) {
    let (alive, all) = (block.alive, shape.threads);
    let Some(watch) = block.watch.as_mut().filter(|_| id < NUMBERED) else { return };
    let thread = |(warp, members, _): (u32, u32, u32)| warp * 32 + members.trailing_zeros();
    // Threads that are watched arrive one by one.
    if done.waiting.len() as u32 == alive {
        watch.everyone();
    } else {
        let threads: Vec<u32> = done.waiting.iter().copied().map(thread).collect();
        watch.meet(&threads, Some(id as u32));
    }
    let is_everyones = done.expected == 0 || done.expected == all;
    if !shape.checks.sync || !is_everyones {
        return;
    }
    let is_aligned = |sync: u32| matches!(kernel.syncs[sync as usize].op, SyncOp::Barrier { aligned: true, .. });
    let site = |sync: u32| kernel.syncs[sync as usize].site;
    let mut aligned = done.waiting.iter().copied().filter(|(_, _, sync)| is_aligned(*sync));
    let Some(first) = aligned.next() else { return };
    if let Some(other) = aligned.find(|(_, _, sync)| site(*sync) != site(first.2)) {
        watch.note(Note {
            kind: MistakeKind::DivergentBarrier,
            site: site(first.2),
            thread: thread(first),
            other: Some((thread(other), site(other.2))),
            address: 0,
            bytes: 0,
        });
    }
}

/// Lanes of a warp arrive at the barrier of their cluster, or wait there. Returns those that go on.
pub(super) fn arrive_in_cluster(op: SyncOp, unit: &mut Unit, block: usize, index: usize, here: u32) -> Option<u32> {
    let phase = unit.phase;
    let warp = &mut unit.blocks[block].warps[index];
    if op == SyncOp::ClusterArrive {
        for lane in lanes(here) {
            warp.phase[lane as usize] = phase + 1;
        }
        unit.arrived += here.count_ones();
        check_cluster(unit);
        return Some(here);
    }
    let ready: u32 = lanes(here).filter(|lane| warp.phase[*lane as usize] <= phase).map(|lane| 1 << lane).sum();
    (ready != 0).then_some(ready)
}

/// Lets the threads of a cluster go on if all have arrived at its barrier.
pub(super) fn check_cluster(unit: &mut Unit) {
    let alive: u32 = unit.blocks.iter().map(|block| block.alive).sum();
    if unit.arrived > 0 && unit.arrived >= alive {
        unit.arrived = 0;
        unit.phase += 1;
        unit.blocks.iter_mut().filter_map(|block| block.watch.as_mut()).for_each(|watch| watch.everyone());
    }
}
