//! What is skipped when nothing computes (`FAKEGPU_COMPUTE=skip`), so that device memory is not touched.

/// Copies, fills and collectives of at most this many bytes are carried out: programs base decisions on small ones
/// (shapes, sizes, flags), and large ones would cost the host as much memory as the GPU has.
pub const MOVED: usize = 1 << 20;

/// In the directory of `FTEST_SENT`: a file with this name says that a rank that ran before was stopped before its end.
pub const STOPPED: &str = "stopped";

/// In the same place: written by a rank that lacks what the stopped one may have come to send.
pub const LACKING: &str = "lacking";
