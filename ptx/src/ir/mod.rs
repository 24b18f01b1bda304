//! A checked kernel as a graph of operations: its types, its text, and what holds of it between passes.

pub(crate) mod layout;
mod names;
pub(crate) mod print;
mod program;
pub(crate) mod read;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod verify;

pub(crate) use program::*;
