//! Import circles between files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::files::{Crate, Import};

/// Files that import each other in a circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The files, from the crate's `src`.
    pub files: BTreeSet<PathBuf>,
    /// The imports that tie them.
    pub imports: Vec<Import>,
    /// Whether there is one even without the imports between modules and those inside them.
    pub is_of_others: bool,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files import each other in a circle", self.files.len())?;
        for import in &self.imports {
            write!(f, "\n  {} uses {} ({})", import.from.display(), import.to.display(), import.name)?;
        }
        Ok(())
    }
}

/// The import circles of a crate. Imports between a module and the modules inside it may go both ways: a circle of nothing but
/// those does not count.
pub fn circles(krate: &Crate) -> Vec<Circle> {
    let imports: Vec<Import> = krate.imports().into_iter().collect();
    let (within, others): (Vec<Import>, Vec<Import>) =
        imports.iter().cloned().partition(|import| krate.related(&import.from, &import.to));
    let alone = knots(krate, &others);
    let mut circles = Vec::new();
    for files in knots(krate, &imports) {
        let ties = |import: &&Import| files.contains(&import.from) && files.contains(&import.to);
        if others.iter().any(|import| ties(&import)) {
            let is_of_others = alone.iter().any(|knot| knot.is_subset(&files));
            let imports = others.iter().chain(&within).filter(ties).cloned().collect();
            circles.push(Circle { imports, files, is_of_others });
        }
    }
    circles
}

/// Sets of files of which each reaches each other one through these imports.
fn knots(krate: &Crate, imports: &[Import]) -> Vec<BTreeSet<PathBuf>> {
    let mut edges: BTreeMap<&Path, BTreeSet<&Path>> = BTreeMap::new();
    for import in imports {
        edges.entry(&import.from).or_default().insert(&import.to);
    }
    let reach: BTreeMap<&Path, BTreeSet<&Path>> = krate.files().map(|file| (file, reachable(file, &edges))).collect();
    let mut seen = BTreeSet::new();
    let mut knots = Vec::new();
    for (file, reached) in &reach {
        if seen.contains(file) || !reached.contains(file) {
            continue;
        }
        let files: BTreeSet<PathBuf> =
            reached.iter().filter(|other| reach[*other].contains(file)).map(|path| path.to_path_buf()).collect();
        seen.extend(reached.iter().filter(|path| files.contains(**path)).copied());
        knots.push(files);
    }
    knots
}

/// Everything reachable from `start` through one or more imports.
fn reachable<'a>(start: &Path, edges: &BTreeMap<&'a Path, BTreeSet<&'a Path>>) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Path> = edges.get(start).into_iter().flatten().copied().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(edges.get(file).into_iter().flatten().copied());
        }
    }
    reached
}
