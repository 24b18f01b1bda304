//! What is done to bytes on their way: reductions and large copies.

pub mod float8;
pub mod reduce;
mod rows;
pub(crate) mod streaming;
