//! How close two numbers must be, and the tolerances that PyTorch's tests use by datatype.

use serde_json::Value;

use crate::expression::compare;

/// How close a number must be.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// As a fraction of the larger of the two numbers.
    pub relative: f64,
    /// The absolute tolerance, in the unit of the numbers.
    pub absolute: f64,
    /// Whether NaN counts as close to NaN.
    pub nan_equal: bool,
}

/// Datatypes with their relative and absolute tolerance: the table of `torch.testing.assert_close`
/// (<https://docs.pytorch.org/docs/stable/testing.html>). PyTorch multiplies the relative tolerance by the expected number.
/// Here it is the larger of the two, so that their order does not matter.
pub const DTYPES: &[(&str, f64, f64)] =
    &[("float64", 1e-7, 1e-7), ("float32", 1.3e-6, 1e-5), ("float16", 1e-3, 1e-5), ("bfloat16", 1.6e-2, 1e-5)];

/// `value` as a number. JSON has no NaN or infinity; reports and programs write them as text.
pub fn number(value: &Value) -> Option<f64> {
    if let Some(number) = value.as_f64() {
        return Some(number);
    }
    match value.as_str()?.trim().to_ascii_lowercase().trim_start_matches('+') {
        "nan" | "-nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

impl Tolerance {
    /// Whether both are numbers this close, or equally long lists of numbers this close. Infinities are close if they
    /// have the same sign.
    pub fn holds(&self, left: &Value, right: &Value) -> bool {
        if let (Value::Array(left), Value::Array(right)) = (left, right) {
            return left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.holds(left, right));
        }
        let (Some(left), Some(right)) = (number(left), number(right)) else { return false };
        if left.is_nan() && right.is_nan() {
            return self.nan_equal;
        }
        compare::near(left, right, self.relative, self.absolute)
    }

    /// Why they are not close, if known.
    pub fn difference(&self, left: &Value, right: &Value) -> String {
        match (left, right) {
            (Value::Array(left), Value::Array(right)) if left.len() != right.len() => {
                format!("length {}, not {}", left.len(), right.len())
            }
            (Value::Array(left), Value::Array(right)) => {
                let far = |index: &usize| !self.holds(&left[*index], &right[*index]);
                let wrong: Vec<usize> = (0..left.len()).filter(far).collect();
                let Some(first) = wrong.first() else { return String::new() };
                let one = self.difference(&left[*first], &right[*first]);
                format!("{} of {} are not near, first item {first}: {one}", wrong.len(), left.len())
            }
            _ => match (number(left), number(right)) {
                (Some(left), Some(right)) if left.is_finite() && right.is_finite() => {
                    format!("off by {:e}", (left - right).abs())
                }
                (Some(left), Some(right)) if left.is_nan() && right.is_nan() => "`nan: equal` accepts it".to_owned(),
                _ => String::new(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tolerances_by_table() {
        let strict = Tolerance { relative: 1e-6, absolute: 0.0, nan_equal: false };
        let loose = Tolerance { nan_equal: true, ..strict };
        for (left, right, tolerance, holds) in [
            (json!(1.0), json!(1.000_000_1), strict, true),
            (json!(1.0), json!(1.1), strict, false),
            (json!("nan"), json!("NaN"), strict, false),
            (json!("nan"), json!("NaN"), loose, true),
            (json!("nan"), json!(1.0), loose, false),
            (json!("inf"), json!("Infinity"), strict, true),
            (json!("inf"), json!("-inf"), strict, false),
            (json!("inf"), json!(1e300), strict, false),
            (json!([1, 2.0]), json!([1.0, 2]), strict, true),
            (json!([1, 2]), json!([1, 2, 3]), strict, false),
            (json!([1, [2]]), json!([1, [2]]), strict, true),
            (json!("one"), json!(1), strict, false),
        ] {
            assert_eq!(tolerance.holds(&left, &right), holds, "{left} {right}");
        }
        let apart = strict.difference(&json!([1, 2, 9]), &json!([1, 3, 8]));
        assert_eq!(apart, "2 of 3 are not near, first item 1: off by 1e0");
        assert_eq!(strict.difference(&json!([1]), &json!([1, 2])), "length 1, not 2");
    }
}
