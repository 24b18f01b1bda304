//! PTX kernels on the CPU: a parser, a checker, code by Cranelift, and the machine that runs blocks of threads. Nothing of CUDA's API:
//! the caller brings memory, parameters and a host, and gets results or the thread and the line that went wrong.
#![expect(unsafe_code, reason = "compiled code and the memory that it shares with the machine")]

mod ast;
mod decode;
mod error;
mod flow;
mod helper;
mod host;
mod image;
mod ir;
mod kernel;
mod launch;
mod lexer;
mod lower;
mod machine;
mod matrix;
mod memory_ops;
mod parser;
mod slot;
mod soft;
mod state;
mod sync;
mod tensor_map;
mod types;

pub use error::{ParseError, Place, Refusal, RefusalKind, Span};
pub use host::{Assertion, Host, Memory};
pub use image::{Entry, FUNCTION_HANDLE, Global, GlobalSpace, Image, LinkError, Module, Param, Relocation, Target};
pub use kernel::{Attributes, Kernel, KernelError};
pub use launch::{Launch, LaunchError, Stats, Trap, TrapKind};
pub use memory_ops::{LOCAL_WINDOW, SHARED_WINDOW};
pub use tensor_map::TensorMap;
