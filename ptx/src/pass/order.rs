//! The way of a kernel: what is done to it after it was read, in order, each stage with its name.

use super::{last_thread_stores, lockstep, sums, yields};
use crate::analysis::shape::Shapes;
use crate::analysis::verify::verify_flow;
use crate::analysis::{self, Flow};
use crate::ir::Program;
use crate::ir::verify::verify;

/// Something that [`Image::emit`](crate::Image::emit) can print of a kernel: its program after a transformation, the outcome of an analysis, or code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The kernel as it was read, one statement a line.
    Parsed,
    /// The statements checked, and resolved to operations.
    Decoded,
    /// Stores of a whole block to one address, after which no thread reads, are made by its last thread.
    LastThreadStores,
    /// Lanes of a warp wait for each other in loops around loops in which they may exchange data without synchronizing.
    Pace,
    /// Loops that may wait for another thread let others run now and then.
    Yields,
    /// Sums of products next to each other take turns.
    Sums,
    /// What four neighboring lanes have in common, by register.
    Shapes,
    /// Which registers have a home in memory, and what is stored and loaded at each synchronization.
    Liveness,
    /// The input of the code generator.
    Cranelift,
    /// The output of the code generator, for the processor of this machine.
    Machine,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 10] = [
        Self::Parsed,
        Self::Decoded,
        Self::LastThreadStores,
        Self::Pace,
        Self::Yields,
        Self::Sums,
        Self::Shapes,
        Self::Liveness,
        Self::Cranelift,
        Self::Machine,
    ];

    /// The name by which `--emit` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parsed => "parsed",
            Self::Decoded => "decoded",
            Self::LastThreadStores => "last-thread-stores",
            Self::Pace => "pace",
            Self::Yields => "yields",
            Self::Sums => "sums",
            Self::Shapes => "shapes",
            Self::Liveness => "liveness",
            Self::Cranelift => "cranelift",
            Self::Machine => "machine",
        }
    }

    /// Whether what is printed of it is a program, which [`StagedProgram`](crate::StagedProgram) reads.
    pub fn is_program(self) -> bool {
        (Self::Decoded..Self::Shapes).contains(&self)
    }

    /// The stage of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

type Transformation = fn(&mut Program);

/// The transformations, in order, each with the stage after it.
const TRANSFORMATIONS: [(Stage, Transformation); 4] = [
    (Stage::LastThreadStores, last_thread_stores::mark),
    (Stage::Pace, lockstep::insert),
    (Stage::Yields, yields::insert),
    (Stage::Sums, sums::interleave),
];

/// Applies the transformations that take a program from one stage to a later one.
pub(crate) fn transform(program: &mut Program, from: Stage, to: Stage) {
    hold(from, verify(program));
    for (stage, run) in TRANSFORMATIONS.iter().filter(|(stage, _)| *stage > from && *stage <= to) {
        run(program);
        hold(*stage, verify(program));
    }
}

/// Shapes and liveness. Without shapes, lanes run one by one.
pub(crate) fn analyze(program: &Program, owners: &[u32], with_shapes: bool) -> (Option<Shapes>, Flow) {
    let (shapes, flow) = analysis::analyze(program, owners, with_shapes);
    if cfg!(debug_assertions) {
        hold(Stage::Liveness, verify_flow(program, &flow));
    }
    (shapes, flow)
}

/// A pass that breaks what it works on is a defect here; release builds go without the search for it.
fn hold(stage: Stage, outcome: Result<(), String>) {
    if cfg!(debug_assertions)
        && let Err(message) = outcome
    {
        panic!("after the stage `{}`: {message}", stage.name());
    }
}
