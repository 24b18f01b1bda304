//! What calls cost on the host, us: the table behind `clock: modeled`, so that a run does not depend on this machine. The figures
//! are those of a server's core at about 3 GHz.

/// Launch of a kernel by the program itself. Source: NVIDIA's blog "Getting Started with CUDA Graphs" (2019): 2.2 us of CPU time
/// for a launch of a short kernel.
pub const LAUNCH_US: f64 = 2.2;

/// An operator of PyTorch in eager mode without its launch: Python, dispatcher, autograd, allocation of the result. Source: PyTorch's
/// "b200-small-model-modes" in `steps_dev`: 8.1 ms eager against 1.9 ms by graphs, and PyTorch's own figure of about 5 us per
/// operator (blog "Accelerating PyTorch with CUDA Graphs", 2021).
pub const OPERATOR_US: f64 = 4.5;

/// The same in the thread of the backward pass, which runs no Python.
pub const BACKWARD_OPERATOR_US: f64 = 3.5;

/// From the host's call to the device's beginning of work on an idle stream. Source: as [`LAUNCH_US`].
pub const SUBMISSION_US: f64 = 3.0;

/// Submission of a copy or fill.
pub const COPY_US: f64 = 2.5;

/// Record of an event, or wait of a stream for one.
pub const EVENT_US: f64 = 0.6;

/// Query of an event or a stream.
pub const QUERY_US: f64 = 0.5;

/// Return from a synchronizing call after the device is done. Source: CUDA samples' synchronization latency with spinning.
pub const SYNCHRONIZE_US: f64 = 3.0;

/// Enqueue of one NCCL operation, and of each further one of its group. Source: NCCL's own `NCCL_DEBUG` enqueue figures, about
/// 5 us for a launch.
pub const COLLECTIVE_US: f64 = 7.0;

/// Launch of a graph, and what each of its nodes adds. Source: NVIDIA's blog "Constant Time Launch for Straight-Line CUDA
/// Graphs" (2024): 2.5 us + about 1 ns per node from CUDA 12.6 on.
pub const GRAPH_US: f64 = 2.5;
