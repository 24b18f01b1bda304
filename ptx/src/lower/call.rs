//! Calls of helpers, through the table in the context.

use super::*;
use crate::host::memory_ops::AddressSpace;

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    pub(super) fn helper(&mut self, helper: Helper) -> Value {
        let table = self.load_context(types::I64, offset_of!(Context, helpers));
        self.load_from(types::I64, constant(), table, helper as usize * 8)
    }

    pub(super) fn call_pure(&mut self, helper: Helper, args: &[Value]) -> Value {
        let function = self.helper(helper);
        let mut all = args.to_vec();
        while all.len() < 4 {
            all.push(self.b.ins().iconst(types::I64, 0));
        }
        let call = self.b.ins().call_indirect(self.signatures.pure, function, &all);
        self.b.inst_results(call)[0]
    }

    /// Leaves the function because the launch stops; the context says why.
    pub(super) fn leave(&mut self) {
        self.store_lane();
        self.come_back(None);
    }

    pub(super) fn site_value(&mut self) -> Value {
        self.b.ins().iconst(types::I64, i64::from(self.site))
    }

    pub(super) fn system(&mut self, helper: Helper, mode: u64, inst: &Inst) {
        if helper == Helper::CopyAsync && !self.checks.any() {
            return self.copy_async(mode as u32, inst);
        }
        self.by_helper(helper, mode, inst);
    }

    /// An asynchronous copy. Most copies are whole; those are made here, as a load and a store.
    fn copy_async(&mut self, bytes: u32, inst: &Inst) {
        let [whole, cut, join] = [(); 3].map(|()| self.new_block());
        self.b.set_cold_block(cut);
        let valid = self.int(inst.src[2], 32);
        let is_whole = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThanOrEqual, valid, i64::from(bytes));
        self.b.ins().brif(is_whole, whole, &[], cut, &[]);
        self.b.switch_to_block(cut);
        self.by_helper(Helper::CopyAsync, u64::from(bytes), inst);
        self.jump(join, &[]);
        self.b.switch_to_block(whole);
        let memory = |space| Memory::weak(space, Scalar::B8);
        let target = self.resolve(&memory(AddressSpace::Shared), inst.src[0], bytes, true, 1);
        let source = self.resolve(&memory(AddressSpace::Generic), inst.src[1], bytes, false, 1);
        let kind = match bytes {
            4 => types::I32,
            8 => types::I64,
            _ => types::I8X16,
        };
        let value = self.b.ins().load(kind, loose(), source, 0);
        self.b.ins().store(loose(), value, target, 0);
        self.jump(join, &[]);
        self.b.switch_to_block(join);
    }

    fn by_helper(&mut self, helper: Helper, mode: u64, inst: &Inst) {
        for (index, value) in inst.src.iter().enumerate() {
            let bits = match value {
                Val::Reg(reg) => self.program.regs[*reg as usize].scalar.bits(),
                _ => 64,
            };
            let at = (offset_of!(Context, args) + index * 16) as i32;
            let value = if bits == 128 { self.int(*value, 128) } else { self.int(*value, 64) };
            self.b.ins().store(trusted(), value, self.context, at);
        }
        self.store_lane();
        let site = self.site_value();
        let at = offset_of!(Context, site) as i32;
        self.b.ins().store(trusted(), site, self.context, at);
        let function = self.helper(helper);
        let mode = self.b.ins().iconst(types::I64, mode as i64);
        let (context, warp) = (self.context, self.warp);
        self.b.ins().call_indirect(self.signatures.system, function, &[context, warp, mode]);
        let trap = self.b.ins().load(types::I64, trusted(), context, offset_of!(Context, trap) as i32);
        let (bad, good) = (self.b.create_block(), self.new_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(trap, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.come_back(None);
        self.b.switch_to_block(good);
        if let Some(dst) = inst.dst.first().filter(|d| **d != SINK) {
            let kind = int_type(self.program.regs[*dst as usize].scalar.bits());
            let value = self.b.ins().load(kind, trusted(), context, offset_of!(Context, result) as i32);
            self.set(*dst, value);
        }
    }
}
