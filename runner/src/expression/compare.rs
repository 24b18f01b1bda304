//! Compares JSON values: whole numbers exactly, floats with a tolerance if one is given.

use serde_json::Value;
use std::cmp::Ordering;

/// Whether |left - right| <= max(absolute, relative x the larger of the two). NaN is near nothing; an infinity only itself.
pub fn near(left: f64, right: f64, relative: f64, absolute: f64) -> bool {
    if left == right {
        return true;
    }
    if !left.is_finite() || !right.is_finite() {
        return false;
    }
    (left - right).abs() <= absolute.max(relative * left.abs().max(right.abs()))
}

/// Equality in which 4 equals 4.0, whole numbers are never rounded, and the order of keys does not matter.
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => order(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => left == right,
    }
}

/// A text that two values have in common exactly when they are [`equal`].
pub fn key(value: &Value) -> String {
    match value {
        Value::Number(number) => match (whole(value), number.as_f64()) {
            (Some(whole), _) => whole.to_string(),
            // Only floats within i128 can equal a whole number; the cast is exact.
            (None, Some(float)) if float.fract() == 0.0 && float.abs() < i128::MAX as f64 => {
                (float as i128).to_string()
            }
            _ => value.to_string(),
        },
        Value::Array(items) => format!("[{}]", items.iter().map(key).collect::<Vec<_>>().join(",")),
        Value::Object(entries) => {
            let mut entries: Vec<String> =
                entries.iter().map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), key(value))).collect();
            entries.sort_unstable();
            format!("{{{}}}", entries.join(","))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value.to_string(),
    }
}

/// The order of two numbers or two texts; `None` for anything else.
pub fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => match (whole(left), whole(right)) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            (Some(left), None) => order_mixed(left, right.as_f64()?),
            (None, Some(right)) => order_mixed(right, left.as_f64()?).map(Ordering::reverse),
            (None, None) => left.as_f64()?.partial_cmp(&right.as_f64()?),
        },
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<i128> {
    value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from))
}

fn order_mixed(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    let floor = float.floor();
    // i128 holds every u64 and i64, so a float outside it is simply larger or smaller.
    let truncated = if floor >= i128::MAX as f64 {
        return Some(Ordering::Less);
    } else if floor <= i128::MIN as f64 {
        return Some(Ordering::Greater);
    } else {
        floor as i128
    };
    Some(whole.cmp(&truncated).then(if float > floor { Ordering::Less } else { Ordering::Equal }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_never_go_through_floats() {
        assert!(!equal(&json!(u64::MAX), &json!(u64::MAX - 1)));
        assert!(!equal(&json!(9_007_199_254_740_993_u64), &json!(9_007_199_254_740_992.0)));
        assert!(equal(&json!(4), &json!(4.0)));
        assert_eq!(order(&json!(-1), &json!(-0.5)), Some(Ordering::Less));
        assert_eq!(order(&json!(3.5), &json!(3)), Some(Ordering::Greater));
        assert_eq!(order(&json!(1), &json!("1")), None);
        assert!(equal(&json!({"a": 1, "b": [2]}), &json!({"b": [2.0], "a": 1})));
    }

    #[test]
    fn tolerance_by_table() {
        for (left, right, relative, absolute, expected) in [
            (1.0, 1.0 + 1e-7, 1e-6, 0.0, true),
            (1.0, 1.1, 1e-6, 0.0, false),
            (0.0, 1e-9, 1e-6, 0.0, false),
            (0.0, 1e-9, 0.0, 1e-8, true),
            (f64::NAN, f64::NAN, 1.0, 1.0, false),
            (f64::INFINITY, f64::INFINITY, 0.0, 0.0, true),
            (f64::INFINITY, f64::NEG_INFINITY, 1.0, 1.0, false),
            (f64::INFINITY, 1.0, 1.0, 1.0, false),
        ] {
            assert_eq!(near(left, right, relative, absolute), expected, "{left} {right}");
        }
    }

    /// Values many of which are equal but written differently.
    fn any_value() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            (-2..3_i64).prop_map(|number| json!(number)),
            (-2..3_i64).prop_map(|number| json!(number as f64)),
            (-4..6_i64).prop_map(|number| json!(number as f64 / 2.0)),
            prop::sample::select(vec![
                json!(-0.0),
                json!(u64::MAX),
                json!(u64::MAX as f64),
                json!(i64::MIN),
                json!(i64::MIN as f64),
                json!(1e38),
                json!(2e38),
                json!(9_007_199_254_740_993_u64),
                json!(9_007_199_254_740_992.0),
            ]),
        ];
        let leaf = prop_oneof![
            number,
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            "[1,\":]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(2, 6, 2, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::vec(("[ab]", inner), 0..3)
                    .prop_map(|entries| Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn near_is_symmetric_and_reflexive(a in -1e300..1e300_f64, b in -1e300..1e300_f64, rel in 0.0..1.0_f64, abs in 0.0..1e9_f64) {
            prop_assert_eq!(near(a, b, rel, abs), near(b, a, rel, abs));
            prop_assert!(near(a, a, 0.0, 0.0));
        }

        #[test]
        fn values_have_a_key_in_common_when_they_are_equal(left in any_value(), right in any_value()) {
            prop_assert_eq!(key(&left) == key(&right), equal(&left, &right), "{} {}", left, right);
            prop_assert_eq!(key(&left), key(&left.clone()));
        }

        #[test]
        fn order_of_whole_numbers_is_theirs(a: i64, b: u64) {
            prop_assert_eq!(order(&json!(a), &json!(b)), Some(i128::from(a).cmp(&i128::from(b))));
        }
    }
}
