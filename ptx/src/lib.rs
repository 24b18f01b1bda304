//! PTX kernels on the CPU: a parser, a checker, code by Cranelift, and the machine that runs blocks of threads. Contains nothing
//! of CUDA's API: the caller provides memory, parameters and a host, and gets results, or the thread and line that failed.
//!
//! - [`Module`] is parsed text; [`Image`] links modules and holds their kernels and variables.
//! - [`Kernel`] is checked and compiled; an unknown instruction is a [`Refusal`] with its line, never a wrong number.
//! - [`Image::kernel_with`] makes a kernel that is checked while it runs: each [`Mistake`] that does not stop it is
//!   reported.
//! - [`Launch`] runs it on the caller's [`Memory`] and [`Host`]; a launch that stops is a [`Trap`].
//!
//! ```
//! use std::ops::Range;
//! use ptx::{Assertion, Host, Image, Launch, Memory, Module};
//!
//! struct Caller(Range<u64>);
//!
//! impl Memory for Caller {
//!     fn range(&self, address: u64) -> Option<Range<u64>> {
//!         self.0.contains(&address).then(|| self.0.clone())
//!     }
//! }
//!
//! impl Host for Caller {
//!     fn print(&self, _: &[u8]) {}
//!     fn assertion(&self, _: &Assertion) {}
//!     fn malloc(&self, _: u64) -> u64 { 0 }
//!     fn free(&self, _: u64) {}
//! }
//!
//! // out[thread] = 3 * thread
//! let text = ".version 8.0 .target sm_80 .address_size 64
//!     .visible .entry triple(.param .u64 out) {
//!         .reg .u32 %r<3>; .reg .u64 %d<3>;
//!         ld.param.u64 %d0, [out];
//!         mov.u32 %r0, %tid.x;
//!         mul.lo.u32 %r1, %r0, 3;
//!         mad.wide.u32 %d1, %r0, 4, %d0;
//!         st.global.u32 [%d1], %r1;
//!     }";
//! let image = Image::link(&[Module::parse(text).unwrap()]).unwrap();
//! let kernel = image.kernel("triple").unwrap();
//!
//! let mut out = [0u32; 4];
//! let address = out.as_mut_ptr() as u64;
//! let caller = Caller(address..address + 16);
//! let mut launch = Launch {
//!     grid: [1; 3], block: [4, 1, 1], cluster: [1; 3], dynamic_shared: 0,
//!     params: &address.to_le_bytes(), globals: &[], cooperative: false, workspace: 0, stack: 1024, threads: 1,
//!     multiprocessors: 1, grid_id: 1, memory: &caller, host: &caller, unwritten: None, footprint: None, cancel: None,
//! };
//! kernel.launch(&launch).unwrap();
//! assert_eq!(out, [0, 3, 6, 9]);
//!
//! // One thread too many writes outside, and the trap says so.
//! launch.block = [5, 1, 1];
//! let error = kernel.launch(&launch).unwrap_err().to_string();
//! assert!(error.contains("illegal address"), "{error}");
//! ```
#![expect(unsafe_code, reason = "compiled code and the memory that it shares with the machine")]

mod analysis;
mod decode;
mod host;
mod interpret;
mod ir;
mod kernel;
mod launch;
mod lower;
mod machine;
mod number;
mod pass;
mod runtime;
mod text;

pub use host::footprint::{Footprint, Sample};
pub use host::memory_ops::{LOCAL_WINDOW, SHARED_WINDOW};
pub use host::mistake::{Checks, Mistake, MistakeKind, Spot};
pub use host::tensor_map::TensorMap;
pub use host::texture::{Addressing, Component, Mipmap, Texels, Texture};
pub use host::unwritten::Unwritten;
pub use host::{Assertion, Caller, Child, Host, Memory, Multicast};
pub use kernel::store::keep_code_in;
pub use kernel::{Attributes, Kernel, KernelError, StagedProgram};
pub use launch::{Launch, LaunchError, Stats, Touched, Trap, TrapKind};
pub use pass::Stage;
pub use text::error::{ParseError, Place, Refusal, RefusalKind, Span};
pub use text::image::{
    Entry, FUNCTION_HANDLE, Global, GlobalSpace, Image, LinkError, Module, Param, Relocation, Target,
};
