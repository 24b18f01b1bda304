//! Floating point: single and double inline if rounding is to nearest, everything else with the exact arithmetic of `number`.

use super::*;
use crate::number::{self, Format};

use Scalar::*;

pub(super) fn format(scalar: Scalar) -> Option<Format> {
    Some(match scalar {
        F16 | F16x2 => Format::F16,
        Bf16 | Bf16x2 => Format::Bf16,
        F32 | F32x2 => Format::F32,
        F64 => Format::F64,
        Tf32 => Format::Tf32,
        E4m3 | E4m3x2 | E4m3x4 => Format::E4m3,
        E5m2 | E5m2x2 | E5m2x4 => Format::E5m2,
        E2m1 | E2m1x2 | E2m1x4 => Format::E2m1,
        E2m3 | E2m3x2 | E2m3x4 => Format::E2m3,
        E3m2 | E3m2x2 | E3m2x4 => Format::E3m2,
        Ue8m0 | Ue8m0x2 => Format::Ue8m0,
        _ => return None,
    })
}

pub(super) fn rounding(m: &mut Modifiers<'_>) -> Option<u64> {
    ["rn", "rz", "rm", "rp"].iter().position(|name| m.take(name)).map(|at| at as u64)
}

impl<'a> Decoder<'a> {
    /// One half of a (packed) half-precision value as f32.
    pub(super) fn half_to_single(&mut self, value: Val, scalar: Scalar, half: u32, ftz: bool) -> Val {
        let bf16 = matches!(scalar, Bf16 | Bf16x2);
        let bits = if matches!(scalar, F16x2 | Bf16x2) && half == 1 {
            self.emit(Op::Int(IntOp::Shr, U32), B32, vec![value, Val::Imm(16)])
        } else {
            value
        };
        let bits = self.emit(Op::Int(IntOp::Extend, U16), B32, vec![bits]);
        if bf16 {
            self.emit(Op::FromBf16, F32, vec![bits])
        } else {
            let helper = if ftz { Helper::F16ToF32Ftz } else { Helper::F16ToF32 };
            self.emit(Op::Pure(helper), F32, vec![bits])
        }
    }

    pub(super) fn change_sign_of_float(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let ftz = m.take("ftz");
        let scalar = m.scalar()?;
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, scalar)?;
        let a = self.src(a, scalar)?;
        let sign: u64 = match scalar {
            F16 | Bf16 => 0x8000,
            F16x2 | Bf16x2 => 0x8000_8000,
            F32 => 1 << 31,
            F64 => 1 << 63,
            F32x2 => 1 << 63 | 1 << 31,
            _ => return invalid("the type"),
        };
        if ftz && !matches!(scalar, F32 | F16 | F16x2) {
            return invalid(".ftz with this type");
        }
        let a = if ftz && scalar != F32 { self.flush_half(a, scalar) } else { a };
        if matches!(scalar, F32 | F64) {
            let op = if base == "abs" { FloatOp::Abs } else { FloatOp::Neg };
            self.push(Op::Float { op, double: scalar == F64, ftz, sat: false }, vec![dst], vec![a]);
        } else {
            let bits = raw(scalar);
            let (op, mask) = if base == "abs" { (IntOp::And, !sign) } else { (IntOp::Xor, sign) };
            self.push(Op::Int(op, bits), vec![dst], vec![a, Val::Imm(truncate(mask, bits.bits()))]);
        }
        Ok(())
    }

    pub(super) fn copy_sign(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = m.scalar()?;
        if !matches!(scalar, F32 | F64) {
            return invalid("copysign is for .f32 and .f64");
        }
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let (a, b) = (self.src(a, scalar)?, self.src(b, scalar)?);
        let bits = raw(scalar);
        let sign = 1u64 << (scalar.bits() - 1);
        let sign_of_a = self.emit(Op::Int(IntOp::And, bits), bits, vec![a, Val::Imm(sign)]);
        let rest_of_b = self.emit(Op::Int(IntOp::And, bits), bits, vec![b, Val::Imm(sign - 1)]);
        self.push(Op::Int(IntOp::Or, bits), vec![dst], vec![sign_of_a, rest_of_b]);
        Ok(())
    }

    pub(super) fn test_property(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let tests = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
        let name = m.one_of(&tests)?;
        let scalar = m.scalar()?;
        if !matches!(scalar, F32 | F64) {
            return invalid("testp is for .f32 and .f64");
        }
        let [p, a] = operands::<2>(ops)?;
        let dst = self.dst(p, Pred)?;
        let a = self.src(a, scalar)?;
        let mode = tests.iter().position(|t| *t == name).unwrap_or(0) as u64 | u64::from(scalar == F64) << 4;
        self.pure(Helper::Testp, dst, vec![a, Val::Imm(mode)]);
        Ok(())
    }

    /// Flushes each subnormal half to zero.
    fn flush_half(&mut self, value: Val, scalar: Scalar) -> Val {
        let mode = number::Mode {
            op: number::ABS_NEG_FLUSH,
            ftz: true,
            packed: scalar == F16x2,
            ..number::Mode::from_format(Format::F16)
        };
        self.emit(Op::Pure(Helper::Soft), raw(scalar), vec![value, Val::Imm(0), Val::Imm(0), Val::Imm(mode.encode())])
    }

    pub(super) fn arithmetic_float(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let round = rounding(m);
        let ftz = m.take("ftz");
        let sat = m.take("sat");
        let relu = m.take("relu");
        let oob = m.take("oob");
        if oob {
            return unsupported("fma.oob");
        }
        let scalar = m.scalar()?;
        let mixed = m.scalar_if_any();
        let three = matches!(base, "fma" | "mad");
        let count = if three { 4 } else { 3 };
        if ops.len() != count {
            return invalid(format!("{count} operands are expected, found {}", ops.len()));
        }
        let half = matches!(scalar, F16 | Bf16 | F16x2 | Bf16x2);
        let legal = match scalar {
            F32 => !relu,
            F64 => !ftz && !sat && !relu && (!three || round.is_some()),
            F32x2 => !sat && !relu,
            F16 | F16x2 => round.unwrap_or(0) == 0 && (!relu || base == "fma") && base != "mad",
            Bf16 | Bf16x2 => round.unwrap_or(0) == 0 && !ftz && !sat && (!relu || base == "fma") && base != "mad",
            _ => false,
        };
        if !legal || (base == "fma" && round.is_none()) {
            return invalid(format!("{base} of .{} with these modifiers", scalar.name()));
        }
        if let Some(mixed) = mixed {
            if scalar != F32 || !matches!(mixed, F16 | Bf16) || base == "mul" || ftz {
                return invalid("mixed precision is .f32 from .f16 or .bf16");
            }
            let dst = self.dst(&ops[0], F32)?;
            let factors = if three { 2 } else { 1 };
            let mut src = Vec::new();
            for (index, operand) in ops[1..].iter().enumerate() {
                if index < factors {
                    let value = self.src(operand, mixed)?;
                    src.push(self.half_to_single(value, mixed, 0, false));
                } else {
                    src.push(self.src(operand, F32)?);
                }
            }
            return self.single(base, dst, src, round.unwrap_or(0), false, sat, false);
        }
        let dst = self.dst(&ops[0], scalar)?;
        let src = ops[1..].iter().map(|o| self.src(o, scalar)).collect::<Check<Vec<_>>>()?;
        if half {
            let op = match base {
                "add" => number::ADD,
                "sub" => number::SUB,
                "mul" => number::MUL,
                _ => number::FMA,
            };
            let Some(format) = format(scalar) else { return invalid("the type") };
            let packed = matches!(scalar, F16x2 | Bf16x2);
            self.soft(dst, src, number::Mode { op, ftz, sat, relu, packed, ..number::Mode::from_format(format) });
            return Ok(());
        }
        if scalar == F32x2 {
            let halves: Vec<Vec<Val>> =
                (0..2).map(|half| src.iter().map(|value| self.half_of_pair(*value, half)).collect()).collect();
            let mut parts = Vec::new();
            for src in halves {
                let part = self.temp(F32);
                self.single(base, part, src, round.unwrap_or(0), ftz, false, false)?;
                parts.push(Val::Reg(part));
            }
            self.push(Op::Pack, vec![dst], parts);
            return Ok(());
        }
        self.single(base, dst, src, round.unwrap_or(0), ftz, sat, scalar == F64)
    }

    /// The lower or upper 32 bits of a value of 64.
    pub(super) fn half_of_pair(&mut self, value: Val, half: u32) -> Val {
        let value = self.emit(Op::Int(IntOp::Shr, U64), B64, vec![value, Val::Imm(u64::from(half) * 32)]);
        self.emit(Op::Int(IntOp::Extend, U32), B32, vec![value])
    }

    fn soft(&mut self, dst: Reg, mut src: Vec<Val>, mode: number::Mode) {
        src.resize(3, Val::Imm(0));
        src.push(Val::Imm(mode.encode()));
        self.pure(Helper::Soft, dst, src);
    }

    /// An operation of f32 or f64.
    #[expect(clippy::too_many_arguments, reason = "the modifiers of one instruction")]
    fn single(
        &mut self,
        base: &str,
        dst: Reg,
        src: Vec<Val>,
        round: u64,
        ftz: bool,
        sat: bool,
        double: bool,
    ) -> Check<()> {
        let (op, soft_op) = match base {
            "add" => (FloatOp::Add, number::ADD),
            "sub" => (FloatOp::Sub, number::SUB),
            "mul" => (FloatOp::Mul, number::MUL),
            "div" => (FloatOp::Div, number::DIV),
            "sqrt" => (FloatOp::Sqrt, number::SQRT),
            _ => (FloatOp::Fma, number::FMA),
        };
        if round == 0 {
            self.push(Op::Float { op, double, ftz, sat }, vec![dst], src);
        } else {
            let format = if double { Format::F64 } else { Format::F32 };
            self.soft(dst, src, number::Mode { op: soft_op, round, ftz, sat, ..number::Mode::from_format(format) });
        }
        Ok(())
    }

    pub(super) fn divide(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let approximate = m.take_any(&["approx", "full"]);
        let round = rounding(m);
        let ftz = m.take("ftz");
        let scalar = m.scalar()?;
        let legal = match scalar {
            F32 => approximate.is_some() != round.is_some(),
            F64 => approximate.is_none() && round.is_some() && !ftz,
            _ => false,
        };
        if !legal {
            return invalid("div takes .approx, .full or a rounding");
        }
        let [d, a, b] = operands::<3>(ops)?;
        let dst = self.dst(d, scalar)?;
        let src = vec![self.src(a, scalar)?, self.src(b, scalar)?];
        if approximate == Some("approx") {
            let mode = u64::from(ftz);
            self.pure(Helper::DivApprox, dst, vec![src[0], src[1], Val::Imm(mode)]);
            return Ok(());
        }
        self.single("div", dst, src, round.unwrap_or(0), ftz, false, scalar == F64)
    }

    pub(super) fn elementary(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let approximate = m.take("approx");
        let round = rounding(m);
        let ftz = m.take("ftz");
        let scalar = m.scalar()?;
        let [d, a] = operands::<2>(ops)?;
        let dst = self.dst(d, scalar)?;
        let a = self.src(a, scalar)?;
        let rounded = matches!(base, "rcp" | "sqrt");
        if round.is_some() == approximate || (round.is_some() && !rounded) {
            return invalid(format!("{base} takes .approx{}", if rounded { " or a rounding" } else { "" }));
        }
        if let Some(round) = round {
            let double = match scalar {
                F32 => false,
                F64 if !ftz => true,
                _ => return invalid("the type"),
            };
            if base == "sqrt" {
                return self.single("sqrt", dst, vec![a], round, ftz, false, double);
            }
            let one = Val::Imm(if double { 1f64.to_bits() } else { u64::from(1f32.to_bits()) });
            return self.single("div", dst, vec![one, a], round, ftz, false, double);
        }
        let names = ["rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"];
        let index = names.iter().position(|n| *n == base).unwrap_or(0) as u64;
        let legal = match scalar {
            F32 => true,
            F64 => matches!(base, "rcp" | "rsqrt") && (ftz || base == "rsqrt"),
            F16 | F16x2 => matches!(base, "ex2" | "tanh"),
            Bf16 | Bf16x2 => (base == "ex2" && ftz) || (base == "tanh" && !ftz),
            _ => false,
        };
        if !legal || (base == "tanh" && ftz) {
            return invalid(format!("{base}.approx of .{}", scalar.name()));
        }
        if scalar == F32 && matches!(base, "rcp" | "sqrt" | "rsqrt") {
            let one = Val::Imm(u64::from(1f32.to_bits()));
            let root = |this: &mut Self, a, ftz| {
                this.emit(Op::Float { op: FloatOp::Sqrt, double: false, ftz, sat: false }, F32, vec![a])
            };
            match base {
                "rcp" => return self.single("div", dst, vec![one, a], 0, ftz, false, false),
                "sqrt" => return self.single("sqrt", dst, vec![a], 0, ftz, false, false),
                _ => {
                    let value = root(self, a, ftz);
                    return self.single("div", dst, vec![one, value], 0, false, false, false);
                }
            }
        }
        let format = format(scalar).unwrap_or(Format::F32) as u64;
        let packed = matches!(scalar, F16x2 | Bf16x2);
        let mode = index | u64::from(ftz) << 4 | format << 8 | u64::from(packed) << 16;
        self.pure(Helper::Approx, dst, vec![a, Val::Imm(mode)]);
        Ok(())
    }

    pub(super) fn extreme(&mut self, base: &str, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let ftz = m.take("ftz");
        let nan = m.take("NaN");
        let absolute = m.take("abs");
        let xorsign = m.take("xorsign");
        // `.xorsign.abs`: both words belong together.
        let xorsign = xorsign && absolute;
        let scalar = m.scalar()?;
        let legal = match scalar {
            F32 => true,
            F64 => !ftz && !nan && !absolute,
            F16 | F16x2 => true,
            Bf16 | Bf16x2 => !ftz,
            _ => false,
        };
        if !legal || (ops.len() != 3 && (ops.len() != 4 || scalar != F32)) {
            return invalid(format!("{base} of .{} with these operands", scalar.name()));
        }
        let dst = self.dst(&ops[0], scalar)?;
        let mut src = ops[1..].iter().map(|o| self.src(o, scalar)).collect::<Check<Vec<_>>>()?;
        let Some(format) = format(scalar) else { return invalid("the type") };
        let packed = matches!(scalar, F16x2 | Bf16x2);
        let plain = !absolute && matches!(scalar, F32 | F64);
        while src.len() > 1 {
            let (a, b) = (src.remove(0), src.remove(0));
            let reg = if src.is_empty() { dst } else { self.temp(scalar) };
            if plain {
                let op = if base == "min" { FloatOp::Min { nan } } else { FloatOp::Max { nan } };
                self.push(Op::Float { op, double: scalar == F64, ftz, sat: false }, vec![reg], vec![a, b]);
            } else {
                let op = if base == "min" { number::MIN } else { number::MAX };
                let mode =
                    number::Mode { op, ftz, nan, xorsign, absolute, packed, ..number::Mode::from_format(format) };
                self.soft(reg, vec![a, b], mode);
            }
            src.insert(0, Val::Reg(reg));
        }
        Ok(())
    }
}

/// The untyped scalar of the same width.
pub(super) fn raw(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        16 => B16,
        32 => B32,
        _ => B64,
    }
}
