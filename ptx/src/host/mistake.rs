//! Mistakes that do not stop a kernel: which ones are looked for, and what is known about each one found.

use std::fmt;

/// What is looked for while a kernel runs, besides what stops it. Each check costs time, so a kernel's code only has those asked
/// for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Checks {
    /// Accesses of two threads of a block to the same bytes of its shared memory that nothing orders.
    pub shared_races: bool,
    /// Reads of shared memory that no thread wrote, and of global memory that [`crate::Launch::unwritten`] says nobody wrote.
    pub init: bool,
    /// Barriers of a block that its threads reach at different instructions, and masks of warps that do not fit.
    pub sync: bool,
}

impl Checks {
    /// Whether any check is on.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Whether accesses to shared memory are looked at.
    pub(crate) fn shared(self) -> bool {
        self.shared_races || self.init
    }
}

/// An instruction, with what a person needs to find it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Line of the PTX.
    pub line: u32,
    /// The instruction.
    pub ptx: String,
    /// Source file and line, if the PTX has them.
    pub source: Option<(String, u32)>,
    /// Where the function of that line was called, if it was inlined.
    pub caller: Option<(String, u32)>,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}: `{}`", self.line, self.ptx)?;
        if let Some((file, line)) = &self.source {
            write!(f, ", {file}:{line}")?;
        }
        self.caller.as_ref().map_or(Ok(()), |(file, line)| write!(f, " called at {file}:{line}"))
    }
}

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MistakeKind {
    /// The thread accesses shared memory that the other accessed, and nothing orders the two.
    SharedRace {
        /// Whether the thread writes.
        writes: bool,
        /// Whether the other thread wrote.
        wrote: bool,
    },
    /// A read of shared memory that no thread of the block wrote.
    UnwrittenShared,
    /// A read of global memory that nobody wrote.
    UnwrittenGlobal,
    /// The thread waits for its whole block at one instruction, the other at another.
    DivergentBarrier,
    /// The thread is not in the mask of lanes that it names.
    NotInMask,
    /// The thread and the other name each other, in masks that differ.
    UnequalMasks,
}

/// A mistake. Of several that are alike in a launch, it is the one in the first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// What is wrong.
    pub kind: MistakeKind,
    /// The kernel.
    pub kernel: String,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index in the block.
    pub thread: [u32; 3],
    /// What the thread executes.
    pub spot: Spot,
    /// The other thread of the block, and what it executes.
    pub other: Option<([u32; 3], Spot)>,
    /// The address, in shared memory its offset.
    pub address: u64,
    /// Bytes of the access.
    pub bytes: u32,
}

/// A mistake as the machine notes it: with numbers of threads and sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) kind: MistakeKind,
    pub(crate) site: u32,
    pub(crate) thread: u32,
    /// The other thread, and the site of its instruction.
    pub(crate) other: Option<(u32, u32)>,
    pub(crate) address: u64,
    pub(crate) bytes: u32,
}

/// What makes two notes the same mistake.
pub(crate) type Key = (u8, u32, u32);

impl Note {
    pub(crate) fn key(&self) -> Key {
        let kind = match self.kind {
            MistakeKind::SharedRace { .. } => 0,
            MistakeKind::UnwrittenShared => 1,
            MistakeKind::UnwrittenGlobal => 2,
            MistakeKind::DivergentBarrier => 3,
            MistakeKind::NotInMask => 4,
            MistakeKind::UnequalMasks => 5,
        };
        let other = self.other.map_or(self.site, |(_, site)| site);
        (kind, self.site.min(other), self.site.max(other))
    }
}
