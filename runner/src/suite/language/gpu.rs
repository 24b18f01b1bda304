//! The keys of `gpu`: what happens to the health of GPUs.

use super::{Key, Rule, Section, Shape, optional, or};

/// An operation of a rank, here and in `faults`.
pub(super) static AT_COLLECTIVE: &[Key] = &[
    optional(
        "collective",
        Shape::Choice(&[
            "all_reduce",
            "reduce",
            "broadcast",
            "all_gather",
            "reduce_scatter",
            "all_to_all",
            "gather",
            "scatter",
            "send",
            "recv",
        ]),
        "at an operation of this kind",
    ),
    or(
        "seq",
        Shape::Integer(1, u32::MAX),
        "the first of that kind",
        "its position among all collectives of the communicator, or among the rank's own sends or recvs in it, from 1",
    ),
    or("communicator", Shape::Integer(1, u32::MAX), "1", "the n-th communicator that the rank joined"),
];

pub(crate) static EVENT: Section = Section {
    name: "gpu_event",
    what: "an event of `gpu`",
    about: "A change of a GPU's health. One that never happens fails the case.",
    keys: &[&[
        or("at", Shape::Section(&AT), "the start", "when"),
        optional(
            "lost",
            Shape::Bool,
            "`true`: the GPU falls off the bus, which is Xid 79: CUDA fails on it for good, NVML answers \"GPU is lost\"",
        ),
        optional("xid", Shape::Integer(1, 999), "the driver logs this Xid; 79 is the same as `lost: true`"),
        optional("ecc", Shape::Section(&ECC), "memory errors are counted"),
        optional(
            "remapped_rows",
            Shape::Section(&REMAPPED_ROWS),
            "memory rows are remapped, in addition to one for each uncorrected error",
        ),
        optional(
            "retired_pages",
            Shape::Section(&RETIRED_PAGES),
            "memory pages are retired, in addition to one for each uncorrected error (before Ampere)",
        ),
        optional(
            "throttle",
            Shape::Choice(&["thermal", "sw_thermal", "power_cap", "power_brake", "none"]),
            "clocks are slowed down for this reason; `none` ends it",
        ),
        optional("pcie_gen", Shape::Integer(1, 7), "the PCIe link runs at this generation"),
        optional("pcie_width", Shape::Integer(1, 32), "the PCIe link has this many lanes: 1, 2, 4, 8, 16 or 32"),
    ]],
    rules: &[Rule::AnyOf(&[
        "lost",
        "xid",
        "ecc",
        "remapped_rows",
        "retired_pages",
        "throttle",
        "pcie_gen",
        "pcie_width",
    ])],
};

pub(crate) static AT: Section = Section {
    name: "gpu_at",
    what: "`at`",
    about: "When a GPU's health changes.",
    keys: &[
        &[optional(
            "after",
            Shape::Duration,
            "after this time, counted from the first CUDA, NCCL or NVML call in the case",
        )],
        AT_COLLECTIVE,
    ],
    rules: &[
        Rule::OneOf(&["after", "collective"]),
        Rule::With("seq", "collective"),
        Rule::With("communicator", "collective"),
    ],
};

pub(crate) static ECC: Section = Section {
    name: "ecc",
    what: "`ecc`",
    about: "Errors that error correction counts.",
    keys: &[&[
        or("corrected", COUNT, "0", "corrected since the driver was loaded"),
        or("uncorrected", COUNT, "0", "uncorrectable since then; processes that use the GPU at that time fail"),
        or("earlier_corrected", COUNT, "0", "corrected earlier in the GPU's life: only the aggregate counts them"),
        or("earlier_uncorrected", COUNT, "0", "uncorrectable earlier"),
    ]],
    rules: &[],
};

const COUNT: Shape = Shape::Integer(0, 1_000_000_000);
const FEW: Shape = Shape::Integer(0, 512);

pub(crate) static REMAPPED_ROWS: Section = Section {
    name: "remapped_rows",
    what: "`remapped_rows`",
    about: "Memory rows that were replaced by spare ones, from Ampere on.",
    keys: &[&[
        or("corrected", FEW, "0", "because of corrected errors"),
        or("uncorrected", FEW, "0", "because of uncorrectable errors"),
        or("pending", Shape::Bool, "`false`", "`true`: one waits for a reset of the GPU"),
        or("failed", Shape::Bool, "`false`", "`true`: one could not be remapped"),
    ]],
    rules: &[],
};

pub(crate) static RETIRED_PAGES: Section = Section {
    name: "retired_pages",
    what: "`retired_pages`",
    about: "Memory pages that are no longer used, before Ampere.",
    keys: &[&[
        or("corrected", FEW, "0", "because of several corrected errors"),
        or("uncorrected", FEW, "0", "because of an uncorrectable error"),
        or("pending", Shape::Bool, "`false`", "`true`: one waits for a reset of the GPU"),
    ]],
    rules: &[],
};
