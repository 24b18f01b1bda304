//! The tokens and the current position in them.

use super::*;

impl<'a> Parser<'a> {
    pub(super) fn peek(&self) -> Token {
        self.tokens[self.at]
    }

    pub(super) fn ahead(&self, n: usize) -> Token {
        self.tokens[(self.at + n).min(self.tokens.len() - 1)]
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub(super) fn text(&self, token: Token) -> &'a str {
        self.source.get(token.span)
    }

    pub(super) fn error<T>(&self, token: Token, expected: &str) -> Result<T> {
        let found = match token.kind {
            Kind::End => "the end of the text".to_string(),
            _ => format!("`{}`", self.text(token)),
        };
        Err(ParseError {
            place: self.source.place(token.span.start),
            message: format!("expected {expected}, found {found}"),
        })
    }

    pub(super) fn is(&self, punct: &str) -> bool {
        self.peek().kind == Kind::Punct(intern(punct))
    }

    pub(super) fn eat(&mut self, punct: &str) -> bool {
        let found = self.is(punct);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, punct: &str) -> Result<Token> {
        if self.is(punct) { Ok(self.next()) } else { self.error(self.peek(), &format!("`{punct}`")) }
    }

    pub(super) fn name(&mut self, what: &str) -> Result<Span> {
        let token = self.peek();
        if token.kind != Kind::Name {
            return self.error(token, what);
        }
        Ok(self.next().span)
    }

    /// The word of a dot token at the cursor.
    pub(super) fn dot(&self) -> Option<&'a str> {
        (self.peek().kind == Kind::Dot).then(|| &self.text(self.peek())[1..])
    }
}

fn intern(punct: &str) -> &'static str {
    match punct {
        "(" => "(",
        ")" => ")",
        "{" => "{",
        "}" => "}",
        "[" => "[",
        "]" => "]",
        "," => ",",
        ";" => ";",
        ":" => ":",
        "<" => "<",
        ">" => ">",
        "=" => "=",
        "+" => "+",
        "-" => "-",
        "|" => "|",
        "!" => "!",
        "@" => "@",
        _ => "",
    }
}
