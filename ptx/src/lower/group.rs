//! Consecutive loads from shared memory relative to one address: their places are checked once.

use super::*;
use crate::host::memory_ops::AddressSpace;

/// Consecutive loads of a block whose places are known to be good.
pub(super) struct Group {
    base: Val,
    bytes: u32,
    lanes: u32,
    /// The host's address of the base.
    host: Value,
    /// The instruction after the last one.
    end: usize,
}

fn shared_load(inst: &Inst) -> Option<(Val, &Memory, u32)> {
    match &inst.op {
        Op::Load(memory) if memory.space == AddressSpace::Shared => {
            Some((inst.src[0], memory, memory.scalar.bytes() * inst.dst.len() as u32))
        }
        _ => None,
    }
}

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    /// The checked place of an access in the current group; `None` for any other.
    pub(super) fn place_in_group(&mut self, memory: &Memory, base: Val, bytes: u32, lanes: u32) -> Option<Value> {
        let group = self.group.as_ref()?;
        let is_in =
            memory.space == AddressSpace::Shared && (group.base, group.bytes, group.lanes) == (base, bytes, lanes);
        let host = group.host;
        is_in.then(|| if memory.offset == 0 { host } else { self.b.ins().iadd_imm_s(host, memory.offset) })
    }

    /// Checks the places of the loads that begin at `at`, if there are several. They start at one address, have one size and are
    /// multiples of it apart. So all are good if the first and the last one are; if those are not, one of them is not good.
    pub(super) fn check_group(&mut self, insts: &[Inst], at: usize) {
        if self.group.as_ref().is_some_and(|group| at < group.end) {
            return;
        }
        self.group = None;
        let Some((base, first, bytes)) = shared_load(&insts[at]) else { return };
        // The checks want to see each access.
        let Some(lanes) = self.lanes_of_group(base, bytes).filter(|_| !self.checks.any()) else { return };
        let (mut low, mut high, mut end) = (first.offset, first.offset, at);
        for inst in &insts[at..] {
            match shared_load(inst) {
                Some((other, memory, size))
                    if (other, size) == (base, bytes) && (memory.offset - first.offset) % i64::from(bytes) == 0 =>
                {
                    (low, high, end) = (low.min(memory.offset), high.max(memory.offset), end + 1);
                }
                _ => break,
            }
            if inst.dst.iter().any(|reg| base == Val::Reg(*reg)) {
                break;
            }
        }
        let members = &insts[at..end];
        let places = (high - low) as u64 / u64::from(bytes) + u64::from(lanes);
        if members.len() < 2 || places > u64::from(u16::MAX) {
            return;
        }
        let from = self.int(base, 64);
        let lowest = self.b.ins().iadd_imm_s(from, low);
        let start = self.load_context(types::I64, offset_of!(Context, shared));
        let length = self.load_context(types::I64, offset_of!(Context, shared_bytes));
        let fits = self.fits(lowest, length, bytes, places as u32);
        let (good, bad) = (self.new_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.append_block_param(good, types::I64);
        self.b.ins().brif(fits, good, &[BlockArg::Value(from)], bad, &[]);
        // The first access that is not good stops the launch.
        self.b.switch_to_block(bad);
        let site = self.site;
        for inst in members {
            let Some((_, memory, _)) = shared_load(inst) else { continue };
            self.site = inst.site;
            let address = self.b.ins().iadd_imm_s(from, memory.offset);
            let address = if self.is_narrow(base) { self.wrapped(address) } else { address };
            let next = self.b.create_block();
            self.b.set_cold_block(next);
            self.b.append_block_param(next, types::I64);
            self.resolve_by_helper(memory, address, bytes, false, lanes, next);
            self.b.switch_to_block(next);
        }
        self.site = site;
        // All are good, so a base beyond what shared memory can have is a negative one.
        let signed = if self.is_narrow(base) {
            let low = self.int(base, 32);
            self.b.ins().sextend(types::I64, low)
        } else {
            from
        };
        self.b.ins().jump(good, &[BlockArg::Value(signed)]);
        self.b.switch_to_block(good);
        let from = self.b.block_params(good)[0];
        let host = self.b.ins().iadd(start, from);
        self.group = Some(Group { base, bytes, lanes, host, end });
    }
}
