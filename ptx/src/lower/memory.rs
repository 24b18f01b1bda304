//! Loads and stores: each access is checked against the range that its last access fell into.

use super::*;
use crate::host::memory_ops::AddressSpace;

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    /// The checked host address of an access. For several lanes with consecutive accesses, the first one's.
    pub(super) fn resolve(&mut self, memory: &Memory, base: Val, bytes: u32, write: bool, lanes: u32) -> Value {
        if let Some(place) = self.place_in_group(memory, base, bytes, lanes).filter(|_| !write) {
            return place;
        }
        let is_narrow = self.is_narrow(base);
        let base = self.int(base, 64);
        let address = if memory.offset == 0 { base } else { self.b.ins().iadd_imm_s(base, memory.offset) };
        let (slow, good) = (self.b.create_block(), self.new_block());
        self.b.set_cold_block(slow);
        self.b.append_block_param(good, types::I64);
        let (fits, host) = match memory.space {
            AddressSpace::Global | AddressSpace::Generic => {
                let sites = self.load_context(types::I64, offset_of!(Context, sites));
                let shift = i64::from(bytes.trailing_zeros());
                let at = self.site as usize * size_of::<SiteCache>();
                let lowest = self.b.ins().load(types::I64, trusted(), sites, (at + offset_of!(SiteCache, low)) as i32);
                let limit = if lanes == 1 { offset_of!(SiteCache, count) } else { offset_of!(SiteCache, rows) };
                let count = self.b.ins().load(types::I64, trusted(), sites, (at + limit) as i32);
                let distance = self.b.ins().isub(address, lowest);
                let turned = if shift == 0 { distance } else { self.b.ins().rotr_imm_u(distance, shift) };
                (self.b.ins().icmp(IntCC::UnsignedLessThan, turned, count), address)
            }
            AddressSpace::Shared | AddressSpace::Local | AddressSpace::KernelParam => {
                let (start, length) = match memory.space {
                    AddressSpace::Shared => {
                        let start = self.load_context(types::I64, offset_of!(Context, shared));
                        (start, self.load_context(types::I64, offset_of!(Context, shared_bytes)))
                    }
                    AddressSpace::Local => {
                        (self.lane().local, self.load_context(types::I64, offset_of!(Context, local_bytes)))
                    }
                    _ => {
                        let start = self.load_context(types::I64, offset_of!(Context, params));
                        (start, self.load_context(types::I64, offset_of!(Context, param_bytes)))
                    }
                };
                (self.fits(address, length, bytes, lanes), self.b.ins().iadd(start, address))
            }
        };
        self.b.ins().brif(fits, good, &[BlockArg::Value(host)], slow, &[]);
        self.b.switch_to_block(slow);
        let address = if is_narrow { self.wrapped(address) } else { address };
        self.resolve_by_helper(memory, address, bytes, write, lanes, good);
        self.b.switch_to_block(good);
        self.b.block_params(good)[0]
    }

    /// Whether the sum of this base and an offset wraps in 32 bits. It is added in 64, so that a sum that wraps fits nowhere and has
    /// to be [`wrapped`](Self::wrapped) then.
    pub(super) fn is_narrow(&self, base: Val) -> bool {
        matches!(base, Val::Reg(reg) if self.bits_of(reg) == 32)
    }

    /// The low 32 bits of an address.
    pub(super) fn wrapped(&mut self, address: Value) -> Value {
        let low = self.b.ins().ireduce(types::I32, address);
        self.b.ins().uextend(types::I64, low)
    }

    /// Continues in `good` with the machine's answer about an access. Stops the launch if the access is not good.
    pub(super) fn resolve_by_helper(
        &mut self,
        memory: &Memory,
        address: Value,
        bytes: u32,
        write: bool,
        lanes: u32,
        good: ir::Block,
    ) {
        let access = memory.access(write);
        self.store_lane();
        let site = self.site_value();
        let mode = u64::from(bytes) | (memory.space as u64) << 16 | (access as u64) << 24;
        let mode = self.b.ins().iconst(types::I64, mode as i64);
        let warp_at = offset_of!(Context, warp) as i32;
        self.b.ins().store(trusted(), self.warp, self.context, warp_at);
        let function = self.helper(if lanes == 1 { Helper::Resolve } else { Helper::ResolveRow });
        let context = self.context;
        let call = self.b.ins().call_indirect(self.signatures.resolve, function, &[context, address, mode, site]);
        let host = self.b.inst_results(call)[0];
        let bad = self.b.create_block();
        self.b.set_cold_block(bad);
        self.b.ins().brif(host, good, &[BlockArg::Value(host)], bad, &[]);
        self.b.switch_to_block(bad);
        self.come_back(None);
    }

    /// Whether this many consecutive accesses are inside memory that begins at 0, with the first aligned to their size.
    pub(super) fn fits(&mut self, address: Value, length: Value, bytes: u32, count: u32) -> Value {
        let shift = i64::from(bytes.trailing_zeros());
        let turned = if shift == 0 { address } else { self.b.ins().rotr_imm_u(address, shift) };
        let limit = if shift == 0 { length } else { self.b.ins().ushr_imm_u(length, shift) };
        self.are_below(turned, limit, count)
    }

    /// Whether this many consecutive numbers are below a limit.
    fn are_below(&mut self, first: Value, limit: Value, lanes: u32) -> Value {
        let below = self.b.ins().icmp(IntCC::UnsignedLessThan, first, limit);
        if lanes == 1 {
            return below;
        }
        // If the first is below the limit, it is far from where adding would wrap.
        let last = self.b.ins().iadd_imm_s(first, i64::from(lanes) - 1);
        let last = self.b.ins().icmp(IntCC::UnsignedLessThan, last, limit);
        self.b.ins().band(below, last)
    }

    /// Shows an access at a resolved place to the checks, if there are any for its space; a store with what it writes.
    fn track(&mut self, memory: &Memory, place: Value, bytes: u32, stored: Option<&[Value]>) {
        let is_wanted = match memory.space {
            AddressSpace::Shared => self.checks.shared(),
            AddressSpace::Global => self.checks.init,
            AddressSpace::Generic => self.checks.shared(),
            AddressSpace::Local | AddressSpace::KernelParam => false,
        };
        if !is_wanted {
            return;
        }
        let access = memory.access(stored.is_some());
        self.store_lane();
        let stored = stored.filter(|_| self.checks.shared_races).unwrap_or_default();
        for (index, value) in stored.iter().enumerate() {
            let at = offset_of!(Context, args) + index * memory.scalar.bytes() as usize;
            self.b.ins().store(trusted(), *value, self.context, at as i32);
        }
        let mode = u64::from(bytes) | (access as u64) << 16 | u64::from(memory.volatile) << 24;
        let mode = mode | u64::from(!stored.is_empty()) << 25;
        let mode = self.b.ins().iconst(types::I64, mode as i64);
        let site = self.site_value();
        let function = self.helper(Helper::Track);
        let context = self.context;
        self.b.ins().call_indirect(self.signatures.resolve, function, &[context, place, mode, site]);
    }

    pub(super) fn load(&mut self, memory: &Memory, inst: &Inst) {
        let bits = memory.scalar.bits();
        let each = memory.scalar.bytes();
        let bytes = each * inst.dst.len() as u32;
        let host = self.resolve(memory, inst.src[0], bytes, false, 1);
        self.track(memory, host, bytes, None);
        let ordered = memory.is_ordered();
        for (index, dst) in inst.dst.iter().enumerate() {
            if *dst == SINK {
                continue;
            }
            let offset = (index as u32 * each) as i32;
            let want = self.variable_type(*dst);
            let kind = if want.bits() == bits { want } else { int_type(bits) };
            let value = if ordered {
                let at = if offset == 0 { host } else { self.b.ins().iadd_imm_s(host, i64::from(offset)) };
                self.b.ins().atomic_load(int_type(bits), trusted(), at)
            } else {
                self.b.ins().load(kind, checked(), host, offset)
            };
            let value = if memory.scalar.signed() && want.is_int() && want.bits() > bits {
                self.b.ins().sextend(want, value)
            } else {
                value
            };
            self.set(*dst, value);
        }
    }

    pub(super) fn store(&mut self, memory: &Memory, inst: &Inst) {
        let bits = memory.scalar.bits();
        let each = memory.scalar.bytes();
        let values = &inst.src[1..];
        let bytes = each * values.len() as u32;
        let host = self.resolve(memory, inst.src[0], bytes, true, 1);
        let ordered = memory.is_ordered();
        let mut stored = Vec::with_capacity(values.len());
        for value in values {
            let value = match value {
                Val::Reg(reg)
                    if self.classes.float[*reg as usize] && self.variable_type(*reg).bits() == bits && !ordered =>
                {
                    let value = self.read(*reg);
                    if self.classes.arithmetic[*reg as usize] && bits == 32 { self.canonical(value) } else { value }
                }
                other => self.int(*other, bits.max(8)),
            };
            stored.push(value);
        }
        self.track(memory, host, bytes, Some(&stored));
        // The address is checked for every thread, so the first one that goes wrong is named.
        let next = memory.once.then(|| self.only_last_thread());
        for (index, value) in stored.into_iter().enumerate() {
            let offset = (index as u32 * each) as i32;
            if ordered {
                let at = if offset == 0 { host } else { self.b.ins().iadd_imm_s(host, i64::from(offset)) };
                self.b.ins().atomic_store(trusted(), value, at);
            } else {
                self.b.ins().store(checked(), value, host, offset);
            }
        }
        if let Some(next) = next {
            self.jump(next, &[]);
            self.b.switch_to_block(next);
        }
    }

    /// What follows runs in the block's last thread. Returns where all go on.
    fn only_last_thread(&mut self) -> ir::Block {
        let last = self.is_last_thread();
        let (run, next) = (self.new_block(), self.new_block());
        self.b.ins().brif(last, run, &[], next, &[]);
        self.b.switch_to_block(run);
        next
    }

    fn is_last_thread(&mut self) -> Value {
        let warp = self.load_from(types::I32, constant(), self.warp, offset_of!(Warp, index));
        let first = self.b.ins().ishl_imm_u(warp, 5);
        let lane = self.lane().number;
        let lane = self.b.ins().ireduce(types::I32, lane);
        let number = self.b.ins().iadd(first, lane);
        let [x, y, z] = [0, 4, 8].map(|axis| self.load_context(types::I32, offset_of!(Context, ntid) + axis));
        let plane = self.b.ins().imul(x, y);
        let count = self.b.ins().imul(plane, z);
        let last = self.b.ins().iadd_imm_s(count, -1);
        self.b.ins().icmp(IntCC::Equal, number, last)
    }
}
