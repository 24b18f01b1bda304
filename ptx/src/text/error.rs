//! Errors in PTX text: a mistake, or something that this machine does not execute; each with its place.

use std::fmt;

/// A piece of the source text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset just past the last byte.
    pub end: u32,
}

/// A place in the source as people count, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub column: u32,
}

/// The text is not PTX: nothing of the module can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}:{}: {message}", place.line, place.column)]
pub struct ParseError {
    /// Where.
    pub place: Place,
    /// What, and what was expected.
    pub message: String,
}

/// Why a kernel is refused although its module was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Real PTX that this machine does not execute: a gap.
    Unsupported,
    /// Not valid PTX: `ptxas` would refuse it, too.
    Invalid,
}

/// A kernel that cannot be run, with the instruction that causes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Gap or mistake.
    pub kind: RefusalKind,
    /// The function that holds the instruction (the kernel or one that it reaches).
    pub function: String,
    /// Where the instruction begins.
    pub place: Place,
    /// The instruction as it is in the source, on one line.
    pub instruction: String,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            RefusalKind::Unsupported => "not executed here",
            RefusalKind::Invalid => "invalid PTX",
        };
        let Place { line, column } = self.place;
        write!(f, "{}, line {line}:{column}: `{}`: {what}: {}", self.function, self.instruction, self.message)
    }
}

impl std::error::Error for Refusal {}

/// PTX text with the start of each of its lines.
#[derive(Clone, Debug)]
pub(crate) struct SourceText {
    pub(crate) text: std::sync::Arc<str>,
    lines: Vec<u32>,
}

impl SourceText {
    pub(crate) fn new(text: &str) -> Self {
        let mut lines = vec![0];
        lines.extend(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at as u32 + 1));
        Self { text: text.into(), lines }
    }

    pub(crate) fn place(&self, offset: u32) -> Place {
        let line = self.lines.partition_point(|start| *start <= offset) - 1;
        Place { line: line as u32 + 1, column: offset - self.lines[line] + 1 }
    }

    pub(crate) fn get(&self, span: Span) -> &str {
        &self.text[span.start as usize..span.end as usize]
    }

    /// The text of a span on one line, runs of white space as one space.
    pub(crate) fn one_line(&self, span: Span) -> String {
        let text = self.get(span);
        let mut line = String::with_capacity(text.len());
        for word in text.split_whitespace() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if line.len() > 200 {
            let cut = (0..=197).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
            line.truncate(cut);
            line.push_str("...");
        }
        line
    }
}
