//! `libfakegpu_nccl.so` (`FAKEGPU_DIST_MODE=proxy`): NCCL's functions in front of the real NCCL. The real one moves the bytes;
//! here every rank tells the others and the coordinator what it calls, so a run on GPUs also gets the cluster report and the
//! findings.
//!
//! - `exports` has the C functions, `real` the library that they call.
//! - `books` keeps track of a communicator at the coordinator, on a separate thread that runs behind the program.
//! - `group` collects the calls between `ncclGroupStart` and `ncclGroupEnd`.
//! - `part` is this process's part of the run.
#![expect(unsafe_code, reason = "C functions on both sides")]

mod books;
mod exports;
mod group;
mod guard;
mod handles;
mod operations;
mod part;
mod real;
mod trouble;
