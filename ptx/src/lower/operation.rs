//! One operation of the program: moves, conversions, packing, and the dispatch to the rest.

use super::*;

/// A byte that `prmt` takes: of which word, from which place, and whether only its sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Byte {
    word: usize,
    place: i32,
    sign: bool,
}

/// The bytes of a `prmt` whose selector is a number.
pub(super) fn chosen_bytes(inst: &Inst) -> Option<[Byte; 4]> {
    let (Op::Pure(Helper::Prmt), Val::Imm(selector), Val::Imm(0)) = (&inst.op, inst.src[2], inst.src[3]) else {
        return None;
    };
    Some([0, 4, 8, 12].map(|at| {
        let code = selector >> at & 15;
        Byte { word: (code >> 2 & 1) as usize, place: (code & 3) as i32, sign: code & 8 != 0 }
    }))
}

impl<'a, B> Lowering<'a, B>
where
    Self: Body,
{
    pub(super) fn inst(&mut self, inst: &Inst) {
        let dst = inst.dst.first().copied().unwrap_or(SINK);
        match &inst.op {
            Op::Mov => {
                if let Val::Reg(from) = inst.src[0]
                    && dst != SINK
                    && self.classes.float[from as usize]
                    && self.classes.float[dst as usize]
                {
                    let value = self.read(from);
                    let value = self.settled(dst, inst.src[0], value);
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
                let value = self.combined(value, *logic, inst);
                self.set(dst, value);
            }
            Op::Select => {
                let condition = self.int(inst.src[2], 1);
                if dst != SINK && self.variable_type(dst).is_float() {
                    let double = self.variable_type(dst) == types::F64;
                    let [a, b] = [0, 1].map(|index| {
                        let value = self.float(inst.src[index], double);
                        self.settled(dst, inst.src[index], value)
                    });
                    let value = self.choose(condition, a, b);
                    self.set(dst, value);
                } else {
                    let bits = self.bits_of(dst);
                    let (a, b) = (self.int(inst.src[0], bits), self.int(inst.src[1], bits));
                    let value = self.choose(condition, a, b);
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
                let value = self.shift_up(value, 16);
                self.set(dst, value);
            }
            Op::ToBf16 { pair } => {
                let first = self.int(inst.src[0], 32);
                let first = self.round_bf16(first);
                let value = if *pair {
                    let second = self.int(inst.src[1], 32);
                    let second = self.round_bf16(second);
                    let up = self.shift_up(first, 16);
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
            Op::Pure(Helper::Prmt) if chosen_bytes(inst).is_some() => {
                let value = self.permuted(inst, chosen_bytes(inst).unwrap_or_default());
                self.set(dst, value);
            }
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

    /// `prmt` by a constant.
    fn permuted(&mut self, inst: &Inst, chosen: [Byte; 4]) -> Value {
        let words = [0, 1].map(|index| self.int(inst.src[index], 32));
        // Bytes of one word that move by as many places come together.
        let mut moves: Vec<(Byte, u64)> = Vec::new();
        for (to, byte) in chosen.into_iter().enumerate() {
            let mask = 0xff << (to * 8);
            let by = Byte { place: if byte.sign { byte.place } else { byte.place - to as i32 }, ..byte };
            match moves.iter_mut().find(|(known, _)| *known == by) {
                Some((_, all)) => *all |= mask,
                None => moves.push((by, mask)),
            }
        }
        let mut result: Option<Value> = None;
        for (Byte { word, place, sign }, mask) in moves {
            let by = |this: &mut Self, bytes: i32| this.b.ins().iconst(types::I32, i64::from(bytes * 8));
            let value = if sign {
                let up = by(self, 3 - place);
                let up = self.b.ins().ishl(words[word], up);
                let all = self.b.ins().iconst(types::I32, 31);
                self.b.ins().sshr(up, all)
            } else if place >= 0 {
                let down = by(self, place);
                self.b.ins().ushr(words[word], down)
            } else {
                let up = by(self, -place);
                self.b.ins().ishl(words[word], up)
            };
            let mask = self.number_like(value, mask);
            let value = self.b.ins().band(value, mask);
            result = Some(result.map_or(value, |result| self.b.ins().bor(result, value)));
        }
        result.unwrap_or(words[0])
    }

    /// The result of a comparison, combined with another predicate.
    pub(super) fn combined(&mut self, value: Value, logic: Option<Logic>, inst: &Inst) -> Value {
        let Some(logic) = logic else { return value };
        let other = self.int(inst.src[2], 1);
        match logic {
            Logic::And => self.b.ins().band(value, other),
            Logic::Or => self.b.ins().bor(value, other),
            Logic::Xor => self.b.ins().bxor(value, other),
        }
    }

    fn shift_up(&mut self, value: Value, by: u32) -> Value {
        let amount = self.b.ins().iconst(types::I32, i64::from(by));
        self.b.ins().ishl(value, amount)
    }

    /// The bits of f32 rounded to bf16, to nearest even, in the low half.
    fn round_bf16(&mut self, bits: Value) -> Value {
        let [one, most, sign, infinite] =
            [1, 0x7fff, 0x7fff_ffff, 0x7f80_0000].map(|number| self.number_like(bits, number));
        let half = self.b.ins().iconst(types::I32, 16);
        let odd = self.b.ins().ushr(bits, half);
        let odd = self.b.ins().band(odd, one);
        let up = self.b.ins().iadd(odd, most);
        let sum = self.b.ins().iadd(bits, up);
        let rounded = self.b.ins().ushr(sum, half);
        let magnitude = self.b.ins().band(bits, sign);
        let nan = self.b.ins().icmp(IntCC::UnsignedGreaterThan, magnitude, infinite);
        self.choose(nan, most, rounded)
    }

    /// An f32 with a subnormal flushed to zero of its sign.
    pub(super) fn flush(&mut self, value: Value) -> Value {
        let magnitude = self.b.ins().fabs(value);
        let normal = self.float_like(value, f32::MIN_POSITIVE);
        let small = self.b.ins().fcmp(FloatCC::LessThan, magnitude, normal);
        if self.b.func.dfg.value_type(value).is_vector() {
            // All bits but the sign.
            let sign = self.number_like(small, 0x7fff_ffff);
            let gone = self.b.ins().band(small, sign);
            let words = self.cast(types::I32X4, value);
            let words = self.b.ins().band_not(words, gone);
            return self.cast(types::F32X4, words);
        }
        let zero = self.b.ins().f32const(0.0);
        let zero = self.b.ins().fcopysign(zero, value);
        self.b.ins().select(small, zero, value)
    }
}
