//! What an event that was recorded in a capture is.

/// The nodes before it.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    /// The capture's id.
    pub(crate) capture: u64,
    /// Handles of nodes.
    pub(crate) after: Vec<usize>,
}
