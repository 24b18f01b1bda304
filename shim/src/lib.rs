//! `libfakegpu.so`: CUDA, NCCL, NVML and the rest of NVIDIA's libraries, simulated on the host.
//!
//! How a call travels: table (`exports`, `stubs`) -> `boundary::guard` (settings, fork, panics) -> body in `cuda_*`, `nccl`, `nvml`,
//! `stubs` -> state in `device`. ARCHITECTURE.md has the order of these stages.
//!
//! Nothing runs at library load: no constructor, thread, socket or output before the first call.
#![expect(unsafe_code, reason = "a C boundary")]

mod boundary;
mod compute;
mod cuda_driver;
mod cuda_runtime;
mod device;
mod exports;
mod interposed;
mod nccl;
mod nvml;
mod process;
mod report;
mod settings;
mod stubs;

pub use boundary::library::Library;
pub use boundary::table::{Export, Status};
pub use exports::tables;
pub use interposed::INTERPOSED;
