//! The names in a JSONPath, and where its syntax goes wrong and what belongs there: the library that evaluates paths keeps both to
//! itself.

use std::ops::Range;

/// A query, from the report (`$`) or from an item of a filter (`@`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// It starts at `$`.
    pub(crate) from_root: bool,
    /// Its steps.
    pub(crate) segments: Vec<Segment>,
}

/// One step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// `..`: from everything below, too.
    pub(crate) descends: bool,
    /// What is selected.
    pub(crate) selectors: Vec<Selector>,
}

/// What a step selects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// A member of a mapping, and where its name is written.
    Name(String, Range<usize>),
    /// `*`.
    Any,
    /// Items of a list: an index or a slice.
    Items,
    /// Items and members for which a condition holds, and the queries in it.
    Filter(Vec<Query>),
}

/// The place of a syntax error, in bytes, and what belongs there.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// Reads the whole of `text`.
///
/// # Errors
/// [`Expected`].
pub(crate) fn read(text: &str) -> Result<Query, Expected> {
    let mut parser = Parser { text, at: 0 };
    if !parser.take("$") {
        return parser.expected("`$`, the report");
    }
    let segments = parser.segments()?;
    if parser.at < text.len() {
        return parser.expected("`.`, `[` or the end");
    }
    Ok(Query { from_root: true, segments })
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn skip(&mut self, fits: impl Fn(char) -> bool) -> usize {
        let length: usize = self.rest().chars().take_while(|letter| fits(*letter)).map(char::len_utf8).sum();
        self.at += length;
        length
    }

    fn space(&mut self) {
        self.skip(|letter| matches!(letter, ' ' | '\t' | '\n' | '\r'));
    }

    fn expected<T>(&self, what: &'static str) -> Result<T, Expected> {
        Err(Expected { at: self.at, what })
    }

    fn segments(&mut self) -> Result<Vec<Segment>, Expected> {
        let mut segments = Vec::new();
        loop {
            let before = self.at;
            self.space();
            let descends = self.take("..");
            if descends && self.peek() != Some('[') || !descends && self.take(".") {
                segments.push(Segment { descends, selectors: vec![self.short()?] });
            } else if self.take("[") {
                segments.push(Segment { descends, selectors: self.long()? });
            } else {
                self.at = before;
                return Ok(segments);
            }
        }
    }

    /// What follows a dot.
    fn short(&mut self) -> Result<Selector, Expected> {
        if self.take("*") {
            return Ok(Selector::Any);
        }
        let start = self.at;
        let first = |letter: char| letter == '_' || letter.is_ascii_alphabetic() || !letter.is_ascii();
        if !self.peek().is_some_and(first) {
            return self.expected("a name or `*`; one with other characters is written `['a-b']`");
        }
        self.skip(|letter| first(letter) || letter.is_ascii_digit());
        Ok(Selector::Name(self.text[start..self.at].to_owned(), start..self.at))
    }

    /// What is in brackets.
    fn long(&mut self) -> Result<Vec<Selector>, Expected> {
        let mut selectors = Vec::new();
        loop {
            self.space();
            selectors.push(self.selector()?);
            self.space();
            if self.take("]") {
                return Ok(selectors);
            }
            if !self.take(",") {
                return self.expected("`]` or `,`");
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, Expected> {
        match self.peek() {
            Some('*') => {
                self.at += 1;
                Ok(Selector::Any)
            }
            Some('\'' | '"') => {
                let start = self.at;
                let name = self.quoted()?;
                Ok(Selector::Name(name, start..self.at))
            }
            Some('?') => {
                self.at += 1;
                let mut queries = Vec::new();
                self.condition(&mut queries)?;
                Ok(Selector::Filter(queries))
            }
            Some(letter) if letter == '-' || letter == ':' || letter.is_ascii_digit() => {
                for part in 0..3 {
                    self.number()?;
                    self.space();
                    if part == 2 || !self.take(":") {
                        break;
                    }
                    self.space();
                }
                Ok(Selector::Items)
            }
            _ => self.expected("a name in quotes, a number, `*` or `?`"),
        }
    }

    /// A whole number, or nothing.
    fn number(&mut self) -> Result<(), Expected> {
        let start = self.at;
        let negative = self.take("-");
        let digits = self.skip(|letter| letter.is_ascii_digit());
        let zero = self.text[start..self.at].trim_start_matches('-').starts_with('0') && (digits > 1 || negative);
        if zero || negative && digits == 0 {
            self.at = start;
            return self.expected("a whole number without leading zeros");
        }
        Ok(())
    }

    fn quoted(&mut self) -> Result<String, Expected> {
        let start = self.at;
        let mut name = String::new();
        let mut letters = self.rest().char_indices();
        let end = letters.next().map_or('"', |(_, quote)| quote);
        while let Some((at, letter)) = letters.next() {
            match letter {
                '\\' => name.extend(letters.next().map(|(_, letter)| letter)),
                letter if letter == end => {
                    self.at = start + at + 1;
                    return Ok(name);
                }
                letter => name.push(letter),
            }
        }
        self.at = self.text.len();
        self.expected(if end == '"' { "`\"`, the end of the text" } else { "`'`, the end of the name" })
    }

    /// `A || B`, `A && B`, `!A`, `(A)`, a comparison, or the existence of something.
    fn condition(&mut self, queries: &mut Vec<Query>) -> Result<(), Expected> {
        loop {
            self.space();
            while self.take("!") {
                self.space();
            }
            if self.take("(") {
                self.condition(queries)?;
                self.space();
                if !self.take(")") {
                    return self.expected("`)`, `&&` or `||`");
                }
            } else {
                self.operand(queries)?;
                self.space();
                if ["==", "!=", "<=", ">=", "<", ">"].iter().any(|sign| self.take(sign)) {
                    self.space();
                    self.operand(queries)?;
                } else if self.peek() == Some('=') {
                    return self.expected("`==`");
                }
            }
            self.space();
            if !self.take("&&") && !self.take("||") {
                return Ok(());
            }
        }
    }

    fn operand(&mut self, queries: &mut Vec<Query>) -> Result<(), Expected> {
        match self.peek() {
            Some(start @ ('@' | '$')) => {
                self.at += 1;
                queries.push(Query { from_root: start == '$', segments: self.segments()? });
                Ok(())
            }
            Some('\'' | '"') => self.quoted().map(drop),
            Some(letter) if letter == '-' || letter.is_ascii_digit() => {
                self.at += 1;
                self.skip(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '+' | '-'));
                Ok(())
            }
            Some(letter) if letter.is_ascii_lowercase() => {
                let start = self.at;
                self.skip(|letter| letter.is_ascii_alphanumeric() || letter == '_');
                if self.take("(") {
                    return self.arguments(queries);
                }
                if !matches!(&self.text[start..self.at], "true" | "false" | "null") {
                    self.at = start;
                    return self.expected("`@`, `$`, a text in quotes, a number, `true`, `false` or `null`");
                }
                Ok(())
            }
            _ => self.expected("`@`, `$`, a text in quotes, a number, `true`, `false` or `null`"),
        }
    }

    fn arguments(&mut self, queries: &mut Vec<Query>) -> Result<(), Expected> {
        loop {
            self.condition(queries)?;
            if self.take(")") {
                return Ok(());
            }
            if !self.take(",") {
                return self.expected("`)` or `,`");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_where_they_are() {
        for (path, at, what) in [
            ("a.b", 0, "`$`"),
            ("$.a[", 4, "a name in quotes"),
            ("$.a b", 3, "`.`, `[` or the end"),
            ("$.a.", 4, "a name"),
            ("$..", 3, "a name"),
            ("$['x", 4, "the end of the name"),
            ("$.a[x]", 4, "a name in quotes"),
            ("$.a[*", 5, "`]` or `,`"),
            ("$.a]", 3, "`.`, `[` or the end"),
            ("$.a[01]", 4, "leading zeros"),
            ("$.a[1:2:3:4]", 9, "`]` or `,`"),
            ("$.-a", 2, "['a-b']"),
            ("$[?@.a = 1]", 7, "`==`"),
            ("$[?(@.a == 1 && )]", 16, "`@`"),
            ("$[?@.a == x]", 10, "`@`"),
            ("$[?@.a == \"x]", 13, "the end of the text"),
            ("$[?(@.a]", 7, "`)`"),
        ] {
            let found = read(path).unwrap_err();
            assert!(found.at == at && found.what.contains(what), "{path}: {found:?}");
        }
    }

    #[test]
    fn what_the_library_reads_is_read() {
        for path in [
            "$",
            "$.a.b",
            "$['a b'][\"c\\\"d\"][0, -1, 1:2, ::2, *]",
            "$..a",
            "$..[?@.x]",
            "$.*",
            "$ .a [0]",
            "$[?@.a == 1 && (@.b != 'x' || !@.c) && length(@.d) > 2]",
            "$[?@.a == $.b[0] || match(@.c, 'x.*')]",
            "$[?@.t >= -1.5e3]",
            "$.ä",
            "$[?count(@.*) == 2]",
        ] {
            serde_json_path::JsonPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(read(path).is_ok(), "{path}: {:?}", read(path));
        }
    }
}
