//! PTX text to tokens. Modifiers (`.rn`, `.shared::cta`, `.16x32bx2`) are one token each.

use crate::text::error::{ParseError, SourceText, Span};

/// The kind of a token; its text is in its span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// A name, with its leading `%`, `$` or `_`.
    Name,
    /// A dot and a word: directive, modifier or element.
    Dot,
    /// An integer, and whether it has the suffix `U`.
    Int(u64, bool),
    /// A decimal or `0d` floating-point number.
    Double(u64),
    /// A `0f` number.
    Single(u32),
    /// A quoted text; the span is what is between the quotes.
    Text,
    /// One or two characters of punctuation.
    Punct(&'static str),
    End,
}

/// A token and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
    /// Whether there is no white space between this token and the previous one.
    pub(crate) glued: bool,
}

const PUNCTUATION: [&str; 31] = [
    "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "(", ")", "{", "}", "[", "]", ",", ";", ":", "+", "-", "*", "/",
    "%", "!", "~", "<", ">", "=", "@", "|", "&", "^",
];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

pub(crate) fn lex(source: &SourceText) -> Result<Vec<Token>, ParseError> {
    let bytes = source.text.as_bytes();
    let mut tokens = Vec::with_capacity(bytes.len() / 5);
    let mut at = 0;
    let mut glued = false;
    let error = |at: usize, message: String| ParseError { place: source.place(at as u32), message };
    while at < bytes.len() {
        let start = at;
        let byte = bytes[at];
        if byte.is_ascii_whitespace() || byte == 0 {
            at += 1;
            glued = false;
            continue;
        }
        if bytes[at..].starts_with(b"//") {
            at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at);
            glued = false;
            continue;
        }
        if bytes[at..].starts_with(b"/*") {
            let end = source.text[at + 2..].find("*/");
            at += 4 + end.ok_or_else(|| error(start, "comment without end: `*/` is missing".into()))?;
            glued = false;
            continue;
        }
        let mut span = Span { start: start as u32, end: 0 };
        let kind = if byte == b'"' {
            let end = bytes[at + 1..].iter().position(|b| *b == b'"');
            at += 1 + end.ok_or_else(|| error(start, "text without end: `\"` is missing".into()))?;
            span = Span { start: start as u32 + 1, end: at as u32 };
            at += 1;
            Kind::Text
        } else if byte == b'.' && bytes.get(at + 1).is_some_and(|b| is_word(*b)) {
            at += 1;
            while at < bytes.len() && (is_word(bytes[at]) || (bytes[at] == b':' && is_scope(bytes, at))) {
                at += if bytes[at] == b':' { 2 } else { 1 };
            }
            Kind::Dot
        } else if byte.is_ascii_digit() {
            number(source, &mut at)?
        } else if is_word(byte) || (byte == b'%' && bytes.get(at + 1).is_some_and(|b| is_word(*b))) {
            at += 1;
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
            Kind::Name
        } else {
            let found = PUNCTUATION.iter().find(|p| bytes[at..].starts_with(p.as_bytes()));
            let found = found.ok_or_else(|| {
                let found = source.text[at..].chars().next().unwrap_or(' ');
                error(start, format!("`{found}` has no meaning here"))
            })?;
            at += found.len();
            Kind::Punct(found)
        };
        if span.end == 0 {
            span.end = at as u32;
        }
        tokens.push(Token { kind, span, glued });
        glued = true;
    }
    let end = bytes.len() as u32;
    tokens.push(Token { kind: Kind::End, span: Span { start: end, end }, glued: false });
    Ok(tokens)
}

/// `::` between two words, as in `.shared::cta`.
fn is_scope(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1) == Some(&b':') && bytes.get(at + 2).is_some_and(|b| is_word(*b))
}

fn number(source: &SourceText, at: &mut usize) -> Result<Kind, ParseError> {
    let bytes = source.text.as_bytes();
    let start = *at;
    let error = |what: &str| ParseError { place: source.place(start as u32), message: format!("{what} number") };
    let digits = |from: usize, test: fn(u8) -> bool| {
        let length = bytes[from..].iter().position(|b| !test(*b)).unwrap_or(bytes.len() - from);
        (&source.text[from..from + length], from + length)
    };
    let hex = |b: u8| b.is_ascii_hexdigit();
    if bytes[start] == b'0' {
        let radix = bytes.get(start + 1).copied().unwrap_or(0);
        match radix {
            b'f' | b'F' | b'd' | b'D' => {
                let single = matches!(radix, b'f' | b'F');
                let (text, end) = digits(start + 2, hex);
                *at = end;
                if text.len() != if single { 8 } else { 16 } {
                    return Err(error("a hexadecimal float has 8 digits after 0f and 16 after 0d: malformed"));
                }
                let bits = u64::from_str_radix(text, 16).map_err(|_| error("malformed"))?;
                return Ok(if single { Kind::Single(bits as u32) } else { Kind::Double(bits) });
            }
            b'x' | b'X' | b'b' | b'B' => {
                let (text, end) = digits(start + 2, hex);
                let radix = if matches!(radix, b'x' | b'X') { 16 } else { 2 };
                let value = u64::from_str_radix(text, radix).map_err(|_| error("malformed or too large"))?;
                *at = end;
                return Ok(Kind::Int(value, suffix(bytes, at)));
            }
            _ => {}
        }
    }
    let (text, mut end) = digits(start, |b| b.is_ascii_digit());
    let fraction = bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    if fraction || matches!(bytes.get(end), Some(b'e' | b'E')) {
        if fraction {
            end = digits(end + 1, |b| b.is_ascii_digit()).1;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            end = digits(end + 1 + sign, |b| b.is_ascii_digit()).1;
        }
        *at = end;
        let value: f64 = source.text[start..end].parse().map_err(|_| error("malformed"))?;
        return Ok(Kind::Double(value.to_bits()));
    }
    *at = end;
    let radix = if text.len() > 1 && text.starts_with('0') { 8 } else { 10 };
    let value = u64::from_str_radix(text, radix).map_err(|_| error("malformed or too large"))?;
    Ok(Kind::Int(value, suffix(bytes, at)))
}

fn suffix(bytes: &[u8], at: &mut usize) -> bool {
    let unsigned = bytes.get(*at) == Some(&b'U');
    *at += usize::from(unsigned);
    unsigned
}
