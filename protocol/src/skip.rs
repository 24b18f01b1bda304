//! What is skipped when nothing computes (`FAKEGPU_COMPUTE=skip`), so that device memory is not touched.

/// Copies, fills and collectives of at most this many bytes are carried out: programs base decisions on small ones
/// (shapes, sizes, flags), and large ones would cost the host as much memory as the GPU has.
pub const MOVED: usize = 1 << 20;
