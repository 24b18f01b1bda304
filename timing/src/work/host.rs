//! What calls cost on the host, us: the table behind `clock: modeled`, so that a run does not depend on this machine. The figures
//! are for a server's core at about 3 GHz. Where no source is named, they are assumed.

/// Launch of a kernel by the program itself. NVIDIA's blog "Getting Started with CUDA Graphs" (2019) has 3.8 us for each of many
/// kernels of 2.9 us that are launched one after the other, so the host needs less than that.
pub const LAUNCH_US: f64 = 2.2;

/// An operator of PyTorch in eager mode without its launch: Python, dispatcher, autograd, allocation of the result. Assumed; that
/// small models in eager mode take four times as long as their graphs (8.1 against 1.9 ms, "Machine Learning Engineering" of
/// S. Bekman, training/performance) fits.
pub const OPERATOR_US: f64 = 4.5;

/// The same in the thread of the backward pass, which runs no Python.
pub const BACKWARD_OPERATOR_US: f64 = 3.5;

/// From the host's call to the device's beginning of work on an idle stream.
pub const SUBMISSION_US: f64 = 3.0;

/// Submission of a copy or fill.
pub const COPY_US: f64 = 2.5;

/// Record of an event, or wait of a stream for one.
pub const EVENT_US: f64 = 0.6;

/// Query of an event or a stream.
pub const QUERY_US: f64 = 0.5;

/// Return from a synchronizing call after the device is done.
pub const SYNCHRONIZE_US: f64 = 3.0;

/// Enqueue of the NCCL operations of one group.
pub const COLLECTIVE_US: f64 = 7.0;

/// Launch of a graph; its nodes add about 1 ns each. Source: NVIDIA's blog "Constant Time Launch for Straight-Line CUDA Graphs"
/// (2024), from CUDA 12.6 on.
pub const GRAPH_US: f64 = 2.5;
