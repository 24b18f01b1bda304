//! Chores of the repository, and the checks that need its sources.

pub mod architecture;
pub mod drill;
pub mod pictures;
pub mod regen;
pub mod times;
pub mod tutorial;
