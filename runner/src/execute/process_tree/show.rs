//! Streams that the user sees while a case runs: `--no-capture` and `--debug-rank`. They are still captured.
//!
//! For streams that are only watched, colors and overwritten lines pass; everything else that a terminal would act on, or
//! answer into the shell, is shown as text. A debugged rank has the terminal unfiltered.

use std::io::Write;
use std::path::PathBuf;

use crate::execute::launch::torchrun;
use crate::host::output;
use crate::host::printable::Printable;
use crate::host::secrets::Secrets;
use crate::observation::Role;

/// A longer line is passed on in pieces, bytes.
pub(in crate::execute) const LINE: usize = 64 << 10;

/// Where the streams of a process go.
#[derive(Clone, Debug, Default)]
pub enum Streams {
    /// They are captured.
    #[default]
    Captured,
    /// Captured, and shown on ours without the secrets: line by line after the name of the process, or as they come.
    Shown(Option<Name>, Secrets),
    /// Captured, and shown on ours as they come; it reads our input.
    Interactive,
    /// The process uses all three of our streams and stays on our terminal; nothing is captured.
    Inherited {
        /// If false, its stdout is dropped.
        stdout: bool,
    },
    /// Written to files with this name plus `.stdout` and `.stderr`: a child that outlives the process can go on writing.
    Files(PathBuf),
}

/// The prefix of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `[rank 0] `.
    Role(Role),
    /// The torchrun of a node, which writes for its workers; the first worker has rank `first`.
    Workers {
        /// The node.
        node: u32,
        /// The rank of its first worker.
        first: u32,
    },
}

/// One stream being copied to ours.
#[derive(Debug)]
pub struct Shown {
    name: Option<Name>,
    error: bool,
    /// `None` if the user types to the program.
    printable: Option<Printable>,
    /// What is masked.
    secrets: Secrets,
    /// The part of a line that has not ended.
    line: Vec<u8>,
    /// The writer of the part of this line that was shown because it was long.
    writer: Option<String>,
}

impl Shown {
    /// Shown on our standard error or standard output, for a user who only watches.
    pub fn watched(name: Option<Name>, error: bool, secrets: Secrets) -> Shown {
        Shown { name, error, printable: Some(Printable::watched()), secrets, line: Vec::new(), writer: None }
    }

    /// The same for a user who also types: byte for byte.
    pub fn raw(error: bool) -> Shown {
        let secrets = Secrets::default();
        Shown { name: None, error, printable: None, secrets, line: Vec::new(), writer: None }
    }

    /// What came.
    pub fn write(&mut self, bytes: &[u8]) {
        match &mut self.printable {
            Some(printable) => {
                let bytes = printable.push(bytes);
                self.pass(&bytes);
            }
            None => self.put(bytes),
        }
    }

    fn pass(&mut self, bytes: &[u8]) {
        let out = match self.name {
            Some(name) => self.named(name, bytes),
            None if self.secrets.is_empty() => return self.put(bytes),
            None => self.whole(bytes),
        };
        self.put(&self.masked(out));
    }

    fn masked(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.secrets.mask_bytes(&bytes).unwrap_or(bytes)
    }

    /// The bytes that can be masked now: up to the last line end, including ends of overwritten lines. Half a secret would
    /// not be recognized.
    fn whole(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.line.extend_from_slice(bytes);
        let end = self.line.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
        let end = if self.line.len() - end >= LINE { self.line.len() } else { end };
        self.line.drain(..end).collect()
    }

    /// Shows the complete lines, and lines too long to wait for their end.
    fn named(&mut self, name: Name, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len() + 64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.line.len() >= LINE {
                self.give(name, &mut out);
            }
        }
        out
    }

    /// Adds the line, or a piece of it, with its name in front.
    fn give(&mut self, name: Name, out: &mut Vec<u8>) {
        let mut line = std::mem::take(&mut self.line);
        let whole = line.ends_with(b"\n");
        let writer = self.writer.take();
        if writer.is_some() && line == b"\n" {
            return;
        }
        if !whole {
            line.push(b'\n');
        }
        let (writer, text) = match writer {
            Some(writer) => (writer, line.as_slice()),
            None => name.split(&line),
        };
        out.push(b'[');
        out.extend_from_slice(writer.as_bytes());
        out.extend_from_slice(b"] ");
        // An overwritten line would take the name with it.
        let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
        let text = &text[..end];
        out.extend_from_slice(text.rsplit(|byte| *byte == b'\r').next().unwrap_or(text));
        out.push(b'\n');
        self.writer = (!whole).then_some(writer);
    }

    /// The stream has ended.
    pub fn end(&mut self) {
        if let Some(rest) = self.printable.as_mut().map(Printable::end).filter(|rest| !rest.is_empty()) {
            self.pass(&rest);
        }
        if self.line.is_empty() {
            return;
        }
        let out = match self.name {
            Some(name) => {
                let mut out = Vec::new();
                self.give(name, &mut out);
                out
            }
            None => std::mem::take(&mut self.line),
        };
        self.put(&self.masked(out));
    }

    /// A closed terminal is not an error: the files still hold everything.
    fn put(&self, bytes: &[u8]) {
        let _ = if self.error {
            std::io::stderr().write_all(bytes)
        } else {
            let mut out = output::stdout();
            out.write_all(bytes).and_then(|()| out.flush())
        };
    }
}

impl Name {
    /// The writer of a line, and the writer's part of it.
    fn split(self, line: &[u8]) -> (String, &[u8]) {
        match self {
            Name::Role(role) => (role.to_string(), line),
            Name::Workers { node, first } => match torchrun::teed(line) {
                Some((local_rank, text)) => (Role::Rank(first + local_rank).to_string(), text),
                None => (Role::Launcher(node).file_stem().replace('-', " "), line),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named() {
        let named = |name: Name, bytes: &[u8]| {
            let mut shown = Shown::watched(Some(name), false, Secrets::default());
            String::from_utf8(shown.named(name, bytes)).unwrap()
        };
        assert_eq!(named(Name::Role(Role::Rank(3)), b"hi\nyou"), "[rank 3] hi\n");
        assert_eq!(named(Name::Role(Role::Rank(3)), b"1%\r99%\rdone\n"), "[rank 3] done\n");
        assert_eq!(named(Name::Role(Role::Rank(3)), b"1%\r99%\r\r\n\n"), "[rank 3] 99%\n[rank 3] \n");
        let workers = Name::Workers { node: 1, first: 4 };
        let lines = named(workers, b"[default2]:step\nW1121 setting\n");
        assert_eq!(lines, "[rank 6] step\n[launcher 1] W1121 setting\n");
    }

    #[test]
    fn secrets_are_masked_also_where_they_come_in_two_pieces() {
        let secrets = Secrets::from_variables([("API_KEY".to_owned(), "hunter2hunter2".to_owned())]);
        let mut shown = Shown::watched(None, false, secrets.clone());
        let mut out = Vec::new();
        for piece in ["a hunter2", "hunter2 b\nhun", "ter2hunter2\r99%"] {
            let whole = shown.whole(piece.as_bytes());
            out.extend(shown.masked(whole));
        }
        assert_eq!(String::from_utf8(out).unwrap(), "a *** b\n***\r");
        assert_eq!(shown.line, b"99%");
        let name = Name::Role(Role::Rank(3));
        let mut shown = Shown::watched(Some(name), false, secrets);
        let line = shown.named(name, b"key hunter2hunter2\n");
        assert_eq!(shown.masked(line), b"[rank 3] key ***\n");
    }

    #[test]
    fn a_line_without_end_is_shown_in_pieces() {
        let name = Name::Workers { node: 1, first: 4 };
        let mut shown = Shown::watched(Some(name), false, Secrets::default());
        let long = "x".repeat(LINE);
        let first = shown.named(name, format!("[default2]:{long}").as_bytes());
        assert_eq!(String::from_utf8(first).unwrap(), format!("[rank 6] {long}\n"));
        assert!(shown.line.is_empty());
        assert_eq!(shown.named(name, b"rest\n[default0]:a\n"), b"[rank 6] rest\n[rank 4] a\n");
        shown.named(name, long.as_bytes());
        assert_eq!(shown.named(name, b"\n"), b"");
    }
}
