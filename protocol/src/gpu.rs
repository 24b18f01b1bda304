//! One GPU of the machine: its model and position, and the identity derived from them.

use xxhash_rust::xxh64::xxh64;

use crate::ids::Rank;
use crate::profile::GpuProfile;

/// One GPU of the machine that this process runs on, before `CUDA_VISIBLE_DEVICES`.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// What it claims to be.
    pub profile: GpuProfile,
    /// Its global rank in the cluster, or its index if there is no cluster.
    pub rank: Rank,
    /// Index of its node.
    pub node: u32,
    /// Index within its node.
    pub local: u32,
}

impl Gpu {
    /// Compute capability, major and minor.
    pub fn capability(&self) -> (i32, i32) {
        let text = &self.profile.compute_capability;
        let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
        (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
    }

    /// The UUID's 16 bytes: a function of node, position and model, so the same in every rank and every run.
    pub fn uuid(&self) -> [u8; 16] {
        let seed = format!("ftest gpu {} {} {}", self.node, self.local, self.profile.id);
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&xxh64(seed.as_bytes(), 0).to_be_bytes());
        bytes[8..].copy_from_slice(&xxh64(seed.as_bytes(), 1).to_be_bytes());
        // Version 4, variant 1 of RFC 9562, as NVIDIA's are.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        bytes
    }

    /// The UUID as `nvidia-smi -L` prints it.
    pub fn uuid_text(&self) -> String {
        let hex: String = self.uuid().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("GPU-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// PCI domain and bus; the device number is 0. Unique across the nodes of a cluster.
    pub fn pci(&self) -> (u32, u32) {
        (self.node * 8 + self.local / 128, 1 + self.local % 128)
    }

    /// PCI address as `cudaDeviceGetPCIBusId` prints it.
    pub fn pci_text(&self) -> String {
        let (domain, bus) = self.pci();
        format!("{domain:04X}:{bus:02X}:00.0")
    }
}

/// Domain and bus, and the device number, of `[domain:]bus:device[.function]` as CUDA accepts it; the function does not matter.
pub fn parse_pci(address: &str) -> Option<((u32, u32), u32)> {
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let parts: Vec<&str> = address.split('.').next()?.split(':').collect();
    match parts[..] {
        [domain, bus, device] => Some(((number(domain)?, number(bus)?), number(device)?)),
        [bus, device] => Some(((0, number(bus)?), number(device)?)),
        _ => None,
    }
}
