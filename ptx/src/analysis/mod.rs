//! What is known of a program without running it.

pub(crate) mod access;
pub(crate) mod flow;
pub(crate) mod graph;
pub(crate) mod homes;
pub(crate) mod liveness;
pub(crate) mod parting;
pub(crate) mod recursion;
pub(crate) mod set;
pub(crate) mod shape;
pub(crate) mod synchronization;
pub(crate) mod verify;

pub(crate) use flow::{Flow, analyze};
