//! The two 8-bit floats of the OCP FP8 specification (e4m3 "FN" and e5m2), converted as CUDA's saturating casts do.

/// Shape of an 8-bit float.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// Largest finite magnitude, as a code.
    max_code: u32,
    /// A NaN without sign.
    nan: u8,
}

/// OCP FP8 E4M3: no infinities, one NaN per sign, largest 448.
const E4M3: Format = Format { mantissa_bits: 3, bias: 7, max_code: 0x7e, nan: 0x7f };
/// OCP FP8 E5M2: IEEE-like, largest finite 57344.
const E5M2: Format = Format { mantissa_bits: 2, bias: 15, max_code: 0x7b, nan: 0x7f };

impl Format {
    fn decode(self, code: u8) -> f32 {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let magnitude = u32::from(code & 0x7f);
        if magnitude > self.max_code {
            // Above the largest finite value, e5m2 has an infinity and then NaNs; e4m3 has its one NaN.
            let infinite = self.mantissa_bits == 2 && magnitude == 0x7c;
            return if infinite { sign * f32::INFINITY } else { f32::NAN };
        }
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let mantissa = (magnitude & ((1 << self.mantissa_bits) - 1)) as f32;
        let one = (1u32 << self.mantissa_bits) as f32;
        let (significand, exponent) = if exponent == 0 { (mantissa, 1) } else { (mantissa + one, exponent) };
        sign * significand * ((exponent - self.bias - self.mantissa_bits as i32) as f32).exp2()
    }

    /// Rounds to nearest even; finite overflow and infinities become the largest finite value, NaN stays NaN.
    fn encode(self, value: f32) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return sign | self.nan;
        }
        let magnitude = f64::from(value.abs());
        let lowest = 1 - self.bias;
        let exponent = (((f64::from(value.abs()).to_bits() >> 52) as i32) - 1023).max(lowest);
        let steps = (magnitude * f64::from(self.mantissa_bits as i32 - exponent).exp2()).round_ties_even();
        // A carry out of the mantissa lands in the exponent by itself, because codes are ordered like values.
        let code = steps.min(1e6) as u32 + (((exponent - lowest) as u32) << self.mantissa_bits);
        sign | code.min(self.max_code) as u8
    }
}

/// Value of an e4m3 code.
pub fn e4m3_to_f32(code: u8) -> f32 {
    E4M3.decode(code)
}

/// Nearest e4m3 code, saturating at 448.
pub fn f32_to_e4m3(value: f32) -> u8 {
    E4M3.encode(value)
}

/// Value of an e5m2 code.
pub fn e5m2_to_f32(code: u8) -> f32 {
    E5M2.decode(code)
}

/// Nearest e5m2 code, saturating at 57344.
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
    }
}
