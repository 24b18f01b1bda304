//! What all cases of a run share: its clock and its limits, its directory, its descriptors, the request to stop, and the guard
//! that ends what it leaves.

pub mod cancel;
pub mod clock;
pub mod context;
pub(super) mod descriptors;
pub mod guard;
pub mod job;
pub mod limit;
pub mod scratch;
