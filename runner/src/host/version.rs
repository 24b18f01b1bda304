//! Versions of Python packages, compared as pip compares them (PEP 440).

use std::str::FromStr;

pub use pep440_rs::Version;
use pep440_rs::VersionSpecifier;

/// `>=2.6,<3`: every part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    parts: Vec<VersionSpecifier>,
    text: String,
}

/// A part of a range that is not a version specifier.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is not a version specifier")]
pub struct BadRange {
    /// As written.
    pub part: String,
}

impl Range {
    /// Reads it. A version alone means exactly that one.
    ///
    /// # Errors
    /// [`BadRange`].
    pub fn parse(text: &str) -> Result<Range, BadRange> {
        let part = |part: &str| {
            let part = part.trim();
            let exact = part.starts_with(|letter: char| letter.is_ascii_alphanumeric());
            let specifier = if exact { format!("=={part}") } else { part.to_owned() };
            VersionSpecifier::from_str(&specifier).map_err(|_| BadRange { part: part.to_owned() })
        };
        Ok(Range { parts: text.split(',').map(part).collect::<Result<_, _>>()?, text: text.to_owned() })
    }

    /// Whether `version` is in it.
    pub fn holds(&self, version: &Version) -> bool {
        self.parts.iter().all(|part| part.contains(version))
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
    fn ranges_hold_as_pep_440_says() {
        for (range, version, expected) in [
            (">=2.6", "2.15.0", true),
            (">=2.6", "2.6.0+cpu", true),
            ("<=2.6", "2.6.0+cpu", true),
            (">=2.6", "2.6.0rc1", false),
            // "MUST NOT allow a post-release of the given version unless V itself is a post release".
            (">2.6", "2.6.post1", false),
            (">2.6", "2.6.1.post1", true),
            // "MUST NOT allow a pre-release of the specified version unless the specified version is itself one".
            ("<3,>=2.6", "3.0.0.dev5", false),
            ("<3,>=2.6", "3.0", false),
            ("==2.6", "2.6.0", true),
            ("2.6", "2.6.0", true),
            ("2.6", "2.6.1", false),
            ("==2.6.*", "2.6.9", true),
            ("==2.6.*", "2.60.1", false),
            ("!=2.6.1", "2.6.1", false),
            ("~=2.6.1", "2.6.9", true),
            ("~=2.6.1", "2.7.0", false),
            ("~=2.6", "2.9", true),
        ] {
            let range = Range::parse(range).unwrap();
            assert_eq!(range.holds(&version.parse().unwrap()), expected, "{version} in {range}");
        }
        for text in ["", ">=", "new", ">=2.*", "1,,2", "~=2"] {
            assert!(Range::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn equality_and_order_agree() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert_eq!(version("2.6"), version("2.6.0"));
        let ascending = ["2.6.0.dev5", "2.6.0a1", "2.6.0rc1", "2.6.0", "2.6.0.post1", "2.6.1"].map(version);
        assert!(ascending.is_sorted_by(|earlier, later| earlier < later), "{ascending:?}");
    }
}
