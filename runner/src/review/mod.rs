//! Pending snapshots: finding them, showing what changed, and the dialog.

pub mod dialog;
pub mod difference;
mod pending;
mod search;

pub use pending::{Pending, Refused};
pub use search::{below, beside, unreferenced};
