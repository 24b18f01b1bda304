//! `holds_under`: changes to a case that must not change its result, and what is compared.

use std::collections::BTreeMap;

use protocol::schedule::Schedule;
use regex::bytes::Regex;

use crate::check::compared::{Compared, Named};
use crate::source::SourceLocation;

/// The relations of a case.
#[derive(Clone, Debug)]
pub struct Relations {
    /// The changes, each for a run of its own.
    pub relations: Vec<Relation>,
    /// What must not change.
    pub compared: Compared,
}

/// One change that must not change the result; without any, the case is only run again.
#[derive(Clone, Debug, Default)]
pub struct Relation {
    /// As the suite writes it: `ranks: 1`.
    pub name: String,
    /// Another number of ranks.
    pub ranks: Option<u32>,
    /// The profile of every GPU.
    pub gpu: Option<String>,
    /// Further arguments of the program.
    pub args: Vec<String>,
    /// Variables to set, and those to remove.
    pub env: BTreeMap<String, Option<String>>,
    /// Delays on purpose; another seed if the case has the same.
    pub schedule: Option<Schedule>,
    /// Every rank is on another GPU, and on another node if there is one.
    pub reverses_ranks: bool,
    /// The processes start in the reverse order, one a while after the other.
    pub reverses_starts: bool,
    /// When it is killed, to be started again in the same directory.
    pub restart: Option<Restart>,
    /// Where the suite defines it.
    pub place: SourceLocation,
}

/// When all processes of a variant are killed.
#[derive(Clone, Debug)]
pub struct Restart {
    /// Matched against each line of the rank's stdout.
    pub after: Regex,
    /// The rank that writes it.
    pub rank: u32,
}

impl Relation {
    /// As failures name it.
    pub fn named(&self) -> Named<'_> {
        Named { name: &self.name, changes_sums: self.ranks.is_some(), place: &self.place }
    }
}
