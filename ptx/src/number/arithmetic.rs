//! Exact arithmetic in every number format of PTX: values are unpacked, computed with all their bits, and rounded once.

use super::exact::Number::{Finite, Infinity, Nan};
use super::exact::*;
use super::format::Format::*;
use super::format::*;

/// `op` of one to three numbers (each 64-bit argument holds one, or two of 16 bits).
pub(crate) extern "C" fn arithmetic(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let mode = Mode::decode(mode);
    if !mode.packed {
        return one(a, b, c, mode);
    }
    let half = |value: u64, at: u32| value >> (at * 16) & 0xffff;
    let part = |at| one(half(a, at), half(b, at), half(c, at), mode) & 0xffff;
    part(0) | part(1) << 16
}

fn one(a: u64, b: u64, c: u64, mode: Mode) -> u64 {
    let format = mode.format;
    if matches!(format, F16 | Bf16) && mode.op <= MUL && !mode.ftz && !mode.sat && mode.round == 0 {
        // f32 has more than twice the precision plus two bits, so rounding twice is rounding once.
        let single = |bits: u64| match format {
            F16 => half::f16::from_bits(bits as u16).to_f32(),
            _ => f32::from_bits((bits as u32) << 16),
        };
        let (x, y) = (single(a), single(b));
        let value = match mode.op {
            ADD => x + y,
            SUB => x - y,
            _ => x * y,
        };
        if value.is_nan() {
            return format.nan();
        }
        return u64::from(match format {
            F16 => half::f16::from_f32(value).to_bits(),
            _ => half::bf16::from_f32(value).to_bits(),
        });
    }
    let read = |bits: u64| {
        let number = unpack(bits, format);
        if mode.ftz { flush(number, bits, format) } else { number }
    };
    let (x, y) = (read(a), read(b));
    let result = match mode.op {
        ADD => add(x, y, mode.round),
        SUB => add(x, negate(y), mode.round),
        MUL => multiply(x, y),
        FMA => add(multiply(x, y), read(c), mode.round),
        DIV => divide(x, y),
        SQRT => square_root(x),
        MIN | MAX => extreme(x, y, mode),
        _ => {
            // NaN keeps its bits; only subnormal numbers change.
            let (exponent_bits, fraction_bits, _) = format.layout();
            let subnormal = a >> fraction_bits & ((1 << exponent_bits) - 1) == 0;
            return if subnormal { a & 1 << (exponent_bits + fraction_bits) } else { a };
        }
    };
    let mut bits = pack(result, format, mode.round, false);
    if mode.ftz {
        bits = match flush(unpack(bits, format), bits, format) {
            Finite { negative, mantissa: 0, .. } => pack(zero(negative), format, 0, false),
            _ => bits,
        };
    }
    let clamped = |number: Number| match number {
        Nan => pack(zero(false), format, 0, false),
        Infinity(true) | Finite { negative: true, .. } => pack(zero(false), format, 0, false),
        other => {
            let one = Finite { negative: false, mantissa: 1, exponent: 0 };
            let above = greater(other, one);
            if above { pack(one, format, 0, false) } else { bits }
        }
    };
    if mode.sat {
        bits = clamped(unpack(bits, format));
    }
    if mode.relu {
        bits = match unpack(bits, format) {
            Infinity(true) | Finite { negative: true, .. } => 0,
            _ => bits,
        };
    }
    bits
}

fn extreme(a: Number, b: Number, mode: Mode) -> Number {
    let sign = is_negative(a) != is_negative(b);
    let (x, y) = if mode.absolute { (absolute(a), absolute(b)) } else { (a, b) };
    let chosen = match (x, y) {
        (Nan, Nan) => return Nan,
        (Nan, _) | (_, Nan) if mode.nan => return Nan,
        (Nan, other) | (other, Nan) => other,
        _ if greater(x, y) == (mode.op == MAX) => x,
        _ => y,
    };
    if mode.xorsign && is_negative(chosen) != sign { negate(chosen) } else { chosen }
}
