//! How long one piece of work takes on one GPU: a roofline over published figures. Collectives are in [`crate::physics`].
//!
//! ```
//! use timing::work::{self, Gpu, Number, Product};
//!
//! let h100 = Gpu::from_profile(protocol::profile::builtin("h100").unwrap());
//! let product = Product { batch: 1, m: 4096, n: 4096, k: 4096, number: Number::Half };
//! let us = work::product_us(&h100, &product);
//! assert!((150.0..250.0).contains(&us), "about 700 TFLOP/s: {us}");
//! ```

mod copy;
mod cost;
mod gpu;
pub mod host;
mod load;
mod product;
mod sharing;

pub use copy::{Path, copy_us};
pub use cost::{Cost, is_for_tensor_cores};
pub use gpu::{Gpu, Number};
pub use load::Load;
pub use product::{Product, product, product_us};
pub use sharing::{Demand, Piece, delay_ns};

/// What a kernel takes besides its bytes and operations, us: its first block starts, its last one ends. With [`GAP_US`] it is the
/// 2.3 us that a copy kernel takes beyond its bytes in the one-rank nccl-tests run on an A10G (`one-rank-allreduce-a10g` in
/// `benches/published/operators.json`; below 1 MiB that run is limited by its host).
pub const FLOOR_US: f64 = 1.5;

/// From the end of a kernel to the beginning of the next one that waits in the same stream, us. Source: as [`FLOOR_US`].
pub const GAP_US: f64 = 0.8;

/// The same inside a launched graph, us: less, as the device knows what follows; assumed.
pub const GRAPH_GAP_US: f64 = 0.6;

/// The time of a kernel that reads and writes `bytes` and computes little, us.
pub fn memory_us(gpu: &Gpu, bytes: u64) -> f64 {
    FLOOR_US + bytes as f64 / (gpu.memory_gbytes * gpu.memory_share()) / 1e3
}

/// The share of the memory's rate that `bytes` within `us` are.
pub fn memory_demand(gpu: &Gpu, bytes: f64, us: f64) -> f64 {
    if us > 0.0 { (bytes / (gpu.memory_gbytes * gpu.memory_share()) / 1e3 / us).min(1.0) } else { 0.0 }
}

/// The time of a kernel of `flops` that is no plain product: convolution, attention, a kernel of the program. It reaches less of
/// the peak than a product: `share` says how much.
pub fn flops_us(gpu: &Gpu, flops: f64, bytes: u64, number: Number, share: f64) -> f64 {
    let computing = flops / (gpu.peak_tflops(number) * share) / 1e6;
    FLOOR_US + computing.max(memory_us(gpu, bytes) - FLOOR_US)
}

/// The share of the tensor cores' peak that FlashAttention 2 reaches in its forward pass, by length of the sequence and width of
/// a head. Source: the fp16 charts of FlashAttention for H100 (head widths 64 and 256; `fa-h100-*` in
/// `benches/published/operators.json`), which saturate as length / (length + 330); on A100 the FA2 paper (arXiv 2307.08691) has
/// up to 227 of 312 TFLOP/s: its instructions are those of Ampere.
pub fn attention_share(gpu: &Gpu, sequence: u64, head: u64, is_backward: bool) -> f64 {
    let length = sequence as f64;
    let most = match (gpu.capability, head) {
        (90.., _) => 0.306,
        (_, ..=64) => 0.62,
        _ => 0.70,
    };
    // The paper's backward pass reaches 0.8 of what its forward pass does.
    most * length / (length + 330.0) * if is_backward { 0.8 } else { 1.0 }
}

/// The share of the peak that a convolution of cuDNN reaches. Assumed, from 2470 images/s of ResNet-50 with mixed precision on an A100
/// (NVIDIA's DeepLearningExamples) are 2470 x 24.6 GFLOP = 61 TFLOP/s over the whole step, which computes about half of its time.
pub const CONVOLUTION_SHARE: f64 = 0.40;

/// Microseconds in nanoseconds, rounded.
pub fn nanoseconds(us: f64) -> u64 {
    (us * 1e3).round() as u64
}
