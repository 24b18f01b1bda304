//! `cvt` in all its forms, `mov` with packing, and the conversions of addresses.

use super::float::{format, rounding};
use super::*;
use crate::number::{Convert, Format};

use Scalar::*;

fn number_format(scalar: Scalar) -> Option<Format> {
    Some(match scalar {
        U8 => Format::U8,
        S8 => Format::S8,
        U16 => Format::U16,
        S16 => Format::S16,
        U32 => Format::U32,
        S32 => Format::S32,
        U64 => Format::U64,
        S64 => Format::S64,
        other => return format(other),
    })
}

/// How many numbers a packed type holds.
fn lanes(scalar: Scalar) -> u32 {
    match scalar {
        F16x2 | Bf16x2 | E4m3x2 | E5m2x2 | E2m1x2 | E2m3x2 | E3m2x2 | Ue8m0x2 | S2f6x2 | F32x2 => 2,
        E4m3x4 | E5m2x4 | E2m1x4 | E2m3x4 | E3m2x4 => 4,
        _ => 1,
    }
}

impl<'a> Decoder<'a> {
    pub(super) fn permute_bytes(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.one_of(&["b32"])?;
        let modes = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"];
        let mode = m.take_any(&modes).and_then(|name| modes.iter().position(|m| *m == name)).map_or(0, |at| at + 1);
        self.helper3(Helper::Prmt, [B32, B32, B32, B32], mode as u64, ops)?;
        Ok(())
    }

    pub(super) fn pack_converted(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        m.take("pack");
        m.one_of(&["sat"])?;
        let (to, from) = (m.scalar()?, m.scalar()?);
        let third = m.scalar_if_any();
        if from != S32 || !matches!(to, U16 | S16 | U8 | S8 | U4 | S4) || third.is_some_and(|s| s != B32) {
            return invalid("the types of cvt.pack");
        }
        if (third.is_some()) != (to.bits() < 16) || ops.len() != if third.is_some() { 4 } else { 3 } {
            return invalid("cvt.pack to less than 16 bits takes a third source of .b32, others do not");
        }
        let dst = self.dst(&ops[0], B32)?;
        let (a, b) = (self.src(&ops[1], S32)?, self.src(&ops[2], S32)?);
        let c = ops.get(3).map_or(Ok(Val::Imm(0)), |c| self.src(c, B32))?;
        let mode = u64::from(to.bits()) | u64::from(to.signed()) << 8;
        self.pure(Helper::CvtPack, dst, vec![a, b, c, Val::Imm(mode)]);
        Ok(())
    }

    pub(super) fn mov(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let scalar = m.scalar()?;
        let [d, a] = operands::<2>(ops)?;
        match (d, a) {
            (Operand::Vector(parts), source) if parts.len() > 1 => {
                if let Operand::Vector(sources) = source {
                    // Both sides become vectors of elements.
                    if sources.len() != parts.len() {
                        return invalid("vectors of different length");
                    }
                    let part = part_scalar(scalar, parts.len())?;
                    for (d, a) in parts.iter().zip(sources) {
                        let value = self.src(a, part)?;
                        let dst = self.dst(d, part)?;
                        self.push(Op::Mov, vec![dst], vec![value]);
                    }
                    return Ok(());
                }
                let part = part_scalar(scalar, parts.len())?;
                let value = self.src(source, scalar)?;
                let dst = parts.iter().map(|d| self.dst_wide(d, part)).collect::<Check<Vec<_>>>()?;
                let bits = Val::Imm(u64::from(part.bits()));
                let width = Val::Imm(u64::from(scalar.bits()));
                self.push(Op::Unpack, dst, vec![value, bits, width]);
            }
            (d, Operand::Vector(parts)) if parts.len() > 1 => {
                let part = part_scalar(scalar, parts.len())?;
                let dst = self.dst(d, scalar)?;
                let mut src = Vec::new();
                for operand in parts {
                    let value = self.src_wide(operand, part)?;
                    src.push(match value {
                        Val::Reg(reg) if self.scalar_of(reg).bits() > part.bits() => {
                            self.emit(Op::Int(IntOp::Extend, part), part, vec![value])
                        }
                        other => other,
                    });
                }
                if part == B8 {
                    // Bytes live in registers of 16 bits or more.
                    src = src.into_iter().map(|v| self.emit(Op::Int(IntOp::Extend, B8), B8, vec![v])).collect();
                }
                self.push(Op::Pack, vec![dst], src);
            }
            (d, a) => {
                if scalar == Pred {
                    let dst = self.dst(d, Pred)?;
                    let value = self.plain_predicate(a)?;
                    self.push(Op::Mov, vec![dst], vec![value]);
                    return Ok(());
                }
                if !matches!(scalar.bits(), 16 | 32 | 64 | 128) {
                    return invalid("the type of mov");
                }
                let dst = self.dst(d, scalar)?;
                let value = self.src(a, scalar)?;
                self.push(Op::Mov, vec![dst], vec![value]);
            }
        }
        Ok(())
    }

    pub(super) fn cvt(&mut self, m: &mut Modifiers<'a>, ops: &'a [Operand]) -> Check<()> {
        let integral = ["rni", "rzi", "rmi", "rpi"].iter().position(|name| m.take(name)).map(|at| at as u64);
        let away = m.take("rna");
        if m.take("rs") {
            return unsupported("cvt with stochastic rounding");
        }
        let round = rounding(m);
        let ftz = m.take("ftz");
        let sat = m.take("sat");
        let relu = m.take("relu");
        let satfinite = m.take("satfinite");
        if m.list.iter().any(|m| m.starts_with("scaled::")) {
            return unsupported("cvt with scale factors");
        }
        let (to, from) = (m.scalar()?, m.scalar()?);
        let (Some(to_format), Some(from_format)) = (number_format(to), number_format(from)) else {
            return unsupported(format!("cvt from .{} to .{}", from.name(), to.name()));
        };
        let (to_lanes, from_lanes) = (lanes(to), lanes(from));
        let way = if away { 4 } else { integral.or(round).unwrap_or(1) };
        let convert = Convert {
            from: from_format,
            to: to_format,
            round: way,
            integral: integral.is_some(),
            ftz,
            sat,
            satfinite,
            relu,
        };
        let simple_int = to.integer() && from.integer();
        if simple_int && !sat {
            let [d, a] = operands::<2>(ops)?;
            let dst = self.dst_wide(d, to)?;
            let value = self.src_wide(a, from)?;
            let narrow = self.emit(Op::Int(IntOp::Extend, from), to, vec![value]);
            self.push(Op::Int(IntOp::Extend, to), vec![dst], vec![narrow]);
            return Ok(());
        }
        if to_lanes == 1 && from_lanes == 1 && ops.len() == 2 {
            let [d, a] = operands::<2>(ops)?;
            let dst = self.dst_wide(d, to)?;
            let value = self.src_wide(a, from)?;
            let plain = !sat && !satfinite && !relu;
            let double = |s| s == F64;
            match (from, to) {
                (U32 | S32 | U64 | S64, F32 | F64) if plain && round == Some(0) => {
                    self.push(Op::FromInt { scalar: from, double: double(to) }, vec![dst], vec![value]);
                    return Ok(());
                }
                (U8 | S8 | U16 | S16, F32 | F64) if plain && round == Some(0) => {
                    let wide = if from.signed() { S32 } else { U32 };
                    let value = self.emit(Op::Int(IntOp::Extend, from), wide, vec![value]);
                    self.push(Op::FromInt { scalar: wide, double: double(to) }, vec![dst], vec![value]);
                    return Ok(());
                }
                (F32 | F64, U32 | S32 | U64 | S64) if !relu && self.scalar_of(dst).bits() == to.bits() => {
                    let Some(integral) = integral else { return invalid("a rounding to integer (.rzi) is missing") };
                    let way = [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up][integral as usize];
                    let op = Op::Float { op: FloatOp::Round(way), double: double(from), ftz, sat: false };
                    let value = if way == Rounding::Zero { value } else { self.emit(op, from, vec![value]) };
                    self.push(Op::ToInt { scalar: to, double: double(from), ftz }, vec![dst], vec![value]);
                    return Ok(());
                }
                (F32, F32) | (F64, F64) if !satfinite && !relu => {
                    let op = match integral {
                        Some(way) => FloatOp::Round(
                            [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up][way as usize],
                        ),
                        None => {
                            let one = if from == F64 { 1f64.to_bits() } else { u64::from(1f32.to_bits()) };
                            let op = Op::Float { op: FloatOp::Mul, double: double(from), ftz, sat };
                            self.push(op, vec![dst], vec![value, Val::Imm(one)]);
                            return Ok(());
                        }
                    };
                    self.push(Op::Float { op, double: double(from), ftz, sat }, vec![dst], vec![value]);
                    return Ok(());
                }
                (F32, F64) if plain => {
                    self.push(Op::Promote { ftz }, vec![dst], vec![value]);
                    return Ok(());
                }
                (F64, F32) if plain && round == Some(0) => {
                    self.push(Op::Demote { ftz }, vec![dst], vec![value]);
                    return Ok(());
                }
                (Bf16, F32) if plain && integral.is_none() => {
                    let value = self.emit(Op::Int(IntOp::Extend, U16), B32, vec![value]);
                    self.push(Op::FromBf16, vec![dst], vec![value]);
                    return Ok(());
                }
                (F32, Bf16) if plain && round == Some(0) => {
                    self.push(Op::ToBf16 { pair: false }, vec![dst], vec![value]);
                    return Ok(());
                }
                (F16, F32) if plain && integral.is_none() && round.is_none() => {
                    let value = self.emit(Op::Int(IntOp::Extend, U16), B32, vec![value]);
                    self.pure(if ftz { Helper::F16ToF32Ftz } else { Helper::F16ToF32 }, dst, vec![value]);
                    return Ok(());
                }
                (F32, F16) if plain && !ftz && round == Some(0) => {
                    self.pure(Helper::F32ToF16, dst, vec![value]);
                    return Ok(());
                }
                _ => {}
            }
            if to == Tf32 && !matches!(from, F32) {
                return invalid("cvt to .tf32 is from .f32");
            }
            // If the destination is wider than the type, integers are sign-extended.
            let result =
                self.emit(Op::Pure(Helper::Convert), raw_any(to), vec![value, Val::Imm(0), Val::Imm(convert.encode())]);
            if to.integer() {
                self.push(Op::Int(IntOp::Extend, to), vec![dst], vec![result]);
            } else {
                self.push(Op::Int(IntOp::Extend, raw_any(to)), vec![dst], vec![result]);
            }
            return Ok(());
        }
        // The result is packed; the first source is its upper half.
        let dst = self.dst_wide(&ops[0], raw_any(to))?;
        if from_lanes > 1 && to_lanes == from_lanes {
            let [_, a] = operands::<2>(ops)?;
            let a = self.src_wide(a, raw_any(from))?;
            let bits = from.bits() / from_lanes;
            let mut parts = Vec::new();
            let a = widen(self, a);
            for lane in 0..from_lanes {
                let shifted = self.emit(Op::Int(IntOp::Shr, U32), B32, vec![a, Val::Imm(u64::from(lane * bits))]);
                let mask = (1u64 << bits) - 1;
                let value = self.emit(Op::Int(IntOp::And, B32), B32, vec![shifted, Val::Imm(mask)]);
                parts.push(self.emit(
                    Op::Pure(Helper::Convert),
                    B32,
                    vec![value, Val::Imm(0), Val::Imm(convert.encode())],
                ));
            }
            return self.join(dst, to, parts);
        }
        let [_, first, second] = operands::<3>(ops)?;
        if to_lanes != 2 || from_lanes != 1 {
            return unsupported(format!("cvt from .{} to .{}", from.name(), to.name()));
        }
        let values = vec![self.src(first, from)?, self.src(second, from)?];
        if to == Bf16x2 && from == F32 && round == Some(0) && !relu && !satfinite && !sat {
            self.push(Op::ToBf16 { pair: true }, vec![dst], values);
            return Ok(());
        }
        let mut parts = Vec::new();
        for value in values.into_iter().rev() {
            parts.push(self.emit(Op::Pure(Helper::Convert), B32, vec![value, Val::Imm(0), Val::Imm(convert.encode())]));
        }
        self.join(dst, to, parts)
    }

    /// Packs numbers, the lowest first, into one register.
    fn join(&mut self, dst: Reg, to: Scalar, parts: Vec<Val>) -> Check<()> {
        let bits = u64::from(to.bits() / lanes(to));
        let mut all = Val::Imm(0);
        for (index, part) in parts.into_iter().enumerate() {
            let part = self.emit(Op::Int(IntOp::And, B32), B32, vec![part, Val::Imm((1 << bits) - 1)]);
            let up = self.emit(Op::Int(IntOp::Shl, B32), B32, vec![part, Val::Imm(bits * index as u64)]);
            all = self.emit(Op::Int(IntOp::Or, B32), B32, vec![all, up]);
        }
        self.push(Op::Int(IntOp::Extend, raw_any(to)), vec![dst], vec![all]);
        Ok(())
    }
}

fn widen(decoder: &mut Decoder<'_>, value: Val) -> Val {
    decoder.emit(Op::Int(IntOp::Extend, B32), B32, vec![value])
}

/// The unsigned or untyped scalar of the same width, bytes included.
fn raw_any(scalar: Scalar) -> Scalar {
    match scalar.bits() {
        0..=8 => B8,
        16 => B16,
        32 => B32,
        _ => B64,
    }
}

fn part_scalar(scalar: Scalar, parts: usize) -> Check<Scalar> {
    Ok(match scalar.bits() / parts as u32 {
        8 => B8,
        16 => B16,
        32 => B32,
        64 => B64,
        _ => return invalid("the number of parts"),
    })
}
