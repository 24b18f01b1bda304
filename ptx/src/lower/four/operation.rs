//! Operations that have a vector form. Most are the same as in the first body, on different operands.

use super::super::operation::chosen_bytes;
use super::super::vector::*;
use super::*;

impl<'a> Lowering<'a, FourLanes> {
    /// Carries out an operation in vectors; false if it does not have a vector form.
    pub(super) fn in_vectors(&mut self, inst: &Inst) -> bool {
        if inst.dst.iter().any(|reg| *reg != SINK && self.shape(*reg) != Shape::Any) {
            return false;
        }
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        if dst == SINK {
            return false;
        }
        let bits = self.bits_of(dst);
        match &inst.op {
            Op::Mov => match inst.src[0] {
                Val::Reg(reg) if self.bits_of(reg) == bits => self.copy(dst, reg, bits),
                value if self.shape_of(value, bits).is_same() && bits == 64 => self.in_halves(inst),
                value if self.shape_of(value, bits).is_same() => {
                    let words = self.four_int(value, bits);
                    self.set_four(dst, words, false);
                }
                _ => return false,
            },
            Op::Int(op, scalar) => return self.integer_in_vectors(*op, *scalar, inst, bits),
            Op::Float { double, .. } => match (double, bits) {
                (false, 32) => self.in_view(View::Four, inst),
                (true, 64) => self.in_halves(inst),
                _ => return false,
            },
            Op::Setp { compare, scalar, .. } => {
                let exact = !scalar.signed() || matches!(compare, Compare::Eq | Compare::Ne);
                match scalar.bits() {
                    32 => self.in_view(View::Four, inst),
                    64 => self.compare_halves(inst),
                    8 | 16 if !scalar.float() && exact => self.in_view(View::Four, inst),
                    _ => return false,
                }
                self.summarize(inst);
            }
            Op::Select => match bits {
                64 => self.in_halves(inst),
                1 => return false,
                _ => self.in_view(View::Four, inst),
            },
            Op::FromInt { scalar, double: false } if bits == 32 && scalar.bits() <= 32 => {
                let value = self.four_int(inst.src[0], scalar.bits());
                let value = if scalar.signed() {
                    let value = self.sign_extended(value, scalar.bits());
                    self.b.ins().fcvt_from_sint(types::F32X4, value)
                } else {
                    self.b.ins().fcvt_from_uint(types::F32X4, value)
                };
                self.set_four(dst, value, false);
            }
            Op::ToInt { scalar, double: false, ftz } if scalar.bits() == 32 => {
                let value = self.four_float(inst.src[0]);
                let value = if *ftz { self.flush(value) } else { value };
                let value = if scalar.signed() {
                    self.b.ins().fcvt_to_sint_sat(types::I32X4, value)
                } else {
                    self.b.ins().fcvt_to_uint_sat(types::I32X4, value)
                };
                self.set_four(dst, value, false);
            }
            Op::FromBf16 | Op::ToBf16 { .. } => self.in_view(View::Four, inst),
            Op::Pure(Helper::Prmt) if chosen_bytes(inst).is_some() => self.in_view(View::Four, inst),
            Op::Pack => match (bits, inst.src.len()) {
                (32, 2) => {
                    let (low, high) = (self.four_int(inst.src[0], 16), self.four_int(inst.src[1], 16));
                    let value = self.halves_of_words(low, high);
                    self.set_four(dst, value, false);
                }
                (64, 2) => {
                    let (low, high) = (self.four_int(inst.src[0], 32), self.four_int(inst.src[1], 32));
                    for (half, bytes) in [LOW_WORDS, HIGH_WORDS].into_iter().enumerate() {
                        let both = self.shuffle(low, high, bytes);
                        self.set_half(dst, half, both);
                    }
                }
                _ => return false,
            },
            Op::Unpack => {
                let (Val::Imm(each), Val::Imm(width)) = (inst.src[1], inst.src[2]) else { return false };
                let parts = match (width, each) {
                    (32, 16) => {
                        let words = self.four_int(inst.src[0], 32);
                        self.both_halves(words)
                    }
                    (64, 32) => {
                        let [low, high] = [0, 1].map(|half| {
                            let both = self.half_int(inst.src[0], half);
                            self.cast(types::I32X4, both)
                        });
                        [self.shuffle(low, high, EVEN_WORDS), self.shuffle(low, high, ODD_WORDS)]
                    }
                    _ => return false,
                };
                for (reg, part) in inst.dst.iter().zip(parts) {
                    self.set_four(*reg, part, false);
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether a comparison with the same number holds for all lanes or for some, by the first and the last: those between lie
    /// between.
    fn summarize(&mut self, inst: &Inst) {
        let Op::Setp { compare, scalar, ftz, logic: None } = &inst.op else { return };
        let bits = scalar.bits();
        let [a, b] = [0, 1].map(|index| self.shape_of(inst.src[index], bits));
        let is_one_way = matches!(compare, Compare::Lt | Compare::Le | Compare::Gt | Compare::Ge);
        if scalar.float() || !is_one_way || !a.is_below(bits) || !b.is_below(bits) || !(a.is_same() || b.is_same()) {
            return;
        }
        let [first, last] =
            [0, LANES - 1].map(|lane| self.with_lane(lane, |this| this.compare(*compare, *scalar, *ftz, inst)));
        let all = self.b.ins().band(first, last);
        let some = self.b.ins().bor(first, last);
        self.define_summary(inst.dst[0], [all, some]);
    }

    fn in_view(&mut self, view: View, inst: &Inst) {
        self.with_view(view, |this| this.inst(inst));
    }

    fn in_halves(&mut self, inst: &Inst) {
        for half in 0..2 {
            self.in_view(View::Half(half), inst);
        }
    }

    fn copy(&mut self, dst: Reg, from: Reg, bits: u32) {
        if bits == 64 {
            for half in 0..2 {
                let value = self.half_int(Val::Reg(from), half);
                self.set_half(dst, half, value);
            }
            return;
        }
        // A float stays as it is.
        let value = if self.classes.float[from as usize] && self.classes.float[dst as usize] {
            self.four_float(Val::Reg(from))
        } else {
            self.four_int(Val::Reg(from), bits)
        };
        let value = self.settled(dst, Val::Reg(from), value);
        self.set_four(dst, value, false);
    }

    fn compare_halves(&mut self, inst: &Inst) {
        let Op::Setp { compare, scalar, ftz, logic } = &inst.op else { return };
        let [low, high] = [0, 1].map(|half| {
            let mask = self.with_view(View::Half(half), |this| this.compare(*compare, *scalar, *ftz, inst));
            self.cast(types::I32X4, mask)
        });
        let value = self.shuffle(low, high, EVEN_WORDS);
        self.with_view(View::Four, |this| {
            let value = this.combined(value, *logic, inst);
            this.set(inst.dst[0], value);
        });
    }

    fn integer_in_vectors(&mut self, op: IntOp, scalar: Scalar, inst: &Inst, bits: u32) -> bool {
        let width = scalar.bits();
        let dst = inst.dst[0];
        let ring = matches!(
            op,
            IntOp::Add | IntOp::Sub | IntOp::Mul | IntOp::And | IntOp::Or | IntOp::Xor | IntOp::Not | IntOp::Neg
        );
        match (op, width) {
            (IntOp::And | IntOp::Or | IntOp::Xor, 1) => self.in_view(View::Four, inst),
            (IntOp::Cnot, 1) => {
                let mask = self.four_int(inst.src[0], 1);
                let mask = self.b.ins().bnot(mask);
                self.set_four(dst, mask, false);
            }
            (IntOp::Shl | IntOp::Shr, 32 | 64) => {
                if !self.shape_of(inst.src[1], 32).is_same() || bits != width {
                    return false;
                }
                if width == 32 { self.in_view(View::Four, inst) } else { self.in_halves(inst) }
            }
            (IntOp::Lop3(_) | IntOp::Min | IntOp::Max | IntOp::Abs, 32) => self.in_view(View::Four, inst),
            (_, 32) if ring => self.in_view(View::Four, inst),
            (_, 16) if ring && bits == 16 => self.in_view(View::Four, inst),
            (_, 64) if ring && bits == 64 => self.in_halves(inst),
            (IntOp::MulWide, 32) if bits == 64 => self.multiply_wide(scalar, inst),
            (IntOp::MulWide, 16) if bits == 32 => {
                let [a, b] = [0, 1].map(|index| {
                    let value = self.four_int(inst.src[index], 16);
                    if scalar.signed() { self.sign_extended(value, 16) } else { value }
                });
                let value = self.b.ins().imul(a, b);
                self.set_four(dst, value, false);
            }
            (IntOp::Extend, _) => return self.extend_in_vectors(scalar, inst, bits),
            _ => return false,
        }
        true
    }

    fn multiply_wide(&mut self, scalar: Scalar, inst: &Inst) {
        let power = match inst.src[1] {
            Val::Imm(number) if (number as u32).is_power_of_two() && number as u32 >> 31 == 0 => {
                Some((number as u32).trailing_zeros())
            }
            _ => None,
        };
        let a = self.four_int(inst.src[0], 32);
        let b = power.is_none().then(|| self.four_int(inst.src[1], 32));
        for half in 0..2 {
            let wide = self.widen(a, half, scalar.signed());
            let value = match (power, b) {
                (Some(by), _) => {
                    let by = self.b.ins().iconst(types::I32, i64::from(by));
                    self.b.ins().ishl(wide, by)
                }
                (None, Some(b)) => {
                    let other = self.widen(b, half, scalar.signed());
                    self.b.ins().imul(wide, other)
                }
                (None, None) => wide,
            };
            self.set_half(inst.dst[0], half, value);
        }
    }

    fn extend_in_vectors(&mut self, scalar: Scalar, inst: &Inst, bits: u32) -> bool {
        let (width, dst) = (scalar.bits(), inst.dst[0]);
        match (width, bits) {
            (64, 64) => {
                for half in 0..2 {
                    let value = self.half_int(inst.src[0], half);
                    self.set_half(dst, half, value);
                }
            }
            (1, _) | (_, 1) => return false,
            (64, _) => {
                let value = self.four_int(inst.src[0], bits);
                self.set_four(dst, value, false);
            }
            _ => {
                let value = self.four_int(inst.src[0], width);
                let value = if scalar.signed() { self.sign_extended(value, width) } else { value };
                if bits == 64 {
                    for half in 0..2 {
                        let both = self.widen(value, half, scalar.signed());
                        self.set_half(dst, half, both);
                    }
                } else {
                    self.set_four(dst, value, false);
                }
            }
        }
        true
    }

    /// Words whose lowest bits are a signed number.
    pub(super) fn sign_extended(&mut self, words: Value, bits: u32) -> Value {
        if bits >= 32 {
            return words;
        }
        let by = self.b.ins().iconst(types::I32, i64::from(32 - bits));
        let up = self.b.ins().ishl(words, by);
        self.b.ins().sshr(up, by)
    }

    /// Words from their lower and upper halves.
    pub(super) fn halves_of_words(&mut self, low: Value, high: Value) -> Value {
        let by = self.b.ins().iconst(types::I32, 16);
        let high = self.b.ins().ishl(high, by);
        self.b.ins().bor(low, high)
    }

    pub(super) fn both_halves(&mut self, words: Value) -> [Value; 2] {
        let by = self.b.ins().iconst(types::I32, 16);
        let high = self.b.ins().ushr(words, by);
        [self.cut(words, 16), high]
    }
}
