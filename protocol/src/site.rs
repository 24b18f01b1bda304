//! Places in a program: where a rank called an operation.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::ids::{Rank, names};
use crate::report::FindingSite;

/// The most places of one process that get a number. Later ones have none.
pub const MOST: u32 = 4096;

/// The longest name of a file or a function that is sent, in bytes.
pub const LONGEST: usize = 1024;

/// A line of a program, or a function of a library that has no lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallSite {
    /// A source file as the program names it; the name of a program or library if only that is known.
    pub file: String,
    /// From 1; 0 if it is not known.
    pub line: u32,
    /// The function there.
    pub function: String,
    /// Tells calls on one line apart, and those of one function without lines; equal on all ranks of a program. 0 if it is not
    /// known. Not shown.
    #[serde(default)]
    pub place: u32,
}

impl CallSite {
    /// A place with names of at most [`LONGEST`] bytes: the end of a longer file name, the beginning of a longer function name.
    pub fn new(mut file: String, line: u32, mut function: String) -> Self {
        if file.len() > LONGEST {
            file = file.split_off(file.ceil_char_boundary(file.len() - LONGEST));
        }
        function.truncate(function.floor_char_boundary(LONGEST));
        Self { file, line, function, place: 0 }
    }

    /// The call at `place` there.
    pub fn with_place(self, place: u32) -> Self {
        Self { place, ..self }
    }

    /// The file, named relative to `root`, if it is below it: `/r/suites/../train.py` is `train.py` in `/r`.
    pub fn below(&self, root: &str) -> Option<String> {
        let mut straight = PathBuf::new();
        for part in Path::new(&self.file).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(straight.pop()),
                part => straight.push(part),
            }
        }
        straight.strip_prefix(root).ok().map(|path| path.display().to_string())
    }
}

impl fmt::Display for CallSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{} ({})", self.function, self.file),
            line => write!(f, "{}:{line} ({})", self.file, self.function),
        }
    }
}

impl FindingSite {
    fn place(&self) -> CallSite {
        CallSite { file: self.file.clone(), line: self.line, function: self.function.clone(), place: 0 }
    }

    /// The same place, with the file named relative to `root` if it is below it.
    pub fn below(self, root: Option<&str>) -> Self {
        let inside = root.and_then(|root| self.place().below(root));
        Self { file: inside.unwrap_or(self.file), ..self }
    }

    fn says_the_same_as(&self, other: &Self) -> bool {
        let rank = self.rank;
        *self == Self { rank, ..other.clone() }
    }
}

/// Where the ranks of a finding were, one sentence for all that were at the same place: "rank 0 called all_reduce at train.py:31
/// (step)".
pub fn describe(sites: &[FindingSite]) -> Vec<String> {
    let mut groups: Vec<(Vec<Rank>, &FindingSite)> = Vec::new();
    for site in sites {
        match groups.iter_mut().find(|(_, first)| first.says_the_same_as(site)) {
            Some((ranks, _)) => ranks.push(site.rank),
            None => groups.push((vec![site.rank], site)),
        }
    }
    let sentence = |(ranks, site): (Vec<Rank>, &FindingSite)| {
        let (place, operation) = (site.place(), &site.operation);
        let at = if site.line == 0 { "in" } else { "at" };
        let who = names("rank", "ranks", &ranks);
        match (site.completed, site.operation.as_str(), site.seqno.0) {
            (false, "init", _) => format!("{who} asked for the communicator {at} {place}"),
            (true, "init", _) => format!("{who} got as far as the communicator, asked for {at} {place}"),
            (false, ..) => format!("{who} called {operation} {at} {place}"),
            (true, _, 0) => format!("{who} got as far as {operation}, called {at} {place}"),
            (true, _, position) => format!("{who} got as far as {operation} {position}, called {at} {place}"),
        }
    };
    groups.into_iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Sequence;

    fn at_line(rank: u32, line: u32, completed: bool) -> FindingSite {
        FindingSite {
            rank: Rank(rank),
            operation: "all_reduce".to_owned(),
            seqno: Sequence(3),
            completed,
            file: "train.py".to_owned(),
            line,
            function: "step".to_owned(),
        }
    }

    #[test]
    fn ranks_at_one_place_are_one_sentence() {
        assert_eq!(
            describe(&[at_line(0, 31, false), at_line(1, 29, true), at_line(2, 31, false)]),
            [
                "ranks 0 and 2 called all_reduce at train.py:31 (step)",
                "rank 1 got as far as all_reduce 3, called at train.py:29 (step)",
            ]
        );
        let init = FindingSite { operation: "init".to_owned(), ..at_line(0, 7, true) };
        assert_eq!(describe(&[init]), ["rank 0 got as far as the communicator, asked for at train.py:7 (step)"]);
        let many: Vec<FindingSite> = (0..40).map(|rank| at_line(rank, 0, false)).collect();
        assert_eq!(
            describe(&many),
            ["ranks 0, 1, 2, 3, 4, 5, 6, 7 and 32 others called all_reduce in step (train.py)"]
        );
    }

    #[test]
    fn long_names_keep_what_identifies_them() {
        let site = CallSite::new(format!("{}/train.py", "é".repeat(LONGEST)), 7, "f".repeat(2 * LONGEST));
        assert!(site.file.len() <= LONGEST && site.file.ends_with("é/train.py"));
        assert_eq!(site.function.len(), LONGEST);
        assert_eq!(CallSite::new("train.py".into(), 31, "step".into()).to_string(), "train.py:31 (step)");
        assert_eq!(CallSite::new("libx.so".into(), 0, "step".into()).to_string(), "step (libx.so)");
    }
}
