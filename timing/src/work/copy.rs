//! Copies by the copy engines: over PCIe, NVLink, or inside the device's memory.

use super::gpu::Gpu;

/// The way of a copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Path {
    /// Between the device and page-locked host memory.
    Pinned,
    /// Between the device and pageable host memory: through the driver's staging buffers.
    Pageable,
    /// Inside the device's memory.
    Device,
    /// To another GPU, with the GB/s of the NVLinks between them in one direction; 0 goes over PCIe.
    Peer(f64),
    /// From host to host.
    Host,
}

/// The share of a link's rate that a copy reaches. Source: `links-h200` in `benches/published/operators.json` (nvbandwidth: 55.4
/// of 63 GB/s over PCIe 5, 396 of 450 over NVLink).
const LINK_SHARE: f64 = 0.88;

/// Pageable memory is copied twice, by the processor into a staging buffer and by the copy engine. Source: NVIDIA's blog "How to
/// Optimize Data Transfers in CUDA C/C++": about half of the pinned rate, or what one core copies.
const PAGEABLE_SHARE: f64 = 0.5;

/// What one core of a server copies, GB/s; assumed.
const CORE_GBYTES: f64 = 12.0;

/// Start of a copy engine, us; assumed.
const ENGINE_US: f64 = 1.8;

/// The time of a copy, us.
pub fn copy_us(gpu: &Gpu, path: Path, bytes: u64) -> f64 {
    let pcie = gpu.pcie_gbytes * LINK_SHARE;
    let gbytes = match path {
        Path::Pinned => pcie,
        Path::Pageable => (pcie * PAGEABLE_SHARE).min(CORE_GBYTES),
        Path::Device => gpu.memory_gbytes * gpu.memory_share() / 2.0,
        Path::Peer(links) if links > 0.0 => links * LINK_SHARE,
        Path::Peer(_) => pcie,
        Path::Host => CORE_GBYTES,
    };
    ENGINE_US + bytes as f64 / gbytes / 1e3
}
