//! The import structure of a crate, read from its sources: which file uses which, import circles, and the order of its stages.

mod circles;
mod files;
mod paths;
mod stages;

pub use circles::{Circle, circles};
pub use files::{Crate, Import, ReadError};
pub use stages::{Stages, Violation};
