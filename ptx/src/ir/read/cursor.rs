//! A place in a line of a program's text, and the words and numbers that follow there.

use crate::text::error::{ParseError, Place};

/// What is left of a line.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    line: &'a str,
    number: u32,
    at: usize,
}

pub(super) type Read<T> = Result<T, ParseError>;

impl<'a> Cursor<'a> {
    /// The place behind so many bytes of the line with this number, and behind the spaces there.
    pub(super) fn behind(line: &'a str, number: u32, bytes: usize) -> Self {
        let mut cursor = Self { line, number, at: bytes };
        cursor.skip_spaces();
        cursor
    }

    /// An error at this place.
    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Read<T> {
        let place = Place { line: self.number, column: self.at as u32 + 1 };
        Err(ParseError { place, message: message.into() })
    }

    fn rest(&self) -> &'a str {
        &self.line[self.at..]
    }

    /// Skips this text and the spaces behind it, if it is next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let is_next = self.rest().starts_with(text);
        if is_next {
            self.at += text.len();
            self.skip_spaces();
        }
        is_next
    }

    /// As [`Cursor::eat`], but it is an error if the text is not next.
    pub(super) fn expect(&mut self, text: &str) -> Read<()> {
        if self.eat(text) { Ok(()) } else { self.fail(format!("`{text}` is expected")) }
    }

    /// Whether nothing is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest().is_empty()
    }

    /// It is an error if something is left.
    pub(super) fn end(&self) -> Read<()> {
        if self.is_at_end() { Ok(()) } else { self.fail("the end of the line is expected") }
    }

    /// The longest text of such characters, and the spaces behind it.
    pub(super) fn take_while(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let text = &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())];
        self.at += text.len();
        self.skip_spaces();
        text
    }

    /// The next word: letters, digits, underscores and dots.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
    }

    /// A word that means something.
    pub(super) fn meaning<T>(&mut self, what: &str, find: impl FnOnce(&str) -> Option<T>) -> Read<T> {
        let before = self.clone();
        let word = self.word();
        match find(word) {
            Some(value) => Ok(value),
            None => before.fail(format!("`{word}` is not {what}")),
        }
    }

    /// A number, in hexadecimal if it begins with `0x`.
    pub(super) fn number<T: TryFrom<u64>>(&mut self) -> Read<T> {
        self.meaning("a number that fits here", |word| {
            let number = match word.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => word.parse(),
            };
            T::try_from(number.ok()?).ok()
        })
    }

    /// The number of something that is named by a prefix and a number, as `b` and 12 are in `b12`.
    pub(super) fn numbered(&mut self, prefix: &str) -> Read<u32> {
        let what = format!("`{prefix}` and a number");
        self.meaning(&what, |word| word.strip_prefix(prefix)?.parse().ok())
    }

    /// What is added to something: 0 if nothing is.
    pub(super) fn offset(&mut self) -> Read<i64> {
        if !self.rest().starts_with(['+', '-']) {
            return Ok(0);
        }
        let before = self.clone();
        let sign = if self.eat("-") { "-" } else { self.expect("+").map(|()| "")? };
        let digits = self.take_while(|c| c.is_ascii_digit());
        format!("{sign}{digits}").parse().or_else(|_| before.fail(format!("`{digits}` is not a number to add")))
    }

    /// A list of items with commas between them.
    pub(super) fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }
}
