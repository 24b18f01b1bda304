//! Operations on numbers by their definitions in the PTX ISA.

use crate::ir::*;
use crate::number::Scalar;

/// The lowest bits of a number.
pub(super) fn cut(value: u128, bits: u32) -> u128 {
    if bits >= 128 { value } else { value & ((1 << bits) - 1) }
}

/// A number as its type has it, with its sign.
pub(super) fn extended(value: u128, scalar: Scalar) -> i128 {
    let bits = scalar.bits();
    let value = cut(value, bits);
    if scalar.signed() && bits < 128 && value >> (bits - 1) & 1 != 0 {
        value as i128 - (1 << bits)
    } else {
        value as i128
    }
}

/// An operation on integers, but for division and carries. `to` is the width of the result's register, `amount` the last operand in
/// 32 bits.
pub(super) fn integer(op: IntOp, scalar: Scalar, to: u32, operands: &[u128], amount: impl Fn() -> u32) -> u128 {
    let bits = scalar.bits();
    let value = |index: usize| extended(operands[index], scalar);
    let raw = |index: usize| cut(operands[index], bits.max(8));
    let result = match op {
        IntOp::Add => value(0).wrapping_add(value(1)),
        IntOp::Sub => value(0).wrapping_sub(value(1)),
        IntOp::Mul => value(0).wrapping_mul(value(1)),
        IntOp::MulHi => (value(0).wrapping_mul(value(1)) as u128 >> bits) as i128,
        IntOp::MulWide => return cut(value(0).wrapping_mul(value(1)) as u128, bits * 2),
        IntOp::Min => value(0).min(value(1)),
        IntOp::Max => value(0).max(value(1)),
        IntOp::And => (raw(0) & raw(1)) as i128,
        IntOp::Or => (raw(0) | raw(1)) as i128,
        IntOp::Xor => (raw(0) ^ raw(1)) as i128,
        IntOp::Not => !raw(0) as i128,
        IntOp::Cnot => i128::from(raw(0) == 0),
        IntOp::Neg => value(0).wrapping_neg(),
        IntOp::Abs => if_negative(cut(operands[0], bits), bits),
        IntOp::Popc => i128::from(cut(raw(0), bits).count_ones()),
        IntOp::Clz => i128::from(cut(raw(0), bits).leading_zeros() - (128 - bits)),
        IntOp::Brev => (cut(raw(0), bits).reverse_bits() >> (128 - bits)) as i128,
        IntOp::AddSat => (value(0) + value(1)).clamp(i128::from(i32::MIN), i128::from(i32::MAX)),
        IntOp::SubSat => (value(0) - value(1)).clamp(i128::from(i32::MIN), i128::from(i32::MAX)),
        IntOp::Shl => (if amount() >= bits { 0 } else { raw(0) << amount() }) as i128,
        IntOp::Shr => value(0) >> if scalar.signed() { amount().min(bits - 1) } else { amount().min(bits) },
        IntOp::Lop3(table) => (0..32).fold(0, |all, bit| {
            let at = (0..3).fold(0, |at, index| at << 1 | operands[index] >> bit & 1);
            all | i128::from(table >> at & 1) << bit
        }),
        IntOp::Funnel { left, wrap } => {
            let both = cut(operands[1], 32) << 32 | cut(operands[0], 32);
            let by = if wrap { amount() & 31 } else { amount().min(32) };
            (if left { both << by >> 32 } else { both >> by }) as i128
        }
        IntOp::Extend => return cut(value(0) as u128, to.max(8)),
        // The caller does these itself.
        IntOp::Div | IntOp::Rem | IntOp::Carry { .. } => 0,
    };
    cut(result as u128, bits.max(8))
}

fn if_negative(value: u128, bits: u32) -> i128 {
    let signed = if value >> (bits - 1) & 1 != 0 { value as i128 - (1i128 << bits) } else { value as i128 };
    signed.abs()
}

fn flushed(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

fn single(bits: u128, ftz: bool) -> f32 {
    let value = f32::from_bits(bits as u32);
    if ftz { flushed(value) } else { value }
}

/// The bits of a result of arithmetic in f32, where there is one NaN only.
fn canonical(value: f32) -> u128 {
    if value.is_nan() { 0x7fff_ffff } else { u128::from(value.to_bits()) }
}

pub(super) fn compare(compare: Compare, scalar: Scalar, ftz: bool, a: u128, b: u128) -> bool {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match scalar {
        Scalar::F64 => f64::from_bits(a as u64).partial_cmp(&f64::from_bits(b as u64)),
        _ if scalar.float() => single(a, ftz).partial_cmp(&single(b, ftz)),
        _ => Some(extended(a, scalar).cmp(&extended(b, scalar))),
    };
    let is = |list: &[std::cmp::Ordering]| order.is_some_and(|order| list.contains(&order));
    let or_unordered = |list: &[std::cmp::Ordering]| order.is_none_or(|order| list.contains(&order));
    match compare {
        Compare::Eq => is(&[Equal]),
        Compare::Ne => is(&[Less, Greater]),
        Compare::Lt => is(&[Less]),
        Compare::Le => is(&[Less, Equal]),
        Compare::Gt => is(&[Greater]),
        Compare::Ge => is(&[Greater, Equal]),
        Compare::Equ => or_unordered(&[Equal]),
        Compare::Neu => or_unordered(&[Less, Greater]),
        Compare::Ltu => or_unordered(&[Less]),
        Compare::Leu => or_unordered(&[Less, Equal]),
        Compare::Gtu => or_unordered(&[Greater]),
        Compare::Geu => or_unordered(&[Greater, Equal]),
        Compare::Num => order.is_some(),
        Compare::Nan => order.is_none(),
    }
}

/// The width of what an operation of [`float`] reads.
pub(super) fn source_bits(op: &Op) -> u32 {
    match op {
        Op::Float { double: true, .. } | Op::ToInt { double: true, .. } => 64,
        Op::FromInt { scalar, .. } => scalar.bits(),
        Op::Demote { .. } => 64,
        _ => 32,
    }
}

/// Arithmetic of f32 and f64, and conversions.
pub(super) fn float(op: &Op, operands: &[u128]) -> u128 {
    match op {
        Op::Float { op, double: true, sat, .. } => {
            let v: Vec<f64> = operands.iter().map(|bits| f64::from_bits(*bits as u64)).collect();
            let result = double(*op, &v);
            u128::from(if *sat { if result > 0.0 { result.min(1.0) } else { 0.0 } } else { result }.to_bits())
        }
        Op::Float { op, ftz, sat, .. } => {
            let v: Vec<f32> = operands.iter().map(|bits| single(*bits, *ftz)).collect();
            let result = arithmetic(*op, &v);
            let result = if *ftz { flushed(result) } else { result };
            let result = if *sat { if result > 0.0 { result.min(1.0) } else { 0.0 } } else { result };
            canonical(result)
        }
        Op::FromInt { scalar, double } => {
            let value = extended(operands[0], *scalar);
            u128::from(if *double { (value as f64).to_bits() } else { u64::from((value as f32).to_bits()) })
        }
        Op::ToInt { scalar, double, ftz } => {
            let value = if *double { f64::from_bits(operands[0] as u64) } else { f64::from(single(operands[0], *ftz)) };
            let bits = scalar.bits();
            if value.is_nan() {
                return if *double || bits == 64 { 1 << (bits - 1) } else { 0 };
            }
            let (least, most) = if scalar.signed() {
                (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
            } else {
                (0, (1i128 << bits) - 1)
            };
            cut((value.trunc() as i128).clamp(least, most) as u128, bits)
        }
        Op::Promote { ftz } => u128::from(f64::from(single(operands[0], *ftz)).to_bits()),
        Op::Demote { ftz } => {
            let value = f64::from_bits(operands[0] as u64) as f32;
            canonical(if *ftz { flushed(value) } else { value })
        }
        Op::FromBf16 => cut(operands[0] << 16, 32),
        Op::ToBf16 { pair } => {
            let round = |bits: u128| {
                let bits = bits as u32;
                if f32::from_bits(bits).is_nan() {
                    0x7fff
                } else {
                    u128::from((bits + (0x7fff + (bits >> 16 & 1))) >> 16)
                }
            };
            if *pair { round(operands[0]) << 16 | round(operands[1]) } else { round(operands[0]) }
        }
        _ => 0,
    }
}

macro_rules! arithmetic {
    ($name:ident, $float:ty) => {
        fn $name(op: FloatOp, v: &[$float]) -> $float {
            // The negative zero is less than the positive one.
            let less = |a: $float, b: $float| a < b || (a == b && a.is_sign_negative());
            let among = |nan: bool, a: $float, b: $float, first: bool| match (a.is_nan(), b.is_nan()) {
                (true, true) => a,
                (true, false) => {
                    if nan {
                        a
                    } else {
                        b
                    }
                }
                (false, true) => {
                    if nan {
                        b
                    } else {
                        a
                    }
                }
                (false, false) => {
                    if first {
                        a
                    } else {
                        b
                    }
                }
            };
            match op {
                FloatOp::Add => v[0] + v[1],
                FloatOp::Sub => v[0] - v[1],
                FloatOp::Mul => v[0] * v[1],
                FloatOp::Fma => v[0].mul_add(v[1], v[2]),
                FloatOp::Div => v[0] / v[1],
                FloatOp::Sqrt => v[0].sqrt(),
                FloatOp::Neg => -v[0],
                FloatOp::Abs => v[0].abs(),
                FloatOp::Round(Rounding::Nearest) => v[0].round_ties_even(),
                FloatOp::Round(Rounding::Zero) => v[0].trunc(),
                FloatOp::Round(Rounding::Down) => v[0].floor(),
                FloatOp::Round(Rounding::Up) => v[0].ceil(),
                FloatOp::Min { nan } => among(nan, v[0], v[1], less(v[0], v[1])),
                FloatOp::Max { nan } => among(nan, v[0], v[1], !less(v[0], v[1])),
            }
        }
    };
}

arithmetic!(arithmetic, f32);
arithmetic!(double, f64);
