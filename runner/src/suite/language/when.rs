//! The keys of a trigger: a line that a rank writes.

use super::{Section, Shape, or, required};

pub(crate) static WHEN: Section = Section {
    name: "when",
    what: "`when`",
    about: "What triggers a `kill`.",
    keys: &[&[
        required("output", Shape::Regex, "a line of stdout matches this"),
        or("rank", Shape::Integer(0, u32::MAX), "the target's; 0 for a node or the coordinator", "whose stdout"),
    ]],
    rules: &[],
};
