//! Walks a located YAML value and collects every mistake on the way.

use std::ops::Range;

use crate::diagnostic::Diagnostic;
use crate::digits;
use crate::node::{Entry, Node, Value};
use crate::yaml::did_you_mean;

/// The mistakes found so far in one file. Each reader returns `None` after it has noted why.
#[derive(Debug)]
pub struct Checker<'a> {
    file: &'a str,
    text: &'a str,
    mistakes: Vec<Diagnostic>,
}

impl<'a> Checker<'a> {
    /// Nothing found yet in `text`, the content of `file`.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, mistakes: Vec::new() }
    }

    /// Notes a mistake and what to write instead.
    pub fn mistake(&mut self, span: &Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.mistakes.push(Diagnostic::new(self.file, self.text, span.clone(), message).with_help(help));
    }

    /// How many mistakes there are so far.
    pub fn count(&self) -> usize {
        self.mistakes.len()
    }

    /// The mistakes, in the order of the file.
    pub fn finish(mut self) -> Vec<Diagnostic> {
        self.mistakes.sort_by_key(|mistake| mistake.span.start);
        self.mistakes
    }

    /// A mapping with no keys but `known`.
    pub fn mapping<'n>(&mut self, what: &str, node: &'n Node, known: &[&str]) -> Option<&'n [Entry]> {
        let Value::Map(entries) = &node.value else {
            let message = format!("`{what}` must be a mapping, found {}", node.value.kind());
            self.mistake(&node.span, message, format!("its keys are: {}", known.join(", ")));
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let help = did_you_mean(&entry.key, known);
            self.mistake(&entry.key_span, format!("unknown key `{}` in `{what}`", entry.key), help);
        }
        Some(entries)
    }

    /// A list with at least one item.
    pub fn list<'n>(&mut self, what: &str, node: &'n Node, example: &str) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) if !items.is_empty() => Some(items),
            Value::List(_) => {
                self.mistake(&node.span, format!("`{what}` is empty"), format!("write `{example}`"));
                None
            }
            other => {
                let message = format!("`{what}` must be a list, found {}", other.kind());
                self.mistake(&node.span, message, format!("write `{example}`"));
                None
            }
        }
    }

    /// Text that is not empty.
    pub fn text<'n>(&mut self, what: &str, node: &'n Node) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) if !text.is_empty() => Some(text),
            Value::Text(_) | Value::Null => {
                self.mistake(&node.span, format!("`{what}` is empty"), "write some text");
                None
            }
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) => {
                let written = self.text.get(node.span.clone()).unwrap_or_default();
                let message = format!("`{what}` must be text, found {}", node.value.kind());
                self.mistake(&node.span, message, format!("put it in quotes: \"{written}\""));
                None
            }
            other => {
                self.mistake(&node.span, format!("`{what}` must be text, found {}", other.kind()), "write one word");
                None
            }
        }
    }

    /// Whether a number is what is written. Reports digits that it cannot hold, and leading zeros.
    fn exact(&mut self, node: &Node) -> bool {
        let value = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) if number.is_finite() => number,
            _ => return true,
        };
        let written = self.text.get(node.span.clone()).unwrap_or_default();
        // What a template became is not what is written.
        if written.is_empty() || written.contains("${{") {
            return true;
        }
        let reads = digits::lost(written, value, false);
        if let Some(reads) = &reads {
            self.mistake(&node.span, format!("`{written}` is read as the number {reads}"), format!("write {reads}"));
        }
        reads.is_none()
    }

    /// A whole number from `min` to `max`.
    pub fn integer(&mut self, what: &str, node: &Node, min: u32, max: u32) -> Option<u32> {
        if !self.exact(node) {
            return None;
        }
        let range = format!("write a whole number from {min} to {max}");
        let Value::Integer(number) = node.value else {
            let message = format!("`{what}` must be a whole number, found {}", node.value.kind());
            self.mistake(&node.span, message, range);
            return None;
        };
        match u32::try_from(number) {
            Ok(number) if (min..=max).contains(&number) => Some(number),
            _ => {
                self.mistake(&node.span, format!("`{what}` is {number}"), range);
                None
            }
        }
    }

    /// A finite number: above 0, or 0 and above when `zero`.
    pub fn number(&mut self, what: &str, node: &Node, zero: bool) -> Option<f64> {
        if !self.exact(node) {
            return None;
        }
        let number = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => {
                let message = format!("`{what}` must be a number, found {}", node.value.kind());
                self.mistake(&node.span, message, "write a plain number without a unit");
                return None;
            }
        };
        let fits = number.is_finite() && (number > 0.0 || (zero && number == 0.0));
        if !fits {
            let wanted = if zero { "a non-negative number" } else { "a positive number" };
            self.mistake(&node.span, format!("`{what}` must be {wanted}"), format!("{number} is not"));
        }
        fits.then_some(number)
    }

    /// The value of `key`; when it is missing, that is a mistake at `parent` (the key or item that should hold it).
    pub fn required<'n>(
        &mut self,
        entries: &'n [Entry],
        key: &str,
        parent: &Range<usize>,
        example: &str,
    ) -> Option<&'n Entry> {
        let found = find(entries, key);
        if found.is_none() {
            self.mistake(parent, format!("`{key}` is missing"), format!("add `{example}`"));
        }
        found
    }
}

/// The entry of `key`, if it is there.
pub fn find<'n>(entries: &'n [Entry], key: &str) -> Option<&'n Entry> {
    entries.iter().find(|entry| entry.key == key)
}
