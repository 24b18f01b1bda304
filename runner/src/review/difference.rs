//! Shows on a terminal what changed from one text to another: numbered lines with the changed words highlighted.

use std::fmt::Write as _;

use similar::{ChangeTag, TextDiff};

/// Unchanged lines around a change.
const AROUND: usize = 3;

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const STRONG: &str = "\x1b[1;4m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// The changes from `accepted` to `new`. Every line has a sign, not only a color.
pub fn changes(accepted: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(accepted.trim_end(), new.trim_end());
    let width = accepted.lines().count().max(new.lines().count()).to_string().len();
    let mut text = String::new();
    for (index, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if index > 0 {
            let _ = writeln!(text, "{DIM}{:>width$} ...{RESET}", "");
        }
        for change in group.iter().flat_map(|operation| diff.iter_inline_changes(operation)) {
            let (sign, color) = match change.tag() {
                ChangeTag::Delete => ('-', RED),
                ChangeTag::Insert => ('+', GREEN),
                ChangeTag::Equal => (' ', ""),
            };
            let number = change.new_index().or(change.old_index()).map_or(0, |index| index + 1);
            let _ = write!(text, "{DIM}{number:>width$}{RESET} {color}{sign} ");
            for (emphasized, part) in change.iter_strings_lossy() {
                let part = part.trim_end_matches('\n');
                if emphasized {
                    let _ = write!(text, "{STRONG}{part}{RESET}{color}");
                } else {
                    text.push_str(part);
                }
            }
            let _ = writeln!(text, "{RESET}");
        }
    }
    text
}

/// A new text in full.
pub fn whole(new: &str) -> String {
    new.trim_end().lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{GREEN}+ {line}{RESET}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_changed_number_is_set_apart_in_its_line() {
        let text = changes("a\nb\n\"calls\": 3,\nc\n", "a\nb\n\"calls\": 4,\nc\n");
        assert_eq!(plain(&text), "1   a\n2   b\n3 - \"calls\": 3,\n3 + \"calls\": 4,\n4   c\n");
        assert!(text.contains("\x1b[1;4m"), "{text:?}");
    }

    #[test]
    fn far_changes_stand_apart() {
        let old: String = (0..30).map(|line| format!("{line}\n")).collect();
        let new = old.replace("\n3\n", "\nthree\n").replace("\n25\n", "\ntwenty-five\n");
        let text = plain(&changes(&old, &new));
        assert!(text.contains(" 4 - 3\n 4 + three\n") && text.contains("\n   ...\n"), "{text}");
    }

    #[test]
    fn a_new_text_is_shown_whole() {
        assert_eq!(plain(&whole("x\ny\n")), "+ x\n+ y\n");
    }
}
