//! The first body of a kernel: one lane, with each register in a variable.

use super::*;

/// The lane that runs, and its registers.
pub(super) struct OneLane {
    lane: Lane,
    /// The lanes that run after it.
    rest: Value,
    /// The lane's homes for sizes 1, 2, 4, 8 and 16.
    home_base: [Value; 5],
    variables: Vec<Option<Variable>>,
}

impl OneLane {
    /// Begins the first body with the lane that runs, which is one of those in the mask.
    pub(super) fn new<B>(lowering: &mut Lowering<'_, B>, mask: Value, lane: Value) -> Self {
        let less = lowering.b.ins().iadd_imm_s(mask, -1);
        let rest = lowering.b.ins().band(mask, less);
        let number = lowering.b.ins().uextend(types::I64, lane);
        let home_base = lowering.home_bases(number);
        let lane = lowering.lane_with_local(number);
        Self { lane, rest, home_base, variables: vec![None; lowering.program.regs.len()] }
    }
}

impl<'a> Lowering<'a, OneLane> {
    /// From where the lane stopped to its next synchronization.
    pub(super) fn whole_body(&mut self) {
        let start = self.b.create_block();
        self.dispatch(start);
        self.b.switch_to_block(start);
        for reg in self.flow.zeroed.iter() {
            let kind = self.variable_type(reg);
            let value =
                if reg == STACK { self.b.ins().iconst(types::I64, self.program.local as i64) } else { self.zero(kind) };
            self.define(reg, value);
        }
        self.program_blocks();
    }

    fn variable(&mut self, reg: Reg) -> Variable {
        if let Some(variable) = self.body.variables[reg as usize] {
            return variable;
        }
        let kind = self.variable_type(reg);
        let variable = self.b.declare_var(kind);
        self.body.variables[reg as usize] = Some(variable);
        variable
    }

    fn load_home(&mut self, reg: Reg) -> Value {
        let kind = self.variable_type(reg);
        match self.home_offset(reg) {
            Some((offset, size)) => {
                let base = self.body.home_base[size];
                self.b.ins().load(kind, trusted(), base, offset as i32)
            }
            None => self.zero(kind),
        }
    }

    /// Goes to where the lane stopped.
    fn dispatch(&mut self, start: ir::Block) {
        if self.program.syncs.is_empty() && self.flow.alone.is_empty() {
            self.jump(start, &[]);
            return;
        }
        let four = self.home_base4();
        let resume = self.b.ins().load(types::I32, trusted(), four, offset_of!(Warp, resume) as i32);
        let fail = self.b.create_block();
        let mut targets = vec![start];
        let resumes: Vec<u32> =
            self.program.syncs.iter().map(|sync| sync.resume).chain(self.flow.alone.iter().copied()).collect();
        targets.extend(resumes.iter().map(|_| self.b.create_block()));
        let call = |this: &mut Self, block| {
            BlockCall::new(block, std::iter::empty::<BlockArg>(), &mut this.b.func.dfg.value_lists)
        };
        let default = call(self, fail);
        let table: Vec<_> = targets.iter().map(|block| call(self, *block)).collect();
        let table = self.b.create_jump_table(JumpTableData::new(default, &table));
        self.b.ins().br_table(resume, table);
        self.b.switch_to_block(fail);
        let (head, rest) = (self.head, self.body.rest);
        self.jump(head, &[rest]);
        for (resume, stub) in resumes.into_iter().zip(&targets[1..]) {
            self.b.switch_to_block(*stub);
            let resume = resume as usize;
            if self.flow.reachable[resume] {
                for reg in self.flow.loads[resume].iter() {
                    let value = self.load_home(reg);
                    self.define(reg, value);
                }
                let next = self.blocks[resume];
                self.jump(next, &[]);
            } else {
                self.jump(head, &[rest]);
            }
        }
    }
}

impl Body for Lowering<'_, OneLane> {
    fn lane(&self) -> Lane {
        self.body.lane
    }

    fn read(&mut self, reg: Reg) -> Value {
        let variable = self.variable(reg);
        self.b.use_var(variable)
    }

    fn define(&mut self, reg: Reg, value: Value) {
        if reg != SINK {
            let variable = self.variable(reg);
            self.b.def_var(variable, value);
        }
    }

    fn set(&mut self, reg: Reg, value: Value) {
        self.set_of_lane(reg, value);
    }

    fn set_float(&mut self, reg: Reg, value: Value) {
        self.set_float_of_lane(reg, value);
    }

    fn int(&mut self, value: Val, bits: u32) -> Value {
        self.int_of_lane(value, bits)
    }

    fn float(&mut self, value: Val, double: bool) -> Value {
        self.float_of_lane(value, double)
    }

    fn amount(&mut self, value: Val) -> Value {
        self.int(value, 32)
    }

    fn store_home(&mut self, reg: Reg) {
        let Some((offset, size)) = self.home_offset(reg) else { return };
        let mut value = self.read(reg);
        if self.classes.arithmetic[reg as usize] && self.b.func.dfg.value_type(value) == types::F32 {
            value = self.canonical(value);
        }
        let base = self.body.home_base[size];
        self.b.ins().store(trusted(), value, base, offset as i32);
    }

    fn carry_out(&mut self, inst: &Inst) {
        self.inst(inst);
    }

    fn branch(&mut self, _: usize, reg: Reg, yes: u32, no: u32) {
        self.branch_alike(reg, yes, no);
    }

    fn set_resume(&mut self, place: u32) {
        let place = self.b.ins().iconst(types::I32, i64::from(place));
        let at = self.home_base4();
        self.b.ins().store(trusted(), place, at, offset_of!(Warp, resume) as i32);
    }

    fn go_to_head(&mut self) {
        let (head, rest) = (self.head, self.body.rest);
        self.jump(head, &[rest]);
    }

    fn lanes_of_group(&self, _: Val, _: u32) -> Option<u32> {
        Some(1)
    }
}
