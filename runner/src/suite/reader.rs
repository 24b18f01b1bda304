//! Reads a YAML tree with source locations. Every reader records a mistake with its place and goes on, so that all
//! mistakes are reported at once.

use std::cell::RefCell;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::diagnostic::Diagnostic;
use model::node::{Entry, Node, Value};
use model::{digits, yaml};
use protocol::suggest;
use serde_json::json;

use crate::source::SourceLocation;
use crate::suite::language::Section;
use crate::suite::quantity;

/// A place in the text of a file, in bytes.
pub(super) type Span = Range<usize>;

/// One suite file, and the mistakes found in it so far.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    file: &'a Path,
    name: String,
    text: &'a str,
    mistakes: RefCell<Vec<Diagnostic>>,
    warnings: RefCell<Vec<Diagnostic>>,
    /// Scalars without a value.
    spoiled: RefCell<Vec<Span>>,
    /// The keys that were asked for, by section: a test compares them with the tables.
    #[cfg(test)]
    pub(crate) asked: RefCell<std::collections::BTreeSet<(&'static str, &'static str)>>,
}

/// How keys start that the language leaves to the user, for anchors.
pub(crate) const EXTENSION: &str = "x-";

/// A mapping whose keys are asked for by name; [`Mapping::finish`] reports the unknown ones.
#[derive(Debug)]
pub(crate) struct Mapping<'r, 'n> {
    reader: &'r Reader<'r>,
    what: String,
    section: Option<&'static Section>,
    span: Range<usize>,
    entries: &'n [Entry],
    asked: RefCell<Vec<&'static str>>,
    /// Keys that were reported before [`Mapping::finish`].
    reported: RefCell<Vec<&'n str>>,
}

impl<'a> Reader<'a> {
    /// A reader of `text`, the content of `file`.
    pub(crate) fn new(file: &'a Path, text: &'a str) -> Reader<'a> {
        Reader {
            file,
            name: file.display().to_string(),
            text,
            mistakes: RefCell::default(),
            warnings: RefCell::default(),
            spoiled: RefCell::default(),
            #[cfg(test)]
            asked: RefCell::default(),
        }
    }

    /// The tree of the file. A repeated key is reported and its last value counts.
    pub(crate) fn parse(&self) -> Option<Node> {
        yaml::read_on(&self.name, self.text, &mut self.mistakes.borrow_mut())
    }

    /// Notes a mistake.
    pub(crate) fn mistake(&self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        let help = help.into();
        let diagnostic = Diagnostic::new(&self.name, self.text, span.clone(), message);
        self.note(if help.is_empty() { diagnostic } else { diagnostic.with_help(help) });
    }

    /// Records a mistake that another reader of the same text found. The same mistake in two matrix combinations counts
    /// once.
    pub(crate) fn note(&self, diagnostic: Diagnostic) {
        let mut mistakes = self.mistakes.borrow_mut();
        let spoiled = self.spoiled.borrow();
        if !mistakes.contains(&diagnostic) && !spoiled.contains(&diagnostic.span) {
            mistakes.push(diagnostic);
        }
    }

    /// Records something that is allowed but is probably a mistake. `ftest check` reports it.
    pub(crate) fn warning(&self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        let diagnostic = Diagnostic::new(&self.name, self.text, span.clone(), message).with_help(help);
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&diagnostic) {
            warnings.push(diagnostic);
        }
    }

    /// The warnings so far, in the order of the file.
    pub(crate) fn take_warnings(&self) -> Vec<Diagnostic> {
        let mut warnings = self.warnings.take();
        warnings.sort_by_key(|warning| warning.span.start);
        warnings
    }

    /// Number of mistakes so far.
    pub(crate) fn count(&self) -> usize {
        self.mistakes.borrow().len()
    }

    /// The mistakes in the order of the file.
    pub(crate) fn finish(self) -> Vec<Diagnostic> {
        let mut mistakes = self.mistakes.into_inner();
        mistakes.sort_by_key(|mistake| mistake.span.start);
        mistakes
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        self.file
    }

    /// The file's name as the user gave it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        self.text
    }

    /// The byte offset of a place in this file.
    pub(crate) fn offset(&self, place: &SourceLocation) -> Range<usize> {
        let line: usize = self.text.split_inclusive('\n').take(place.line.saturating_sub(1)).map(str::len).sum();
        let column = place.column.saturating_sub(1);
        let start = line + self.text[line..].chars().take(column).map(char::len_utf8).sum::<usize>();
        start..start
    }

    /// Where `span` starts.
    pub(crate) fn place(&self, span: &Range<usize>) -> SourceLocation {
        let place = Diagnostic::new(&self.name, self.text, span.clone(), "");
        SourceLocation { file: PathBuf::from(self.file), line: place.line, column: place.column }
    }

    /// The bytes of the file behind a part of `text`, the scalar at `span`; all of it if it is not written literally.
    pub(crate) fn part(&self, span: &Range<usize>, text: &str, part: Range<usize>) -> Range<usize> {
        let written = self.text.get(span.clone()).unwrap_or_default();
        match written.find(text) {
            Some(start) if !text.is_empty() => {
                let start = span.start + start;
                // Behind the end stands the quote, or the next letter.
                start + part.start..(start + part.end).max(start + part.start)
            }
            _ => span.clone(),
        }
    }

    /// Notes that the scalar at `span` has no value: its mistake has been reported, and all others there follow from that.
    pub(crate) fn spoil(&self, span: &Range<usize>) {
        self.spoiled.borrow_mut().push(span.clone());
    }

    fn wrong_type<T>(&self, what: &str, node: &Node, expected: &str, help: &str) -> Option<T> {
        self.mistake(&node.span, format!("`{what}` must be {expected}, found {}", node.value.kind()), help);
        None
    }

    /// A mapping with the keys of `section`.
    pub(crate) fn section<'r, 'n>(&'r self, section: &'static Section, node: &'n Node) -> Option<Mapping<'r, 'n>>
    where
        'a: 'r,
    {
        self.section_as(section, section.what, node)
    }

    /// A mapping with the keys of `section`, which messages call `what`.
    pub(crate) fn section_as<'r, 'n>(
        &'r self,
        section: &'static Section,
        what: &str,
        node: &'n Node,
    ) -> Option<Mapping<'r, 'n>>
    where
        'a: 'r,
    {
        let keys: Vec<&str> = section.keys().map(|key| key.name).collect();
        let help = format!("write `key: value` lines; its keys: {}", keys.join(", "));
        self.mapping_or(what, node, &help).map(|mapping| Mapping { section: Some(section), ..mapping })
    }

    /// A mapping with user-defined keys. A mapping with fixed keys is a [`Section`].
    pub(crate) fn mapping<'r, 'n>(&'r self, what: &str, node: &'n Node) -> Option<Mapping<'r, 'n>>
    where
        'a: 'r,
    {
        self.mapping_or(what, node, "write `key: value` lines")
    }

    fn mapping_or<'r, 'n>(&'r self, what: &str, node: &'n Node, help: &str) -> Option<Mapping<'r, 'n>>
    where
        'a: 'r,
    {
        let Value::Map(entries) = &node.value else {
            let message = format!("{what} must be a mapping, found {}", node.value.kind());
            self.mistake(&node.span, message, help);
            return None;
        };
        // A shorter lifetime for the reader is fine, because the reader is only read.
        let reader: &'r Reader<'r> = self;
        Some(Mapping {
            reader,
            what: what.to_owned(),
            section: None,
            span: node.span.clone(),
            entries,
            asked: RefCell::default(),
            reported: RefCell::default(),
        })
    }

    /// A list, possibly empty.
    pub(crate) fn list<'n>(&self, what: &str, node: &'n Node) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            _ => self.wrong_type(what, node, "a list", "write `[a, b]` or one `- item` per line"),
        }
    }

    /// A list of texts.
    pub(crate) fn texts(&self, what: &str, node: &Node) -> Option<Vec<String>> {
        let items = self.list(what, node)?;
        let texts: Vec<String> = items.iter().filter_map(|item| self.string(what, item)).collect();
        (texts.len() == items.len()).then_some(texts)
    }

    /// Text that is not empty.
    pub(crate) fn string(&self, what: &str, node: &Node) -> Option<String> {
        match &node.value {
            Value::Text(text) if !text.is_empty() => Some(text.clone()),
            Value::Text(_) => {
                self.mistake(&node.span, format!("`{what}` is empty"), "write some text");
                None
            }
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) => {
                let help = format!("put it in quotes: \"{}\"", self.scalar(node).unwrap_or_default());
                self.wrong_type(what, node, "text", &help)
            }
            _ => self.wrong_type(what, node, "text", ""),
        }
    }

    /// Any scalar as the text in the file: `010` stays `010`, and `no` stays `no`.
    pub(crate) fn scalar(&self, node: &Node) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                let written = self.text.get(node.span.clone()).unwrap_or_default();
                let templated = written.is_empty() || written.contains("${{");
                Some(if templated { plain(&node.value) } else { written.to_owned() })
            }
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// A scalar for a command line or an environment.
    pub(crate) fn word(&self, what: &str, node: &Node) -> Option<String> {
        self.scalar(node).or_else(|| self.wrong_type(what, node, "text or a number", ""))
    }

    /// A list of scalars for a command line.
    pub(crate) fn words(&self, what: &str, node: &Node) -> Option<Vec<String>> {
        let items = self.list(what, node)?;
        let words: Vec<String> = items.iter().filter_map(|item| self.word(what, item)).collect();
        (words.len() == items.len()).then_some(words)
    }

    /// `true` or `false`.
    pub(crate) fn boolean(&self, what: &str, node: &Node) -> Option<bool> {
        match node.value {
            Value::Bool(value) => Some(value),
            _ => self.wrong_type(what, node, "true or false", "write `true` or `false`"),
        }
    }

    /// Whether a number is what is written. Reports digits that it cannot hold, and leading zeros. With `or_text` text may be
    /// meant, and a number loses zeros at its end, too.
    pub(crate) fn exact(&self, node: &Node, or_text: bool) -> bool {
        let value = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) if number.is_finite() => number,
            _ => return true,
        };
        let written = self.scalar(node).unwrap_or_default();
        let reads = digits::lost(&written, value, or_text);
        if let Some(reads) = &reads {
            let help = if or_text {
                format!("write \"{written}\" for text, or {reads} for the number")
            } else {
                format!("write {reads}")
            };
            self.mistake(&node.span, format!("`{written}` is read as the number {reads}"), help);
        }
        reads.is_none()
    }

    /// A whole number from `min` to `max`.
    pub(crate) fn integer(&self, what: &str, node: &Node, min: u32, max: u32) -> Option<u32> {
        if !self.exact(node, false) {
            return None;
        }
        let help = format!("write a whole number from {min} to {max}");
        let Value::Integer(number) = node.value else { return self.wrong_type(what, node, "a whole number", &help) };
        let fits = u32::try_from(number).ok().filter(|number| (min..=max).contains(number));
        if fits.is_none() {
            self.mistake(&node.span, format!("`{what}` is {number}"), help);
        }
        fits
    }

    /// A finite number.
    pub(crate) fn number(&self, what: &str, node: &Node) -> Option<f64> {
        if !self.exact(node, false) {
            return None;
        }
        match node.value {
            Value::Integer(number) => Some(number as f64),
            Value::Float(number) if number.is_finite() => Some(number),
            _ => self.wrong_type(what, node, "a number", ""),
        }
    }

    /// A size with its unit, in bytes.
    pub(crate) fn size(&self, what: &str, node: &Node) -> Option<u64> {
        let written = self.scalar(node).unwrap_or_default();
        let size = quantity::size(&written);
        if size.is_none() {
            self.mistake(
                &node.span,
                format!("`{what}` must be a size, found `{written}`"),
                "write it like `512MiB` or `4GiB`",
            );
        }
        size
    }

    /// A duration with its unit.
    pub(crate) fn duration(&self, what: &str, node: &Node) -> Option<Duration> {
        let written = self.scalar(node).unwrap_or_default();
        match quantity::duration(&written) {
            Ok(duration) => Some(duration),
            Err(help) => {
                self.mistake(&node.span, format!("`{what}` must be a duration, found `{written}`"), help);
                None
            }
        }
    }

    /// One of `choices`, by its index.
    pub(crate) fn choice(&self, what: &str, node: &Node, choices: &[&str]) -> Option<usize> {
        let written = self.scalar(node).unwrap_or_default();
        let found = choices.iter().position(|choice| *choice == written);
        if found.is_none() {
            let help = did_you_mean(&written, choices.iter().copied());
            self.mistake(&node.span, format!("unknown `{what}`: `{written}`"), help);
        }
        found
    }

    /// The value as JSON.
    pub(crate) fn json(&self, node: &Node) -> serde_json::Value {
        self.exact(node, false);
        to_json(node)
    }

    /// The value as JSON, where a text may be meant as well as a number.
    pub(crate) fn any(&self, node: &Node) -> serde_json::Value {
        match &node.value {
            Value::List(items) => items.iter().for_each(|item| drop(self.any(item))),
            Value::Map(entries) => entries.iter().for_each(|entry| drop(self.any(&entry.node))),
            _ => drop(self.exact(node, true)),
        }
        to_json(node)
    }
}

impl<'r, 'n> Mapping<'r, 'n> {
    /// `fatal: true`.
    pub(crate) fn is_fatal(&self) -> bool {
        self.get("fatal").and_then(|node| self.reader.boolean("fatal", node)).unwrap_or(false)
    }

    /// The value of `key`, if present.
    pub(crate) fn get(&self, key: &'static str) -> Option<&'n Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entry of `key`, if present.
    pub(crate) fn entry(&self, key: &'static str) -> Option<&'n Entry> {
        self.asked.borrow_mut().push(key);
        #[cfg(test)]
        if let Some(section) = self.section {
            self.reader.asked.borrow_mut().insert((section.name, key));
        }
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The value of `key`. If it is missing, reports that, or else that another key is a misspelling of it.
    pub(crate) fn required(&self, key: &'static str, example: &str) -> Option<&'n Node> {
        let found = self.get(key);
        if found.is_none() {
            let known = self.known();
            let is_meant = |entry: &&Entry| {
                !known.contains(&entry.key.as_str()) && suggest::nearest(&entry.key, known.iter().copied()) == Some(key)
            };
            match self.entries.iter().find(is_meant) {
                Some(misspelled) => {
                    self.report_unknown(misspelled, &known);
                    self.reported.borrow_mut().push(&misspelled.key);
                }
                None => {
                    let message = format!("`{key}` is missing in {}", self.what);
                    self.reader.mistake(&self.span, message, format!("add `{example}`"));
                }
            }
        }
        found
    }

    /// All entries.
    pub(crate) fn entries(&self) -> &'n [Entry] {
        self.entries
    }

    /// Reports the unknown keys.
    pub(crate) fn finish(self) {
        let (known, reported) = (self.known(), self.reported.borrow());
        let known_or_reported = |key: &str| known.contains(&key) || reported.contains(&key);
        let extends = self.section.is_some_and(Section::is_open);
        let ignored = |key: &str| extends && key.starts_with(EXTENSION);
        for entry in self.entries.iter().filter(|entry| !known_or_reported(&entry.key) && !ignored(&entry.key)) {
            self.report_unknown(entry, &known);
        }
    }

    /// The keys of the section, or else those that were asked for so far.
    fn known(&self) -> Vec<&'static str> {
        match self.section {
            Some(section) => section.keys().map(|key| key.name).collect(),
            None => self.asked.borrow().clone(),
        }
    }

    fn report_unknown(&self, entry: &Entry, known: &[&str]) {
        let homes = self.section.map(|section| section.homes_of(&entry.key)).unwrap_or_default();
        let help = if homes.is_empty() {
            did_you_mean(&entry.key, known.iter().copied())
        } else {
            format!("`{}` belongs in {}", entry.key, homes.join(" or "))
        };
        self.reader.mistake(&entry.key_span, format!("unknown key `{}` in {}", entry.key, self.what), help);
    }
}

/// A suggestion for a word that is not in `known`.
pub fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str> + Clone) -> String {
    match suggest::nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = known.into_iter().collect();
            if known.is_empty() { String::new() } else { format!("expected one of: {}", known.join(", ")) }
        }
    }
}

/// A node as JSON.
pub(crate) fn to_json(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => json!(value),
        Value::Integer(number) => match (i64::try_from(*number), u64::try_from(*number)) {
            (Ok(number), _) => json!(number),
            (_, Ok(number)) => json!(number),
            _ => json!(*number as f64),
        },
        Value::Float(number) => json!(number),
        Value::Text(text) => json!(text),
        Value::List(items) => items.iter().map(to_json).collect(),
        Value::Map(entries) => {
            serde_json::Value::Object(entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.node))).collect())
        }
    }
}

/// An optional value; `None` if it is present but wrong.
pub(super) fn sound<T>(read: Option<Option<T>>) -> Option<Option<T>> {
    match read {
        Some(None) => None,
        Some(value) => Some(value),
        None => Some(None),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Null | Value::List(_) | Value::Map(_) => String::new(),
    }
}
