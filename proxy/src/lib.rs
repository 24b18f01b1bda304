//! `libfakegpu_nccl.so` (`FAKEGPU_DIST_MODE=proxy`): NCCL's functions before the real NCCL. The real one moves the bytes; here every
//! rank tells the others and the coordinator what it calls, so that a run on GPUs has the cluster report and the findings.
//!
//! - `exports` has the C functions, `real` the library that they call.
//! - `books` is a communicator's second life at the coordinator; it works on a thread of its own, behind the program.
//! - `group` collects the calls between `ncclGroupStart` and `ncclGroupEnd`.
//! - `part` is this process's part of the run.
#![expect(unsafe_code, reason = "C functions on both sides")]

mod books;
mod exports;
mod group;
mod guard;
mod operations;
mod part;
mod real;
mod trouble;
