//! Device code as the compiler stores it in a program: containers with cubins and PTX ([`container`]), the PTX that a device runs
//! ([`select`]), and what a library has for which device ([`library`]). Bytes in, facts out; what a program passes by pointers is
//! the shim's.

#![warn(missing_docs)]

pub mod container;
pub mod library;
pub mod select;
