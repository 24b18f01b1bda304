//! Which cases run: a part of the id, or an expression such as `tag(smoke) & !case(/killed$/)`.

use regex::Regex;

use crate::case::Case;

/// A filter.
#[derive(Clone, Debug)]
pub enum Filter {
    /// `suite/id` holds this text.
    Substring(String),
    /// One of the tags.
    Tag(Matcher),
    /// The suite's name.
    Suite(Matcher),
    /// The case's id with its matrix values.
    Case(Matcher),
    /// None of the cases of the inner one.
    Not(Box<Filter>),
    /// Both.
    And(Box<Filter>, Box<Filter>),
    /// Either.
    Or(Box<Filter>, Box<Filter>),
}

/// How a name is compared.
#[derive(Clone, Debug)]
pub enum Matcher {
    /// The whole name; `*` and `?` as in globs.
    Glob(String),
    /// `/regex/`, anywhere in the name.
    Regex(Regex),
}

/// A filter that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "filter `{filter}`, character {at}: {message}; write a part of the id, or tag(NAME), suite(NAME), case(NAME or /REGEX/) with !, &, | and parentheses"
)]
pub struct FilterError {
    filter: String,
    at: usize,
    message: String,
}

impl Filter {
    /// Reads a filter. Text without `tag(`, `suite(` or `case(` is a part of the id.
    ///
    /// # Errors
    /// Where and why an expression is wrong.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        if !["tag(", "suite(", "case("].iter().any(|function| text.contains(function)) {
            return Ok(Filter::Substring(text.to_owned()));
        }
        let mut parser = Parser { text, at: 0 };
        let filter = parser.either()?;
        parser.space();
        if parser.rest().is_empty() { Ok(filter) } else { Err(parser.error("expected `&`, `|` or the end")) }
    }

    /// Whether `case` is meant.
    pub fn accepts(&self, case: &Case) -> bool {
        match self {
            Filter::Substring(part) => case.full_id().contains(part.as_str()),
            Filter::Tag(matcher) => case.tags.iter().any(|tag| matcher.matches(tag)),
            Filter::Suite(matcher) => matcher.matches(&case.suite),
            Filter::Case(matcher) => matcher.matches(&case.id),
            Filter::Not(inner) => !inner.accepts(case),
            Filter::And(left, right) => left.accepts(case) && right.accepts(case),
            Filter::Or(left, right) => left.accepts(case) || right.accepts(case),
        }
    }
}

impl Matcher {
    fn matches(&self, name: &str) -> bool {
        match self {
            Matcher::Glob(pattern) => crate::check::gap::glob(pattern, name),
            Matcher::Regex(regex) => regex.is_match(name),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, word: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn error(&self, message: impl Into<String>) -> FilterError {
        FilterError {
            filter: self.text.to_owned(),
            at: self.text[..self.at].chars().count() + 1,
            message: message.into(),
        }
    }

    fn either(&mut self) -> Result<Filter, FilterError> {
        let mut left = self.both()?;
        while self.take("|") {
            left = Filter::Or(Box::new(left), Box::new(self.both()?));
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Filter, FilterError> {
        let mut left = self.one()?;
        while self.take("&") {
            left = Filter::And(Box::new(left), Box::new(self.one()?));
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Filter, FilterError> {
        if self.take("!") || self.take("not ") {
            return Ok(Filter::Not(Box::new(self.one()?)));
        }
        type Make = fn(Matcher) -> Filter;
        let kinds: [(&str, Make); 3] = [("tag(", Filter::Tag), ("suite(", Filter::Suite), ("case(", Filter::Case)];
        for (word, make) in kinds {
            if self.take(word) {
                return Ok(make(self.matcher()?));
            }
        }
        if self.take("(") {
            let inner = self.either()?;
            return if self.take(")") { Ok(inner) } else { Err(self.error("expected `)`")) };
        }
        Err(self.error("expected tag(...), suite(...) or case(...)"))
    }

    /// What stands in the parentheses, and the closing one.
    fn matcher(&mut self) -> Result<Matcher, FilterError> {
        self.space();
        if let Some(pattern) = self.rest().strip_prefix('/') {
            let end = pattern.find("/)").ok_or_else(|| self.error("the expression has no end `/)`"))?;
            let regex = Regex::new(&pattern[..end])
                .map_err(|error| self.error(error.to_string().lines().last().unwrap_or_default()))?;
            self.at += end + 3;
            return Ok(Matcher::Regex(regex));
        }
        let end = self.rest().find(')').ok_or_else(|| self.error("expected `)`"))?;
        let name = self.rest()[..end].trim();
        if name.is_empty() {
            return Err(self.error("expected a name"));
        }
        self.at += end + 1;
        Ok(Matcher::Glob(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite;
    use std::path::Path;

    fn selected(filter: &str) -> Vec<String> {
        let text = "ftest: 1\nsuite: s\ndefaults: {tags: [all]}\ncases:\n\
                    - {id: one, tags: [smoke], launch: {argv: [x]}}\n\
                    - {id: two, matrix: {axes: {w: [2, 4]}}, launch: {argv: [x]}}\n";
        let suite = suite::parse(Path::new("s.yaml"), text, Path::new("/")).unwrap();
        let filter = Filter::parse(filter).unwrap();
        suite.cases.iter().filter(|case| filter.accepts(case)).map(|case| case.id.clone()).collect()
    }

    #[test]
    fn filters_by_table() {
        for (filter, ids) in [
            ("w=4", &["two[w=4]"][..]),
            ("s/one", &["one"]),
            ("tag(smoke)", &["one"]),
            ("tag(all) & !tag(smoke)", &["two[w=2]", "two[w=4]"]),
            ("case(/w=2/) | case(one)", &["one", "two[w=2]"]),
            ("suite(s) & (case(two*) | tag(none))", &["two[w=2]", "two[w=4]"]),
            ("not suite(s)", &[]),
        ] {
            assert_eq!(selected(filter), ids, "{filter}");
        }
    }

    #[test]
    fn a_wrong_expression_says_where() {
        for (filter, at) in [("tag(", 5), ("tag(a) tag(b)", 8), ("tag(a) &", 9), ("(tag(a)", 8), ("case(/[/)", 6)] {
            assert_eq!(Filter::parse(filter).unwrap_err().at, at, "{filter}");
        }
    }
}
