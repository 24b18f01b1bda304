//! Deliberate delays, drawn from a seed, that expose dependence on the order of threads, streams and ranks.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The delays that a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// A different seed draws different delays; the same one draws the same.
    pub seed: u32,
    /// The longest delay.
    pub jitter: Duration,
}

impl Schedule {
    /// The longest delay if none is given.
    pub const JITTER: Duration = Duration::from_millis(5);

    /// No delay may be longer.
    pub const MOST: Duration = Duration::from_secs(60);
}

impl fmt::Display for Schedule {
    /// `7:5ms`, or in microseconds: `7:250us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.jitter.as_micros();
        if us.is_multiple_of(1000) {
            write!(f, "{}:{}ms", self.seed, us / 1000)
        } else {
            write!(f, "{}:{us}us", self.seed)
        }
    }
}

impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a seed, or a seed and the longest delay: `7` or `7:5ms`");
        let (seed, jitter) = text.split_once(':').unwrap_or((text, "5ms"));
        let (number, unit) = jitter.split_at(jitter.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(jitter.len()));
        let unit = match unit {
            "us" => 1,
            "ms" => 1000,
            "s" => 1_000_000,
            _ => return Err(wrong()),
        };
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let jitter = number.checked_mul(unit).map(Duration::from_micros).filter(|jitter| *jitter <= Self::MOST);
        Ok(Self { seed: seed.parse().map_err(|_| wrong())?, jitter: jitter.ok_or_else(wrong)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_by_table() {
        for (text, seed, us, printed) in [
            ("7", 7, 5000, "7:5ms"),
            ("0:250us", 0, 250, "0:250us"),
            ("12:1s", 12, 1_000_000, "12:1000ms"),
            ("3:0ms", 3, 0, "3:0ms"),
        ] {
            let schedule: Schedule = text.parse().unwrap();
            assert_eq!(schedule, Schedule { seed, jitter: Duration::from_micros(us) }, "{text}");
            assert_eq!(schedule.to_string(), printed);
            assert_eq!(printed.parse(), Ok(schedule));
        }
        for text in ["", "x", "-1", "7:", "7:5", "7:ms", "7:5m", "7:61s", "7:5ms:1", "4294967296"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
