//! Integer arithmetic, shifts and logic.

use super::*;

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    pub(super) fn int_op(&mut self, op: IntOp, scalar: Scalar, inst: &Inst) {
        let bits = scalar.bits();
        let kind = int_type(bits);
        let dst = inst.dst[0];
        let signed = scalar.signed();
        if let IntOp::Shl | IntOp::Shr = op {
            let value = self.shift(op == IntOp::Shl, scalar, inst);
            return self.set(dst, value);
        }
        if op == IntOp::Extend {
            let value = self.int(inst.src[0], bits.max(8));
            let want = int_type(self.bits_of(dst));
            let have = self.b.func.dfg.value_type(value);
            let value = if want.bits() > have.bits() && signed {
                self.b.ins().sextend(want, value)
            } else {
                self.coerce(value, want, false)
            };
            return self.set(dst, value);
        }
        if let IntOp::Funnel { left, wrap } = op {
            let value = self.funnel(left, wrap, inst);
            return self.set(dst, value);
        }
        if let IntOp::Lop3(table) = op {
            let values: Vec<Value> = inst.src.iter().map(|v| self.int(*v, 32)).collect();
            let value = self.lop3(table, &values);
            return self.set(dst, value);
        }
        let a = self.int(inst.src[0], bits);
        let b = inst.src.get(1).map(|value| self.int(*value, bits));
        let b = b.unwrap_or(a);
        let value = match op {
            IntOp::Add => self.b.ins().iadd(a, b),
            IntOp::Sub => self.b.ins().isub(a, b),
            IntOp::Mul => self.b.ins().imul(a, b),
            IntOp::MulHi if signed => self.b.ins().smulhi(a, b),
            IntOp::MulHi => self.b.ins().umulhi(a, b),
            IntOp::MulWide => {
                let wide = int_type(bits * 2);
                let (a, b) = if signed {
                    (self.b.ins().sextend(wide, a), self.b.ins().sextend(wide, b))
                } else {
                    (self.b.ins().uextend(wide, a), self.b.ins().uextend(wide, b))
                };
                self.b.ins().imul(a, b)
            }
            IntOp::Div | IntOp::Rem => {
                let (a, b) = if signed && bits < 64 {
                    (self.b.ins().sextend(types::I64, a), self.b.ins().sextend(types::I64, b))
                } else {
                    (self.coerce(a, types::I64, false), self.coerce(b, types::I64, false))
                };
                let mode = u64::from(signed) | u64::from(op == IntOp::Rem) << 1;
                let mode = self.b.ins().iconst(types::I64, mode as i64);
                self.call_pure(Helper::Divide, &[a, b, mode])
            }
            IntOp::Min if signed => self.b.ins().smin(a, b),
            IntOp::Min => self.b.ins().umin(a, b),
            IntOp::Max if signed => self.b.ins().smax(a, b),
            IntOp::Max => self.b.ins().umax(a, b),
            IntOp::And => self.b.ins().band(a, b),
            IntOp::Or => self.b.ins().bor(a, b),
            IntOp::Xor => self.b.ins().bxor(a, b),
            IntOp::Not => self.b.ins().bnot(a),
            IntOp::Cnot => {
                let zero = self.b.ins().icmp_imm_u(IntCC::Equal, a, 0);
                self.coerce(zero, kind, false)
            }
            IntOp::Neg => self.b.ins().ineg(a),
            IntOp::Abs => self.b.ins().iabs(a),
            IntOp::Popc => self.b.ins().popcnt(a),
            IntOp::Clz => self.b.ins().clz(a),
            IntOp::Brev => self.b.ins().bitrev(a),
            IntOp::AddSat | IntOp::SubSat => {
                let (wide_a, wide_b) = (self.b.ins().sextend(types::I64, a), self.b.ins().sextend(types::I64, b));
                let sum = if op == IntOp::AddSat {
                    self.b.ins().iadd(wide_a, wide_b)
                } else {
                    self.b.ins().isub(wide_a, wide_b)
                };
                let high = self.b.ins().iconst(types::I64, i64::from(i32::MAX));
                let low = self.b.ins().iconst(types::I64, i64::from(i32::MIN));
                let value = self.b.ins().smin(sum, high);
                self.b.ins().smax(value, low)
            }
            IntOp::Carry { sub } => {
                let c = self.int(inst.src[2], 8);
                let c = self.coerce(c, kind, false);
                // Subtraction is a + !b + carry, as hardware has it: nvcc's own division adds behind a subtraction.
                let b = if sub { self.b.ins().bnot(b) } else { b };
                let first = self.b.ins().iadd(a, b);
                let over = self.b.ins().icmp(IntCC::UnsignedLessThan, first, a);
                let value = self.b.ins().iadd(first, c);
                let again = self.b.ins().icmp(IntCC::UnsignedLessThan, value, first);
                let carry = self.b.ins().bor(over, again);
                self.set(inst.dst[1], carry);
                value
            }
            IntOp::Shl | IntOp::Shr | IntOp::Extend | IntOp::Funnel { .. } | IntOp::Lop3(_) => a,
        };
        self.set(dst, value);
    }

    pub(super) fn shift(&mut self, left: bool, scalar: Scalar, inst: &Inst) -> Value {
        let bits = scalar.bits();
        let a = self.int(inst.src[0], bits);
        let signed = scalar.signed();
        if let Val::Imm(amount) = inst.src[1] {
            let amount = amount as u32;
            if amount >= bits {
                if left || !signed {
                    return self.number_like(a, 0);
                }
                let most = self.b.ins().iconst(types::I32, i64::from(bits - 1));
                return self.b.ins().sshr(a, most);
            }
            let amount = self.b.ins().iconst(types::I32, i64::from(amount));
            return match (left, signed) {
                (true, _) => self.b.ins().ishl(a, amount),
                (false, true) => self.b.ins().sshr(a, amount),
                (false, false) => self.b.ins().ushr(a, amount),
            };
        }
        let amount = self.amount(inst.src[1]);
        if !left && signed {
            let most = self.b.ins().iconst(types::I32, i64::from(bits - 1));
            let amount = self.b.ins().umin(amount, most);
            return self.b.ins().sshr(a, amount);
        }
        let shifted = if left { self.b.ins().ishl(a, amount) } else { self.b.ins().ushr(a, amount) };
        let zero = self.number_like(a, 0);
        let inside = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, amount, i64::from(bits));
        self.b.ins().select(inside, shifted, zero)
    }

    fn funnel(&mut self, left: bool, wrap: bool, inst: &Inst) -> Value {
        let (a, b) = (self.int(inst.src[0], 32), self.int(inst.src[1], 32));
        let (low, high) = (self.b.ins().uextend(types::I64, a), self.b.ins().uextend(types::I64, b));
        let high = self.b.ins().ishl_imm_u(high, 32);
        let both = self.b.ins().bor(high, low);
        let amount = self.int(inst.src[2], 32);
        let amount = if wrap {
            self.b.ins().band_imm_u(amount, 31)
        } else {
            let most = self.b.ins().iconst(types::I32, 32);
            self.b.ins().umin(amount, most)
        };
        let shifted = if left {
            let up = self.b.ins().ishl(both, amount);
            self.b.ins().ushr_imm_u(up, 32)
        } else {
            self.b.ins().ushr(both, amount)
        };
        self.b.ins().ireduce(types::I32, shifted)
    }

    /// Bit i of the table is the result for a, b, c being the bits of i from the highest.
    fn lop3(&mut self, table: u8, v: &[Value]) -> Value {
        let low = self.two(table & 15, v[1], v[2]);
        let high = self.two(table >> 4, v[1], v[2]);
        if table & 15 == table >> 4 {
            return low;
        }
        let yes = self.b.ins().band(v[0], high);
        let no = self.b.ins().band_not(low, v[0]);
        self.b.ins().bor(yes, no)
    }

    fn two(&mut self, table: u8, b: Value, c: Value) -> Value {
        let one = |this: &mut Self, table: u8| match table {
            0 => this.number_like(b, 0),
            1 => this.b.ins().bnot(c),
            2 => c,
            _ => this.number_like(b, 0xffff_ffff),
        };
        match table {
            0 => self.number_like(b, 0),
            15 => self.number_like(b, 0xffff_ffff),
            6 => self.b.ins().bxor(b, c),
            8 => self.b.ins().band(b, c),
            14 => self.b.ins().bor(b, c),
            _ => {
                let (low, high) = (one(self, table & 3), one(self, table >> 2));
                let yes = self.b.ins().band(b, high);
                let no = self.b.ins().band_not(low, b);
                self.b.ins().bor(yes, no)
            }
        }
    }
}
