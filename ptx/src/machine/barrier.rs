//! Barriers of blocks and clusters: which threads have arrived, which wait, and when all continue.

use super::*;
use crate::runtime::state::NUMBERED;

impl Machine<'_> {
    pub(super) fn deadlock(&mut self, unit: &Unit) -> Stop {
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

    pub(super) fn arrive(&mut self, unit: &mut Unit, block: usize, index: usize, group: u32) -> Result<(), Stop> {
        for lane in lanes(group) {
            let warp = &unit.blocks[block].warps[index];
            let sync = warp.resume[lane as usize] - 1;
            let point = &self.kernel.syncs[sync as usize];
            let SyncOp::Barrier { kind, aligned } = point.op else { continue };
            let read = |which: usize| point.src[which].read(warp, lane);
            let (id, count) = match kind {
                // After the numbered ones.
                BarrierKind::Warpgroup => ((NUMBERED + index / 4) as u64, 128),
                _ => (read(0), read(1) as u32),
            };
            let value = point.src.get(2).map(|source| source.read(warp, lane));
            let (live, exited) = (warp.live(), warp.exited);
            if kind != BarrierKind::Warpgroup && id >= NUMBERED as u64
                || !count.is_multiple_of(32)
                || (kind == BarrierKind::Arrive && count == 0)
            {
                return Err(self.trap(unit, block, index, lane, sync, TRAP_BARRIER, 0));
            }
            let block_state = &mut unit.blocks[block];
            let barrier = &mut block_state.barriers[id as usize];
            if barrier.arrived > 0 && barrier.expected != count {
                return Err(self.trap(unit, block, index, lane, sync, TRAP_BARRIER, 0));
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
            self.check_barriers(unit, block, Some(id as usize));
        }
        Ok(())
    }

    pub(super) fn check_barriers(&mut self, unit: &mut Unit, block: usize, only: Option<usize>) {
        let state = &mut unit.blocks[block];
        for id in lanes(only.map_or(state.begun, |id| 1 << id)) {
            let id = id as usize;
            let barrier = &mut state.barriers[id];
            let expected = if barrier.expected == 0 { state.alive } else { barrier.expected };
            if barrier.arrived == 0 || barrier.arrived < expected {
                continue;
            }
            let mut done = std::mem::take(barrier);
            self.watch_barrier(state, id, &done);
            for (warp, members, sync) in done.waiting.drain(..) {
                let warp = &mut state.warps[warp as usize];
                warp.counted &= !members;
                warp.runnable |= members;
                let point = &self.kernel.syncs[sync as usize];
                if let (SyncOp::Barrier { kind, .. }, Some(Some(dst))) = (point.op, point.dst.first()) {
                    let value = match kind {
                        BarrierKind::And => u64::from(done.popc == done.reds),
                        BarrierKind::Or => u64::from(done.popc > 0),
                        _ => u64::from(done.popc),
                    };
                    lanes(members).for_each(|lane| dst.write(warp, lane, value));
                }
            }
            // Its memory is reused the next time.
            state.barriers[id].waiting = done.waiting;
        }
    }

    /// What a finished barrier orders, and whether all threads reached it at one place.
    fn watch_barrier(&self, block: &mut Block, id: usize, done: &Barrier) {
        let (alive, all) = (block.alive, self.shape.threads);
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
        if !self.shape.checks.sync || !is_everyones {
            return;
        }
        let is_aligned =
            |sync: u32| matches!(self.kernel.syncs[sync as usize].op, SyncOp::Barrier { aligned: true, .. });
        let site = |sync: u32| self.kernel.syncs[sync as usize].site;
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

    pub(super) fn cluster(&mut self, unit: &mut Unit, block: usize, index: usize, sync: u32, group: u32) -> Outcome {
        let phase = unit.phase;
        let warp = &mut unit.blocks[block].warps[index];
        let here = lanes_at(warp, group, sync);
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

    pub(super) fn check_cluster(&mut self, unit: &mut Unit) {
        let alive: u32 = unit.blocks.iter().map(|block| block.alive).sum();
        if unit.arrived > 0 && unit.arrived >= alive {
            unit.arrived = 0;
            unit.phase += 1;
            unit.blocks.iter_mut().filter_map(|block| block.watch.as_mut()).for_each(|watch| watch.everyone());
        }
    }
}
