//! One operation of the program: moves, conversions, packing, and the way to the rest.

use super::*;

impl<'a> Lowering<'a> {
    pub(super) fn bits_of(&self, reg: Reg) -> u32 {
        if reg == SINK { 64 } else { self.program.regs[reg as usize].scalar.bits() }
    }

    pub(super) fn inst(&mut self, inst: &Inst) {
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        match &inst.op {
            Op::Mov => {
                if let Val::Reg(from) = inst.src[0]
                    && dst != SINK
                    && self.float[from as usize]
                    && self.float[dst as usize]
                {
                    let value = self.read(from);
                    self.set(dst, value);
                    return;
                }
                let value = self.int(inst.src[0], self.bits_of(dst));
                self.set(dst, value);
            }
            Op::Int(op, scalar) => self.int_op(*op, *scalar, inst),
            Op::Float { op, double, ftz, sat } => self.float_op(*op, *double, *ftz, *sat, inst),
            Op::Setp { compare, scalar, ftz, logic } => {
                let value = self.compare(*compare, *scalar, *ftz, inst);
                let value = match logic {
                    None => value,
                    Some((logic, _)) => {
                        let other = self.int(inst.src[2], 8);
                        match logic {
                            Logic::And => self.b.ins().band(value, other),
                            Logic::Or => self.b.ins().bor(value, other),
                            Logic::Xor => self.b.ins().bxor(value, other),
                        }
                    }
                };
                self.set(dst, value);
            }
            Op::Select => {
                let condition = self.int(inst.src[2], 8);
                if dst != SINK && self.variable_type(dst).is_float() {
                    let double = self.variable_type(dst) == types::F64;
                    let (a, b) = (self.float(inst.src[0], double), self.float(inst.src[1], double));
                    let value = self.b.ins().select(condition, a, b);
                    self.set(dst, value);
                } else {
                    let bits = self.bits_of(dst);
                    let (a, b) = (self.int(inst.src[0], bits), self.int(inst.src[1], bits));
                    let value = self.b.ins().select(condition, a, b);
                    self.set(dst, value);
                }
            }
            Op::FromInt { scalar, double } => {
                let value = self.int(inst.src[0], scalar.bits());
                let kind = if *double { types::F64 } else { types::F32 };
                let value = if scalar.signed() {
                    self.b.ins().fcvt_from_sint(kind, value)
                } else {
                    self.b.ins().fcvt_from_uint(kind, value)
                };
                self.set(dst, value);
            }
            Op::ToInt { scalar, double, ftz } => {
                let value = self.float(inst.src[0], *double);
                let value = if *ftz && !*double { self.flush(value) } else { value };
                let kind = int_type(scalar.bits());
                let result = if scalar.signed() {
                    self.b.ins().fcvt_to_sint_sat(kind, value)
                } else {
                    self.b.ins().fcvt_to_uint_sat(kind, value)
                };
                let result = if *double || scalar.bits() == 64 {
                    // NaN becomes the number with only the highest bit.
                    let ordered = self.b.ins().fcmp(FloatCC::Equal, value, value);
                    let highest = self.b.ins().iconst(kind, (1u64 << (scalar.bits() - 1)) as i64);
                    self.b.ins().select(ordered, result, highest)
                } else {
                    result
                };
                self.set(dst, result);
            }
            Op::Promote { ftz } => {
                let value = self.float(inst.src[0], false);
                let value = if *ftz { self.flush(value) } else { value };
                let value = self.b.ins().fpromote(types::F64, value);
                self.set(dst, value);
            }
            Op::Demote { ftz } => {
                let value = self.float(inst.src[0], true);
                let value = self.b.ins().fdemote(types::F32, value);
                let value = if *ftz { self.flush(value) } else { value };
                self.set_float(dst, value);
            }
            Op::FromBf16 => {
                let value = self.int(inst.src[0], 32);
                let value = self.b.ins().ishl_imm_u(value, 16);
                self.set(dst, value);
            }
            Op::ToBf16 { pair } => {
                let first = self.int(inst.src[0], 32);
                let first = self.round_bf16(first);
                let value = if *pair {
                    let second = self.int(inst.src[1], 32);
                    let second = self.round_bf16(second);
                    let up = self.b.ins().ishl_imm_u(first, 16);
                    self.b.ins().bor(up, second)
                } else {
                    first
                };
                self.set(dst, value);
            }
            Op::Pack => {
                let bits = self.bits_of(dst);
                let each = bits / inst.src.len() as u32;
                if bits == 128 && each == 64 {
                    let (low, high) = (self.int(inst.src[0], 64), self.int(inst.src[1], 64));
                    let value = self.b.ins().iconcat(low, high);
                    return self.set(dst, value);
                }
                let kind = int_type(bits);
                let mut all: Option<Value> = None;
                for (index, value) in inst.src.iter().enumerate() {
                    let part = self.int(*value, each);
                    let part = self.coerce(part, kind, false);
                    let part = if index == 0 { part } else { self.shift_up(part, index as u32 * each) };
                    all = Some(all.map_or(part, |all| self.b.ins().bor(all, part)));
                }
                if let Some(all) = all {
                    self.set(dst, all);
                }
            }
            Op::Unpack => {
                let (Val::Imm(each), Val::Imm(width)) = (inst.src[1], inst.src[2]) else { return };
                let whole = self.int(inst.src[0], width as u32);
                for (index, dst) in inst.dst.iter().enumerate() {
                    if *dst == SINK {
                        continue;
                    }
                    let value = if index == 0 {
                        whole
                    } else {
                        let amount = self.b.ins().iconst(types::I32, (index as u64 * each) as i64);
                        self.b.ins().ushr(whole, amount)
                    };
                    let value = self.coerce(value, int_type(each as u32), false);
                    self.set(*dst, value);
                }
            }
            Op::Load(memory) => self.load(memory, inst),
            Op::Store(memory) => self.store(memory, inst),
            Op::Pure(helper) => {
                let args: Vec<Value> = inst.src.iter().map(|value| self.int(*value, 64)).collect();
                let value = self.call_pure(*helper, &args);
                self.set(dst, value);
            }
            Op::System(helper, mode) => self.system(*helper, *mode, inst),
            Op::Fence => {
                self.b.ins().fence();
            }
        }
    }

    fn shift_up(&mut self, value: Value, by: u32) -> Value {
        let amount = self.b.ins().iconst(types::I32, i64::from(by));
        self.b.ins().ishl(value, amount)
    }

    /// To nearest even, in the low half.
    fn round_bf16(&mut self, bits: Value) -> Value {
        let odd = self.b.ins().ushr_imm_u(bits, 16);
        let odd = self.b.ins().band_imm_u(odd, 1);
        let up = self.b.ins().iadd_imm_s(odd, 0x7fff);
        let sum = self.b.ins().iadd(bits, up);
        let rounded = self.b.ins().ushr_imm_u(sum, 16);
        let magnitude = self.b.ins().band_imm_u(bits, 0x7fff_ffff);
        let nan = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, magnitude, 0x7f80_0000);
        let code = self.b.ins().iconst(types::I32, 0x7fff);
        self.b.ins().select(nan, code, rounded)
    }

    /// A subnormal f32 to zero of its sign.
    pub(super) fn flush(&mut self, value: Value) -> Value {
        let magnitude = self.b.ins().fabs(value);
        let normal = self.b.ins().f32const(f32::MIN_POSITIVE);
        let small = self.b.ins().fcmp(FloatCC::LessThan, magnitude, normal);
        let zero = self.b.ins().f32const(0.0);
        let zero = self.b.ins().fcopysign(zero, value);
        self.b.ins().select(small, zero, value)
    }
}
