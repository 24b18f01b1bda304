//! The keys of relations between runs, of delays on purpose, which can be one, and of what is compared.

use super::launch::LAUNCH;
use super::{MAX_RANKS, Rule, Section, Shape, optional, or, required};

const ARGUMENTS: Shape = Shape::List(1, &Shape::Word);

/// The tensors that `compared` may name.
pub(crate) const TENSORS: &[&str] = &["gradients", "optimizer", "parameters"];
/// What `compared` may name of optimizer steps.
pub(crate) const STEPS: &[&str] = &["count", "samples"];
/// What a relation may say of the batch of all ranks.
pub(crate) const BATCHES: &[&str] = &["same"];
/// The relations that are one word.
pub(crate) const WORDS: &[&str] = &[
    "twice",
    "hash-seed",
    "clock",
    "time-zone",
    "locale",
    "schedule",
    "rank-order",
    "start-order",
    "fresh-memory",
    "workers",
    "bucket-size",
];

pub(crate) static RELATION: Section = Section {
    name: "relation",
    what: "a relation",
    about: "A change that must not change the result; several keys are one change.",
    keys: &[&[
        optional(
            "ranks",
            Shape::Integer(1, MAX_RANKS),
            "another number of ranks, on as few nodes of the launch as hold them",
        ),
        optional(
            "nodes",
            Shape::Integer(1, MAX_RANKS),
            "[another number of nodes](#another-layout), which share ranks and GPUs of the cluster",
        ),
        optional(
            "batch",
            Shape::Choice(BATCHES),
            "each optimizer step is made on [as many samples](#steps) of all ranks together: the program divides its batch by the ranks; \
             beside `ranks`, `nodes`, `launch` or `reshard`",
        ),
        optional("launch", Shape::Section(&LAUNCH), "[another launch](#another-layout) instead of its own"),
        optional("gpu", Shape::Word, "another [profile](profiles.md), of every GPU"),
        optional("args", ARGUMENTS, "further arguments of the program, after its own"),
        optional(
            "env",
            Shape::Names(&Shape::Either(&[Shape::Word, Shape::Null])),
            "variable → another value, for every process; `~` removes it",
        ),
        optional("schedule", Shape::Section(&SCHEDULE), "[delays on purpose](#schedule)"),
        optional(
            "restart",
            Shape::Section(&RESTART),
            "it is [killed and started again](#restart) in the same `FTEST_SCRATCH`",
        ),
    ]],
    rules: &[Rule::AnyOf(&["ranks", "nodes", "launch", "gpu", "args", "env", "schedule", "restart"])],
};

pub(crate) static RESTART: Section = Section {
    name: "restart",
    what: "`restart`",
    about: "When all processes of the case are killed, to be started again.",
    keys: &[&[
        required("after", Shape::Regex, "as soon as a line of stdout matches this"),
        or("rank", Shape::Integer(0, u32::MAX), "0", "whose stdout"),
        optional("reshard", Shape::Integer(1, MAX_RANKS), "it is started again with this number of ranks"),
    ]],
    rules: &[],
};

pub(crate) static COMPARED: Section = Section {
    name: "compared",
    what: "`compared`",
    about: "What must not change: numbers that the program prints, tensors of its training, or both.",
    keys: &[&[
        optional(
            "numbers",
            Shape::Regex,
            "finds numbers in stdout: each named group is a number, and a group `step` names the place; `^` and `$` are ends of lines",
        ),
        or("rank", Shape::Integer(0, u32::MAX), "every rank, or the one process", "the rank that prints them"),
        optional(
            "files",
            Shape::Text,
            "a glob of files that have them, by name or by path from `FTEST_SCRATCH`: JSON, JSON lines, CSV, TensorBoard's event files",
        ),
        optional("fields", Shape::List(1, &Shape::Text), "their names in these files: keys, columns or tags"),
        or("step", Shape::Text, "`step`", "the key or column that has the step"),
        or(
            "tolerance",
            Shape::NotNegative,
            "for another number of ranks `1e-5`, and [by datatype](#tensors) for tensors, else `0`",
            "how far two may be apart, relative to the larger; `0`: equal as printed, and tensors bit by bit",
        ),
        optional(
            "tensors",
            Shape::List(1, &Shape::Choice(TENSORS)),
            "[tensors by name](#tensors) after each optimizer step, gathered from replicas and shards; with a cluster",
        ),
        optional(
            "steps",
            Shape::List(1, &Shape::Choice(STEPS)),
            "[optimizer steps](#steps): how many there are, on which samples each is made; with a cluster",
        ),
    ]],
    rules: &[
        Rule::AnyOf(&["numbers", "files", "tensors", "steps"]),
        Rule::With("files", "fields"),
        Rule::With("fields", "files"),
        Rule::With("step", "files"),
    ],
};

pub(crate) static SCHEDULE: Section = Section {
    name: "schedule",
    what: "`schedule`",
    about: "Delays on purpose, the same for the same seed.",
    keys: &[&[
        required("seed", Shape::Integer(0, u32::MAX), "a different seed draws different delays"),
        or("jitter", Shape::Duration, "5ms", "the longest delay, up to 60 s"),
    ]],
    rules: &[],
};
