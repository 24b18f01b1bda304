//! The blocks of NCCL's kernels. Each fills an SM: it has as many threads as half of one, with most of its registers.

use crate::machine::{Generation, Machine};
use crate::nccl::settings::Settings;
use crate::nccl::tuner::{Algorithm, Choice, Protocol};

/// The most channels of a communicator (`MAXCHANNELS`).
const MOST: u32 = 32;

/// Blocks of the kernel of a collective: one for each channel that NCCL opens for `bytes`. It runs twice as many as its search finds
/// (NVIDIA/nccl#1041); NVLS has 16 channels on compute capability 9.0, and from 10.0 on 24 in a node and 32 over several
/// (`transport/nvls.cc`); a channel needs so many bytes for each of its threads (`enqueue.cc`).
pub fn of_kernel(channels: u32, choice: &Choice, machine: &Machine, settings: &Settings, bytes: u64) -> u32 {
    let all = match choice.algorithm {
        Algorithm::Nvls | Algorithm::NvlsTree if machine.generation() == Generation::Hopper => 16,
        Algorithm::Nvls | Algorithm::NvlsTree => {
            if machine.nodes > 1 {
                32
            } else {
                24
            }
        }
        Algorithm::Ring | Algorithm::Tree => (2 * channels).min(MOST),
    };
    let ring = if choice.algorithm == Algorithm::Ring { u64::from(machine.ranks()) } else { 1 };
    let least = match choice.protocol {
        Protocol::Simple => 512 * 64,
        Protocol::Ll => 512 * 8 * ring,
        Protocol::Ll128 => 640 * 8,
    };
    let all = all.max(settings.min_channels.unwrap_or(1)).min(settings.max_channels.unwrap_or(MOST).max(1));
    u64::from(all).min(bytes.div_ceil(least)).max(1) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;

    /// A published log of `NCCL_DEBUG_SUBSYS=TUNING`: broadcasts by a ring of 2 channels, which runs 4.
    #[test]
    fn a_channel_needs_bytes() {
        let machine = preset("pcie-box").unwrap().taking(2, 1);
        let choice =
            |protocol| Choice { algorithm: Algorithm::Ring, protocol, channels: 2, latency_us: 0.0, gbytes: 0.0 };
        let simple = choice(Protocol::Simple);
        for (bytes, last) in [(32 << 10, 0), (64 << 10, 1), (128 << 10, 3), (1 << 20, 3)] {
            assert_eq!(of_kernel(2, &simple, &machine, &Settings::default(), bytes), last + 1, "{bytes}");
        }
        let limited = Settings::read([("NCCL_MAX_NCHANNELS", "2")]).unwrap();
        assert_eq!(of_kernel(2, &simple, &machine, &limited, 1 << 20), 2);
        assert_eq!(of_kernel(2, &choice(Protocol::Ll), &machine, &Settings::default(), 8), 1);
    }
}
