//! What stays undone where nothing computes (`FAKEGPU_COMPUTE=skip`), so that device memory is not touched.

/// Copies, fills and collectives of at most so many bytes are done: programs decide by small ones (shapes, sizes,
/// flags), and large ones would cost the host the memory of the GPU. Bytes.
pub const MOVED: usize = 1 << 20;
