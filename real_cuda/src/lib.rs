//! `libfakegpu_cuda.so` (`FAKEGPU_MODE=hybrid`): libcuda's functions in front of the real libcuda. The program sees simulated
//! devices and their memory; the real GPU computes.
//!
//! - `real` is the library that is called. `forward` has the calls that go there unchanged (`forwarded` lists them), `translate`
//!   those that name a device; `entry_point` is `cuGetProcAddress`.
//! - `device` and `context` are the virtual devices and what belongs to each; `ordinals` is what they report about themselves.
//! - `memory`, `array` and `physical` are allocations: `book` records what each device holds, `policy` decides how memory is
//!   made, `backing` what it consists of. `pointer`, `copy` and `fill` handle the memory that the real library does not know.
//! - `traffic` counts copies and fills, `launch` kernels; `report` writes the report.
//! - `nvml` is libnvidia-ml, the simulated one; `child` asks what it needs to know of real devices.
#![expect(unsafe_code, reason = "C functions on both sides")]

mod array;
mod backing;
mod book;
mod child;
mod context;
mod copy;
mod device;
mod entry_point;
mod fill;
mod forward;
mod forwarded;
mod guard;
mod launch;
mod memory;
mod nvml;
mod nvml_names;
mod ordinals;
mod physical;
mod pointer;
mod policy;
mod real;
mod report;
mod settings;
mod traffic;
mod translate;
mod trouble;
