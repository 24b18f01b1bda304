//! Durations and sizes in suites. Both always carry a unit.

use std::time::Duration;

/// More than a century; a thousand times as much still fits every clock.
const LONGEST: Duration = Duration::from_secs(1_000_000 * 3600);

/// `500ms`, `15s`, `1m30s`, `2h`.
///
/// # Errors
/// What to write instead.
pub fn duration(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("a duration needs a unit: write `{text}s` or `{text}ms`"));
    }
    let wrong = || "write it like `500ms`, `15s` or `1m30s`".to_owned();
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|character: char| !character.is_ascii_digit() && character != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(rest.len());
        let seconds = match &rest[..letters] {
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        rest = rest[letters..].trim_start();
        total = Duration::try_from_secs_f64(number * seconds)
            .ok()
            .and_then(|part| total.checked_add(part))
            .ok_or_else(wrong)?;
    }
    if total.is_zero() {
        Err("it must be above 0".to_owned())
    } else if total > LONGEST {
        Err("it must be at most 1000000h".to_owned())
    } else {
        Ok(total)
    }
}

/// `1GiB`, `80 GB`, `4KiB` as bytes; `None` for anything else.
pub(crate) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.')?;
    let number: f64 = text[..digits].parse().ok()?;
    let unit: u64 = match text[digits..].trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "KB" | "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    };
    Some((number * unit as f64).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        for (text, milliseconds) in
            [("500ms", 500), ("15s", 15_000), ("1m30s", 90_000), ("0.5h", 1_800_000), ("1m 5s", 65_000)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["30", "", "s", "5x", "0s", "-1s", "1s2", "1e400s", "..s", "1000001h", "5000000000000000h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration("30").unwrap_err(), "a duration needs a unit: write `30s` or `30ms`");
    }

    #[test]
    fn sizes() {
        assert_eq!(size("1GiB"), Some(1 << 30));
        assert_eq!(size("1.5 KB"), Some(1500));
        assert_eq!(size("12"), None);
        assert_eq!(size("GiB"), None);
    }
}
