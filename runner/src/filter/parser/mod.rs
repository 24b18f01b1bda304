//! Parses the text of a filter, or finds the place where it is wrong.

use protocol::suggest;
use regex::Regex;

use super::compare::{Bound, Comparison, Matcher};
use super::error::FilterError;
use super::expression::Filter;

const FUNCTIONS: [&str; 7] = ["tag", "suite", "case", "id", "world", "all", "none"];
/// Maximum nesting of parentheses and negations: the parser calls itself for each.
const DEPTH: usize = 64;
/// They end a word, as spaces do.
const SIGNS: [char; 5] = ['(', ')', '&', '|', '!'];

impl Filter {
    /// Parses a filter. A word that is not a function matches part of the id.
    ///
    /// # Errors
    /// Where and why an expression is wrong.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        parse(text)
    }

    /// The union of several filters: accepts a case that any of them accepts. Without filters, accepts all.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn united<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Filter, FilterError> {
        let mut filters = texts.into_iter().map(Filter::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(match filters.len() {
            0 => Filter::All,
            1 => filters.remove(0),
            _ => Filter::Or(filters),
        })
    }
}

fn parse(text: &str) -> Result<Filter, FilterError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let filter = parser.either()?;
    parser.space();
    if parser.rest().is_empty() { Ok(filter) } else { Err(parser.error("expected `and`, `or` or the end")) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Number of parentheses and negations around this place.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    /// Takes a whole word: `and`, not the beginning of `android`.
    fn take_word(&mut self, word: &str) -> bool {
        self.space();
        let found = self.peek() == word;
        if found {
            self.at += word.len();
        }
        found
    }

    /// The word that begins here.
    fn peek(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find(|c: char| c.is_whitespace() || SIGNS.contains(&c)).unwrap_or(rest.len())]
    }

    fn error(&self, message: impl Into<String>) -> FilterError {
        self.error_at(self.at, message)
    }

    fn error_at(&self, at: usize, message: impl Into<String>) -> FilterError {
        FilterError { filter: self.text.to_owned(), at: self.text[..at].chars().count(), message: message.into() }
    }

    fn either(&mut self) -> Result<Filter, FilterError> {
        let mut parts = vec![self.both()?];
        while self.take("||") || self.take("|") || self.take_word("or") {
            parts.push(self.both()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::Or(parts) })
    }

    fn both(&mut self) -> Result<Filter, FilterError> {
        let mut parts = vec![self.one()?];
        while self.take("&&") || self.take("&") || self.take_word("and") {
            parts.push(self.one()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Filter::And(parts) })
    }

    fn one(&mut self) -> Result<Filter, FilterError> {
        if self.take("!") || self.take_word("not") {
            return Ok(Filter::Not(Box::new(self.inner(Parser::one)?)));
        }
        if self.take("(") {
            let inner = self.inner(Parser::either)?;
            self.close()?;
            return Ok(inner);
        }
        self.space();
        if self.rest().starts_with("matrix.") {
            self.at += "matrix.".len();
            return self.matrix();
        }
        if self.rest().starts_with('"') {
            return Ok(Filter::Substring(self.quoted()?));
        }
        let (start, word) = (self.at, self.peek());
        if word.is_empty() {
            return Err(self.error("expected a filter"));
        }
        self.at += word.len();
        if !self.rest().starts_with('(') {
            return Ok(Filter::Substring(word.to_owned()));
        }
        self.at += 1;
        let filter = match word {
            "tag" => Filter::Tag(self.name()?),
            "suite" => Filter::Suite(self.name()?),
            "case" => Filter::Case(self.name()?),
            "id" => Filter::Id(self.name()?),
            "world" => {
                let sign = self.sign().unwrap_or("=");
                Filter::World(self.comparison(sign, true)?)
            }
            "all" => Filter::All,
            "none" => Filter::Not(Box::new(Filter::All)),
            other => {
                let hint = match suggest::nearest(other, FUNCTIONS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", FUNCTIONS.join(", ")),
                };
                return Err(self.error_at(start, format!("there is no `{other}(...)`; {hint}")));
            }
        };
        self.close()?;
        Ok(filter)
    }

    /// Reads what follows a negation or is in parentheses.
    fn inner(&mut self, read: impl FnOnce(&mut Self) -> Result<Filter, FilterError>) -> Result<Filter, FilterError> {
        if self.depth == DEPTH {
            return Err(self.error(format!("more than {DEPTH} nested parentheses and negations")));
        }
        self.depth += 1;
        let inner = read(self);
        self.depth -= 1;
        inner
    }

    fn close(&mut self) -> Result<(), FilterError> {
        if self.take(")") { Ok(()) } else { Err(self.error("expected `)`")) }
    }

    /// `NAME = VALUE`, after `matrix.`.
    fn matrix(&mut self) -> Result<Filter, FilterError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("expected the name of an axis"));
        }
        self.at += end;
        let sign = self.sign().ok_or_else(|| self.error("expected =, !=, <, <=, >, >= or ~"))?;
        Ok(Filter::Matrix(rest[..end].to_owned(), self.comparison(sign, false)?))
    }

    fn sign(&mut self) -> Option<&'static str> {
        ["==", "!=", "<=", ">=", "=", "<", ">", "~"].into_iter().find(|sign| self.take(sign))
    }

    /// What is right of `sign`.
    fn comparison(&mut self, sign: &str, numbers_only: bool) -> Result<Comparison, FilterError> {
        self.space();
        let bound = match sign {
            "<" => Some(Bound::Below),
            "<=" => Some(Bound::AtMost),
            ">" => Some(Bound::Above),
            ">=" => Some(Bound::AtLeast),
            _ => None,
        };
        let word = self.peek();
        if bound.is_some() || numbers_only {
            let number: f64 = word.parse().map_err(|_| self.error("expected a number"))?;
            self.at += word.len();
            return Ok(match bound {
                Some(bound) => Comparison::Number(bound, number),
                None if sign == "!=" => Comparison::IsNot(Matcher::Exact(word.to_owned())),
                None => Comparison::Is(Matcher::Exact(word.to_owned())),
            });
        }
        let matcher = if sign == "~" { Matcher::Part(self.value()?) } else { self.matcher(Parser::peek)? };
        Ok(if sign == "!=" { Comparison::IsNot(matcher) } else { Comparison::Is(matcher) })
    }

    /// A matcher up to the closing parenthesis.
    fn name(&mut self) -> Result<Matcher, FilterError> {
        self.space();
        if self.rest().starts_with('=') {
            self.at += 1;
            return Ok(Matcher::Exact(self.argument()?));
        }
        if self.rest().starts_with('~') {
            self.at += 1;
            return Ok(Matcher::Part(self.argument()?));
        }
        self.matcher(|parser| {
            let rest = parser.rest();
            rest[..rest.find(')').unwrap_or(rest.len())].trim_end()
        })
    }

    /// `/regex/`, a quoted text or a glob that ends where `word` does.
    fn matcher(&mut self, word: impl Fn(&Self) -> &'a str) -> Result<Matcher, FilterError> {
        self.space();
        if let Some(pattern) = self.rest().strip_prefix('/') {
            // A slash inside must be escaped, as in other languages with regex literals.
            let end = ends(pattern, '/').ok_or_else(|| self.error("the expression has no end `/`"))?;
            let regex = Regex::new(&pattern[..end].replace("\\/", "/"))
                .map_err(|error| self.error(last_line(&error.to_string())))?;
            self.at += end + 2;
            return Ok(Matcher::Regex(regex));
        }
        if self.rest().starts_with('"') {
            return Ok(Matcher::Exact(self.quoted()?));
        }
        let name = word(self);
        if name.is_empty() {
            return Err(self.error("expected a name"));
        }
        self.at += name.len();
        Ok(Matcher::Glob(name.to_owned()))
    }

    /// Text up to the closing parenthesis, or quoted.
    fn argument(&mut self) -> Result<String, FilterError> {
        self.space();
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        let rest = self.rest();
        let text = rest[..rest.find(')').unwrap_or(rest.len())].trim_end();
        if text.is_empty() {
            return Err(self.error("expected a name"));
        }
        self.at += text.len();
        Ok(text.to_owned())
    }

    /// One word, or quoted text.
    fn value(&mut self) -> Result<String, FilterError> {
        if self.rest().starts_with('"') {
            return self.quoted();
        }
        let word = self.peek();
        if word.is_empty() {
            return Err(self.error("expected a value"));
        }
        self.at += word.len();
        Ok(word.to_owned())
    }

    fn quoted(&mut self) -> Result<String, FilterError> {
        let inner = &self.rest()[1..];
        let end = ends(inner, '"').ok_or_else(|| self.error("the text has no end `\"`"))?;
        self.at += end + 2;
        let mut text = String::new();
        let mut characters = inner[..end].chars();
        while let Some(character) = characters.next() {
            text.extend(if character == '\\' { characters.next() } else { Some(character) });
        }
        Ok(text)
    }
}

/// Where `sign` ends the text; a `sign` after a backslash does not.
fn ends(text: &str, sign: char) -> Option<usize> {
    let mut escaped = false;
    text.char_indices().find_map(|(at, character)| {
        let found = character == sign && !escaped;
        escaped = character == '\\' && !escaped;
        found.then_some(at)
    })
}

fn last_line(error: &str) -> String {
    let line = error.lines().last().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests;
