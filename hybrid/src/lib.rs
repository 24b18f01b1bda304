//! `libfakegpu_cuda.so` (`FAKEGPU_MODE=hybrid`): libcuda's functions before the real libcuda. The program sees simulated devices, with
//! their memory; the real GPU computes.
//!
//! - `real` has the library that is called, `forward` the calls that go there as they are (`forwarded` lists them), `translate` those
//!   that name a device; `entry_point` is `cuGetProcAddress`.
//! - `device` and `context` are the virtual devices and what belongs to each; `ordinals` is what they say of themselves.
//! - `memory`, `array` and `physical` are allocations: `book` has what each device holds, `policy` how it is made, `backing` what it
//!   consists of. `pointer`, `copy` and `fill` know the memory that the real library does not.
//! - `traffic` counts copies and fills, `report` writes everything down.
#![expect(unsafe_code, reason = "C functions on both sides")]

mod array;
mod backing;
mod book;
mod context;
mod copy;
mod device;
mod entry_point;
mod fill;
mod forward;
mod forwarded;
mod guard;
mod memory;
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
