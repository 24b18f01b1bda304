//! The dialog of `ftest review`: shows one pending snapshot after the other and asks what to do with it.

use std::io::{self, Write};

use super::Pending;
use super::difference;
use crate::host::printable;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// At most 79 characters: a terminal may have 80 columns.
const QUESTION: &str = "a accept  r reject  s skip  d full text | A R S: and all that follow | q quit";

/// What was decided about the pending snapshots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// Number of accepted snapshots.
    pub accepted: usize,
    /// Removed.
    pub rejected: usize,
    /// Still pending.
    pub left: usize,
}

#[derive(Clone, Copy)]
enum Answer {
    Accept,
    Reject,
    Skip,
}

/// Asks about each of `pending`; `key` returns the next key, or `None` if there will be no more.
///
/// # Errors
/// A snapshot cannot be written or removed, or the terminal is gone. Earlier decisions stand.
pub fn review(
    pending: &[Pending],
    mut key: impl FnMut() -> io::Result<Option<char>>,
    out: &mut dyn Write,
) -> io::Result<Decisions> {
    let mut decisions = Decisions::default();
    let mut following = None;
    for (index, one) in pending.iter().enumerate() {
        let answer = match following {
            Some(answer) => answer,
            None => {
                show(one, index, pending.len(), false, out)?;
                loop {
                    writeln!(out, "{DIM}{QUESTION}{RESET}")?;
                    out.flush()?;
                    match key()? {
                        Some('a') => break Answer::Accept,
                        Some('r') => break Answer::Reject,
                        Some('s') => break Answer::Skip,
                        Some('d') => show(one, index, pending.len(), true, out)?,
                        Some('A') => break *following.insert(Answer::Accept),
                        Some('R') => break *following.insert(Answer::Reject),
                        Some('S' | 'q') | None => break *following.insert(Answer::Skip),
                        Some(_) => {}
                    }
                }
            }
        };
        match answer {
            Answer::Accept => {
                one.accept()?;
                decisions.accepted += 1;
                writeln!(out, "accepted {}", one.name())?;
            }
            Answer::Reject => {
                one.reject()?;
                decisions.rejected += 1;
                writeln!(out, "rejected {}", one.name())?;
            }
            Answer::Skip => decisions.left += 1,
        }
    }
    Ok(decisions)
}

/// Writes the snapshot to be decided.
///
/// # Errors
/// `out` cannot be written.
pub fn show(one: &Pending, index: usize, of: usize, whole: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{} of {of}: {}{RESET}", index + 1, one.name())?;
    let state = if one.accepted.is_some() { "" } else { " (there is none yet)" };
    writeln!(out, "{DIM}{}{state}, wanted at {}{RESET}", one.file.path.display(), one.place)?;
    let text = match &one.accepted {
        Some(accepted) if !whole => difference::changes(accepted, &one.text),
        _ => difference::whole(&one.text),
    };
    out.write_all(printable::on_terminal(&text).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::snapshot_file;
    use crate::check::snapshot_file::SnapshotFile;
    use crate::source::SourceLocation;
    use std::path::Path;

    fn pending(root: &Path, count: usize) -> Vec<Pending> {
        (0..count)
            .map(|index| {
                let path = root.join(format!("{index}.snap"));
                let file = SnapshotFile { path, source: "s.yaml".into(), expression: format!("s/{index} report") };
                file.leave_pending("new\n").unwrap();
                let found = file.pending();
                Pending {
                    file,
                    place: SourceLocation::default(),
                    found,
                    text: "new\n".into(),
                    accepted: Some("old\n".into()),
                }
            })
            .collect()
    }

    fn answered(count: usize, keys: &str) -> (Decisions, Vec<String>, String) {
        let root = tempfile::tempdir().unwrap();
        let mut keys = keys.chars();
        let mut out = Vec::new();
        let decisions = review(&pending(root.path(), count), || Ok(keys.next()), &mut out).unwrap();
        let state = |index: usize| {
            let path = root.path().join(format!("{index}.snap"));
            match (snapshot_file::read(&path).is_ok(), path.with_extension("snap.new").exists()) {
                (true, false) => "accepted",
                (false, false) => "rejected",
                (false, true) => "left",
                (true, true) => "both",
            }
        };
        let states = (0..count).map(|index| state(index).to_owned()).collect();
        (decisions, states, anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string())
    }

    #[test]
    fn each_is_decided_by_its_key() {
        let (decisions, states, text) = answered(3, "xars");
        assert_eq!(decisions, Decisions { accepted: 1, rejected: 1, left: 1 });
        assert_eq!(states, ["accepted", "rejected", "left"]);
        assert!(text.contains("1 of 3: s/0 report\n") && text.contains("1 - old\n1 + new\n"), "{text}");
    }

    #[test]
    fn capitals_decide_the_rest_and_an_end_of_input_decides_nothing() {
        for (keys, states) in [
            ("rA", ["rejected", "accepted", "accepted"]),
            ("aR", ["accepted", "rejected", "rejected"]),
            ("aS", ["accepted", "left", "left"]),
            ("aq", ["accepted", "left", "left"]),
            ("a", ["accepted", "left", "left"]),
        ] {
            assert_eq!(answered(3, keys).1, states, "{keys}");
        }
    }

    #[test]
    fn the_question_fits_a_terminal() {
        assert!(QUESTION.chars().count() < 80, "{}", QUESTION.len());
    }

    #[test]
    fn the_whole_text_is_shown_on_demand() {
        let (_, _, text) = answered(1, "ds");
        assert!(text.contains("\n+ new\n"), "{text}");
    }
}
