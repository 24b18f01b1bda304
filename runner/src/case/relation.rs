//! `holds_under`: changes to a case that must not change its result, and what is compared.

use std::collections::BTreeMap;

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

/// One change that must not change the result.
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
    /// Where the suite defines it.
    pub place: SourceLocation,
}

impl Relation {
    /// As failures name it.
    pub fn named(&self) -> Named<'_> {
        Named { name: &self.name, changes_sums: self.ranks.is_some(), place: &self.place }
    }
}
