//! Operations on bytes in transit: reductions and large copies.

pub mod finite;
pub mod float8;
pub mod lost;
pub mod reduce;
mod rows;
pub(crate) mod streaming;
