//! The table of docs/reliability.md.

use std::fs;
use std::path::Path;

use super::tally::{self, Row};

const BEGIN: &str = "<!-- generated: drill -->\n";
const END: &str = "<!-- /generated -->";
const HEAD: &str =
    "| row | what is tried | how often | worst outcome | time | when and where |\n|---|---|--:|---|--:|---|\n";

/// Puts `row` in its place in the table between the marks, which has the rows of `order`. The other rows stay
/// unchanged.
///
/// # Errors
/// The file or its marks are missing, or it cannot be written.
pub(super) fn write(path: &Path, row: &Row, order: &[&str]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(failed)?;
    let text = fill(&text, row, order).ok_or(format!("{}: no marks around the table", path.display()))?;
    fs::write(path, text).map_err(failed)
}

fn fill(text: &str, row: &Row, order: &[&str]) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    let new = line(row);
    let mut lines = String::new();
    for name in order {
        let is_its = |line: &&str| line.starts_with(&format!("| `{name}` |"));
        if let Some(line) = table.lines().chain([new.as_str()]).rfind(is_its) {
            lines += line;
            lines.push('\n');
        }
    }
    Some(format!("{before}{BEGIN}{HEAD}{lines}{END}{after}"))
}

fn line(row: &Row) -> String {
    let tally = &row.tally;
    let cells = [
        format!("`{}`", row.name),
        row.tries.to_owned(),
        format!("{} {}", grouped(tally.tries), tally.unit),
        tally.worst(),
        tally::time(row.took),
        format!("{}, {}", today(), machine()),
    ];
    format!("| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

fn today() -> String {
    duct::cmd!("date", "-u", "+%F").read().unwrap_or_default()
}

/// This machine in words.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok())
        .unwrap_or_default();
    // The kernel reserves a part for itself.
    let gib = (kib as f64 / f64::from(1 << 20)).ceil();
    format!("{cores} cores, {gib} GiB")
}

/// `219 555`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = (digits.len() + 2) % 3 + 1;
    let (head, tail) = digits.split_at(first);
    let rest = tail.as_bytes().chunks(3).map(String::from_utf8_lossy);
    [head.into()].into_iter().chain(rest).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tally::Tally;
    use super::*;

    #[test]
    fn a_row_takes_its_place_in_the_table() {
        let mut tally = Tally::new("connections");
        tally.many(219_555);
        let row = Row { name: "b", tries: "x | y", tally, took: Duration::from_secs(61) };
        let new = line(&row);
        assert!(new.starts_with("| `b` | x \\| y | 219 555 connections | none failed | 61 s | 2"), "{new}");
        let order = ["a", "b", "c"];
        let empty = format!("# T\n\n{BEGIN}{END}\n\nmore\n");
        assert_eq!(fill(&empty, &row, &order).unwrap(), format!("# T\n\n{BEGIN}{HEAD}{new}\n{END}\n\nmore\n"));
        let full = format!("{BEGIN}{HEAD}| `c` | 3 |\n| `b` | 2 |\n| `a` | 1 |\n| `gone` | 0 |\n{END}");
        let expected = format!("{BEGIN}{HEAD}| `a` | 1 |\n{new}\n| `c` | 3 |\n{END}");
        assert_eq!(fill(&full, &row, &order).unwrap(), expected);
        assert_eq!(fill("no marks", &row, &order), None);
    }

    #[test]
    fn numbers_are_grouped_and_times_short() {
        assert_eq!([1, 12, 123, 1234, 123_456].map(grouped), ["1", "12", "123", "1 234", "123 456"]);
        let times = [20, 1_500, 12_400, 600_000].map(|ms| tally::time(Duration::from_millis(ms)));
        assert_eq!(times, ["20 ms", "1.5 s", "12 s", "10 min"]);
    }
}
