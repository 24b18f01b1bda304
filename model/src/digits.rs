//! Whether a number is what is written: `012` and `0.12345678901234567890` are not, and `2.10` is not where a version is meant.

/// What `written` is read as, if that is not the same number. With `zeros` also if zeros at its end are lost: `2.10`.
pub fn lost(written: &str, value: f64, zeros: bool) -> Option<String> {
    let written = written.trim_start_matches(['+', '-']);
    let (mantissa, exponent) =
        written.split_once(['e', 'E']).map_or((written, ""), |(mantissa, rest)| (mantissa, rest));
    // `0x10`, `1_000` and whatever else is no decimal number.
    if !mantissa.chars().all(|letter| letter.is_ascii_digit() || letter == '.') {
        return zeros.then(|| value.to_string());
    }
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let shown = format!("{value:e}");
    let has = digits(shown.split('e').next().unwrap_or_default());
    let wanted = digits(mantissa);
    let wanted = wanted.trim_start_matches('0').trim_end_matches('0');
    let whole = mantissa.split('.').next().unwrap_or_default();
    let leading = whole.len() > 1 && whole.starts_with('0');
    let trailing =
        mantissa.contains('.') && mantissa.ends_with('0') && !mantissa.ends_with(".0") && exponent.is_empty();
    let same = wanted == has.trim_end_matches('0');
    (!same || leading || zeros && trailing).then(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_a_number_cannot_hold_are_lost() {
        for (written, value, text, reads) in [
            ("012", 12.0, false, Some("12")),
            ("0.12345678901234567890", 0.123_456_789_012_345_68, false, Some("0.12345678901234568")),
            ("9007199254740993.0", 9_007_199_254_740_992.0, false, Some("9007199254740992")),
            ("2.10", 2.1, true, Some("2.1")),
            ("2.10", 2.1, false, None),
            ("2.0", 2.0, true, None),
            ("0x10", 16.0, true, Some("16")),
            ("0x10", 16.0, false, None),
            ("1e3", 1000.0, true, None),
            ("1.50e3", 1500.0, true, None),
            ("-0.5", -0.5, true, None),
            (".5", 0.5, true, None),
            ("0", 0.0, true, None),
            ("100", 100.0, true, None),
        ] {
            assert_eq!(lost(written, value, text).as_deref(), reads, "{written}");
        }
    }
}
