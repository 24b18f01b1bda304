//! Converts one number from format to format.

use super::exact::Number::{Finite, Infinity, Nan};
use super::exact::*;
use super::format::Format::*;
use super::format::*;

/// Converts one number, as the mode says.
pub(crate) extern "C" fn convert(a: u64, _random: u64, mode: u64, _unused: u64) -> u64 {
    let mode = Convert::decode(mode);
    let mut number = unpack(a, mode.from);
    if mode.ftz && mode.from == F32 {
        number = flush(number, a, F32);
    }
    if let Some((width, signed)) = mode.to.integer() {
        return to_integer(number, width, signed, mode);
    }
    if mode.integral
        && let Finite { negative, mantissa, exponent } = number
        && exponent < 0
    {
        number = Finite { negative, mantissa: quantise(negative, mantissa, exponent, 0, mode.round), exponent: 0 };
    }
    if mode.relu {
        number = match number {
            Infinity(true) | Finite { negative: true, .. } => zero(false),
            other => other,
        };
    }
    if mode.sat {
        number = match number {
            Nan | Infinity(true) | Finite { negative: true, .. } => zero(false),
            other if greater(other, Finite { negative: false, mantissa: 1, exponent: 0 }) => {
                Finite { negative: false, mantissa: 1, exponent: 0 }
            }
            other => other,
        };
    }
    if mode.to == Ue8m0 {
        return pack_ue8m0(number, mode.round);
    }
    let bits = pack(number, mode.to, mode.round, mode.satfinite);
    if mode.ftz && mode.to == F32 {
        return match flush(unpack(bits, F32), bits, F32) {
            Finite { negative, mantissa: 0, .. } => u64::from(negative) << 31,
            _ => bits,
        };
    }
    bits
}

fn to_integer(number: Number, width: u32, signed: bool, mode: Convert) -> u64 {
    let (low, high) =
        if signed { (-(1i128 << (width - 1)), (1i128 << (width - 1)) - 1) } else { (0, (1i128 << width) - 1) };
    let value = match number {
        Nan if mode.from == F64 || width == 64 => return 1 << (width - 1),
        Nan => 0,
        Infinity(true) => low,
        Infinity(false) => high,
        Finite { negative, mantissa, exponent } => {
            let top = exponent + 128 - mantissa.leading_zeros() as i32;
            let magnitude = if mantissa != 0 && top > 70 {
                i128::MAX >> 1
            } else {
                quantise(negative, mantissa, exponent, 0, mode.round) as i128
            };
            let value = if negative { -magnitude } else { magnitude };
            let from_integer = mode.from.integer().is_some();
            if from_integer && !mode.sat { value } else { value.clamp(low, high) }
        }
    };
    let value = if mode.relu { value.max(0) } else { value };
    value as u64 & if width == 64 { u64::MAX } else { (1 << width) - 1 }
}
