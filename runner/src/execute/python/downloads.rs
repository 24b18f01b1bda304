//! How much of its downloads uv has: it says so on a terminal only, so it gets one, and its progress bars are read.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// Between two announcements.
const OFTEN: Duration = Duration::from_millis(250);
/// Smaller downloads, bytes, are over before one could read about them.
const LARGE: f64 = 1e7;

/// A terminal for another program: our end, and that program's. `None` where there are none.
pub(super) fn terminal() -> Option<(File, OwnedFd)> {
    let ours = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).ok()?;
    rustix::pty::grantpt(&ours).ok()?;
    rustix::pty::unlockpt(&ours).ok()?;
    let name = rustix::pty::ptsname(&ours, Vec::new()).ok()?;
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name.as_c_str(), flags, rustix::fs::Mode::empty()).ok()?;
    // So wide that no sentence is broken.
    let size = Winsize { ws_row: 50, ws_col: 400, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&theirs, size).ok()?;
    Some((File::from(ours), theirs))
}

/// What was written to a terminal, as lines of text.
pub(super) fn plain(written: &str) -> String {
    let mut text = String::new();
    let mut rest = written;
    while let Some(at) = rest.find(['\u{1b}', '\r']) {
        text.push_str(&rest[..at]);
        text.push('\n');
        let escape = &rest[at..];
        rest = match escape.strip_prefix("\u{1b}[") {
            Some(sequence) => {
                let end =
                    sequence.find(|letter: char| letter.is_ascii_alphabetic()).map_or(sequence.len(), |at| at + 1);
                &sequence[end..]
            }
            None => &escape[1..],
        };
    }
    text.push_str(rest);
    text
}

/// Whether a line is a sentence, and not a part of a moving picture.
pub(super) fn is_said(line: &str) -> bool {
    let first = line.trim_start().chars().next();
    let drawn =
        |letter: char| ('\u{2800}'..='\u{28ff}').contains(&letter) || ('\u{2580}'..='\u{259f}').contains(&letter);
    first.is_some_and(|first| !drawn(first)) && !line.contains("-----")
}

/// The downloads so far.
#[derive(Debug, Default)]
pub(super) struct Downloads {
    /// Bytes that are there, and all, by package.
    known: BTreeMap<String, (f64, f64)>,
    /// Written, but not yet a whole picture.
    rest: String,
    said: Option<Instant>,
}

impl Downloads {
    /// Takes what uv has written; returns what there is to announce, not too often.
    pub(super) fn take(&mut self, written: &str) -> Option<String> {
        self.rest.push_str(written);
        let end = self.rest.rfind(['\r', '\n'])?;
        let text = plain(&self.rest[..end]);
        self.rest.drain(..=end);
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut changed = false;
        for at in words.windows(5) {
            if let [name, bar, amount, units, unit] = at
                && bar.bytes().all(|byte| byte == b'-')
                && let Some((of, all)) = units.split_once('/')
                && let (Some(done), Some(total)) = (bytes(amount, of), bytes(all, unit))
            {
                self.known.insert((*name).to_owned(), (done, total));
                changed = true;
            }
        }
        if !changed || self.said.is_some_and(|said| said.elapsed() < OFTEN) {
            return None;
        }
        let sentence = self.sentence()?;
        self.said = Some(Instant::now());
        Some(sentence)
    }

    /// `downloading torch and 2 more: 120 of 514 MB`.
    fn sentence(&self) -> Option<String> {
        let (name, _) = self.known.iter().max_by(|one, other| one.1.1.total_cmp(&other.1.1))?;
        let sum = self.known.values().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let more = match self.known.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (done, total) = (sum.0 / 1e6, sum.1 / 1e6);
        (sum.1 >= LARGE).then(|| format!("downloading {name}{more}: {done:.0} of {total:.0} MB"))
    }
}

fn bytes(amount: &str, unit: &str) -> Option<f64> {
    let factor = match unit {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    amount.parse::<f64>().ok().map(|amount| amount * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_of_uv_are_read() {
        // As uv 0.13 draws them.
        let drawn = "\u{2839} Preparing packages... (0/2)   \r\u{1b}[2A\u{1b}[2Knumpy      ------------------------------ 656.00 KiB/16.02 MiB  \
            \u{1b}[1B\r\u{1b}[2Ktorch      ------------------------------ 100.00 MiB/514.00 MiB\r\n";
        let mut downloads = Downloads::default();
        let (first, second) = drawn.split_at(40);
        assert_eq!(downloads.take(first), None);
        // (656 * 1024 + 100 * 1024^2) / 10^6 and (16.02 + 514) * 1024^2 / 10^6.
        assert_eq!(downloads.take(second).unwrap(), "downloading torch and 1 more: 106 of 556 MB");
        assert_eq!(downloads.take(drawn), None, "not again at once");
        let mut small = Downloads::default();
        assert_eq!(small.take("six  ----- 1.00 KiB/2.00 MiB\r\n"), None);
    }

    #[test]
    fn pictures_are_not_sentences() {
        let written = "\u{280b} Resolving...   \r\u{1b}[2K\u{2591}\u{2588} [0/1] six  \r\u{1b}[2Kerror: no\r\n  cause: yes\r\nx ----- 1 B/2 B\r";
        let said: Vec<String> =
            plain(written).lines().filter(|line| is_said(line)).map(|line| line.trim_end().to_owned()).collect();
        assert_eq!(said, ["error: no", "  cause: yes"]);
    }

    #[test]
    fn a_program_gets_a_terminal() {
        let Some((mut ours, theirs)) = terminal() else { return };
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "test -t 2 && echo yes >&2"]).stderr(theirs);
        assert!(command.status().unwrap().success());
        drop(command);
        let mut read = [0; 5];
        std::io::Read::read_exact(&mut ours, &mut read).unwrap();
        assert_eq!(&read, b"yes\r\n");
    }
}
