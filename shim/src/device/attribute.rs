//! Device attributes. `cudaDeviceAttr` and `CUdevice_attribute` use the same numbers; values not in the profile are
//! NVIDIA's documented limits for all devices of compute capability 5.0 and later.

use protocol::profile::Architecture;

use super::{Device, version};

/// Compute capability.
pub(crate) fn capability(device: &Device) -> (i32, i32) {
    let text = &device.gpu.profile.compute_capability;
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

/// Shared memory per block reserved by the system, bytes (CUDA C++ Programming Guide, compute capability 8.0 and
/// later).
pub(crate) fn reserved_shared(device: &Device) -> u32 {
    if capability(device).0 >= 8 { 1024 } else { 0 }
}

/// The value of attribute `number`; `None` for a number that CUDA does not have.
pub(crate) fn get(device: &Device, number: i32) -> Option<i32> {
    let profile = &device.gpu.profile;
    let limits = &profile.limits;
    let (major, minor) = capability(device);
    let since = |capability: i32| i32::from(major >= capability);
    let (domain, bus) = device.gpu.pci();
    let value = match number {
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        8 => limits.shared_memory_per_block as i32,
        9 => 65536,
        10 => 32,
        11 => i32::MAX,
        12 => limits.registers_per_block as i32,
        13 => profile.clocks.sm_mhz as i32 * 1000,
        14 | 30 => 512,
        15 | 19 | 31 | 41 | 44 | 78 | 79 | 80 | 83 | 89 | 90 | 91 | 95 | 99 | 102 | 112 | 114 | 115 | 122 => 1,
        16 => profile.sm_count as i32,
        17 | 20 | 35 | 84 | 85 | 101 | 103 | 104 | 105 | 107 | 110 | 113 | 116 | 117 | 118 | 119 => 0,
        18 | 86 | 88 | 100 => i32::from(profile.memory.unified),
        21 | 22 | 56 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => 32_768,
        29 | 43 | 62 | 65 => 2048,
        47 | 48 => 8192,
        54 | 68 => 2046,
        32 => i32::from(has_ecc(device)),
        33 => bus as i32,
        34 => 0,
        36 => profile.clocks.memory_mhz as i32 * 1000,
        37 => profile.memory.bus_width_bits as i32,
        38 => profile.memory.l2_bytes as i32,
        39 => limits.max_threads_per_sm as i32,
        40 => {
            if has_ecc(device) {
                3
            } else {
                2
            }
        }
        50 => domain as i32,
        51 => 32,
        69 => 268_435_456,
        70 => 131_072,
        71 => 65_000,
        72 => 2_097_120,
        75 => major,
        76 => minor,
        81 => limits.shared_memory_per_sm as i32,
        82 => limits.registers_per_sm as i32,
        87 => match (major, minor) {
            (6..=10, 0) => 2,
            (8.., _) => 64,
            _ => 32,
        },
        92..=94 | 98 | 121 | 123..=125 | 128..=130 | 132 | 133 | 135..=138 | 141..=148 => 0,
        96 => i32::from(version::is_twelve()),
        97 => limits.shared_memory_per_block_optin as i32,
        106 => limits.max_blocks_per_sm as i32,
        // Three quarters of L2, and the window that 8.0 and later document.
        108 => since(8) * (profile.memory.l2_bytes / 4 * 3) as i32,
        109 => since(8) * 134_213_632,
        111 => reserved_shared(device) as i32,
        120 | 127 => since(9),
        126 => {
            if major >= 9 {
                4
            } else {
                1
            }
        }
        131 | 134 => -1,
        139 => (profile.pcie.device_id << 16 | 0x10de) as i32,
        140 => 0x10de,
        _ => return None,
    };
    Some(value)
}

/// Data-center and professional cards have ECC; consumer cards do not expose it.
fn has_ecc(device: &Device) -> bool {
    let profile = &device.gpu.profile;
    let consumer = ["GeForce", "TITAN", "Orin", "Xavier", "Thor", "Nano", "GB10"];
    profile.architecture != Architecture::Maxwell && !consumer.iter().any(|word| profile.name.contains(word))
}
