//! Numbers and commands as people read them.

use std::time::{Duration, SystemTime};

use crate::filter;
use crate::host::calendar;
use crate::host::shell;
use crate::record::CaseRun;

/// `512 B`, `4.0 KiB`, `1.5 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut scaled = count as f64;
    let mut unit = None;
    for name in UNITS {
        if scaled < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = Some(name);
    }
    match unit {
        None => format!("{count} B"),
        Some(name) if scaled < 10.0 => format!("{scaled:.1} {name}"),
        Some(name) => format!("{scaled:.0} {name}"),
    }
}

/// A time given in us: `8 us`, `12 ms`, `3.2 s`, `4 min 10 s`.
pub fn time(us: f64) -> String {
    match us {
        us if us < 9.95 => format!("{us:.1} us"),
        us if us < 999.5 => format!("{us:.0} us"),
        us if us < 9_950.0 => format!("{:.1} ms", us / 1e3),
        us if us < 999_500.0 => format!("{:.0} ms", us / 1e3),
        us if us < 59_950_000.0 => format!("{:.1} s", us / 1e6),
        us => {
            let seconds = (us / 1e6).round() as u64;
            match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
                (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
                (hours, minutes, _) => format!("{hours} h {minutes} min"),
            }
        }
    }
}

/// `2026-11-21 10:30:00`, UTC, of ms since 1970.
pub fn date(ms: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH);
    calendar::timestamp(at).replace('T', " ")
}

/// `1 case`, `3 cases`.
pub fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The shell command that runs only this case.
pub fn rerun(case: &CaseRun) -> String {
    let file = shell::quoted(&case.info.place.file.display().to_string());
    format!("ftest run {file} --filter {}", shell::quoted(&filter::one(&case.info.case)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (count, text) in
            [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (20 << 20, "20 MiB"), (u64::MAX, "16384 PiB")]
        {
            assert_eq!(bytes(count), text);
        }
        for (us, text) in [
            (0.25, "0.2 us"),
            (12.0, "12 us"),
            (1500.0, "1.5 ms"),
            (3.2e6, "3.2 s"),
            (250e6, "4 min 10 s"),
            (7.5e9, "2 h 5 min"),
        ] {
            assert_eq!(time(us), text);
        }
    }

    #[test]
    fn words_survive_a_shell() {
        for (word, text) in [("a/b-c", "a/b-c"), ("s/a[x=1]", "'s/a[x=1]'"), ("it's", r#""it's""#), ("", "''")] {
            assert_eq!(shell::quoted(word), text);
        }
    }
}
