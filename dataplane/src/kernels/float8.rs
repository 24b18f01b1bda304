//! The two 8-bit floats of the OCP FP8 specification (e4m3 "FN" and e5m2), converted like CUDA's saturating casts, without
//! branches, so that loops become vector instructions.

/// Shape of an 8-bit float.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// Largest finite magnitude, as a code.
    max_code: u32,
}

/// The NaN that a conversion produces, without sign.
const NAN: u8 = 0x7f;
/// OCP FP8 E4M3: no infinities, one NaN per sign, largest 448.
const E4M3: Format = Format { mantissa_bits: 3, bias: 7, max_code: 0x7e };
/// OCP FP8 E5M2: IEEE-like, largest finite 57344.
const E5M2: Format = Format { mantissa_bits: 2, bias: 15, max_code: 0x7b };

/// 2^exponent, for exponents of normal numbers.
const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

impl Format {
    #[inline(always)]
    const fn decode(self, code: u8) -> f32 {
        let magnitude = (code & 0x7f) as u32;
        let subnormal = magnitude as f32 * power_of_two(1 - self.bias - self.mantissa_bits as i32);
        let normal = (magnitude << (23 - self.mantissa_bits)) + (((127 - self.bias) as u32) << 23);
        let finite = if magnitude < 1 << self.mantissa_bits { subnormal.to_bits() } else { normal };
        // Above the largest finite value, e5m2 has an infinity and then NaNs; e4m3 has its one NaN.
        let is_infinite = self.mantissa_bits == 2 && magnitude == 0x7c;
        let beyond = if is_infinite { f32::INFINITY.to_bits() } else { f32::NAN.to_bits() };
        let bits = if magnitude > self.max_code { beyond } else { finite };
        f32::from_bits(bits | ((code & 0x80) as u32) << 24)
    }

    /// Rounds to nearest even; finite overflow and infinities become the largest finite value, NaN stays NaN.
    #[inline(always)]
    const fn encode(self, value: f32) -> u8 {
        let sign = (value.to_bits() >> 24) as u8 & 0x80;
        let bits = value.to_bits() & 0x7fff_ffff;
        let dropped = 23 - self.mantissa_bits;
        let lowest = 1 - self.bias;
        // Round half to even in the dropped bits; a carry lands in the exponent, because codes are ordered like values.
        let rounded = (bits + (1 << (dropped - 1)) - 1 + ((bits >> dropped) & 1)) >> dropped;
        let normal = rounded.wrapping_sub(((127 - self.bias) as u32) << self.mantissa_bits);
        // Below the smallest normal number, the sum's last bit is worth one subnormal step, and the sum rounds as it should.
        let offset = power_of_two(lowest - self.mantissa_bits as i32 + 23);
        let subnormal = (f32::from_bits(bits) + offset).to_bits().wrapping_sub(offset.to_bits());
        let code = if bits < power_of_two(lowest).to_bits() { subnormal } else { normal };
        let code = if code > self.max_code { self.max_code } else { code };
        sign | if bits > f32::INFINITY.to_bits() { NAN } else { code as u8 }
    }
}

/// Value of an e4m3 code.
#[inline(always)]
pub fn e4m3_to_f32(code: u8) -> f32 {
    E4M3.decode(code)
}

/// Nearest e4m3 code, saturating at 448.
#[inline(always)]
pub fn f32_to_e4m3(value: f32) -> u8 {
    E4M3.encode(value)
}

/// Value of an e5m2 code.
#[inline(always)]
pub fn e5m2_to_f32(code: u8) -> f32 {
    E5M2.decode(code)
}

/// Nearest e5m2 code, saturating at 57344.
#[inline(always)]
pub fn f32_to_e5m2(value: f32) -> u8 {
    E5M2.encode(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values printed in the OCP FP8 specification, table 2.
    #[test]
    fn the_specifications_landmarks() {
        assert_eq!(e4m3_to_f32(0x7e), 448.0);
        assert_eq!(e4m3_to_f32(0x08), 0.015625);
        assert_eq!(e4m3_to_f32(0x07), 0.013671875);
        assert_eq!(e4m3_to_f32(0x01), 0.001953125);
        assert!(e4m3_to_f32(0x7f).is_nan() && e4m3_to_f32(0xff).is_nan());
        assert_eq!(e5m2_to_f32(0x7b), 57344.0);
        assert_eq!(e5m2_to_f32(0x7c), f32::INFINITY);
        assert_eq!(e5m2_to_f32(0xfc), f32::NEG_INFINITY);
        assert_eq!(e5m2_to_f32(0x04), 1.0 / 16384.0);
        assert_eq!(e5m2_to_f32(0x01), 1.0 / 65536.0);
        assert!(e5m2_to_f32(0x7d).is_nan());
    }

    #[test]
    fn every_finite_code_survives_a_round_trip() {
        for code in 0..=255u8 {
            for (decode, encode) in
                [(e4m3_to_f32 as fn(u8) -> f32, f32_to_e4m3 as fn(f32) -> u8), (e5m2_to_f32, f32_to_e5m2)]
            {
                let value = decode(code);
                if value.is_finite() {
                    assert_eq!(encode(value), code, "code {code:#x} is {value}");
                }
            }
        }
    }

    #[test]
    fn rounding_goes_to_the_nearest_value_and_ties_to_even() {
        for step in 0..20_000 {
            let value = step as f32 * 0.023 - 230.0;
            let nearest = (0..=255u8)
                .filter(|code| e4m3_to_f32(*code).is_finite())
                .map(|code| (f64::from(e4m3_to_f32(code)) - f64::from(value)).abs())
                .fold(f64::INFINITY, f64::min);
            let distance = (f64::from(e4m3_to_f32(f32_to_e4m3(value))) - f64::from(value)).abs();
            assert_eq!(distance, nearest, "{value}");
        }
        assert_eq!(e4m3_to_f32(f32_to_e4m3(17.0)), 16.0);
        assert_eq!(e4m3_to_f32(f32_to_e4m3(19.0)), 20.0);
        assert_eq!(e4m3_to_f32(f32_to_e4m3(1e9)), 448.0);
        assert_eq!(e5m2_to_f32(f32_to_e5m2(f32::NEG_INFINITY)), -57344.0);
        assert_eq!(f32_to_e4m3(-0.0), 0x80);
        assert_eq!(f32_to_e4m3(0.0), 0);
        assert_eq!(f32_to_e4m3(f32::from_bits(1)), 0);
        assert_eq!((f32_to_e4m3(f32::NAN), f32_to_e5m2(-f32::NAN)), (0x7f, 0xff));
        assert_eq!((f32_to_e4m3(f32::INFINITY), f32_to_e5m2(f32::MAX)), (0x7e, 0x7b));
    }

    /// Halfway between neighbors, and a little to either side, for both types and signs.
    #[test]
    fn every_border_between_two_codes() {
        for (decode, encode, last) in
            [(e4m3_to_f32 as fn(u8) -> f32, f32_to_e4m3 as fn(f32) -> u8, 0x7e), (e5m2_to_f32, f32_to_e5m2, 0x7b)]
        {
            for code in 0..last {
                let border = (decode(code) + decode(code + 1)) / 2.0;
                let even = code + code % 2;
                assert_eq!(encode(border), even, "{border}");
                assert_eq!(encode(border.next_down()), code, "{border}");
                assert_eq!(encode(border.next_up()), code + 1, "{border}");
                assert_eq!(encode(-border), 0x80 | even, "-{border}");
            }
        }
    }
}
