//! Dates in UTC. For display and for `until`; deadlines use a clock that does not jump.

use std::time::SystemTime;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;

/// `2026-11-20T10:00:00`, without fraction and zone.
pub fn timestamp(at: SystemTime) -> String {
    civil(at).strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

/// The day of `at`.
pub fn date(at: SystemTime) -> Date {
    civil(at).date()
}

/// `2027-03-01`; `None` for anything else, including a day that does not exist.
pub fn parse_date(text: &str) -> Option<Date> {
    // Only in this form: the parser also accepts times and short months.
    let date = Date::strptime("%Y-%m-%d", text).ok()?;
    (date.to_string() == text).then_some(date)
}

/// Moments beyond the calendar's range become its last one.
fn civil(at: SystemTime) -> DateTime {
    let at = jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX);
    at.to_zoned(TimeZone::UTC).datetime()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn after_epoch(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn timestamps() {
        assert_eq!(timestamp(after_epoch(0)), "1970-01-01T00:00:00");
        assert_eq!(timestamp(after_epoch(951_827_696)), "2000-02-29T12:34:56");
        assert_eq!(timestamp(after_epoch(4_107_542_399)), "2100-02-28T23:59:59");
        assert!(timestamp(after_epoch(u64::MAX / 2)).starts_with("9999-"));
    }

    #[test]
    fn dates() {
        assert_eq!(parse_date("2000-02-29"), Some(date(after_epoch(951_827_696))));
        assert!(parse_date("2027-03-01") < parse_date("2027-11-01"));
        for text in ["2027-02-29", "1900-02-29", "2027-13-01", "2027-00-10", "2027-04-31", "27-04-01", "2027-4-1", "x"]
        {
            assert_eq!(parse_date(text), None, "{text}");
        }
        assert_eq!(parse_date("2027-03-01T10:00"), None);
    }
}
