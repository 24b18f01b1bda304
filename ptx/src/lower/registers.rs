//! Values of a width and a type, and operands of one lane as values.

use super::*;
use crate::analysis::shape::Shape;

impl<'a, B> Lowering<'a, B> {
    pub(super) fn shape(&self, reg: Reg) -> Shape {
        self.shapes.map_or(Shape::Any, |shapes| shapes.register(reg))
    }

    pub(super) fn bits_of(&self, reg: Reg) -> u32 {
        if reg == SINK { 64 } else { self.program.regs[reg as usize].scalar.bits() }
    }

    pub(super) fn variable_type(&self, reg: Reg) -> Type {
        let bits = self.program.regs[reg as usize].scalar.bits();
        match (self.classes.float[reg as usize], bits) {
            (true, 32) => types::F32,
            (true, 64) => types::F64,
            _ => int_type(bits),
        }
    }

    /// What a register gets that is copied from an operand: a NaN of arithmetic becomes the canonical one here, if the register
    /// may also hold others.
    pub(super) fn settled(&mut self, dst: Reg, from: Val, value: Value) -> Value {
        match from {
            Val::Reg(from) if self.classes.arithmetic[from as usize] && !self.classes.arithmetic[dst as usize] => {
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

    /// One of two values, chosen by a condition; in vectors by each lane's condition.
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

    pub(super) fn home_offset(&self, reg: Reg) -> Option<(u32, usize)> {
        let offset = self.flow.homes[reg as usize]?;
        Some((offset, homes::size_of(self.program, reg).trailing_zeros() as usize))
    }
}

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    /// [`Body::set`] for one lane.
    pub(super) fn set_of_lane(&mut self, reg: Reg, value: Value) {
        if reg == SINK {
            return;
        }
        let want = self.variable_type(reg);
        let value = self.coerce(value, want, false);
        self.define(reg, value);
    }

    /// [`Body::set_float`] for one lane.
    pub(super) fn set_float_of_lane(&mut self, reg: Reg, value: Value) {
        if reg == SINK {
            return;
        }
        let want = self.variable_type(reg);
        let value = self.coerce(value, want, true);
        let value =
            if want == types::F32 && !self.classes.arithmetic[reg as usize] { self.canonical(value) } else { value };
        self.define(reg, value);
    }

    /// [`Body::int`] for one lane.
    pub(super) fn int_of_lane(&mut self, value: Val, bits: u32) -> Value {
        let kind = int_type(bits);
        match value {
            Val::Reg(reg) => {
                let value = self.read(reg);
                let arithmetic = self.classes.arithmetic[reg as usize];
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

    /// [`Body::float`] for one lane.
    pub(super) fn float_of_lane(&mut self, value: Val, double: bool) -> Value {
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

    /// An address or a special register as a value of its own width.
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
