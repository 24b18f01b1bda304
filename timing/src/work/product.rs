//! Matrix products: the blocks of the best kernel in waves over the SMs.

use super::gpu::{Gpu, Number};

/// `batch` products of `m` x `k` and `k` x `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Number of them.
    pub batch: u64,
    /// Rows of the result.
    pub m: u64,
    /// Columns of the result.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
    /// What it computes with.
    pub number: Number,
}

impl Product {
    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        2.0 * self.batch as f64 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

/// Sizes of a block's tile of the result that cuBLAS has kernels for.
const TILES: [(u64, u64); 8] =
    [(256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64)];

/// Into how many parts a kernel may split `k`.
const SPLITS: [u64; 5] = [1, 2, 4, 8, 16];

/// Elements of `k` below which no kernel splits further.
const LEAST_K: u64 = 128;

/// What was fitted on `xla-gemm-h100-dev` (`benches/published/operators.json`: 198 shapes in bf16 and TF32, median error 3 % and
/// 10 %). Each has a meaning; none depends on the shape.
struct Fit {
    /// Start and end of a kernel, us.
    floor_us: f64,
    /// Prologue and epilogue of one wave of blocks, us.
    wave_us: f64,
    /// The share of the SM's peak that the inner loop reaches with an infinite tile.
    loop_share: f64,
    /// How much a small tile costs: the share is 1 / (1 + this x (1/rows + 1/columns)).
    tile: f64,
    /// The share of the memory's rate that operands stream at.
    memory_share: f64,
    /// The reduction of a split `k`, us.
    split_us: f64,
}

const HALF: Fit =
    Fit { floor_us: 4.75, wave_us: 1.44, loop_share: 1.0, tile: 13.4, memory_share: 0.92, split_us: 1.55 };
/// Without tensor cores: the figures of [`HALF`] but for the inner loop. Compared with nothing.
const PLAIN: Fit =
    Fit { floor_us: 4.75, wave_us: 1.44, loop_share: 0.95, tile: 13.4, memory_share: 0.92, split_us: 1.55 };
const TF32: Fit = Fit { floor_us: 4.5, wave_us: 2.44, loop_share: 0.88, tile: 25.3, memory_share: 0.49, split_us: 1.6 };

/// The time of a product by the fastest kernel, us.
pub fn product_us(gpu: &Gpu, product: &Product) -> f64 {
    self::product(gpu, product).0
}

/// The time of a product by the fastest kernel, us, and the share of that in which an SM of the GPU is busy, on average.
pub fn product(gpu: &Gpu, product: &Product) -> (f64, f64) {
    let Product { batch, m, n, k, number } = *product;
    if batch == 0 || m == 0 || n == 0 || k == 0 {
        return (0.0, 0.0);
    }
    let fit = match number {
        Number::Tf32 => &TF32,
        Number::Single | Number::Double => &PLAIN,
        Number::Half | Number::Float8 | Number::Int8 => &HALF,
    };
    let per_sm = gpu.rate(number) * gpu.ghz * 1e3 * fit.loop_share;
    let sustained = product.flops() / (gpu.peak_tflops(number) * gpu.sustained_share()) / 1e6;
    let operands = (batch * (m * k + n * k + m * n) * number.bytes()) as f64;
    let (mut best, mut busy) = (f64::INFINITY, 0.0);
    for (rows, columns) in TILES {
        let share = 1.0 / (1.0 + fit.tile * (1.0 / rows as f64 + 1.0 / columns as f64));
        for split in SPLITS.into_iter().filter(|split| *split == 1 || k / split >= LEAST_K) {
            let blocks = m.div_ceil(rows) * n.div_ceil(columns) * batch * split;
            let waves = blocks.div_ceil(u64::from(gpu.sms)) as f64;
            let block = 2.0 * (rows * columns) as f64 * (k as f64 / split as f64) / (per_sm * share) + fit.wave_us;
            // Partial sums are written and read in fp32.
            let partial = if split == 1 { 0.0 } else { (batch * m * n * 8 * split) as f64 };
            let streaming = (operands + partial) / (gpu.memory_gbytes * fit.memory_share) / 1e3;
            let reduction = if split == 1 { 0.0 } else { fit.split_us };
            let us = (waves * block).max(streaming) + reduction;
            if us < best {
                (best, busy) = (us, blocks as f64 / f64::from(gpu.sms) * block);
            }
        }
    }
    // At a lower clock, the SMs are as busy.
    let took = best.max(sustained);
    let us = fit.floor_us + took;
    (us, busy * (took / best) / us)
}
