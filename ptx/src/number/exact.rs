//! Numbers with all their bits: unpacked, packed and rounded once, and the operations on them.

use super::format::Format::{self, *};

use Number::{Finite, Infinity, Nan};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Nan,
    Infinity(bool),
    /// A sign, and a magnitude of mantissa * 2^exponent; the lowest bit of the mantissa can stand for what was lost below it.
    Finite {
        negative: bool,
        mantissa: u128,
        exponent: i32,
    },
}

pub(super) fn zero(negative: bool) -> Number {
    Finite { negative, mantissa: 0, exponent: 0 }
}

pub(super) fn unpack(bits: u64, format: Format) -> Number {
    if let Some((width, signed)) = format.integer() {
        let shift = 64 - width;
        let value =
            if signed { i128::from((bits << shift) as i64 >> shift) } else { i128::from(bits << shift >> shift) };
        return Finite { negative: value < 0, mantissa: value.unsigned_abs(), exponent: 0 };
    }
    if format == Ue8m0 {
        let bits = bits & 0xff;
        return if bits == 0xff { Nan } else { Finite { negative: false, mantissa: 1, exponent: bits as i32 - 127 } };
    }
    let (exponent_bits, fraction_bits, below) = format.layout();
    let bits = bits >> below;
    let negative = bits >> (exponent_bits + fraction_bits) & 1 != 0;
    let top = (1u64 << exponent_bits) - 1;
    let exponent = bits >> fraction_bits & top;
    let fraction = bits & ((1 << fraction_bits) - 1);
    let least = 1 - ((1i32 << (exponent_bits - 1)) - 1) - fraction_bits as i32;
    match format {
        E2m1 | E2m3 | E3m2 => {}
        E4m3 if bits & 0x7f == 0x7f => return Nan,
        E4m3 => {}
        _ if exponent == top => return if fraction == 0 { Infinity(negative) } else { Nan },
        _ => {}
    }
    if exponent == 0 {
        return Finite { negative, mantissa: u128::from(fraction), exponent: least };
    }
    let mantissa = u128::from(fraction | 1 << fraction_bits);
    Finite { negative, mantissa, exponent: least + exponent as i32 - 1 }
}

/// The mantissa in units of 2^quantum, rounded.
pub(super) fn quantise(negative: bool, mantissa: u128, exponent: i32, quantum: i32, round: u64) -> u128 {
    let shift = quantum - exponent;
    if shift <= 0 {
        return mantissa << (-shift).min(127);
    }
    let (whole, rest, half) = if shift > 127 {
        (0, u128::from(mantissa != 0), 2)
    } else {
        (mantissa >> shift, mantissa & ((1 << shift) - 1), 1u128 << (shift - 1))
    };
    let up = match round {
        0 => rest > half || (rest == half && whole & 1 != 0),
        1 => false,
        2 => negative && rest != 0,
        3 => !negative && rest != 0,
        _ => rest >= half,
    };
    whole + u128::from(up)
}

pub(super) fn pack(number: Number, format: Format, round: u64, satfinite: bool) -> u64 {
    let (exponent_bits, fraction_bits, below) = format.layout();
    let sign = |negative: bool| u64::from(negative) << (exponent_bits + fraction_bits);
    let limit = format.limit();
    let finite_only = matches!(format, E4m3 | E2m1 | E2m3 | E3m2);
    let (negative, mantissa, exponent) = match number {
        Nan => return format.nan(),
        Infinity(negative) => {
            let code = if satfinite || finite_only { limit - 1 } else { limit };
            return (sign(negative) | code) << below;
        }
        Finite { negative, mantissa: 0, .. } => return sign(negative) << below,
        Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
    };
    let least = 1 - ((1i32 << (exponent_bits - 1)) - 1);
    let top = exponent + 127 - mantissa.leading_zeros() as i32;
    let quantum = top.max(least) - fraction_bits as i32;
    let units = quantise(negative, mantissa, exponent, quantum, round);
    let steps = (quantum + fraction_bits as i32 - least) as u128;
    let code = (steps << fraction_bits) + units;
    let code = if code >= u128::from(limit) {
        let away = match round {
            0 | 4 => true,
            1 => false,
            2 => negative,
            _ => !negative,
        };
        if satfinite || finite_only || !away { limit - 1 } else { limit }
    } else {
        code as u64
    };
    (sign(negative) | code) << below
}

pub(super) fn pack_ue8m0(number: Number, round: u64) -> u64 {
    match number {
        Nan => 0xff,
        Infinity(_) => 0xfe,
        Finite { mantissa: 0, .. } | Finite { negative: true, .. } => 0,
        Finite { mantissa, exponent, .. } => {
            let top = exponent + 127 - mantissa.leading_zeros() as i32;
            let up = round == 3 && !mantissa.is_power_of_two();
            (top + i32::from(up) + 127).clamp(0, 0xfe) as u64
        }
    }
}

pub(super) fn flush(number: Number, bits: u64, format: Format) -> Number {
    let (exponent_bits, fraction_bits, below) = format.layout();
    match number {
        Finite { negative, .. } if bits >> (fraction_bits + below) & ((1 << exponent_bits) - 1) == 0 => zero(negative),
        other => other,
    }
}

/// The sum, exact except for a lowest bit that represents everything below it.
pub(super) fn add(a: Number, b: Number, round: u64) -> Number {
    let (a, b) = match (a, b) {
        (Nan, _) | (_, Nan) => return Nan,
        (Infinity(x), Infinity(y)) => return if x == y { a } else { Nan },
        (Infinity(_), _) => return a,
        (_, Infinity(_)) => return b,
        (Finite { negative: x, mantissa: 0, .. }, Finite { negative: y, mantissa: 0, .. }) => {
            return zero(if x == y { x } else { round == 2 });
        }
        (Finite { mantissa: 0, .. }, _) => return b,
        (_, Finite { mantissa: 0, .. }) => return a,
        pair => pair,
    };
    let normal = |number| match number {
        // With its highest bit at 125, a mantissa has room for a carry, and at least 19 bits below.
        Finite { negative, mantissa, exponent } => {
            let shift = mantissa.leading_zeros() as i32 - 2;
            let mantissa = if shift >= 0 { mantissa << shift } else { mantissa >> -shift };
            (negative, mantissa, exponent - shift)
        }
        _ => (false, 0, 0),
    };
    let (mut high, mut low) = (normal(a), normal(b));
    if (low.2, low.1) > (high.2, high.1) {
        std::mem::swap(&mut high, &mut low);
    }
    let distance = (high.2 - low.2) as u32;
    let shifted = if distance > 126 { 1 } else { low.1 >> distance | u128::from(low.1 & ((1 << distance) - 1) != 0) };
    let mantissa = if high.0 == low.0 { high.1 + shifted } else { high.1 - shifted };
    if mantissa == 0 {
        return zero(round == 2);
    }
    Finite { negative: high.0, mantissa, exponent: high.2 }
}

pub(super) fn multiply(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) => Nan,
        (Infinity(x), Infinity(y)) => Infinity(x != y),
        (Infinity(_), Finite { mantissa: 0, .. }) | (Finite { mantissa: 0, .. }, Infinity(_)) => Nan,
        (Infinity(x), Finite { negative: y, .. }) | (Finite { negative: x, .. }, Infinity(y)) => Infinity(x != y),
        (Finite { negative: x, mantissa: m, exponent: e }, Finite { negative: y, mantissa: n, exponent: f }) => {
            Finite { negative: x != y, mantissa: m * n, exponent: e + f }
        }
    }
}

pub(super) fn divide(a: Number, b: Number) -> Number {
    match (a, b) {
        (Nan, _) | (_, Nan) | (Infinity(_), Infinity(_)) => Nan,
        (Finite { mantissa: 0, .. }, Finite { mantissa: 0, .. }) => Nan,
        (Infinity(x), Finite { negative: y, .. }) => Infinity(x != y),
        (Finite { negative: x, .. }, Infinity(y)) => zero(x != y),
        (Finite { negative: x, .. }, Finite { negative: y, mantissa: 0, .. }) => Infinity(x != y),
        (Finite { negative: x, mantissa: m, exponent: e }, Finite { negative: y, mantissa: n, exponent: f }) => {
            if m == 0 {
                return zero(x != y);
            }
            let shift = m.leading_zeros() as i32 - 2;
            let scaled = m << shift;
            let mantissa = (scaled / n) << 1 | u128::from(!scaled.is_multiple_of(n));
            Finite { negative: x != y, mantissa, exponent: e - shift - f - 1 }
        }
    }
}

pub(super) fn square_root(a: Number) -> Number {
    match a {
        Nan | Infinity(true) => Nan,
        Infinity(false) | Finite { mantissa: 0, .. } => a,
        Finite { negative: true, .. } => Nan,
        Finite { mantissa, exponent, .. } => {
            let mut shift = mantissa.leading_zeros() as i32 - 2;
            if (exponent - shift) % 2 != 0 {
                shift -= 1;
            }
            let scaled = mantissa << shift;
            let root = scaled.isqrt();
            let mantissa = root << 1 | u128::from(root * root != scaled);
            Finite { negative: false, mantissa, exponent: (exponent - shift) / 2 - 1 }
        }
    }
}

pub(super) fn negate(number: Number) -> Number {
    match number {
        Nan => Nan,
        Infinity(negative) => Infinity(!negative),
        Finite { negative, mantissa, exponent } => Finite { negative: !negative, mantissa, exponent },
    }
}

pub(super) fn is_negative(number: Number) -> bool {
    matches!(number, Infinity(true) | Finite { negative: true, .. })
}

/// Whether a > b; -0 is less than +0.
pub(super) fn greater(a: Number, b: Number) -> bool {
    let (x, y) = (is_negative(a), is_negative(b));
    if x != y {
        return y;
    }
    let larger = match (a, b) {
        (Infinity(_), Infinity(_)) => false,
        (Infinity(_), _) => true,
        (_, Infinity(_)) => false,
        _ => match add(absolute(a), negate(absolute(b)), 0) {
            Finite { negative, mantissa, .. } => !negative && mantissa != 0,
            _ => false,
        },
    };
    let equal = a == b || matches!(add(absolute(a), negate(absolute(b)), 0), Finite { mantissa: 0, .. });
    if equal { false } else { larger != x }
}

pub(super) fn absolute(number: Number) -> Number {
    if is_negative(number) { negate(number) } else { number }
}
