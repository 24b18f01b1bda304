//! `libfakegpu.so`: CUDA, NCCL, NVML and the rest of NVIDIA's libraries, simulated on the host.
//!
//! A program never calls this crate from Rust: it is preloaded, and its C functions are found by name. The path of a call:
//!
//! 1. a table (`exports`, `libraries`) holds the name, its library and whether it computes;
//! 2. the guard (`abi`, `boundary::guard`) reads the settings once, refuses a forked child, and turns a panic into an error code;
//! 3. the body is in `cuda_driver`, `cuda_runtime`, `nccl`, `nvml` or `libraries`;
//! 4. the state is in `device`: memory, streams, events, contexts. PyTorch's operators compute in `compute`.
//!
//! ARCHITECTURE.md describes the order of these stages. Nothing runs at library load: no constructor, thread, socket or output
//! before the first call.
//!
//! Rust code only sees the tables, for the builder of the library files and for tests:
//!
//! ```
//! use fakegpu::{Library, Status, tables};
//!
//! let malloc = tables().into_iter().flatten().find(|export| export.name == "cudaMalloc").unwrap();
//! assert_eq!((malloc.library, malloc.status), (Library::CudaRuntime, Status::Real));
//! ```
#![expect(unsafe_code, reason = "a C boundary")]

mod boundary;
mod call_site;
mod compute;
mod cuda_driver;
mod cuda_runtime;
mod device;
mod exports;
mod interposed;
mod libraries;
mod nccl;
mod nvml;
mod process;
mod report;
mod sanitizer;
mod settings;

pub use abi::library::Library;
pub use abi::table::{Export, Status};
pub use exports::tables;
pub use interposed::INTERPOSED;
