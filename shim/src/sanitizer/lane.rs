//! Lanes: everything that has its own order. A stream is a lane. While a CUDA graph is launched, each of its branches is a lane,
//! ordered only by the graph's edges. The node that a thread is launching sets the lane, and where it was captured.

use std::cell::Cell;

use protocol::ids::SiteId;

/// How a lane is ordered against others of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The legacy default stream: after all blocking streams, and they after it.
    Legacy,
    Blocking,
    NonBlocking,
    /// A branch of the graphs launched in a stream, from 1.
    Branch(u32),
}

/// A stream or a branch, as a unit of ordering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) device: u32,
    pub(crate) order: Order,
}

/// Stream ids are smaller than this bit; the bits above are the branch.
const BRANCH_SHIFT: u32 = 40;

impl Lane {
    /// The branch `number`, from 1, of graphs launched in this stream.
    pub(super) fn branch(self, number: u32) -> Self {
        Self { id: self.id | u64::from(number) << BRANCH_SHIFT, order: Order::Branch(number), ..self }
    }

    /// The stream of the branch with this id.
    pub(super) fn stream_of(branch: u64) -> u64 {
        branch & ((1 << BRANCH_SHIFT) - 1)
    }
}

/// A node of a graph.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Where it is launched.
    pub(super) stream: Lane,
    /// The lane it is part of.
    pub(super) lane: Lane,
    /// Its name, if the call that launches the graph does not tell.
    pub(super) name: Option<&'static str>,
    /// The captured line.
    pub(super) site: SiteId,
}

thread_local! {
    static NODE: Cell<Option<Node>> = const { Cell::new(None) };
}

/// Runs `body`, which launches a node.
pub(super) fn launching<T>(node: Node, body: impl FnOnce() -> T) -> T {
    let outer = NODE.replace(Some(node));
    let value = body();
    NODE.set(outer);
    value
}

/// The lane of work that is submitted to `stream` now.
pub(crate) fn current(stream: Lane) -> Lane {
    NODE.get().filter(|node| node.stream == stream).map_or(stream, |node| node.lane)
}

/// The line of the node being launched, if there is one and it is known.
pub(super) fn site() -> Option<SiteId> {
    NODE.get().map(|node| node.site).filter(|site| *site != SiteId::default())
}

/// The name of the node being launched.
pub(super) fn name() -> Option<&'static str> {
    NODE.get()?.name
}
