//! A mistake in a text file: where it is, what is wrong, and what to write instead. Suites and cluster files share it.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// One mistake in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file as the user named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The wrong part, in bytes of the file's text.
    pub span: Range<usize>,
    /// What is wrong, one sentence.
    pub message: String,
    /// What to write instead, one sentence.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A mistake at the bytes `span` of `text`, the content of `file`. A span outside the text is moved to its end.
    pub fn new(file: &str, text: &str, span: Range<usize>, message: impl Into<String>) -> Self {
        let start = floor_char_boundary(text, span.start);
        let end = floor_char_boundary(text, span.end).max(start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            span: start..end,
            message: message.into(),
            help: None,
        }
    }

    /// The same mistake with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// `FILE:LINE:COLUMN: message`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// All mistakes of one file as plain text, each with `file:line:column`, its source line, a pointer and the help.
///
/// `source` is the text of that file; a mistake whose span is outside it is shown without its line.
pub fn render(diagnostics: &[Diagnostic], source: &str) -> String {
    render_with(&Renderer::plain(), &Level::ERROR, diagnostics, source)
}

/// [`render`] in colors, for a terminal.
pub fn render_styled(diagnostics: &[Diagnostic], source: &str) -> String {
    render_with(&Renderer::styled(), &Level::ERROR, diagnostics, source)
}

/// Like [`render`], or with `styled` like [`render_styled`], for something that is allowed but probably a mistake.
pub fn render_warnings(diagnostics: &[Diagnostic], source: &str, styled: bool) -> String {
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    render_with(&renderer, &Level::WARNING, diagnostics, source)
}

fn render_with(renderer: &Renderer, level: &Level<'_>, diagnostics: &[Diagnostic], source: &str) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        if !out.is_empty() {
            out.push('\n');
        }
        let title = level.clone().primary_title(diagnostic.message.as_str());
        let mut group: Group<'_> = match pointed_at(diagnostic, source) {
            Some(span) => title.element(
                Snippet::source(source).path(diagnostic.file.as_str()).annotation(AnnotationKind::Primary.span(span)),
            ),
            None => title
                .element(Origin::path(diagnostic.file.as_str()).line(diagnostic.line).char_column(diagnostic.column)),
        };
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        out.push_str(&renderer.render(&[group]));
        out.push('\n');
    }
    out
}

/// The part of the first line that the pointer underlines: a whole block would bury the message.
fn pointed_at(diagnostic: &Diagnostic, source: &str) -> Option<Range<usize>> {
    let Range { start, end } = diagnostic.span;
    let covered = source.get(start..end)?;
    let first_line = covered.split('\n').next().unwrap_or_default().trim_end();
    Some(start..start + first_line.len())
}

fn floor_char_boundary(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "version: 1\nnodes:\n  - id: é0\n    hots: x\n";

    fn diagnostic() -> Diagnostic {
        let start = SOURCE.find("hots").unwrap();
        Diagnostic::new("c.yaml", SOURCE, start..start + 4, "unknown key `hots`").with_help("did you mean `host`?")
    }

    #[test]
    fn counts_lines_and_character_columns() {
        assert_eq!(diagnostic().to_string(), "c.yaml:4:5: unknown key `hots`");
        let after_accent = Diagnostic::new("c.yaml", SOURCE, SOURCE.find("0\n").unwrap()..SOURCE.len(), "x");
        assert_eq!((after_accent.line, after_accent.column), (3, 10));
        let outside = Diagnostic::new("c.yaml", SOURCE, 900..950, "x");
        assert_eq!((outside.line, outside.column), (5, 1));
    }

    #[test]
    fn renders_place_line_pointer_and_help() {
        let text = render(&[diagnostic()], SOURCE);
        for part in ["error: unknown key `hots`", "c.yaml:4:5", "4 |     hots: x", "^^^^", "help: did you mean `host`?"]
        {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
    }

    #[test]
    fn a_mistake_of_another_text_keeps_its_place() {
        let text = render(&[diagnostic()], "");
        assert!(text.contains("c.yaml:4:5") && text.contains("did you mean"), "{text}");
    }
}
