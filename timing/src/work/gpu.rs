//! A GPU as the time of its kernels depends on it.

use protocol::profile::GpuProfile;

/// What a kernel computes with; products of fp32 numbers use [`Number::Tf32`] only if the program allowed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Number {
    /// 64-bit floating point.
    Double,
    /// 32-bit floating point, and integers.
    #[default]
    Single,
    /// 32-bit storage through the tensor cores with 10 bits of mantissa.
    Tf32,
    /// fp16 and bf16, summed in fp32.
    Half,
    /// Both kinds of fp8.
    Float8,
    /// 8-bit integers.
    Int8,
}

impl Number {
    /// Bytes of an element in memory.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Double => 8,
            Self::Single | Self::Tf32 => 4,
            Self::Half => 2,
            Self::Float8 | Self::Int8 => 1,
        }
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Compute capability times 10.
    pub capability: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// The clock that the data sheet's peaks are computed with, GHz.
    pub ghz: f64,
    /// Peak of the device memory, GB/s.
    pub memory_gbytes: f64,
    /// PCIe slot, GB/s in one direction, as the standard counts.
    pub pcie_gbytes: f64,
    /// Whether it is a GeForce, whose tensor cores sum in fp32 at half the rate.
    pub is_geforce: bool,
}

/// Floating-point operations of one SM in one cycle: [`Number::Double`], `Single`, `Tf32`, `Half`, `Float8`, `Int8`; dense.
/// Source: CUDA C Programming Guide, arithmetic instructions, and the architecture white papers' tensor core rates. A type that the
/// tensor cores do not have runs as the next wider one.
const RATES: &[(u32, [f64; 6])] = &[
    (120, [4.0, 256.0, 512.0, 1024.0, 2048.0, 2048.0]),
    (100, [64.0, 256.0, 4096.0, 8192.0, 16384.0, 16384.0]),
    (90, [256.0, 256.0, 2048.0, 4096.0, 8192.0, 8192.0]),
    (89, [4.0, 256.0, 512.0, 1024.0, 2048.0, 2048.0]),
    (86, [4.0, 256.0, 512.0, 1024.0, 1024.0, 2048.0]),
    (80, [128.0, 128.0, 1024.0, 2048.0, 2048.0, 4096.0]),
    (75, [4.0, 128.0, 128.0, 1024.0, 1024.0, 2048.0]),
    (70, [64.0, 128.0, 128.0, 1024.0, 1024.0, 1024.0]),
    (0, [4.0, 256.0, 256.0, 256.0, 256.0, 256.0]),
];

impl Gpu {
    /// The GPU of a profile.
    pub fn from_profile(profile: &GpuProfile) -> Self {
        let capability = capability(&profile.compute_capability);
        // NVIDIA computes the peaks of data sheets with the boost clock; `sm_mhz` is the highest one, which H100 and B200 do not
        // hold: 989 TFLOP/s are 132 x 4096 at 1.83 GHz, 2250 are 148 x 8192 at 1.86.
        let boost = match capability {
            90 => 0.924,
            100..=109 => 0.945,
            _ => 1.0,
        };
        let clocks = &profile.clocks;
        Self {
            capability,
            sms: profile.sm_count,
            ghz: f64::from(clocks.sm_mhz) * boost / 1e3,
            memory_gbytes: f64::from(profile.memory.bus_width_bits) / 8.0 * 2.0 * f64::from(clocks.memory_mhz) / 1e3,
            pcie_gbytes: pcie_gbytes(profile.pcie.generation, profile.pcie.lanes),
            is_geforce: profile.name.contains("GeForce"),
        }
    }

    /// Dense peak in one type, TFLOP/s.
    pub fn peak_tflops(&self, number: Number) -> f64 {
        f64::from(self.sms) * self.rate(number) * self.ghz / 1e3
    }

    /// Operations of one SM in one cycle.
    pub(super) fn rate(&self, number: Number) -> f64 {
        let (_, rates) = RATES.iter().find(|(from, _)| self.capability >= *from).expect("the last row begins at 0");
        let slot = match number {
            Number::Double => 0,
            Number::Single => 1,
            Number::Tf32 => 2,
            Number::Half => 3,
            Number::Float8 => 4,
            Number::Int8 => 5,
        };
        let is_halved = self.is_geforce && matches!(number, Number::Tf32 | Number::Half | Number::Float8);
        rates[slot] * if is_halved { 0.5 } else { 1.0 }
    }

    /// The share of the data sheet's memory rate that a streaming kernel reaches. Source: 81 % on an A10G
    /// (`one-rank-allreduce-a10g`); for stacked memory BabelStream's published 90 to 92 % on A100 and H100.
    pub(super) fn memory_share(&self) -> f64 {
        if self.memory_gbytes > 1200.0 { 0.91 } else { 0.81 }
    }

    /// The share of the peak that the largest products hold, because power limits the clock. Source: the best shapes of
    /// `mamf-bf16` (A100 0.87, H100 0.80, GH200 0.84, B200 0.78, B300 0.79).
    pub(super) fn sustained_share(&self) -> f64 {
        match self.capability {
            100.. => 0.78,
            90.. => 0.82,
            _ => 0.87,
        }
    }

    /// The share of the speed of a product by itself that tensor cores keep under a long load (see [`super::Load`]). Fitted to published
    /// steps of FSDP with A100 and H100 (`foundry-*` in `benches/published/steps.json`); for others assumed to be as for the GPU
    /// before them. Power is the likely cause: it limits the clock.
    pub(super) fn loaded_share(&self) -> f64 {
        match self.capability {
            90.. => 0.64,
            80.. => 0.75,
            _ => 1.0,
        }
    }

    /// Whether its times were compared with published ones.
    pub fn is_calibrated(&self) -> bool {
        matches!(self.capability, 80 | 90 | 100)
    }
}

fn capability(text: &str) -> u32 {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    major.parse::<u32>().unwrap_or(0) * 10 + minor.parse::<u32>().unwrap_or(0)
}

/// PCI Express base specification: GT/s by generation, with 128b/130b coding from generation 3.
fn pcie_gbytes(generation: u32, lanes: u32) -> f64 {
    let lane = match generation {
        0 | 1 => 0.25,
        2 => 0.5,
        3 => 0.985,
        4 => 1.969,
        5 => 3.938,
        _ => 7.563,
    };
    lane * f64::from(lanes)
}
