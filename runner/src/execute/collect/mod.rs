//! What a case leaves behind: its reports and its journal, what they say of gaps and faults, and objects in shared memory.

pub(super) mod faults;
pub mod gaps;
pub mod journal;
mod lean_report;
pub(super) mod loader;
pub mod operations;
pub mod reports;
pub mod shared_memory;
pub mod time;
