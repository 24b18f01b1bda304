//! The results of the tries of one row.

use std::fmt;
use std::time::Duration;

/// Maximum number of faults that a row shows.
const SHOWN: usize = 3;
/// Maximum length of a shown fault, characters.
const LENGTH: usize = 600;

/// The tries of a row, counted.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// How often something was tried.
    pub tries: u64,
    /// What was counted, in the plural.
    pub unit: &'static str,
    /// The longest try.
    slowest: Duration,
    /// The worst acceptable values, besides the time.
    notes: Vec<String>,
    /// What did not hold.
    faults: Vec<String>,
}

impl Tally {
    /// Nothing tried yet.
    pub(super) fn new(unit: &'static str) -> Tally {
        Tally { unit, ..Tally::default() }
    }

    /// A row that could not be tried at all, which is not a success.
    pub(super) fn could_not_run(why: String) -> Tally {
        Tally { faults: vec![why], ..Tally::new("tries") }
    }

    /// Counts a try.
    pub(super) fn add(&mut self, what: &str, took: Duration, outcome: Result<(), String>) {
        self.tries += 1;
        self.slowest = self.slowest.max(took);
        if let Err(why) = outcome {
            self.fault(format!("{what}: {why}"));
        }
    }

    /// Counts tries that are not timed one by one.
    pub(super) fn many(&mut self, tries: u64) {
        self.tries += tries;
    }

    /// What did not hold.
    pub(super) fn fault(&mut self, why: String) {
        self.faults.push(why);
    }

    /// Adds a remark to the table, besides the time.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Whether the row fails: something did not hold, or nothing was tried.
    pub(super) fn failed(&self) -> bool {
        !self.faults.is_empty() || self.tries == 0
    }

    /// The worst outcome, on one line.
    pub(super) fn worst(&self) -> String {
        if self.tries == 0 && self.faults.is_empty() {
            return "**nothing was tried**".to_owned();
        }
        if let Some(first) = self.faults.first() {
            return format!("**{} did not hold**: {}", self.faults.len(), short(first, 200).replace('\n', " "));
        }
        let mut parts = self.notes.clone();
        if !self.slowest.is_zero() {
            parts.push(format!("the slowest took {}", time(self.slowest)));
        }
        if parts.is_empty() { "none failed".to_owned() } else { parts.join("; ") }
    }
}

/// A row that was run.
#[derive(Debug)]
pub(super) struct Row {
    pub name: &'static str,
    pub tries: &'static str,
    pub tally: Tally,
    pub took: Duration,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.tally.failed() { "FAILED" } else { "held" };
        let Tally { tries, unit, .. } = &self.tally;
        write!(f, "  {word}: {tries} {unit} in {}; {}", time(self.took), self.tally.worst())?;
        for fault in self.tally.faults.iter().take(SHOWN) {
            write!(f, "\n  - {}", short(fault, LENGTH).replace('\n', "\n    "))?;
        }
        Ok(())
    }
}

fn short(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{} ...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A duration as people read it.
pub(super) fn time(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 0.0995 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds => format!("{:.0} min", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_tries_or_with_a_fault_fails() {
        let mut tally = Tally::new("runs");
        assert!(tally.failed() && tally.worst().contains("nothing was tried"));
        tally.add("a", Duration::from_millis(1500), Ok(()));
        assert!(!tally.failed());
        assert_eq!(tally.worst(), "the slowest took 1.5 s");
        tally.note("all named".to_owned());
        assert_eq!(tally.worst(), "all named; the slowest took 1.5 s");
        tally.add("b", Duration::from_millis(1), Err("ended with 1\nand more".to_owned()));
        assert!(tally.failed() && tally.tries == 2);
        assert_eq!(tally.worst(), "**1 did not hold**: b: ended with 1 and more");
        assert!(Tally::could_not_run("no disk".to_owned()).failed());
    }
}
