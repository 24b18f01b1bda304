//! The effect of warp operations on the values of their lanes.

use super::*;
use crate::host::memory_ops::{Access, AddressSpace};
use crate::number::Scalar;
use crate::runtime::helper::resolve_any;
use crate::runtime::shuffle::partner;
use crate::runtime::warpgroup::{self, Descriptor, WarpgroupMma};

/// A warp whose lanes are at a synchronization.
pub(super) struct Exchange<'a, 'k> {
    pub(super) machine: &'a mut Machine<'k>,
    pub(super) unit: &'a mut Unit,
    pub(super) block: usize,
    /// The number of the warp in its block.
    pub(super) index: usize,
    pub(super) sync: u32,
}

impl Exchange<'_, '_> {
    /// Carries out the operation for these lanes.
    pub(super) fn execute(&mut self, members: u32) -> Result<(), Stop> {
        let kernel = self.machine.kernel;
        let warp = &mut self.unit.blocks[self.block].warps[self.index];
        // Lanes can be at different places that mean the same operation.
        let point = |warp: &Warp, lane: u32| &kernel.syncs[warp.resume[lane as usize] as usize - 1];
        let src = |warp: &Warp, lane: u32, which: usize| point(warp, lane).src[which].read(warp, lane);
        let set = |warp: &Warp, lane: u32, which: usize, value: u64| {
            if let Some(Some(slot)) = point(warp, lane).dst.get(which) {
                slot.write(warp, lane, value);
            }
        };
        match kernel.syncs[self.sync as usize].op {
            SyncOp::Shfl(mode) => {
                let mut values = [0u32; 32];
                for lane in lanes(members) {
                    values[lane as usize] = src(warp, lane, 0) as u32;
                }
                for lane in lanes(members) {
                    let (by, c) = (src(warp, lane, 1) as u32, src(warp, lane, 2) as u32);
                    let (from, inside) = partner(mode, lane, by, c);
                    set(warp, lane, 0, u64::from(values[from as usize]));
                    set(warp, lane, 1, u64::from(inside));
                }
            }
            SyncOp::Vote(mode) => {
                let mut ballot = 0u32;
                for lane in lanes(members) {
                    ballot |= u32::from(src(warp, lane, 0) & 1 != 0) << lane;
                }
                let value = match mode {
                    VoteMode::All => u32::from(ballot == members),
                    VoteMode::Any => u32::from(ballot != 0),
                    VoteMode::Uniform => u32::from(ballot == members || ballot == 0),
                    VoteMode::Ballot => ballot,
                };
                lanes(members).for_each(|lane| set(warp, lane, 0, u64::from(value)));
            }
            SyncOp::Match { all, .. } => {
                let mut values = [0u64; 32];
                lanes(members).for_each(|lane| values[lane as usize] = src(warp, lane, 0));
                for lane in lanes(members) {
                    let mut same = 0u32;
                    for other in lanes(members) {
                        same |= u32::from(values[other as usize] == values[lane as usize]) << other;
                    }
                    if all {
                        let every = same == members;
                        set(warp, lane, 0, if every { u64::from(same) } else { 0 });
                        set(warp, lane, 1, u64::from(every));
                    } else {
                        set(warp, lane, 0, u64::from(same));
                    }
                }
            }
            SyncOp::Redux(op, signed) => {
                let mut result: Option<u32> = None;
                for lane in lanes(members) {
                    let value = src(warp, lane, 0) as u32;
                    result = Some(result.map_or_else(|| first(op, value), |so_far| redux(op, signed, so_far, value)));
                }
                let value = u64::from(result.unwrap_or(0));
                lanes(members).for_each(|lane| set(warp, lane, 0, value));
            }
            SyncOp::ActiveMask => lanes(members).for_each(|lane| set(warp, lane, 0, u64::from(members))),
            SyncOp::Elect => {
                let leader = members.trailing_zeros();
                for lane in lanes(members) {
                    set(warp, lane, 0, u64::from(leader));
                    set(warp, lane, 1, u64::from(lane == leader));
                }
            }
            SyncOp::Mma(mma) => {
                let point = &kernel.syncs[self.sync as usize];
                crate::runtime::matrix::multiply(&mma, warp, &point.src, &point.dst);
            }
            SyncOp::WarpgroupMma(mma) => self.warpgroup_mma(members, &mma)?,
            SyncOp::MoveMatrix => {
                let mut rows = [[0u16; 8]; 8];
                for lane in 0..32 {
                    let value = src_or_zero(warp, members, lane, &src);
                    let (row, column) = (lane as usize / 4, lane as usize % 4 * 2);
                    rows[row][column] = value as u16;
                    rows[row][column + 1] = (value >> 16) as u16;
                }
                for lane in lanes(members) {
                    let (row, column) = (lane as usize / 4, lane as usize % 4 * 2);
                    let value = u64::from(rows[column][row]) | u64::from(rows[column + 1][row]) << 16;
                    set(warp, lane, 0, value);
                }
            }
            SyncOp::LoadMatrix(access) => {
                for matrix in 0..access.count {
                    let mut rows = [[0u16; 8]; 8];
                    for row in 0..8 {
                        let lane = matrix * 8 + row;
                        // Rows come from the lanes in order; a lane that has exited does not give one.
                        if members >> lane & 1 == 0 {
                            continue;
                        }
                        let warp = self.warp();
                        let address = src(warp, lane, 0);
                        let place = self.place(lane, (address, 16, 16), access.shared, false)?;
                        // SAFETY: resolved for 16 bytes, aligned.
                        rows[row as usize] = unsafe { place.cast::<[u16; 8]>().read() };
                    }
                    let warp = self.warp();
                    for lane in lanes(members) {
                        let (row, column) = (lane as usize / 4, lane as usize % 4 * 2);
                        let (low, high) = if access.transposed {
                            (rows[column][row], rows[column + 1][row])
                        } else {
                            (rows[row][column], rows[row][column + 1])
                        };
                        set(warp, lane, matrix as usize, u64::from(low) | u64::from(high) << 16);
                    }
                }
            }
            SyncOp::StoreMatrix(access) => {
                for matrix in 0..access.count {
                    let mut rows = [[0u16; 8]; 8];
                    let warp = self.warp();
                    for lane in lanes(members) {
                        let value = src(warp, lane, 1 + matrix as usize);
                        let (row, column) = (lane as usize / 4, lane as usize % 4 * 2);
                        let (low, high) = (value as u16, (value >> 16) as u16);
                        if access.transposed {
                            (rows[column][row], rows[column + 1][row]) = (low, high);
                        } else {
                            (rows[row][column], rows[row][column + 1]) = (low, high);
                        }
                    }
                    for row in 0..8 {
                        let lane = matrix * 8 + row;
                        if members >> lane & 1 == 0 {
                            continue;
                        }
                        let warp = self.warp();
                        let address = src(warp, lane, 0);
                        let place = self.place(lane, (address, 16, 16), access.shared, true)?;
                        // SAFETY: resolved for 16 bytes, aligned.
                        unsafe { place.cast::<[u16; 8]>().write(rows[row as usize]) };
                    }
                }
            }
            SyncOp::LoadFragment(fragment, shared) | SyncOp::StoreFragment(fragment, shared) => {
                let load = matches!(kernel.syncs[self.sync as usize].op, SyncOp::LoadFragment(..));
                let bits = fragment.scalar.bits();
                let per_register = fragment.per_register();
                let (rows, columns) = fragment.size();
                let total = rows * columns;
                let registers = if load {
                    point(warp, lowest(members).unwrap_or(0)).dst.len()
                } else {
                    point(warp, lowest(members).unwrap_or(0)).src.len() - 2
                };
                for lane in lanes(members) {
                    let warp = self.warp();
                    let (address, stride) = (src(warp, lane, 0), src(warp, lane, 1));
                    for register in 0..registers {
                        let mut value = 0u64;
                        for part in 0..per_register {
                            let element = (lane + 32 * (register as u32 * per_register + part)) % total;
                            let (row, column) = (u64::from(element / columns), u64::from(element % columns));
                            let (line, along) = if fragment.row { (row, column) } else { (column, row) };
                            let at = line.wrapping_mul(stride).wrapping_add(along);
                            let bit = at.wrapping_mul(u64::from(bits));
                            let bytes = u64::from(bits.div_ceil(8));
                            let place =
                                self.place(lane, (address.wrapping_add(bit / 8), bytes, bytes), shared, !load)?;
                            let offset = (bit % 8) as u32;
                            // SAFETY: resolved for this many bytes.
                            unsafe {
                                if load {
                                    let mut raw = [0u8; 8];
                                    std::ptr::copy_nonoverlapping(place, raw.as_mut_ptr(), bytes as usize);
                                    let found = u64::from_le_bytes(raw) >> offset;
                                    let found = if bits < 64 { found & ((1 << bits) - 1) } else { found };
                                    value |= found << (part * bits);
                                } else {
                                    let warp = self.warp();
                                    let value = src(warp, lane, 2 + register) >> (part * bits);
                                    std::ptr::copy_nonoverlapping(value.to_le_bytes().as_ptr(), place, bytes as usize);
                                }
                            }
                        }
                        if load {
                            let warp = self.warp();
                            set(warp, lane, register, value);
                        }
                    }
                }
            }
            SyncOp::WarpSync => {
                let (all, first) = (self.machine.shape.threads, self.index as u32 * 32);
                if let Some(watch) = &mut self.unit.blocks[self.block].watch {
                    if members.count_ones() == all {
                        watch.everyone();
                    } else {
                        let threads: Vec<u32> = lanes(members).map(|lane| first + lane).collect();
                        watch.meet(&threads, None);
                    }
                }
            }
            SyncOp::Yield | SyncOp::Step | SyncOp::Barrier { .. } | SyncOp::ClusterArrive | SyncOp::ClusterWait => {}
        }
        Ok(())
    }

    /// This warp's rows of a product of its warpgroup.
    fn warpgroup_mma(&mut self, members: u32, mma: &WarpgroupMma) -> Result<(), Stop> {
        let point = &self.machine.kernel.syncs[self.sync as usize];
        let lane = lowest(members).unwrap_or(0);
        let factors = if mma.a_in_memory { 1 } else { 4 };
        let warp = self.warp();
        let read = |which: usize| point.src[which].read(warp, lane);
        let (b_bits, add) = (read(factors), read(factors + 1) & 1 != 0);
        let a = if mma.a_in_memory {
            let (descriptor, first) = (Descriptor::decode(read(0)), self.index as u64 % 4 * u64::from(warpgroup::ROWS));
            let size = (u64::from(warpgroup::ROWS), u64::from(mma.k));
            let across = mma.a_transposed;
            self.factor(lane, (&descriptor, mma.a, across, first, size))?
        } else {
            mma.read_rows(warp, &point.src[..4])
        };
        let descriptor = Descriptor::decode(b_bits);
        let size = (u64::from(mma.n), u64::from(mma.k));
        let columns = self.factor(lane, (&descriptor, mma.b, mma.b_transposed, 0, size))?;
        let (n, k) = (mma.n as usize, mma.k as usize);
        let mut b = vec![0u32; columns.len()];
        for (column, values) in columns.chunks_exact(k).enumerate() {
            for (step, value) in values.iter().enumerate() {
                b[step * n + column] = *value;
            }
        }
        let warp = self.warp();
        mma.multiply(warp, &a, &b, add, &point.src[factors + 2..], &point.dst);
        Ok(())
    }

    /// A factor that is in shared memory: its elements by line (row of A, column of B), from the first line that is wanted, and step.
    fn factor(
        &mut self,
        lane: u32,
        (descriptor, scalar, transposed, first, (lines, steps)): (&Descriptor, Scalar, bool, u64, (u64, u64)),
    ) -> Result<Vec<u32>, Stop> {
        let per = warpgroup::CHUNK * 8 / u64::from(scalar.bits());
        let mut all = vec![0u32; (lines * steps) as usize];
        let (outer, inner, skipped) =
            if transposed { (steps, lines / per, first / per) } else { (lines, steps / per, 0) };
        for line in 0..outer {
            for chunk in 0..inner {
                let from = if transposed { line } else { first + line };
                let address = descriptor.chunk(from, skipped + chunk, transposed);
                let place = self.place(lane, (address, 16, 16), true, false)?;
                // SAFETY: resolved for 16 bytes, aligned.
                let bytes = unsafe { place.cast::<[u8; 16]>().read() };
                for (at, value) in (chunk * per..).zip(warpgroup::elements(bytes, scalar)) {
                    let (line, step) = if transposed { (at, line) } else { (line, at) };
                    all[(line * steps + step) as usize] = value;
                }
            }
        }
        Ok(all)
    }

    fn warp(&mut self) -> &mut Warp {
        &mut self.unit.blocks[self.block].warps[self.index]
    }

    /// The host's address of so many bytes, aligned to that, that a lane accesses.
    fn place(
        &mut self,
        lane: u32,
        (address, bytes, align): (u64, u64, u64),
        shared: bool,
        write: bool,
    ) -> Result<*mut u8, Stop> {
        let Self { machine, unit, block, index, sync } = self;
        machine.context.lane = u64::from(lane);
        machine.context.warp = &mut unit.blocks[*block].warps[*index];
        machine.context.site = u64::from(machine.kernel.syncs[*sync as usize].site);
        let space = if shared { AddressSpace::Shared } else { AddressSpace::Generic };
        let access = if write { Access::Write } else { Access::Read };
        match resolve_any(&mut machine.context, address, bytes, align, space, access) {
            Some(place) => Ok(place),
            None => {
                let (kind, address) = (machine.context.trap, machine.context.trap_address);
                Err(machine.trap(unit, *block, *index, lane, *sync, kind, address))
            }
        }
    }
}

fn src_or_zero(warp: &Warp, members: u32, lane: u32, src: &impl Fn(&Warp, u32, usize) -> u64) -> u64 {
    if members >> lane & 1 != 0 { src(warp, lane, 0) } else { 0 }
}

fn first(op: ReduxOp, value: u32) -> u32 {
    match op {
        ReduxOp::FloatMin { absolute, .. } | ReduxOp::FloatMax { absolute, .. } => {
            let value = if absolute { value & 0x7fff_ffff } else { value };
            if f32::from_bits(value).is_nan() { 0x7fff_ffff } else { value }
        }
        _ => value,
    }
}

fn redux(op: ReduxOp, signed: bool, a: u32, b: u32) -> u32 {
    match op {
        ReduxOp::Add => a.wrapping_add(b),
        ReduxOp::Min if signed => (a as i32).min(b as i32) as u32,
        ReduxOp::Min => a.min(b),
        ReduxOp::Max if signed => (a as i32).max(b as i32) as u32,
        ReduxOp::Max => a.max(b),
        ReduxOp::And => a & b,
        ReduxOp::Or => a | b,
        ReduxOp::Xor => a ^ b,
        ReduxOp::FloatMin { nan, .. } | ReduxOp::FloatMax { nan, .. } => {
            let b = first(op, b);
            let (x, y) = (f32::from_bits(a), f32::from_bits(b));
            let least = matches!(op, ReduxOp::FloatMin { .. });
            if x.is_nan() || y.is_nan() {
                return if nan || (x.is_nan() && y.is_nan()) {
                    0x7fff_ffff
                } else if x.is_nan() {
                    b
                } else {
                    a
                };
            }
            // These keys are in the order of the numbers, with -0 below +0.
            let key = |bits: u32| if bits >> 31 != 0 { !bits } else { bits | 1 << 31 };
            if (key(a) < key(b)) == least { a } else { b }
        }
    }
}
