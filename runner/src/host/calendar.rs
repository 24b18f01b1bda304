//! Dates of the Gregorian calendar, UTC. For display and for `until`; deadlines use a clock that does not jump.

use std::time::SystemTime;

/// `2026-11-20T10:00:00`, without fraction and zone.
pub fn timestamp(at: SystemTime) -> String {
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days to a Gregorian date, by whole 400-year eras from 0000-03-01.
    let from_march = days + 719_468;
    let (era, of_era) = (from_march / 146_097, from_march % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
}

/// A day, by year, month and day: dates compare as they follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// `2027-03-01`; none for what is no day.
    pub fn parse(text: &str) -> Option<Date> {
        let digits = |text: &str, length| {
            (text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| text.parse().ok())
                .flatten()
        };
        let mut parts = text.splitn(3, '-');
        let (year, month, day) = (digits(parts.next()?, 4)?, digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (1..=days).contains(&day).then_some(Date { year, month, day })
    }

    /// The day of `at`.
    pub fn of(at: SystemTime) -> Date {
        // Ten characters of a timestamp are a date by construction; year 10000 is nobody's `until`.
        timestamp(at).get(..10).and_then(Date::parse).unwrap_or(Date { year: u32::MAX, month: 1, day: 1 })
    }
}

impl std::fmt::Display for Date {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn timestamps() {
        assert_eq!(timestamp(at(0)), "1970-01-01T00:00:00");
        assert_eq!(timestamp(at(951_827_696)), "2000-02-29T12:34:56");
        assert_eq!(timestamp(at(4_107_542_399)), "2100-02-28T23:59:59");
    }

    #[test]
    fn dates() {
        assert_eq!(Date::parse("2000-02-29"), Some(Date::of(at(951_827_696))));
        assert!(Date::parse("2027-03-01") < Date::parse("2027-11-01"));
        for text in ["2027-02-29", "1900-02-29", "2027-13-01", "2027-00-10", "2027-04-31", "27-04-01", "2027-4-1", "x"]
        {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }
}
