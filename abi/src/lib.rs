//! The C boundary that the libraries in NVIDIA's place share: the shim, and those in front of the real NCCL and the real libcuda.
//!
//! - [`table`] declares C functions and lists them; [`guard`] is around each of them, so no panic reaches the caller.
//! - [`argument`] is what C passes, [`handle`] what it gets for an object.
//! - [`library`] names NVIDIA's libraries. Their codes stand here once: [`cuda`], [`nccl`], and in `library` what each returns for
//!   our own failures.
//! - [`gap`] is the error for what is not supported.
//!
//! Nothing here runs at load, keeps state of its own, or knows what the functions do.
#![warn(missing_docs)]
#![expect(unsafe_code, reason = "C pointers")]

pub mod argument;
pub mod cuda;
pub mod gap;
pub mod guard;
pub mod handle;
pub mod library;
pub mod nccl;
pub mod table;
