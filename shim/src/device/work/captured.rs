//! The state of an event that was recorded in a capture.

/// The nodes before it.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    /// The capture's id.
    pub(crate) capture: u64,
    /// Handles of nodes.
    pub(crate) after: Vec<usize>,
}
