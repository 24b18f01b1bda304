//! The blocks that are scheduled together.

use crate::host::mistake::Note;
use crate::runtime::state::{Block, Shape};

/// Blocks that are scheduled together: a cluster, or one block.
pub(crate) struct Unit {
    pub(crate) blocks: Vec<Block>,
    /// Threads at the barrier of the cluster, and how often all have met there.
    pub(super) arrived: u32,
    pub(super) phase: u32,
}

impl Unit {
    /// What the checks found since the last time, with the block.
    pub(crate) fn notes(&mut self) -> impl Iterator<Item = ([u32; 3], Note)> {
        self.blocks.iter_mut().flat_map(|block| {
            let notes = block.watch.as_mut().map(|watch| watch.take()).unwrap_or_default();
            let ctaid = block.ctaid;
            notes.into_iter().map(move |note| (ctaid, note))
        })
    }

    pub(crate) fn new(shape: &Shape) -> Self {
        Self { blocks: (0..shape.cluster).map(|_| Block::new(shape)).collect(), arrived: 0, phase: 0 }
    }

    pub(crate) fn start(&mut self, coordinates: &[[u32; 3]], shape: &Shape) {
        (self.arrived, self.phase) = (0, 0);
        for (rank, (block, ctaid)) in self.blocks.iter_mut().zip(coordinates).enumerate() {
            block.start(*ctaid, rank as u32, shape.threads);
        }
    }
}
