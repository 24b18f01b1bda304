//! How bytes move between ranks. Contains nothing of CUDA: the shim's NCCL is a thin layer on top.
//!
//! - [`process::Process`] is this process among the others: it meets them and forms communicators.
//! - [`communicator::Communicator`] runs the operations of one rank in order. Each is a [`call::Call`] on [`call::Buffer`]s.
//! - Bytes move through shared memory if all ranks can map each other's [`arena`], or else over sockets.
//! - [`kernels`] has the reductions and large copies.
//! - [`Failure`] is why an operation ended: a code for the program and a sentence that names the rank.
//!
//! Two ranks as threads of one process add their numbers:
//!
//! ```
//! use dataplane::call::{Buffer, Call};
//! use dataplane::process::{Participant, Process};
//! use dataplane::settings::Settings;
//! use protocol::datatype::{Datatype, Operation, ReductionOp};
//! use protocol::ids::SiteId;
//!
//! let process = &Process::join(Settings::default()).unwrap();
//! let sums: Vec<i32> = std::thread::scope(|scope| {
//!     let ranks = [0u32, 1].map(|rank| {
//!         scope.spawn(move || {
//!             let (gpu, site) = (rank.into(), SiteId::default());
//!             let participant = Participant { global_rank: rank, device: rank, gpu, arena: None, site, is_only: false };
//!             let communicator = process.init_communicator(b"an id", 2, rank, participant).unwrap();
//!             let mut number = [10i32 + rank as i32];
//!             let buffer = Buffer::host(number.as_mut_ptr().cast());
//!             let mut call = Call::new(Operation::AllReduce, 1, Datatype::Int32);
//!             call.reduction = Some(ReductionOp::Sum);
//!             (call.send, call.receive) = (buffer, buffer);
//!             communicator.run(&[call]).unwrap();
//!             number[0]
//!         })
//!     });
//!     ranks.map(|rank| rank.join().unwrap()).into()
//! });
//! assert_eq!(sums, [21, 21]);
//! ```
#![expect(unsafe_code, reason = "shared memory")]

pub mod alone;
pub mod arena;
pub mod call;
pub mod communicator;
mod failure;
mod fault;
pub mod futex;
pub mod gpu;
pub mod host;
mod journal;
pub mod kernels;
pub mod lock;
mod losses;
mod operation;
pub mod process;
pub mod refusal;
pub mod report_file;
pub mod settings;
mod shared;
pub mod site;
mod sockets;
pub mod threads;
mod transport;
pub mod unique;
mod wake;

pub use failure::Failure;
