//! The tests of the time model.

mod against;
mod choice;
mod work;
