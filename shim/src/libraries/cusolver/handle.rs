//! cuSOLVER's handles, and its codes for bad ones.

use crate::libraries::objects::{Objects, Refusals, Stream, kind};

/// CUSOLVER_STATUS_NOT_INITIALIZED and CUSOLVER_STATUS_INVALID_VALUE.
pub(super) const REFUSALS: Refusals = Refusals { handle: 1, value: 3 };
/// Handles, with their streams.
pub(super) static HANDLES: Objects<Stream> = Objects::new(kind::CUSOLVER, REFUSALS);
