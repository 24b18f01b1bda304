//! Model v2: how long an operation of NCCL takes on a machine that is described, not measured.
//!
//! Two questions are kept apart. **Which algorithm and protocol** NCCL picks is answered by a re-implementation of its
//! tuner ([`nccl`]), with the constants of the version in question. **How long that takes** is answered by the links
//! ([`physics`]): bytes over the narrowest link, steps times their latency, the fill of the pipeline. NCCL's own estimate
//! is no time: its tables exist to steer the choice.
//!
//! ```
//! use protocol::datatype::Operation;
//! use timing::{Launch, Settings, machine, physics::Physics};
//!
//! let machine = machine::preset("dgx-h100").unwrap().taking(2, 8);
//! let answer = timing::estimate(&machine, &Settings::default(), &Physics::default(), Operation::AllReduce, 1 << 30, Launch::ProcessPerGpu);
//! assert_eq!(answer.unwrap().choice.algorithm.name(), "NVLSTree");
//! ```

#![warn(missing_docs)]

pub mod against;
pub mod group;
pub mod machine;
pub mod nccl;
pub mod physics;
pub mod replay;
pub mod steps;
pub mod streams;
pub mod work;

pub use nccl::settings::Settings;
pub use physics::{Estimate, Launch, Limit, estimate};
