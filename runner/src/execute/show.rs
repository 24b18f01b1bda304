//! Streams that the user sees while a case runs: `--no-capture` and `--debug-rank`. They are captured all the same.

use std::io::Write;

use super::process::{Planned, file_stem};
use super::torchrun;
use crate::case::{Case, Launch};
use crate::observation::Role;

/// Where the streams of a process go besides the files that hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// Nowhere.
    #[default]
    Captured,
    /// Both to ours, line by line behind the name of the process, or as they come.
    Shown(Option<Name>),
    /// Both to ours as they come, and its input is ours.
    Asked,
    /// All three are ours and nothing is captured; the process stays on our terminal.
    Ours,
}

/// What stands before a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `[rank 0] `.
    Role(Role),
    /// torchrun of a node speaks for its workers; the first has this rank.
    Workers {
        /// The node.
        node: u32,
        /// The rank of its first worker.
        first: u32,
    },
}

/// Lets the processes of `case` write to the terminal, with their names when there are several.
pub fn show(case: &Case, planned: &mut [Planned]) {
    let several = planned.len() > 1 || case.world_size().is_some_and(|size| size > 1);
    for process in planned {
        let name = match (&case.launch, process.role) {
            (Launch::Torchrun { nproc_per_node, args, .. }, Role::Launcher(node)) => {
                tee(case, args.len(), process);
                Name::Workers { node, first: node * nproc_per_node }
            }
            (_, role) => Name::Role(role),
        };
        process.streams = Streams::Shown(several.then_some(name));
    }
}

/// torchrun's workers write to files; with `--tee` to its own streams as well.
pub(super) fn tee(case: &Case, arguments: usize, process: &mut Planned) {
    if case.kill.is_empty() {
        let script = process.argv.len().saturating_sub(arguments + 1);
        process.argv.insert(script, "--tee=3".into());
    }
}

/// One stream on its way to ours.
#[derive(Debug)]
pub struct Shown {
    name: Option<Name>,
    error: bool,
    /// What came of a line that has not ended.
    line: Vec<u8>,
}

impl Shown {
    /// To our standard error, or else to our standard output.
    pub fn new(name: Option<Name>, error: bool) -> Shown {
        Shown { name, error, line: Vec::new() }
    }

    /// What came.
    pub fn write(&mut self, bytes: &[u8]) {
        let Some(name) = self.name else { return self.put(bytes) };
        let mut out = Vec::with_capacity(bytes.len() + 64);
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                name.line(&std::mem::take(&mut self.line), &mut out);
            }
        }
        self.put(&out);
    }

    /// The stream has ended.
    pub fn end(&mut self) {
        if let Some(name) = self.name
            && !self.line.is_empty()
        {
            self.line.push(b'\n');
            let mut out = Vec::new();
            name.line(&std::mem::take(&mut self.line), &mut out);
            self.put(&out);
        }
    }

    /// A closed terminal is no reason to fail: the files still hold everything.
    fn put(&self, bytes: &[u8]) {
        let _ = if self.error {
            std::io::stderr().write_all(bytes)
        } else {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush())
        };
    }
}

impl Name {
    fn line(self, line: &[u8], out: &mut Vec<u8>) {
        let (name, text) = match self {
            Name::Role(role) => (role.to_string(), line),
            Name::Workers { node, first } => match torchrun::teed(line) {
                Some((local_rank, text)) => (Role::Rank(first + local_rank).to_string(), text),
                None => (file_stem(Role::Launcher(node)).replace('-', " "), line),
            },
        };
        out.push(b'[');
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"] ");
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_named() {
        let mut out = Vec::new();
        Name::Role(Role::Rank(3)).line(b"hi\n", &mut out);
        let workers = Name::Workers { node: 1, first: 4 };
        workers.line(b"[default2]:step\n", &mut out);
        workers.line(b"W1121 setting\n", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "[rank 3] hi\n[rank 6] step\n[launcher 1] W1121 setting\n");
    }
}
