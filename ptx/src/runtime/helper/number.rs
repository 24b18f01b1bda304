//! Operations on integers and approximations of functions, on the bits of numbers.

use crate::number::Convert;

pub(super) extern "C" fn f16_to_f32(a: u64, _: u64, _: u64, _: u64) -> u64 {
    u64::from(half::f16::from_bits(a as u16).to_f32().to_bits())
}

pub(super) extern "C" fn f16_to_f32_ftz(a: u64, _: u64, _: u64, _: u64) -> u64 {
    let a = if a & 0x7c00 == 0 { a & 0x8000 } else { a };
    f16_to_f32(a, 0, 0, 0)
}

pub(super) extern "C" fn f32_to_f16(a: u64, _: u64, _: u64, _: u64) -> u64 {
    let value = f32::from_bits(a as u32);
    if value.is_nan() { 0x7fff } else { u64::from(half::f16::from_f32(value).to_bits()) }
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

/// Elementary functions; f32 ones are computed in f64 and rounded, far within what the ISA allows.
pub(super) extern "C" fn approximate(a: u64, mode: u64, _: u64, _: u64) -> u64 {
    let (function, ftz, format, packed) = (mode & 15, mode & 16 != 0, mode >> 8 & 0xff, mode >> 16 & 1 != 0);
    let double = 3;
    if format == double {
        return double_approximate(a, function, ftz);
    }
    if format == 2 {
        let value = f32::from_bits(a as u32);
        let value = if ftz { flush(value) } else { value };
        let result = single(f64::from(value), function) as f32;
        let result = if ftz { flush(result) } else { result };
        return if result.is_nan() { 0x7fff_ffff } else { u64::from(result.to_bits()) };
    }
    let bf16 = format == 1;
    let one = |bits: u64| {
        let value = if bf16 { f32::from_bits((bits as u32) << 16) } else { half::f16::from_bits(bits as u16).to_f32() };
        let subnormal = |bits: u64| if bf16 { bits & 0x7f80 == 0 } else { bits & 0x7c00 == 0 };
        let value = if ftz && subnormal(bits) { 0f32.copysign(value) } else { value };
        let result = single(f64::from(value), function);
        if result.is_nan() {
            return 0x7fff;
        }
        let to = if bf16 { crate::number::Format::Bf16 } else { crate::number::Format::F16 };
        let convert = Convert {
            from: crate::number::Format::F64,
            to,
            round: 0,
            integral: false,
            ftz: false,
            sat: false,
            satfinite: false,
            relu: false,
        };
        let bits = crate::number::convert(result.to_bits(), 0, convert.encode(), 0);
        if ftz && subnormal(bits) { bits & 0x8000 } else { bits }
    };
    if packed { one(a & 0xffff) | one(a >> 16 & 0xffff) << 16 } else { one(a & 0xffff) }
}

fn single(x: f64, function: u64) -> f64 {
    match function {
        0 => 1.0 / x,
        1 => x.sqrt(),
        2 => 1.0 / x.sqrt(),
        3 => x.sin(),
        4 => x.cos(),
        5 => x.log2(),
        6 => x.exp2(),
        _ => x.tanh(),
    }
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx{.ftz}.f64`: the former (and the latter with .ftz) have 20 bits of fraction.
fn double_approximate(a: u64, function: u64, ftz: bool) -> u64 {
    let mut bits = a;
    if ftz {
        // Only the upper half of the source matters.
        bits &= 0xffff_ffff_0000_0000;
        if bits >> 52 & 0x7ff == 0 {
            bits &= 1 << 63;
        }
    }
    let x = f64::from_bits(bits);
    let mut result = if function == 0 { 1.0 / x } else { 1.0 / x.sqrt() };
    if result.is_nan() {
        return 0x7fff_ffff_0000_0000;
    }
    if ftz && result.is_subnormal() {
        result = 0f64.copysign(result);
    }
    if ftz { result.to_bits() & 0xffff_ffff_0000_0000 } else { result.to_bits() }
}

pub(super) extern "C" fn divide_approximately(a: u64, b: u64, mode: u64, _: u64) -> u64 {
    let (mut x, mut y) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
    if mode & 1 != 0 {
        (x, y) = (flush(x), flush(y));
    }
    // The quotient is a * (1 / b), and the reciprocal of the largest divisors is flushed to zero.
    let mut result = if y.abs() > f32::from_bits(0x7e80_0000) && y.is_finite() { x * 0f32.copysign(y) } else { x / y };
    if mode & 1 != 0 {
        result = flush(result);
    }
    if result.is_nan() { 0x7fff_ffff } else { u64::from(result.to_bits()) }
}

pub(super) extern "C" fn test(a: u64, mode: u64, _: u64, _: u64) -> u64 {
    use std::num::FpCategory::*;
    let class = if mode & 16 != 0 { f64::from_bits(a).classify() } else { f32::from_bits(a as u32).classify() };
    u64::from(match mode & 15 {
        0 => !matches!(class, Nan | Infinite),
        1 => class == Infinite,
        2 => class != Nan,
        3 => class == Nan,
        4 => class == Normal,
        _ => class == Subnormal,
    })
}

/// Division of integers. By zero it gives all ones, as GPUs return for unsigned numbers, and the dividend as the remainder.
pub(super) extern "C" fn divide(a: u64, b: u64, mode: u64, _: u64) -> u64 {
    let (signed, remainder) = (mode & 1 != 0, mode & 2 != 0);
    match (b, signed, remainder) {
        (0, _, false) => u64::MAX,
        (0, _, true) => a,
        (_, true, false) => (a as i64).wrapping_div(b as i64) as u64,
        (_, true, true) => (a as i64).wrapping_rem(b as i64) as u64,
        (_, false, false) => a / b,
        (_, false, true) => a % b,
    }
}

pub(super) extern "C" fn mad24(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let (high, signed, saturate) = (mode & 1 != 0, mode & 2 != 0, mode & 4 != 0);
    let cut = |x: u64| if signed { i64::from((x as i32) << 8 >> 8) } else { (x & 0xff_ffff) as i64 };
    let product = cut(a) * cut(b);
    let part = if high { product >> 16 } else { product } as u32;
    if saturate {
        let sum = i64::from(part as i32) + i64::from(c as i32);
        return u64::from(sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32);
    }
    u64::from(part.wrapping_add(c as u32))
}

pub(super) extern "C" fn bfind(a: u64, mode: u64, _: u64, _: u64) -> u64 {
    let (signed, wide, amount) = (mode & 1 != 0, mode & 2 != 0, mode & 4 != 0);
    let bits = if wide { 64 } else { 32 };
    let mut value = if wide { a } else { a & 0xffff_ffff };
    if signed && value >> (bits - 1) & 1 != 0 {
        value = !value & if wide { u64::MAX } else { 0xffff_ffff };
    }
    if value == 0 {
        return 0xffff_ffff;
    }
    let highest = 63 - u64::from(value.leading_zeros());
    if amount { bits - 1 - highest } else { highest }
}

pub(super) extern "C" fn fns(mask: u64, base: u64, offset: u64, _: u64) -> u64 {
    let (mask, base, offset) = (mask as u32, base as u32, offset as i32);
    if base > 31 {
        return 0xffff_ffff;
    }
    let set = |at: i64| (0..32).contains(&at) && mask >> at & 1 != 0;
    if offset == 0 {
        return if set(i64::from(base)) { u64::from(base) } else { 0xffff_ffff };
    }
    let step = if offset > 0 { 1 } else { -1 };
    let mut left = offset.unsigned_abs();
    let mut at = i64::from(base);
    while (0..32).contains(&at) {
        if set(at) {
            left -= 1;
            if left == 0 {
                return at as u64;
            }
        }
        at += step;
    }
    0xffff_ffff
}

pub(super) extern "C" fn bfe(a: u64, position: u64, length: u64, mode: u64) -> u64 {
    let (bits, signed) = (mode & 0xff, mode >> 8 & 1 != 0);
    let (position, length) = (position & 0xff, length & 0xff);
    let a = if bits == 32 { a & 0xffff_ffff } else { a };
    let sign = if !signed || length == 0 {
        0
    } else {
        let at = (position + length - 1).min(bits - 1);
        a >> at & 1
    };
    let mut result = 0;
    for bit in 0..bits {
        let from = position + bit;
        let value = if bit < length && from < bits { a >> from & 1 } else { sign };
        result |= value << bit;
    }
    result
}

pub(super) extern "C" fn bfi(a: u64, b: u64, place: u64, bits: u64) -> u64 {
    let (position, length) = (place & 0xff, place >> 8 & 0xff);
    let mut result = b;
    let mut bit = 0;
    while bit < length && position + bit < bits {
        let at = position + bit;
        result = result & !(1 << at) | (a >> bit & 1) << at;
        bit += 1;
    }
    result
}

pub(super) extern "C" fn bmsk(a: u64, b: u64, wrap: u64, _: u64) -> u64 {
    let (a, b) = (a & 0xffff_ffff, b & 0xffff_ffff);
    let (start, width) = if wrap != 0 { (a & 31, b & 31) } else { (a.min(32), b.min(32)) };
    if width == 0 || start >= 32 {
        return 0;
    }
    let ones = (1u64 << width) - 1;
    ones << start & 0xffff_ffff
}

pub(super) extern "C" fn szext(a: u64, b: u64, mode: u64, _: u64) -> u64 {
    let (wrap, signed) = (mode & 1 != 0, mode & 2 != 0);
    let b = b & 0xffff_ffff;
    let width = if wrap { b & 31 } else { b.min(32) };
    let a = a as u32;
    u64::from(match width {
        0 => 0,
        32 => a,
        width if signed => ((a << (32 - width)) as i32 >> (32 - width)) as u32,
        width => a & ((1 << width) - 1),
    })
}

pub(super) extern "C" fn dot_product(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let (a_signed, b_signed, two, high) = (mode & 1 != 0, mode & 2 != 0, mode & 4 != 0, mode & 8 != 0);
    let byte = |value: u64, at: u32, signed: bool| {
        let byte = (value >> (at * 8)) as u8;
        if signed { i64::from(byte as i8) } else { i64::from(byte) }
    };
    let word = |value: u64, at: u32, signed: bool| {
        let word = (value >> (at * 16)) as u16;
        if signed { i64::from(word as i16) } else { i64::from(word) }
    };
    let mut sum = c as i64;
    if two {
        for at in 0..2 {
            sum += word(a, at, a_signed) * byte(b, at + if high { 2 } else { 0 }, b_signed);
        }
    } else {
        for at in 0..4 {
            sum += byte(a, at, a_signed) * byte(b, at, b_signed);
        }
    }
    sum as u64 & 0xffff_ffff
}

pub(super) extern "C" fn prmt(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let bytes = (a & 0xffff_ffff | b << 32).to_le_bytes();
    let select = (c & 3) as usize;
    let mut result = [0u8; 4];
    for (index, byte) in result.iter_mut().enumerate() {
        let (from, sign) = match mode {
            0 => ((c >> (index * 4) & 7) as usize, c >> (index * 4) & 8 != 0),
            1 => (select + index, false),
            2 => ((select + 8 - index) % 8, false),
            3 => (select, false),
            4 => (index.max(select), false),
            5 => (index.min(select), false),
            _ => ((select & 1) * 2 + (index & 1), false),
        };
        *byte = if sign { if bytes[from] & 0x80 != 0 { 0xff } else { 0 } } else { bytes[from] };
    }
    u64::from(u32::from_le_bytes(result))
}

pub(super) extern "C" fn packed(a: u64, b: u64, mode: u64, _: u64) -> u64 {
    let (op, signed, saturate, relu, bytes) =
        (mode & 15, mode & 16 != 0, mode & 32 != 0, mode & 64 != 0, mode & 128 != 0);
    let bits = if bytes { 8 } else { 16 };
    let mut result = 0;
    for lane in 0..32 / bits {
        let part = |value: u64| {
            let raw = (value >> (lane * bits)) as i64 & ((1 << bits) - 1);
            if signed { raw << (64 - bits) >> (64 - bits) } else { raw }
        };
        let (x, y) = (part(a), part(b));
        let mut value = match op {
            0 => x + y,
            1 => x - y,
            2 => x.min(y),
            3 => x.max(y),
            4 => -x,
            _ => x.abs(),
        };
        if saturate {
            let (low, high) =
                if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
            value = value.clamp(low, high);
        }
        if relu {
            value = value.max(0);
        }
        result |= (value as u64 & ((1 << bits) - 1)) << (lane * bits);
    }
    result
}

pub(super) extern "C" fn pack(a: u64, b: u64, c: u64, mode: u64) -> u64 {
    let (bits, signed) = (mode & 0xff, mode >> 8 & 1 != 0);
    let (low, high) = if signed { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1i64 << bits) - 1) };
    let cut = |value: u64| i64::from(value as i32).clamp(low, high) as u64 & ((1 << bits) - 1);
    let both = cut(a) << bits | cut(b);
    (both | if bits < 16 { c << (2 * bits) } else { 0 }) & 0xffff_ffff
}
