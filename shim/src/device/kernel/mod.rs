//! Kernels: the images and programs that have them, the program's variables, how a kernel is launched, and what it can do while it
//! runs.

mod children;
pub(crate) mod condition;
mod grid;
pub(crate) mod image;
pub(crate) mod launch;
pub(crate) mod occupancy;
pub(crate) mod program;
mod published;
mod registry;
pub(crate) mod symbol;

pub(crate) use registry::{Kernel, NoCode, Runnable, bind, forget, load, lookup, program_of, register, unload};
