//! The compute bridge: PyTorch's CUDA operators compute on the CPU over the same memory.
//!
//! Device memory is host memory, so a CUDA tensor can be read as a CPU tensor at no cost. For every operator that has a CUDA
//! kernel, `install` registers [`kernel::compute`] in its place: it gives the CPU's kernel of the same operator views of the
//! arguments (`view`), lets it allocate from PyTorch's CUDA caching allocator (`allocator`), and returns its results as CUDA
//! tensors. Everything above the kernels (autograd, autocast, checks, caching, streams) is PyTorch's own. An operator
//! without a CPU kernel of the same name is composed from others (`mapping`), or is a gap.

mod after_torch;
mod allocator;
mod asserts;
mod assumed;
mod bytes;
mod current;
mod cxx;
mod exception;
mod forward;
mod generator;
mod graphed;
mod host;
mod install;
mod kernel;
mod layout;
mod libtorch;
mod mapping;
mod mersenne;
mod method;
mod object;
mod operator;
mod products;
pub(crate) mod profile;
mod relation;
mod returned;
mod skim;
mod step_marks;
mod steps;
mod sums;
mod symbols;
mod timeline;
mod training;
mod value;
mod view;
mod views;
mod waits;
mod watch;

pub(crate) use install::{before_call, library_loaded};
