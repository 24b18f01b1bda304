//! cuSPARSE's handles, and its codes for bad ones.

use std::sync::atomic::{AtomicI32, Ordering};

use crate::libraries::objects::{Answer, Objects, Refusals, Stream, kind};

/// CUSPARSE_STATUS_NOT_INITIALIZED and CUSPARSE_STATUS_INVALID_VALUE.
pub(super) const REFUSALS: Refusals = Refusals { handle: 1, value: 3 };
/// A descriptor that is not alive is an invalid value.
pub(super) const DESCRIPTOR: Refusals = Refusals { handle: 3, value: 3 };
pub(super) static HANDLES: Objects<Handle> = Objects::new(kind::CUSPARSE, REFUSALS);

#[derive(Debug, Default)]
pub(super) struct Handle {
    pub(super) stream: Stream,
    pub(super) pointer_mode: AtomicI32,
}

/// The stream that a handle works in, and whether alpha and beta are in device memory.
pub(super) fn working(handle: usize) -> Answer<(usize, bool)> {
    let handle = HANDLES.get(handle)?;
    Ok((handle.stream.get(), handle.pointer_mode.load(Ordering::Relaxed) == 1))
}
