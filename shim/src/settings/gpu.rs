//! One GPU of the machine: its model and position, and the identity derived from them.

use protocol::ids::Rank;
use protocol::profile::GpuProfile;
use xxhash_rust::xxh64::xxh64;

/// One GPU of the machine that this process runs on, before `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    /// The model it claims to be.
    pub(crate) profile: GpuProfile,
    /// Its global rank in the cluster; its index without one.
    pub(crate) rank: Rank,
    /// Index of its node.
    pub(crate) node: u32,
    /// Index within its node.
    pub(crate) local: u32,
}

impl Gpu {
    /// The UUID's 16 bytes: a function of node, position and model, so the same in every rank and every run.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        let seed = format!("ftest gpu {} {} {}", self.node, self.local, self.profile.id);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&xxh64(seed.as_bytes(), 0).to_be_bytes());
        bytes[8..].copy_from_slice(&xxh64(seed.as_bytes(), 1).to_be_bytes());
        // Version 4, variant 1 of RFC 9562, as NVIDIA's are.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes
    }

    /// The UUID as printed by `nvidia-smi -L`.
    pub(crate) fn uuid_text(&self) -> String {
        let hex: String = self.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// PCI domain and bus; the device number is 0. Unique over the nodes of a cluster.
    pub(crate) fn pci(&self) -> (u32, u32) {
        (self.node * 8 + self.local / 128, 1 + self.local % 128)
    }

    /// PCI address as printed by `cudaDeviceGetPCIBusId`.
    pub(crate) fn pci_text(&self) -> String {
        let (domain, bus) = self.pci();
        format!("{domain:04X}:{bus:02X}:00.0")
    }
}
