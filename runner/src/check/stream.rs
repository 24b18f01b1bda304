//! A captured stream as checks read it: everything that was kept, and a record of what was not.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;

use regex::bytes::{Captures, Regex};

use crate::check::search::Search;
use crate::observation::Captured;

/// Bytes from the start of a stream that a regular expression sees, in addition to the stream's end.
const TEXT_LIMIT: u64 = 64 << 20;
/// Bytes before the tail that only give an expression its left context: at least one character.
const CONTEXT: usize = 4;

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Byte offset of its first occurrence from the beginning of the stream, as far as known.
    At(u64),
    /// Nowhere in the stream.
    Nowhere,
    /// Nowhere in the part that was searched.
    Unknown {
        /// Bytes that were.
        searched: u64,
    },
}

/// Looks for `text` in all of a stream.
pub fn find(stream: &Captured, text: &str) -> Found {
    let known = |found: Option<u64>| found.map_or(Found::Nowhere, Found::At);
    let in_memory = |bytes: &[u8]| {
        let mut search = Search::new(text);
        search.push(bytes);
        search.found()
    };
    if !stream.truncated {
        return known(in_memory(&stream.head));
    }
    if let Some(found) = stream.searched.get(text) {
        return known(*found);
    }
    let mut search = Search::new(text);
    let read = File::open(&stream.path).and_then(|file| search.read(file.take(stream.bytes))).unwrap_or(0);
    if let Some(at) = search.found() {
        return Found::At(at);
    }
    if read == stream.bytes {
        return Found::Nowhere;
    }
    let tail = stream.bytes - stream.tail.len() as u64;
    match (in_memory(&stream.head), in_memory(&stream.tail)) {
        (Some(at), _) => Found::At(at),
        (None, Some(at)) => Found::At(tail + at),
        (None, None) => Found::Unknown {
            searched: (read.max(stream.head.len() as u64) + stream.tail.len() as u64).min(stream.bytes),
        },
    }
}

/// A stream as regular expressions see it: its beginning and, if that is not all, its end.
#[derive(Debug)]
pub struct Text<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where the end begins, when something before it is missing.
    cut: Option<usize>,
    /// Bytes of the stream that are not here.
    missing: u64,
}

impl<'a> Text<'a> {
    /// The kept part of `stream`: at most 64 MiB from its beginning, and its tail.
    pub fn from_captured(stream: &'a Captured) -> Text<'a> {
        if !stream.truncated {
            return Text { bytes: Cow::Borrowed(&stream.head), cut: None, missing: 0 };
        }
        let mut bytes = Vec::new();
        let read =
            File::open(&stream.path).and_then(|file| file.take(TEXT_LIMIT.min(stream.bytes)).read_to_end(&mut bytes));
        if read.is_err() || bytes.len() < stream.head.len() {
            bytes.clone_from(&stream.head);
        }
        let begins = stream.bytes - stream.tail.len() as u64;
        let cut = bytes.len();
        let missing = begins.saturating_sub(cut as u64);
        if missing > 0 {
            bytes.extend_from_slice(&stream.tail);
            return Text { bytes: Cow::Owned(bytes), cut: Some(cut), missing };
        }
        bytes.extend_from_slice(&stream.tail[(cut as u64 - begins) as usize..]);
        Text { bytes: Cow::Owned(bytes), cut: None, missing: 0 }
    }

    /// The first match. No match spans the missing part or depends on it.
    pub fn find(&self, regex: &Regex) -> Option<usize> {
        self.captures(regex).and_then(|captures| captures.get(0).map(|found| found.start()))
    }

    /// The first match with its groups.
    pub fn captures(&self, regex: &Regex) -> Option<Captures<'_>> {
        let Some(cut) = self.cut else { return regex.captures(&self.bytes) };
        self.captures_before(regex, cut).or_else(|| {
            // Includes the text before it, so that `^` and `\b` are correct; `\A` does not match here.
            let after = (cut + CONTEXT).min(self.bytes.len());
            regex.captures_at(&self.bytes, after)
        })
    }

    /// The first match, if it is certain that none came before it.
    pub fn first_captures(&self, regex: &Regex) -> Option<Captures<'_>> {
        match self.cut {
            Some(cut) => self.captures_before(regex, cut),
            None => regex.captures(&self.bytes),
        }
    }

    /// Every match with its groups, and the number of the line in which it starts; `None` if a part of the stream is missing.
    pub fn matches<'t>(&'t self, regex: &'t Regex) -> Option<impl Iterator<Item = (usize, Captures<'t>)>> {
        let (mut line, mut counted) = (1, 0);
        self.cut.is_none().then(move || {
            regex.captures_iter(&self.bytes).map(move |captures| {
                let start = captures.get(0).map_or(0, |found| found.start());
                line += memchr::memchr_iter(b'\n', &self.bytes[counted..start]).count();
                counted = start;
                (line, captures)
            })
        })
    }

    /// A match that reaches the cut might differ if more of the stream were there.
    fn captures_before(&self, regex: &Regex, cut: usize) -> Option<Captures<'_>> {
        regex.captures(&self.bytes[..cut]).filter(|found| found.get(0).is_some_and(|found| found.end() < cut))
    }

    /// What an expression did not see, phrased to follow a `;`. Empty if it saw everything.
    pub fn unsearched(&self) -> String {
        if self.missing == 0 {
            return String::new();
        }
        format!(
            " `matches` does not see {} bytes after the first {} (`contains` and `absent` do);",
            self.missing,
            self.cut.unwrap_or_default()
        )
    }
}

/// The line at offset `at` of `stream`, with its number if known.
pub fn line(stream: &Captured, at: u64) -> String {
    let text = Text::from_captured(stream);
    let kept = text.cut.unwrap_or(text.bytes.len()) as u64;
    if at < kept {
        let at = at as usize;
        return format!("line {}: {}", line_number(&text.bytes, at), line_at(&text.bytes[..kept as usize], at));
    }
    let begins = stream.bytes - stream.tail.len() as u64;
    match at.checked_sub(begins) {
        Some(at) => format!("byte {}: {}", begins + at, line_at(&stream.tail, at as usize)),
        None => format!("byte {at}, after the {kept} bytes that are kept"),
    }
}

fn line_number(bytes: &[u8], at: usize) -> usize {
    memchr::memchr_iter(b'\n', &bytes[..at]).count() + 1
}

fn line_at(bytes: &[u8], at: usize) -> String {
    let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |newline| at + newline);
    shorten(&String::from_utf8_lossy(&bytes[start..end]))
}

/// The last line of a stream, shortened.
pub fn last_line(stream: &Captured) -> String {
    let bytes = if stream.truncated { &stream.tail } else { &stream.head };
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(4096)..]).into_owned();
    shorten(text.trim_end().rsplit('\n').next().unwrap_or_default())
}

fn shorten(line: &str) -> String {
    let mut short: String = line.chars().take(200).collect();
    if short.len() < line.len() {
        short.push_str(" ...");
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream with 10 bytes in a file and, after a hole, 4 in memory.
    fn cut(file: &tempfile::NamedTempFile) -> Captured {
        std::fs::write(file.path(), "head\nabc\nd").unwrap();
        let mut stream = Captured { path: file.path().to_owned(), bytes: 1000, ..Captured::default() };
        (stream.head, stream.tail, stream.truncated) = (b"he".to_vec(), b"xyz abc\nend\n".to_vec(), true);
        stream
    }

    fn matches(text: &Text<'_>, regex: &str) -> bool {
        text.find(&Regex::new(&format!("(?m){regex}")).unwrap()).is_some()
    }

    #[test]
    fn a_text_is_known_to_be_absent_only_where_all_was_searched() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut stream = cut(&file);
        assert_eq!(find(&stream, "abc"), Found::At(5));
        assert_eq!(find(&stream, "end"), Found::At(1000 - 4));
        assert_eq!(find(&stream, "dx"), Found::Unknown { searched: 22 }, "not across the hole");
        stream.searched.insert("in the hole".into(), Some(500));
        stream.searched.insert("nowhere".into(), None);
        assert_eq!(find(&stream, "in the hole"), Found::At(500));
        assert_eq!(find(&stream, "nowhere"), Found::Nowhere);
        assert_eq!(line(&stream, 500), "byte 500, after the 10 bytes that are kept");
        assert_eq!((line(&stream, 5), line(&stream, 997)), ("line 2: abc".into(), "byte 997: end".into()));
        let text = "0123456789".repeat(30_000);
        std::fs::write(file.path(), &text).unwrap();
        stream.bytes = text.len() as u64;
        assert_eq!(find(&stream, "9012"), Found::At(9), "a whole file that another process wrote");
        assert_eq!(find(&stream, "xyz"), Found::Nowhere);
    }

    #[test]
    fn no_match_depends_on_what_is_missing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stream = cut(&file);
        let text = Text::from_captured(&stream);
        for regex in ["^head$", "^abc$", "c\\nd?", "abc$", "end", "^end$", r"(?-m:\n\z)"] {
            assert!(matches(&text, regex), "{regex}");
        }
        for regex in ["^d$", "^xyz", r"d\z", r"\Axyz", "d[^a]*x", "nothing"] {
            assert!(!matches(&text, regex), "{regex}");
        }
        assert_eq!(
            text.unsearched(),
            " `matches` does not see 978 bytes after the first 10 (`contains` and `absent` do);"
        );
        let regex = Regex::new("e(..)").unwrap();
        assert_eq!(&text.first_captures(&regex).unwrap()[1], b"ad");
        assert!(text.first_captures(&Regex::new("z abc").unwrap()).is_none(), "one could have come before it");
    }

    #[test]
    fn every_match_has_its_line_and_needs_the_whole_stream() {
        let stream = Captured { head: b"a 1\n\na 2 a 3\n".to_vec(), ..Captured::default() };
        let (text, regex) = (Text::from_captured(&stream), Regex::new(r"a (\d)").unwrap());
        let found: Vec<(usize, Vec<u8>)> =
            text.matches(&regex).unwrap().map(|(line, captures)| (line, captures[1].to_vec())).collect();
        assert_eq!(found, [(1, b"1".to_vec()), (3, b"2".to_vec()), (3, b"3".to_vec())]);
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Text::from_captured(&cut(&file)).matches(&regex).is_none());
    }

    #[test]
    fn a_file_and_the_tail_in_memory_make_a_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456").unwrap();
        let stream = Captured {
            path: file.path().to_owned(),
            bytes: 10,
            head: b"01".to_vec(),
            tail: b"56789".to_vec(),
            truncated: true,
            ..Captured::default()
        };
        let text = Text::from_captured(&stream);
        assert!(matches(&text, r"\A0123456789\z"));
        assert_eq!(text.unsearched(), "");
    }
}
