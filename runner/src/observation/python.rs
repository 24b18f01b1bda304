//! The Python interpreter that a case ran with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::host::lossy_path;

/// Packages shown in one line.
const SHOWN: usize = 8;

/// The interpreter of a case, and what it has of what the case names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PythonUsed {
    /// Its file.
    #[serde(serialize_with = "lossy_path::serialize")]
    #[schemars(with = "PathBuf")]
    pub program: PathBuf,
    /// Its version, `3.11.7`; empty if it did not say.
    pub version: String,
    /// What selected it: a variable's name, `PATH`, or `managed` for an environment that ftest made.
    pub selected: String,
    /// The versions of the packages that the case names, and of PyTorch and NumPy if there; empty if a version is unknown.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// The case pins files by hash, and ftest did not install them: only their versions were compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_hashes: bool,
    /// Packages that ftest left out of it on purpose, although another requires them.
    #[serde(default, skip)]
    pub left_out: Vec<String>,
    /// Processes also ran on other machines, whose interpreter at the same place was not asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_here: bool,
}

impl PythonUsed {
    /// The packages in one line, PyTorch first: `torch 2.15.0, numpy 2.4.1`.
    pub fn packages(&self) -> String {
        let mut all: Vec<(&String, &String)> = self.packages.iter().collect();
        all.sort_by_key(|(name, _)| *name != "torch");
        let shown = all.iter().take(SHOWN).map(|(name, version)| match version.as_str() {
            "" => format!("{name} of unknown version"),
            version => format!("{name} {version}"),
        });
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if all.len() > SHOWN {
            text.push_str(&format!(" and {} more", all.len() - SHOWN));
        }
        text
    }
}

/// `Python 3.11.7, torch 2.15.0: /v/bin/python (VIRTUAL_ENV)`.
impl std::fmt::Display for PythonUsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let version = if self.version.is_empty() { "of unknown version" } else { &self.version };
        write!(f, "Python {version}")?;
        if !self.packages.is_empty() {
            write!(f, ", {}", self.packages())?;
        }
        write!(f, ": {} ({})", self.program.display(), self.selected)?;
        if self.without_hashes {
            f.write_str("; hashes were not compared")?;
        }
        if self.only_here { f.write_str("; that of other machines was not asked") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_which_interpreter_and_what_it_has() {
        let packages = [("numpy", "2.4.1"), ("torch", "2.15.0"), ("mine", "")];
        let mut used = PythonUsed {
            program: "/v/bin/python".into(),
            version: "3.11.7".into(),
            selected: "VIRTUAL_ENV".into(),
            packages: packages.map(|(name, version)| (name.to_owned(), version.to_owned())).into(),
            ..PythonUsed::default()
        };
        let expected = "Python 3.11.7, torch 2.15.0, mine of unknown version, numpy 2.4.1: /v/bin/python (VIRTUAL_ENV)";
        assert_eq!(used.to_string(), expected);
        (used.without_hashes, used.only_here) = (true, true);
        assert!(used.to_string().ends_with("; hashes were not compared; that of other machines was not asked"));
        used.packages = (0..11).map(|index| (format!("p{index:02}"), "1".to_owned())).collect();
        assert!(used.packages().ends_with("p07 1 and 3 more"), "{}", used.packages());
    }
}
