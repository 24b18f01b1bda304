//! Why a suite cannot be run, and what is probably a mistake in it, each with the text that it points into.

use std::fmt;
use std::path::PathBuf;

use model::diagnostic::{self, Diagnostic};

/// Why a suite cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file has mistakes.
    #[error("{0}")]
    Mistakes(Mistakes),
}

/// The mistakes of a suite file and of the cluster files it names, each with the text that they point into.
#[derive(Debug)]
pub struct Mistakes {
    pub(super) files: Vec<(String, Vec<Diagnostic>)>,
}

impl Mistakes {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.files.iter().map(|(_, mistakes)| mistakes.len()).sum()
    }

    /// The mistake as a terminal shows it.
    pub fn styled(&self) -> String {
        self.files
            .iter()
            .map(|(text, mistakes)| diagnostic::render_styled(mistakes, text))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (text, mistakes)) in self.files.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&diagnostic::render(mistakes, text))?;
        }
        Ok(())
    }
}

/// Warnings of a suite file, with the text that they point into.
#[derive(Clone, Debug, Default)]
pub struct Warnings {
    pub(super) text: String,
    pub(super) list: Vec<Diagnostic>,
}

impl Warnings {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// The mistakes as a terminal shows them.
    pub fn styled(&self) -> String {
        diagnostic::render_warnings(&self.list, &self.text, true)
    }
}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&diagnostic::render_warnings(&self.list, &self.text, false))
    }
}
