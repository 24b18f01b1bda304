//! `libfakegpu.so`: CUDA, NCCL, NVML and the rest of NVIDIA's libraries, played on the host.
//!
//! How a call travels: `exports!` table -> `boundary::guard` (settings, fork, panics) -> body in `cuda_*`, `nccl`, `nvml`
//! -> state in `device`. Nothing runs at library load: no constructor, thread, socket or output before the first call.
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

pub use crate::boundary::table::{Export, Status};
pub use crate::exports::tables;
pub use crate::interposed::INTERPOSED;
pub use boundary::library::Library;
