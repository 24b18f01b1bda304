//! Versions of Python packages, compared as pip compares them.

use std::cmp::Ordering;

/// A version: its numbers, and whether it comes before or after the release that they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    numbers: Vec<u64>,
    /// -1 for `rc1`, `.dev5`; 1 for `.post1`; a local part (`+cpu`) does not count.
    stage: i8,
}

impl Version {
    /// Reads `2.15.0`, `v1.2rc1`, `2.9.0+cpu`; none for what has no number in front.
    pub fn parse(text: &str) -> Option<Version> {
        let text = text.trim().trim_start_matches('v');
        let text = text.split('+').next().unwrap_or_default();
        let mut numbers = Vec::new();
        let mut rest = text;
        loop {
            let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
            let Ok(number) = rest[..end].parse() else { break };
            numbers.push(number);
            rest = &rest[end..];
            match rest.strip_prefix('.') {
                Some(next) if next.starts_with(|letter: char| letter.is_ascii_digit()) => rest = next,
                _ => break,
            }
        }
        let stage = match rest.trim_start_matches(['.', '-', '_']) {
            "" => 0,
            suffix if suffix.starts_with("post") => 1,
            _ => -1,
        };
        (!numbers.is_empty()).then_some(Version { numbers, stage })
    }

    fn starts_with(&self, prefix: &[u64]) -> bool {
        prefix.iter().enumerate().all(|(index, number)| self.numbers.get(index).copied().unwrap_or(0) == *number)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        // Trailing zeros do not count: 2.6 is 2.6.0.
        let strip = |numbers: &[u64]| numbers.iter().rposition(|number| *number != 0).map_or(0, |last| last + 1);
        let (own, its) = (strip(&self.numbers), strip(&other.numbers));
        self.numbers[..own].cmp(&other.numbers[..its]).then(self.stage.cmp(&other.stage))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `>=2.6,<3`: every part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    parts: Vec<(Comparison, Version)>,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    AtLeast,
    AtMost,
    Equal,
    NotEqual,
    Above,
    Below,
    /// `~=2.6.1`: at least that, and the same but for the last number.
    Compatible,
    /// `==2.6.*`
    Prefix,
}

impl Range {
    /// Reads it.
    ///
    /// # Errors
    /// The part that is none.
    pub fn parse(text: &str) -> Result<Range, String> {
        let operators = [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("~=", Comparison::Compatible),
            (">", Comparison::Above),
            ("<", Comparison::Below),
        ];
        let part = |part: &str| {
            let found =
                operators.iter().find_map(|(sign, comparison)| Some((part.trim().strip_prefix(sign)?, *comparison)));
            let (version, comparison) = match found {
                Some((version, Comparison::Equal)) if version.ends_with(".*") => {
                    (version.trim_end_matches(".*"), Comparison::Prefix)
                }
                Some(found) => found,
                None => (part, Comparison::Equal),
            };
            Some((comparison, Version::parse(version).filter(|_| !version.contains('*'))?))
        };
        let parts =
            text.split(',').map(|one| part(one).ok_or_else(|| one.trim().to_owned())).collect::<Result<_, _>>()?;
        Ok(Range { parts, text: text.to_owned() })
    }

    /// Whether `version` is in it.
    pub fn holds(&self, version: &Version) -> bool {
        self.parts.iter().all(|(comparison, wanted)| match comparison {
            Comparison::AtLeast => version >= wanted,
            Comparison::AtMost => version <= wanted,
            Comparison::Equal => version.cmp(wanted) == Ordering::Equal,
            Comparison::NotEqual => version.cmp(wanted) != Ordering::Equal,
            Comparison::Above => version > wanted,
            Comparison::Below => version < wanted,
            Comparison::Compatible => {
                let kept = wanted.numbers.len().saturating_sub(1).max(1);
                version >= wanted && version.starts_with(&wanted.numbers[..kept])
            }
            Comparison::Prefix => version.starts_with(&wanted.numbers),
        })
    }
}

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_as_pip_says() {
        for (range, version, expected) in [
            (">=2.6", "2.15.0", true),
            (">=2.6", "2.6.0+cpu", true),
            (">=2.6", "2.6.0rc1", false),
            (">2.6", "2.6.post1", true),
            ("<3,>=2.6", "3.0.0.dev5", true),
            ("<3,>=2.6", "3.0", false),
            ("==2.6", "2.6.0", true),
            ("2.6", "2.6.1", false),
            ("==2.6.*", "2.6.9", true),
            ("==2.6.*", "2.60.1", false),
            ("!=2.6.1", "2.6.1", false),
            ("~=2.6.1", "2.6.9", true),
            ("~=2.6.1", "2.7.0", false),
            ("~=2.6", "2.9", true),
        ] {
            let range = Range::parse(range).unwrap();
            assert_eq!(range.holds(&Version::parse(version).unwrap()), expected, "{version} in {range}");
        }
        for text in ["", ">=", "new", ">=2.*", "1,,2"] {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }
}
