//! Calls of helpers, through the table in the context.

use super::*;

impl<'a> Lowering<'a> {
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
        let call = self.b.ins().call_indirect(self.pure, function, &all);
        self.b.inst_results(call)[0]
    }

    /// Leaves the function: the context says why.
    pub(super) fn leave(&mut self) {
        self.b.ins().store(trusted(), self.lane, self.context, offset_of!(Context, lane) as i32);
        self.b.ins().return_(&[]);
    }

    pub(super) fn site_value(&mut self) -> Value {
        self.b.ins().iconst(types::I64, i64::from(self.site))
    }

    pub(super) fn system(&mut self, helper: Helper, mode: u64, inst: &Inst) {
        for (index, value) in inst.src.iter().enumerate() {
            let bits = match value {
                Val::Reg(reg) => self.program.regs[*reg as usize].scalar.bits(),
                _ => 64,
            };
            let at = (offset_of!(Context, args) + index * 16) as i32;
            let value = if bits == 128 { self.int(*value, 128) } else { self.int(*value, 64) };
            self.b.ins().store(trusted(), value, self.context, at);
        }
        self.b.ins().store(trusted(), self.lane, self.context, offset_of!(Context, lane) as i32);
        let site = self.site_value();
        let at = offset_of!(Context, site) as i32;
        self.b.ins().store(trusted(), site, self.context, at);
        let function = self.helper(helper);
        let mode = self.b.ins().iconst(types::I64, mode as i64);
        let (context, warp) = (self.context, self.warp);
        self.b.ins().call_indirect(self.system, function, &[context, warp, mode]);
        let trap = self.b.ins().load(types::I64, trusted(), context, offset_of!(Context, trap) as i32);
        let (bad, good) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(bad);
        self.b.ins().brif(trap, bad, &[], good, &[]);
        self.b.switch_to_block(bad);
        self.b.ins().return_(&[]);
        self.b.switch_to_block(good);
        if let Some(dst) = inst.dst.first().filter(|d| **d != SINK) {
            let kind = int_type(self.program.regs[*dst as usize].scalar.bits());
            let value = self.b.ins().load(kind, trusted(), context, offset_of!(Context, result) as i32);
            self.set(*dst, value);
        }
    }
}
