//! Conditional nodes: their bodies, which are graphs, and which of them run.

use std::sync::Arc;

use super::Graph;
use crate::device::graph::user_object::Held;
use crate::device::kernel::condition::Condition;

/// How often the bodies of a conditional node run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The first once if the value is not 0, else the second.
    If,
    /// The first as long as it is not 0.
    While,
    /// The one of that number.
    Switch,
}

/// A conditional node.
#[derive(Debug)]
pub(crate) struct Conditional {
    pub(crate) condition: Arc<Condition>,
    pub(crate) choice: Choice,
    pub(crate) bodies: Vec<Arc<Graph>>,
    /// Their handles, as a C array.
    pub(crate) handles: Vec<usize>,
}

impl Conditional {
    /// A conditional node with `count` empty bodies.
    pub(crate) fn new(condition: Arc<Condition>, choice: Choice, count: usize) -> Arc<Self> {
        let body = |_| Graph::empty(true, Vec::new(), Held::default()).publish();
        let (bodies, handles) = (0..count).map(body).unzip();
        Arc::new(Self { condition, choice, bodies, handles })
    }

    /// A copy with its own bodies.
    pub(super) fn copy(&self) -> Arc<Self> {
        let (bodies, handles) = self.bodies.iter().map(|body| body.copy(true)).unzip();
        Arc::new(Self { condition: Arc::clone(&self.condition), choice: self.choice, bodies, handles })
    }
}
