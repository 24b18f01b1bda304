//! Lanes: whatever has an order of its own. A stream is one; while a CUDA graph is launched, each of its branches is, which only the
//! graph's edges order. The node that a thread launches says so, and where it was captured.

use std::cell::Cell;

use protocol::ids::SiteId;

/// How a lane is ordered against others of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The legacy default stream: after all blocking streams, and they after it.
    Legacy,
    Blocking,
    NonBlocking,
    /// A branch of the graphs that are launched in a stream, from 1.
    Branch(u32),
}

/// A stream or a branch, as far as order is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) device: u32,
    pub(crate) order: Order,
}

/// Streams have smaller numbers: above is the branch.
const BRANCH_SHIFT: u32 = 40;

impl Lane {
    /// The branch `number`, from 1, of what is launched in this stream.
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
    /// What it is part of.
    pub(super) lane: Lane,
    /// What it is called, where the call that launches the graph says nothing of it.
    pub(super) name: Option<&'static str>,
    /// The line that was captured.
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

/// What work is part of that is given to `stream` now.
pub(crate) fn of(stream: Lane) -> Lane {
    NODE.get().filter(|node| node.stream == stream).map_or(stream, |node| node.lane)
}

/// The line of the node that is launched now, if there is one and it is known.
pub(super) fn site() -> Option<SiteId> {
    NODE.get().map(|node| node.site).filter(|site| *site != SiteId::default())
}

/// What the node that is launched now is called.
pub(super) fn name() -> Option<&'static str> {
    NODE.get()?.name
}
