//! The coordinator as a process on real sockets: life and death, strangers, and peers that misbehave.

mod access;
mod deaths;
mod harness;
mod lifecycle;
mod misbehaviour;
mod ranks;
mod returns;
mod usage;
