//! Registers as Cranelift variables, their homes in the warp's memory, and operands as values of a width.

use super::*;

impl<'a> Lowering<'a> {
    pub(super) fn variable_type(&self, reg: Reg) -> Type {
        let bits = self.program.regs[reg as usize].scalar.bits();
        match (self.float[reg as usize], bits) {
            (true, 32) => types::F32,
            (true, 64) => types::F64,
            _ => int_type(bits),
        }
    }

    fn variable(&mut self, reg: Reg) -> Variable {
        if let Some(variable) = self.variables[reg as usize] {
            return variable;
        }
        let kind = self.variable_type(reg);
        let variable = self.b.declare_var(kind);
        self.variables[reg as usize] = Some(variable);
        variable
    }

    /// Sets a register to a value that has its type.
    pub(super) fn define(&mut self, reg: Reg, value: Value) {
        if let View::Lane(lane) = self.view {
            self.results.push((reg, lane, value));
        } else if reg != SINK {
            let variable = self.variable(reg);
            self.b.def_var(variable, value);
        }
    }

    /// Sets a register to an integer of any width (cut or zero-extended) or a float of its width.
    pub(super) fn set(&mut self, reg: Reg, value: Value) {
        if reg == SINK {
            return;
        }
        match self.view {
            View::Four => return self.set_four(reg, value, false),
            View::Half(half) => return self.set_half(reg, half, value),
            View::Alone | View::Lane(_) => {}
        }
        let want = self.variable_type(reg);
        let value = self.coerce(value, want, false);
        self.define(reg, value);
    }

    /// As `set`, for results of f32 arithmetic: NaN becomes PTX's canonical NaN.
    pub(super) fn set_float(&mut self, reg: Reg, value: Value) {
        if reg == SINK {
            return;
        }
        if self.view == View::Four {
            return self.set_four(reg, value, true);
        }
        let want = self.variable_type(reg);
        let value = self.coerce(value, want, true);
        let value = if want == types::F32 && !self.arithmetic[reg as usize] { self.canonical(value) } else { value };
        self.define(reg, value);
    }

    /// What a register gets that is copied from an operand: a NaN of arithmetic becomes the canonical one here, if the register
    /// may also hold others.
    pub(super) fn settled(&mut self, dst: Reg, from: Val, value: Value) -> Value {
        match from {
            Val::Reg(from) if self.arithmetic[from as usize] && !self.arithmetic[dst as usize] => {
                let is_single = self.b.func.dfg.value_type(value).lane_type() == types::F32;
                if is_single { self.canonical(value) } else { value }
            }
            _ => value,
        }
    }

    pub(super) fn canonical(&mut self, value: Value) -> Value {
        let nan = self.f32_like(value, 0x7fff_ffff);
        let ordered = self.b.ins().fcmp(FloatCC::Ordered, value, value);
        self.choose(ordered, value, nan)
    }

    /// One of two by a condition; in vectors by each lane's.
    pub(super) fn choose(&mut self, condition: Value, a: Value, b: Value) -> Value {
        let kind = self.b.func.dfg.value_type(a);
        if !kind.is_vector() {
            return self.b.ins().select(condition, a, b);
        }
        let condition = self.cast(kind, condition);
        self.b.ins().bitselect(condition, a, b)
    }

    /// A number of f32 as wide as `like`.
    pub(super) fn f32_like(&mut self, like: Value, bits: u32) -> Value {
        let number = self.b.ins().f32const(Ieee32::with_bits(bits));
        let kind = self.b.func.dfg.value_type(like);
        if kind.is_vector() { self.b.ins().splat(kind, number) } else { number }
    }

    fn f64_like(&mut self, like: Value, number: f64) -> Value {
        let number = self.b.ins().f64const(number);
        let kind = self.b.func.dfg.value_type(like);
        if kind.is_vector() { self.b.ins().splat(kind, number) } else { number }
    }

    /// A number as wide as `like`, which is a float or floats.
    pub(super) fn float_like(&mut self, like: Value, number: f32) -> Value {
        match self.b.func.dfg.value_type(like).lane_type() {
            types::F64 => self.f64_like(like, f64::from(number)),
            _ => self.f32_like(like, number.to_bits()),
        }
    }

    pub(super) fn coerce(&mut self, value: Value, want: Type, arithmetic: bool) -> Value {
        let have = self.b.func.dfg.value_type(value);
        if have == want {
            return value;
        }
        if have.is_float() {
            let value = if arithmetic && have == types::F32 { self.canonical(value) } else { value };
            let bits = self.b.ins().bitcast(int_type(have.bits()), MemFlagsData::new(), value);
            return self.coerce(bits, want, false);
        }
        if want.is_float() {
            let bits = self.coerce(value, int_type(want.bits()), false);
            return self.b.ins().bitcast(want, MemFlagsData::new(), bits);
        }
        if have.bits() > want.bits() { self.b.ins().ireduce(want, value) } else { self.b.ins().uextend(want, value) }
    }

    pub(super) fn read(&mut self, reg: Reg) -> Value {
        if let View::Lane(lane) = self.view {
            return self.of_lane(reg, lane);
        }
        let variable = self.variable(reg);
        self.b.use_var(variable)
    }

    pub(super) fn home_offset(&self, reg: Reg) -> Option<(u32, usize)> {
        let offset = self.flow.homes[reg as usize]?;
        Some((offset, homes::size_of(self.program, reg).trailing_zeros() as usize))
    }

    pub(super) fn load_home(&mut self, reg: Reg) -> Value {
        let kind = self.variable_type(reg);
        match self.home_offset(reg) {
            Some((offset, size)) => {
                let base = self.home_base[size];
                self.b.ins().load(kind, trusted(), base, offset as i32)
            }
            None => self.zero(kind),
        }
    }

    pub(super) fn store_home(&mut self, reg: Reg) {
        if self.is_together() {
            return self.store_homes(reg);
        }
        let Some((offset, size)) = self.home_offset(reg) else { return };
        let mut value = self.read(reg);
        if self.arithmetic[reg as usize] && self.b.func.dfg.value_type(value) == types::F32 {
            value = self.canonical(value);
        }
        let base = self.home_base[size];
        self.b.ins().store(trusted(), value, base, offset as i32);
    }

    /// A value as an integer of `bits`.
    pub(super) fn int(&mut self, value: Val, bits: u32) -> Value {
        let kind = int_type(bits);
        match self.view {
            View::Four => return self.four_int(value, bits),
            View::Half(half) if bits == 1 => return self.half_mask(value, half),
            View::Half(half) => return self.half_int(value, half),
            View::Alone | View::Lane(_) => {}
        }
        match value {
            Val::Reg(reg) => {
                let value = self.read(reg);
                let arithmetic = self.arithmetic[reg as usize];
                self.coerce(value, kind, arithmetic)
            }
            Val::Imm(value) if kind == types::I128 => {
                let low = self.b.ins().iconst(types::I64, value as i64);
                let high = self.b.ins().iconst(types::I64, 0);
                self.b.ins().iconcat(low, high)
            }
            Val::Imm(value) => {
                let value = crate::number::truncate(value, kind.bits());
                self.b.ins().iconst(kind, value as i64)
            }
            other => {
                let value = self.wide(other);
                self.coerce(value, kind, false)
            }
        }
    }

    /// A value as a float.
    pub(super) fn float(&mut self, value: Val, double: bool) -> Value {
        match self.view {
            View::Four => return self.four_float(value),
            View::Half(half) => return self.half_float(value, half),
            View::Alone | View::Lane(_) => {}
        }
        match value {
            Val::Imm(bits) if double => self.b.ins().f64const(Ieee64::with_bits(bits)),
            Val::Imm(bits) => self.b.ins().f32const(Ieee32::with_bits(bits as u32)),
            Val::Reg(reg) => {
                let value = self.read(reg);
                self.coerce(value, if double { types::F64 } else { types::F32 }, false)
            }
            other => {
                let value = self.wide(other);
                self.coerce(value, if double { types::F64 } else { types::F32 }, false)
            }
        }
    }

    /// Addresses and special registers.
    pub(super) fn wide(&mut self, value: Val) -> Value {
        match value {
            Val::Global(index, offset) => {
                let globals = self.load_context(types::I64, offset_of!(Context, globals));
                let address = self.load_from(types::I64, constant(), globals, index as usize * 8);
                self.b.ins().iadd_imm_s(address, offset)
            }
            Val::Shared(index, offset) => {
                let at = self.program.shared[index as usize].offset as i64 + offset;
                self.b.ins().iconst(types::I64, at)
            }
            Val::Local(offset) => {
                let function = &self.program.functions[self.function as usize];
                if function.recursive {
                    let frame = self.read(FRAME);
                    self.b.ins().iadd_imm_s(frame, offset)
                } else {
                    self.b.ins().iconst(types::I64, function.base as i64 + offset)
                }
            }
            Val::Param(offset) => self.b.ins().iconst(types::I64, offset),
            Val::Function(index) => {
                let handle = crate::text::image::FUNCTION_HANDLE + u64::from(index) * 16;
                self.b.ins().iconst(types::I64, handle as i64)
            }
            Val::Special(special) => self.special(special),
            Val::Reg(_) | Val::Imm(_) => self.int(value, 64),
        }
    }
}

/// Which registers are better kept as floats, and which hold results of f32 arithmetic alone: their NaN stands for PTX's canonical
/// one until its bits are looked at.
pub(super) fn classes(program: &Program) -> (Vec<bool>, Vec<bool>) {
    let mut votes = vec![0i32; program.regs.len()];
    for (reg, info) in program.regs.iter().enumerate() {
        votes[reg] = i32::from(info.scalar.float()) * 2;
    }
    let vote = |votes: &mut Vec<i32>, reg: Reg, by: i32| {
        if reg != SINK {
            votes[reg as usize] += by;
        }
    };
    let src = |votes: &mut Vec<i32>, inst: &Inst, by: i32| {
        for value in &inst.src {
            if let Val::Reg(reg) = value {
                votes[*reg as usize] += by;
            }
        }
    };
    for inst in program.blocks.iter().flat_map(|block| &block.insts) {
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        match &inst.op {
            Op::Float { .. } | Op::Demote { .. } | Op::Promote { .. } => {
                vote(&mut votes, dst, 1);
                src(&mut votes, inst, 1);
            }
            Op::FromInt { .. } | Op::FromBf16 => vote(&mut votes, dst, 1),
            Op::ToInt { .. } => src(&mut votes, inst, 1),
            Op::Setp { scalar, .. } if scalar.float() => src(&mut votes, inst, 1),
            Op::Mov | Op::Select | Op::Load(_) | Op::Store(_) => {}
            _ => {
                inst.dst.iter().for_each(|reg| vote(&mut votes, *reg, -1));
                src(&mut votes, inst, -1);
            }
        }
    }
    let float =
        votes.iter().zip(&program.regs).map(|(v, info)| *v > 0 && matches!(info.scalar.bits(), 32 | 64)).collect();
    (float, arithmetic(program))
}

/// How a register is written, as far as NaN goes.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// By arithmetic of f32.
    Result,
    /// With bits of any kind.
    Bits,
    /// With what these operands hold, or with numbers.
    Copy,
}

fn arithmetic(program: &Program) -> Vec<bool> {
    let written = |inst: &Inst| match &inst.op {
        Op::Float { double: false, .. } | Op::Demote { .. } => Written::Result,
        Op::FromInt { double: false, .. } => Written::Copy,
        Op::Mov | Op::Select => Written::Copy,
        _ => Written::Bits,
    };
    let copied = |inst: &Inst| match inst.op {
        Op::Mov => inst.src[..1].to_vec(),
        Op::Select => inst.src[..2].to_vec(),
        _ => Vec::new(),
    };
    let is_number = |bits: u64| !f32::from_bits(bits as u32).is_nan();
    let insts = || program.blocks.iter().flat_map(|block| &block.insts);
    // All registers of 32 bits, until something else is found to be in one; then those of them that a result can reach.
    let mut clean: Vec<bool> = program.regs.iter().map(|info| info.scalar.bits() == 32).collect();
    program
        .syncs
        .iter()
        .flat_map(|sync| &sync.dst)
        .filter(|reg| **reg != SINK)
        .for_each(|reg| clean[*reg as usize] = false);
    let mut holds = vec![false; program.regs.len()];
    let mut changed = true;
    while changed {
        changed = false;
        for inst in insts() {
            let kind = written(inst);
            let is_clean = |value: &Val| match value {
                Val::Reg(reg) => clean[*reg as usize],
                Val::Imm(bits) => is_number(*bits),
                _ => false,
            };
            let keeps = kind != Written::Bits && copied(inst).iter().all(is_clean);
            for reg in inst.dst.iter().filter(|reg| **reg != SINK) {
                changed |= clean[*reg as usize] && !keeps;
                clean[*reg as usize] &= keeps;
            }
        }
    }
    changed = true;
    while changed {
        changed = false;
        for inst in insts() {
            let reaches = match written(inst) {
                Written::Result => true,
                Written::Copy => {
                    copied(inst).iter().any(|value| matches!(value, Val::Reg(reg) if holds[*reg as usize]))
                }
                Written::Bits => false,
            };
            for reg in inst.dst.iter().filter(|reg| **reg != SINK && reaches && clean[**reg as usize]) {
                changed |= !std::mem::replace(&mut holds[*reg as usize], true);
            }
        }
    }
    holds
}
