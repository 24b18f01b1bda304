//! Exact arithmetic in every number format of PTX: values are unpacked, computed with all their bits, and rounded once.

/// A number format, by the index that `Mode` and `Convert` carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Format {
    F16,
    Bf16,
    F32,
    F64,
    Tf32,
    E4m3,
    E5m2,
    E2m1,
    E2m3,
    E3m2,
    Ue8m0,
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

use Format::*;

const FORMATS: [Format; 19] =
    [F16, Bf16, F32, F64, Tf32, E4m3, E5m2, E2m1, E2m3, E3m2, Ue8m0, U8, S8, U16, S16, U32, S32, U64, S64];

impl Format {
    fn by_index(index: u64) -> Self {
        FORMATS[(index as usize).min(FORMATS.len() - 1)]
    }

    /// Bits of exponent and fraction, and zero bits below them.
    fn layout(self) -> (u32, u32, u32) {
        match self {
            F16 => (5, 10, 0),
            Bf16 => (8, 7, 0),
            F64 => (11, 52, 0),
            Tf32 => (8, 10, 13),
            E4m3 => (4, 3, 0),
            E5m2 => (5, 2, 0),
            E2m1 => (2, 1, 0),
            E2m3 => (2, 3, 0),
            E3m2 => (3, 2, 0),
            _ => (8, 23, 0),
        }
    }

    fn integer(self) -> Option<(u32, bool)> {
        Some(match self {
            U8 => (8, false),
            S8 => (8, true),
            U16 => (16, false),
            S16 => (16, true),
            U32 => (32, false),
            S32 => (32, true),
            U64 => (64, false),
            S64 => (64, true),
            _ => return None,
        })
    }

    /// The only NaN that operations give.
    fn nan(self) -> u64 {
        match self {
            F16 | Bf16 => 0x7fff,
            F64 => 0xfff8_0000_0000_0000,
            E4m3 | E5m2 => 0x7f,
            // No NaN: the largest number.
            E2m1 => 0x7,
            E2m3 | E3m2 => 0x1f,
            Ue8m0 => 0xff,
            _ => 0x7fff_ffff,
        }
    }

    /// The code behind the largest finite number, without zero bits below.
    fn limit(self) -> u64 {
        let (exponent, fraction, _) = self.layout();
        match self {
            E4m3 => 0x7f,
            E2m1 | E2m3 | E3m2 => 1 << (exponent + fraction),
            _ => ((1 << exponent) - 1) << fraction,
        }
    }
}

pub(crate) const ADD: u64 = 0;
pub(crate) const SUB: u64 = 1;
pub(crate) const MUL: u64 = 2;
pub(crate) const FMA: u64 = 3;
pub(crate) const DIV: u64 = 4;
pub(crate) const SQRT: u64 = 5;
pub(crate) const MIN: u64 = 6;
pub(crate) const MAX: u64 = 7;
/// The value itself, flushed.
pub(crate) const ABS_NEG_FLUSH: u64 = 8;

/// What `arithmetic` does; one 64-bit number for the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) op: u64,
    pub(crate) format: Format,
    pub(crate) round: u64,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    pub(crate) nan: bool,
    pub(crate) xorsign: bool,
    pub(crate) absolute: bool,
    pub(crate) packed: bool,
}

impl Mode {
    pub(crate) fn of(format: Format) -> Self {
        Self {
            op: ADD,
            format,
            round: 0,
            ftz: false,
            sat: false,
            relu: false,
            nan: false,
            xorsign: false,
            absolute: false,
            packed: false,
        }
    }

    pub(crate) fn encode(self) -> u64 {
        let flags = [self.ftz, self.sat, self.relu, self.nan, self.xorsign, self.absolute, self.packed];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << (at + 16));
        self.op | (self.format as u64) << 4 | self.round << 12 | flags
    }

    fn decode(bits: u64) -> Self {
        let flag = |at: u32| bits >> (at + 16) & 1 != 0;
        Self {
            op: bits & 15,
            format: Format::by_index(bits >> 4 & 0xff),
            round: bits >> 12 & 7,
            ftz: flag(0),
            sat: flag(1),
            relu: flag(2),
            nan: flag(3),
            xorsign: flag(4),
            absolute: flag(5),
            packed: flag(6),
        }
    }
}

/// A conversion; one 64-bit number for the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convert {
    pub(crate) from: Format,
    pub(crate) to: Format,
    /// 0 nearest even, 1 to zero, 2 down, 3 up, 4 nearest away.
    pub(crate) round: u64,
    /// Floats to integral floats.
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) satfinite: bool,
    pub(crate) relu: bool,
}

impl Convert {
    pub(crate) fn encode(self) -> u64 {
        let flags = [self.integral, self.ftz, self.sat, self.satfinite, self.relu];
        let flags = flags.iter().enumerate().fold(0, |all, (at, flag)| all | u64::from(*flag) << (at + 24));
        self.from as u64 | (self.to as u64) << 8 | self.round << 16 | flags
    }

    pub(crate) fn decode(bits: u64) -> Self {
        let flag = |at: u32| bits >> (at + 24) & 1 != 0;
        Self {
            from: Format::by_index(bits & 0xff),
            to: Format::by_index(bits >> 8 & 0xff),
            round: bits >> 16 & 7,
            integral: flag(0),
            ftz: flag(1),
            sat: flag(2),
            satfinite: flag(3),
            relu: flag(4),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Nan,
    Infinity(bool),
    /// Sign, and magnitude = mantissa * 2^exponent; the lowest bit of the mantissa can stand for what was lost below it.
    Finite {
        negative: bool,
        mantissa: u128,
        exponent: i32,
    },
}

use Number::{Finite, Infinity, Nan};

fn zero(negative: bool) -> Number {
    Finite { negative, mantissa: 0, exponent: 0 }
}

fn unpack(bits: u64, format: Format) -> Number {
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
fn quantise(negative: bool, mantissa: u128, exponent: i32, quantum: i32, round: u64) -> u128 {
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

fn pack(number: Number, format: Format, round: u64, satfinite: bool) -> u64 {
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

fn pack_ue8m0(number: Number, round: u64) -> u64 {
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

fn flush(number: Number, bits: u64, format: Format) -> Number {
    let (exponent_bits, fraction_bits, below) = format.layout();
    match number {
        Finite { negative, .. } if bits >> (fraction_bits + below) & ((1 << exponent_bits) - 1) == 0 => zero(negative),
        other => other,
    }
}

/// The sum, exact but for a lowest bit that stands for everything below it.
fn add(a: Number, b: Number, round: u64) -> Number {
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
        // The highest bit at 125: room for a carry, and at least 19 bits below any mantissa.
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

fn multiply(a: Number, b: Number) -> Number {
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

fn divide(a: Number, b: Number) -> Number {
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

fn square_root(a: Number) -> Number {
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
            // NaN keeps its bits.
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

fn negate(number: Number) -> Number {
    match number {
        Nan => Nan,
        Infinity(negative) => Infinity(!negative),
        Finite { negative, mantissa, exponent } => Finite { negative: !negative, mantissa, exponent },
    }
}

fn is_negative(number: Number) -> bool {
    matches!(number, Infinity(true) | Finite { negative: true, .. })
}

/// Whether a > b; -0 is less than +0.
fn greater(a: Number, b: Number) -> bool {
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

fn absolute(number: Number) -> Number {
    if is_negative(number) { negate(number) } else { number }
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

/// One number from format to format.
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
