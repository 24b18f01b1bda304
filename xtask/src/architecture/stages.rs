//! The order of a crate's stages, as listed in ARCHITECTURE.md.

use std::fmt;
use std::path::Path;

use super::files::{Crate, Import};

/// The stages of one crate, or of a directory in it, lowest first: each may use those before it, and itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The directory that the stages are in, from the root of the repository: a crate's `src`, or one below it.
    pub directory: String,
    names: Vec<String>,
}

/// A file or an import that the list of stages does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// An import from a lower stage to a higher one.
    Upward(Import),
    /// A file in no stage.
    Unlisted(String),
    /// A stage without a file.
    Empty(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Upward(import) => {
                write!(f, "{} uses {}, which is a later stage", import.from.display(), import.name)
            }
            Violation::Unlisted(file) => write!(f, "{file} is in no stage of ARCHITECTURE.md"),
            Violation::Empty(stage) => write!(f, "ARCHITECTURE.md lists the stage {stage}, which has no file"),
        }
    }
}

impl Stages {
    /// The lists of stages in `page`: fenced blocks that open with "```stages DIRECTORY", one stage per line, its name
    /// first.
    pub fn of_page(page: &str) -> Vec<Stages> {
        let mut lists = Vec::new();
        let mut open: Option<Stages> = None;
        for line in page.lines() {
            if let Some(directory) = line.strip_prefix("```stages ") {
                open = Some(Stages { directory: directory.trim().to_owned(), names: Vec::new() });
            } else if line.starts_with("```") {
                lists.extend(open.take());
            } else if let (Some(list), Some(name)) = (&mut open, line.split_whitespace().next()) {
                list.names.push(name.to_owned());
            }
        }
        lists
    }

    /// The violations of the order in `krate`, to which the directory belongs.
    pub fn check(&self, krate: &Crate) -> Vec<Violation> {
        let mut violations = Vec::new();
        for file in krate.files() {
            if self.inside(file).is_some_and(|inside| !is_root(inside)) && self.stage(file).is_none() {
                violations.push(Violation::Unlisted(file.display().to_string()));
            }
        }
        for name in &self.names {
            if !krate.files().any(|file| self.inside(file).is_some_and(|inside| top(inside) == *name)) {
                violations.push(Violation::Empty(name.clone()));
            }
        }
        for import in krate.imports() {
            let (from, to) = (self.stage(&import.from), self.stage(&import.to));
            if let (Some(from), Some(to)) = (from, to)
                && from < to
            {
                violations.push(Violation::Upward(import));
            }
        }
        violations
    }

    /// The names, lowest first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The crate's `src`, from the root of the repository.
    pub fn source(&self) -> &str {
        self.split().0
    }

    /// `src` of the crate, and the directory's path from it.
    fn split(&self) -> (&str, &str) {
        self.directory.find("/src/").map_or((&self.directory, ""), |at| {
            let (source, below) = self.directory.split_at(at + "/src".len());
            (source, &below[1..])
        })
    }

    /// The path, from the directory, of a file of the crate; none for one outside.
    fn inside<'a>(&self, file: &'a Path) -> Option<&'a Path> {
        file.strip_prefix(self.split().1).ok()
    }

    fn stage(&self, file: &Path) -> Option<usize> {
        let top = top(self.inside(file)?);
        self.names.iter().position(|name| *name == top)
    }
}

fn is_root(file: &Path) -> bool {
    matches!(file.to_str(), Some("lib.rs" | "main.rs" | "mod.rs"))
}

/// The first part of a file's path: a directory, or the name of a file without a directory.
fn top(file: &Path) -> String {
    let first = file.components().next().map(|first| Path::new(first.as_os_str()));
    first.and_then(Path::file_stem).unwrap_or_default().to_string_lossy().into_owned()
}
