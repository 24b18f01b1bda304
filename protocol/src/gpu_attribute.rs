//! Device attributes. `cudaDeviceAttr` and `CUdevice_attribute` use the same numbers. Values that the profile does not give are
//! NVIDIA's documented limits for every device of compute capability 5.0 and later.

use crate::gpu::Gpu;
use crate::profile::Architecture;

/// Shared memory per block that the system reserves, bytes (CUDA C++ Programming Guide, compute capability 8.0 and later).
fn reserved_shared(gpu: &Gpu) -> u32 {
    if gpu.capability().0 >= 8 { 1024 } else { 0 }
}

/// `CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED`: the switches that such NVLink leads to can multicast (NVLink SHARP).
pub const MULTICAST_SUPPORTED: i32 = 132;

/// The value of attribute `number` with a CUDA 12 driver (`is_twelve`) or a later one; `None` for a number that CUDA does not
/// have.
pub fn get(gpu: &Gpu, number: i32, is_twelve: bool) -> Option<i32> {
    let (major, _) = gpu.capability();
    let (domain, bus) = gpu.pci();
    let value = match number {
        15 | 19 | 31 | 41 | 44 | 78 | 79 | 80 | 83 | 89 | 90 | 91 | 95 | 99 | 102 | 112 | 114 | 115 | 122 => 1,
        17 | 20 | 35 | 84 | 85 | 101 | 103 | 104 | 105 | 107 | 110 | 113 | 116 | 117 | 118 | 119 => 0,
        14 | 30 => 512,
        1..=3 => 1024,
        4 => 64,
        5 => i32::MAX,
        6 | 7 => 65535,
        9 => 65536,
        10 => 32,
        11 => i32::MAX,
        18 | 86 | 88 | 100 => i32::from(gpu.profile.memory.unified),
        21 | 22 | 56 => 131_072,
        23 | 57 => 65_536,
        24..=26 | 58..=60 => 16_384,
        27 | 28 | 42 | 45 | 46 | 49 | 52 | 53 | 55 | 61 | 63 | 64 | 66 | 67 | 73 | 74 | 77 => 32_768,
        29 | 43 | 62 | 65 => 2048,
        47 | 48 => 8192,
        54 | 68 => 2046,
        69 => 268_435_456,
        70 => 131_072,
        72 => 2_097_120,
        33 => bus as i32,
        34 => 0,
        50 => domain as i32,
        51 => 32,
        71 => 65_000,
        92..=94 | 98 | 121 | 123..=125 | 128..=130 | 133 | 135..=138 | 141..=148 => 0,
        96 => i32::from(is_twelve),
        120 | 127 => i32::from(major >= 9),
        126 => {
            if major >= 9 {
                4
            } else {
                1
            }
        }
        MULTICAST_SUPPORTED => i32::from(major >= 9 && gpu.profile.nvlink.is_some()),
        131 | 134 => -1,
        _ => return of_model(gpu, number),
    };
    Some(value)
}

/// The value of attribute `number` if the profile determines it: sizes, clocks, what an SM holds. `None` if many models have the
/// same value, if it belongs to the driver, the system or the GPU's place, and for a number that CUDA does not have.
pub fn of_model(gpu: &Gpu, number: i32) -> Option<i32> {
    let profile = &gpu.profile;
    let limits = &profile.limits;
    let (major, minor) = gpu.capability();
    let since = |capability: i32| i32::from(major >= capability);
    let value = match number {
        8 => limits.shared_memory_per_block as i32,
        12 => limits.registers_per_block as i32,
        13 => profile.clocks.sm_mhz as i32 * 1000,
        16 => profile.sm_count as i32,
        32 => i32::from(has_ecc(gpu)),
        36 => profile.clocks.memory_mhz as i32 * 1000,
        37 => profile.memory.bus_width_bits as i32,
        38 => profile.memory.l2_bytes as i32,
        39 => limits.max_threads_per_sm as i32,
        40 => {
            if has_ecc(gpu) {
                3
            } else {
                2
            }
        }
        75 => major,
        76 => minor,
        81 => limits.shared_memory_per_sm as i32,
        82 => limits.registers_per_sm as i32,
        87 => match (major, minor) {
            (6..=10, 0) => 2,
            (8.., _) => 64,
            _ => 32,
        },
        97 => limits.shared_memory_per_block_optin as i32,
        106 => limits.max_blocks_per_sm as i32,
        // Three quarters of L2, and the documented window size of 8.0 and later.
        108 => since(8) * (profile.memory.l2_bytes / 4 * 3) as i32,
        109 => since(8) * 134_213_632,
        111 => reserved_shared(gpu) as i32,
        139 => (profile.pcie.device_id << 16 | 0x10de) as i32,
        140 => 0x10de,
        _ => return None,
    };
    Some(value)
}

/// Data center and professional cards have ECC; consumer cards do not show it.
fn has_ecc(gpu: &Gpu) -> bool {
    let profile = &gpu.profile;
    let consumer = ["GeForce", "TITAN", "Orin", "Xavier", "Thor", "Nano", "GB10"];
    profile.architecture != Architecture::Maxwell && !consumer.iter().any(|word| profile.name.contains(word))
}
