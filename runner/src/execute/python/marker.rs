//! Environment markers of requirements (PEP 508): `python_version < "3.11" and sys_platform == "linux"`.

use std::collections::BTreeMap;

use crate::host::version::{Range, Version};

/// Whether `marker` holds for an interpreter with these variables.
///
/// # Errors
/// What cannot be read, in one sentence.
pub(super) fn holds(marker: &str, variables: &BTreeMap<String, String>) -> Result<bool, String> {
    let wrong = || format!("the marker `{marker}` cannot be read");
    let words = words(marker).ok_or_else(wrong)?;
    let mut reader = Reader { words: &words, variables };
    let holds = reader.either().ok_or_else(wrong)?;
    if reader.words.is_empty() { Ok(holds) } else { Err(wrong()) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word<'a> {
    /// A variable, or one of `and`, `or`, `in`, `not`.
    Name(&'a str),
    Text(&'a str),
    Operator(&'a str),
    Open,
    Close,
}

fn words(marker: &str) -> Option<Vec<Word<'_>>> {
    let mut words = Vec::new();
    let mut rest = marker.trim_start();
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '(' | ')' => {
                words.push(if first == '(' { Word::Open } else { Word::Close });
                1
            }
            '"' | '\'' => {
                let end = rest[1..].find(first)?;
                words.push(Word::Text(&rest[1..=end]));
                end + 2
            }
            '<' | '>' | '=' | '!' | '~' => {
                let end = rest.find(|letter: char| !"<>=!~".contains(letter)).unwrap_or(rest.len());
                words.push(Word::Operator(&rest[..end]));
                end
            }
            _ => {
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._".contains(letter);
                let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
                words.push(Word::Name(rest.get(..end).filter(|name| !name.is_empty())?));
                end
            }
        };
        rest = rest[taken..].trim_start();
    }
    Some(words)
}

struct Reader<'a> {
    words: &'a [Word<'a>],
    variables: &'a BTreeMap<String, String>,
}

impl Reader<'_> {
    fn takes(&mut self, word: &Word<'_>) -> bool {
        let found = self.words.first() == Some(word);
        if found {
            self.words = &self.words[1..];
        }
        found
    }

    fn either(&mut self) -> Option<bool> {
        let mut holds = self.both()?;
        while self.takes(&Word::Name("or")) {
            holds |= self.both()?;
        }
        Some(holds)
    }

    fn both(&mut self) -> Option<bool> {
        let mut holds = self.one()?;
        while self.takes(&Word::Name("and")) {
            holds &= self.one()?;
        }
        Some(holds)
    }

    fn one(&mut self) -> Option<bool> {
        if self.takes(&Word::Open) {
            let holds = self.either()?;
            return self.takes(&Word::Close).then_some(holds);
        }
        let left = self.value()?;
        let not = self.takes(&Word::Name("not"));
        if self.takes(&Word::Name("in")) {
            let right = self.value()?;
            return Some(right.contains(&left) != not);
        }
        let Some((Word::Operator(operator), rest)) = self.words.split_first().filter(|_| !not) else { return None };
        self.words = rest;
        let right = self.value()?;
        compare(&left, operator, &right)
    }

    fn value(&mut self) -> Option<String> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        match first {
            Word::Text(text) => Some((*text).to_owned()),
            // An extra that nobody asked for.
            Word::Name("extra") => Some(self.variables.get("extra").cloned().unwrap_or_default()),
            Word::Name(name) => self.variables.get(*name).cloned(),
            _ => None,
        }
    }
}

/// Versions are compared as versions, everything else as text.
fn compare(left: &str, operator: &str, right: &str) -> Option<bool> {
    if let (Ok(version), Ok(range)) = (left.parse::<Version>(), Range::parse(&format!("{operator}{right}"))) {
        return Some(range.holds(&version));
    }
    Some(match operator {
        "==" | "===" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_hold_as_pep_508_says() {
        let variables = [("python_version", "3.10"), ("sys_platform", "linux"), ("os_name", "posix")];
        let mut variables: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (marker, expected) in [
            ("python_version < '3.11'", true),
            ("python_version<\"3.9\"", false),
            ("'3.9' <= python_version", true),
            ("python_version >= '3.8' and python_version < '3.10'", false),
            ("(sys_platform == 'win32' or os_name == 'posix') and python_version == '3.10.*'", true),
            ("sys_platform == 'win32' or os_name == 'posix' and python_version > '3.10'", false),
            ("python_version in '3.9 3.10'", true),
            ("sys_platform not in 'darwin,win32'", true),
            ("sys_platform != 'linux'", false),
            ("extra == 'test'", false),
        ] {
            assert_eq!(holds(marker, &variables), Ok(expected), "{marker}");
        }
        variables.insert("extra".to_owned(), "test".to_owned());
        assert_eq!(holds("extra == 'test'", &variables), Ok(true));
        for marker in ["python_version <", "unknown == '1'", "(os_name == 'posix'", "os_name 'posix'", "'x", ""] {
            assert_eq!(holds(marker, &variables), Err(format!("the marker `{marker}` cannot be read")));
        }
    }
}
