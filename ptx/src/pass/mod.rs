//! What changes a program, each pass in a file, and their order.

mod last_thread_stores;
mod lockstep;
mod order;
mod sums;
mod yields;

pub use order::Stage;
pub(crate) use order::{analyze, transform};
