//! Every file of `profiles/` adds up: ids, capacities and multiprocessors against a table written here, limits against
//! the CUDA C Programming Guide's table per compute capability, memory clocks against published bandwidths.

use std::collections::BTreeSet;

use protocol::profile::{self, Architecture, GpuProfile, ProfileStatus};

/// (id, compute capability, memory bytes, multiprocessors, published memory bandwidth in GB/s).
#[rustfmt::skip]
const MODELS: [(&str, &str, u64, u32, f64); 82] = [
    ("a10", "8.6", 25_769_803_776, 72, 600.0),
    ("a100", "8.0", 85_899_345_920, 108, 2039.0),
    ("a100-1g", "8.0", 1_073_741_824, 108, 2039.0),
    ("a30", "8.0", 25_769_803_776, 56, 933.0),
    ("a40", "8.6", 51_539_607_552, 84, 696.0),
    ("b100", "10.0", 206_158_430_208, 144, 8000.0),
    ("b200", "10.0", 193_273_528_320, 160, 7700.0),
    ("b300", "10.3", 309_237_645_312, 160, 8000.0),
    ("gb10", "12.1", 137_438_953_472, 48, 273.0),
    ("gtx1050", "6.1", 4_294_967_296, 5, 112.0),
    ("gtx1050ti", "6.1", 4_294_967_296, 6, 112.0),
    ("gtx1060-6gb", "6.1", 6_442_450_944, 10, 192.0),
    ("gtx1070", "6.1", 8_589_934_592, 15, 256.0),
    ("gtx1070ti", "6.1", 8_589_934_592, 19, 256.0),
    ("gtx1080", "6.1", 8_589_934_592, 20, 320.0),
    ("gtx1080ti", "6.1", 11_811_160_064, 28, 484.0),
    ("gtx980", "5.2", 4_294_967_296, 16, 224.0),
    ("h100", "9.0", 85_899_345_920, 132, 3352.0),
    ("h200", "9.0", 151_397_597_184, 132, 4800.0),
    ("jetson-agx-orin-64gb", "8.7", 68_719_476_736, 16, 204.8),
    ("jetson-t5000", "11.0", 137_438_953_472, 20, 273.0),
    ("l4", "8.9", 25_769_803_776, 58, 300.0),
    ("l40s", "8.9", 51_539_607_552, 142, 864.0),
    ("p100", "6.0", 17_179_869_184, 56, 732.0),
    ("p4", "6.1", 8_589_934_592, 20, 192.0),
    ("quadro-rtx4000", "7.5", 8_589_934_592, 36, 416.0),
    ("quadro-rtx5000", "7.5", 17_179_869_184, 48, 448.0),
    ("quadro-rtx6000", "7.5", 25_769_803_776, 72, 672.0),
    ("quadro-rtx8000", "7.5", 51_539_607_552, 72, 672.0),
    ("rtx-2000-ada", "8.9", 17_179_869_184, 22, 224.0),
    ("rtx-4000-ada", "8.9", 21_474_836_480, 48, 360.0),
    ("rtx-4000-sff-ada", "8.9", 21_474_836_480, 48, 280.0),
    ("rtx-4500-ada", "8.9", 25_769_803_776, 60, 432.0),
    ("rtx-5000-ada", "8.9", 34_359_738_368, 100, 576.0),
    ("rtx-6000-ada", "8.9", 51_539_607_552, 142, 960.0),
    ("rtx-a2000", "8.6", 12_884_901_888, 26, 288.0),
    ("rtx-a4000", "8.6", 17_179_869_184, 48, 448.0),
    ("rtx-a4500", "8.6", 21_474_836_480, 56, 640.0),
    ("rtx-a5000", "8.6", 25_769_803_776, 64, 768.0),
    ("rtx-a5500", "8.6", 25_769_803_776, 80, 768.0),
    ("rtx-a6000", "8.6", 51_539_607_552, 84, 768.0),
    ("rtx-pro-2000-blackwell", "12.0", 17_179_869_184, 34, 288.0),
    ("rtx-pro-4000-blackwell", "12.0", 25_769_803_776, 70, 672.0),
    ("rtx-pro-4000-blackwell-sff", "12.0", 25_769_803_776, 70, 432.0),
    ("rtx-pro-4500-blackwell", "12.0", 34_359_738_368, 82, 896.0),
    ("rtx-pro-5000-blackwell", "12.0", 76_374_540_288, 110, 1344.0),
    ("rtx-pro-6000-blackwell", "12.0", 103_079_215_104, 188, 1792.0),
    ("rtx2060", "7.5", 6_442_450_944, 30, 336.0),
    ("rtx2060-super", "7.5", 8_589_934_592, 34, 448.0),
    ("rtx2070", "7.5", 8_589_934_592, 36, 448.0),
    ("rtx2070-super", "7.5", 8_589_934_592, 40, 448.0),
    ("rtx2080", "7.5", 8_589_934_592, 46, 448.0),
    ("rtx2080-super", "7.5", 8_589_934_592, 48, 496.0),
    ("rtx2080ti", "7.5", 11_811_160_064, 68, 616.0),
    ("rtx3050", "8.6", 8_589_934_592, 20, 224.0),
    ("rtx3060", "8.6", 12_884_901_888, 28, 360.0),
    ("rtx3060ti", "8.6", 8_589_934_592, 38, 448.0),
    ("rtx3070", "8.6", 8_589_934_592, 46, 448.0),
    ("rtx3070ti", "8.6", 8_589_934_592, 48, 608.0),
    ("rtx3080", "8.6", 10_737_418_240, 68, 760.0),
    ("rtx3080ti", "8.6", 12_884_901_888, 80, 912.0),
    ("rtx3090", "8.6", 25_769_803_776, 82, 936.0),
    ("rtx3090ti", "8.6", 25_291_849_728, 84, 1008.0),
    ("rtx4060", "8.9", 8_589_934_592, 24, 272.0),
    ("rtx4060ti", "8.9", 17_179_869_184, 34, 288.0),
    ("rtx4070", "8.9", 12_884_901_888, 46, 504.0),
    ("rtx4070-super", "8.9", 12_884_901_888, 56, 504.0),
    ("rtx4070ti", "8.9", 12_884_901_888, 60, 504.0),
    ("rtx4070ti-super", "8.9", 17_179_869_184, 66, 672.0),
    ("rtx4080", "8.9", 17_179_869_184, 76, 716.8),
    ("rtx4080-super", "8.9", 17_179_869_184, 80, 736.0),
    ("rtx4090", "8.9", 25_769_803_776, 128, 1008.0),
    ("rtx5050", "12.0", 8_589_934_592, 20, 320.0),
    ("rtx5060", "12.0", 8_589_934_592, 30, 448.0),
    ("rtx5060ti", "12.0", 17_179_869_184, 36, 448.0),
    ("rtx5070", "12.0", 12_884_901_888, 48, 672.0),
    ("rtx5070ti", "12.0", 17_179_869_184, 70, 896.0),
    ("rtx5080", "12.0", 17_179_869_184, 84, 960.0),
    ("rtx5090", "12.0", 34_359_738_368, 170, 1792.0),
    ("t4", "7.5", 17_179_869_184, 40, 320.0),
    ("test-512m", "8.0", 536_870_912, 108, 2039.0),
    ("v100", "7.0", 34_359_738_368, 80, 900.0),
];

/// What one compute capability allows: (compute capability, shared memory per SM and per block with opt-in in KiB,
/// threads per SM, blocks per SM). CUDA C Programming Guide, "Technical Specifications per Compute Capability".
const LIMITS: [(&str, u32, u32, u32, u32); 15] = [
    ("5.2", 96, 48, 2048, 32),
    ("6.0", 64, 48, 2048, 32),
    ("6.1", 96, 48, 2048, 32),
    ("7.0", 96, 96, 2048, 32),
    ("7.5", 64, 64, 1024, 16),
    ("8.0", 164, 163, 2048, 32),
    ("8.6", 100, 99, 1536, 16),
    ("8.7", 164, 163, 1536, 16),
    ("8.9", 100, 99, 1536, 24),
    ("9.0", 228, 227, 2048, 32),
    ("10.0", 228, 227, 2048, 32),
    ("10.3", 228, 227, 2048, 32),
    ("11.0", 228, 227, 1536, 24),
    ("12.0", 100, 99, 1536, 24),
    ("12.1", 100, 99, 1536, 24),
];

const MIB: u64 = 1 << 20;

fn each(check: impl Fn(&GpuProfile)) {
    for profile in profile::all() {
        println!("{}", profile.id);
        check(profile);
    }
}

#[test]
fn all_models_are_there_with_their_capacity_and_multiprocessors() {
    let built_in: Vec<&str> = profile::all().iter().map(|profile| profile.id.as_str()).collect();
    let expected: Vec<&str> = MODELS.iter().map(|model| model.0).collect();
    assert_eq!(built_in, expected);
    for (id, compute_capability, bytes, sm_count, _) in MODELS {
        let profile = profile::builtin(id).unwrap_or_else(|| panic!("{}", profile::unknown(id)));
        assert_eq!(profile.compute_capability, compute_capability, "{id}");
        assert_eq!((profile.memory.bytes, profile.sm_count), (bytes, sm_count), "{id}");
    }
}

#[test]
fn memory_clock_and_bus_give_the_published_bandwidth() {
    for (id, _, _, _, published) in MODELS {
        let profile = profile::builtin(id).unwrap_or_else(|| panic!("{}", profile::unknown(id)));
        let computed = 2.0 * f64::from(profile.clocks.memory_mhz) * f64::from(profile.memory.bus_width_bits) / 8e3;
        assert!((computed - published).abs() / published < 0.03, "{id}: {computed} GB/s, published {published}");
    }
}

#[test]
fn names_are_unique_and_say_whose_they_are() {
    let mut seen = BTreeSet::new();
    each(|profile| {
        let name = profile.name.as_str();
        assert_eq!(name, name.trim());
        let known = ["NVIDIA ", "Tesla ", "Quadro "].iter().any(|prefix| name.starts_with(prefix)) || name == "Orin";
        assert!(known || profile.status == ProfileStatus::Synthetic, "{name}");
        assert!(!name.contains("Fake"), "{name}");
        assert_eq!(profile.status == ProfileStatus::Synthetic, name.contains("synthetic"), "{name}");
        // NVML_DEVICE_NAME_BUFFER_SIZE is 64, with the terminating NUL.
        assert!(name.len() < 64, "{name}");
    });
    for profile in profile::all() {
        assert!(seen.insert(&profile.name), "two profiles are named {}", profile.name);
    }
}

#[test]
fn the_architecture_is_that_of_the_compute_capability() {
    each(|profile| {
        let expected = match profile.compute_capability.as_str() {
            "5.2" => Architecture::Maxwell,
            "6.0" | "6.1" => Architecture::Pascal,
            "7.0" => Architecture::Volta,
            "7.5" => Architecture::Turing,
            "8.0" | "8.6" | "8.7" => Architecture::Ampere,
            "8.9" => Architecture::Ada,
            "9.0" => Architecture::Hopper,
            _ => Architecture::Blackwell,
        };
        assert_eq!(profile.architecture, expected);
    });
}

#[test]
fn limits_are_those_of_the_compute_capability() {
    each(|profile| {
        let (_, per_sm, optin, threads, blocks) =
            LIMITS.into_iter().find(|row| row.0 == profile.compute_capability).expect("a listed compute capability");
        let limits = &profile.limits;
        assert_eq!(limits.shared_memory_per_sm, per_sm * 1024);
        assert_eq!(limits.shared_memory_per_block, 48 * 1024);
        assert_eq!(limits.shared_memory_per_block_optin, optin * 1024);
        assert_eq!((limits.registers_per_sm, limits.registers_per_block), (65536, 65536));
        assert_eq!((limits.max_threads_per_sm, limits.max_blocks_per_sm), (threads, blocks));
        assert_eq!(threads % 32, 0, "whole warps");
    });
}

#[test]
fn memory_adds_up() {
    each(|profile| {
        let memory = &profile.memory;
        // A measured capacity is what the driver leaves, still whole 64 KiB pages.
        let unit = if profile.status == ProfileStatus::Measured { 65536 } else { 512 * MIB };
        assert_eq!(memory.bytes % unit, 0, "{} bytes", memory.bytes);
        assert_eq!(memory.bus_width_bits % 32, 0);
        assert!((64..=8192).contains(&memory.bus_width_bits));
        assert_eq!(memory.l2_bytes % (MIB / 4), 0);
        assert!(memory.l2_bytes >= MIB && memory.l2_bytes <= 128 * MIB);
        assert!(memory.l2_bytes < memory.bytes);
        assert_eq!(memory.unified, profile.pcie.generation == 0, "only an integrated GPU has no PCIe link");
    });
}

#[test]
fn clocks_power_and_links_are_plausible() {
    each(|profile| {
        assert!((700..=3200).contains(&profile.clocks.sm_mhz));
        assert!((700..=16000).contains(&profile.clocks.memory_mhz));
        assert!((40_000..=1_400_000).contains(&profile.power.limit_mw), "{} mW", profile.power.limit_mw);
        assert!(profile.power.limit_mw <= profile.power.max_limit_mw);
        let pcie = &profile.pcie;
        assert!(pcie.device_id <= 0xffff);
        match (pcie.generation, pcie.lanes) {
            (0, 0) => assert!(profile.memory.unified),
            (generation, lanes) => assert!((3..=6).contains(&generation) && [8, 16].contains(&lanes)),
        }
        if let Some(nvlink) = &profile.nvlink {
            let rates: &[f64] = match nvlink.generation {
                2 => &[25.0],
                3 => &[25.0, 14.0625],
                4 => &[25.0],
                5 => &[50.0],
                other => panic!("no NVLink {other}"),
            };
            assert!(rates.contains(&nvlink.gigabytes_per_second_per_link));
            assert!((1..=18).contains(&nvlink.links));
        }
    });
}

#[test]
fn nvlink_totals_are_the_published_ones() {
    // Both directions together, GB/s, as the data sheets print them.
    for (id, total) in [
        ("v100", 300.0),
        ("quadro-rtx8000", 100.0),
        ("rtx2080ti", 100.0),
        ("a100", 600.0),
        ("a30", 200.0),
        ("a40", 112.5),
        ("rtx-a6000", 112.5),
        ("rtx3090", 112.5),
        ("h100", 900.0),
        ("h200", 900.0),
        ("b200", 1800.0),
        ("b300", 1800.0),
    ] {
        let nvlink = profile::builtin(id).and_then(|profile| profile.nvlink.as_ref()).unwrap_or_else(|| panic!("{id}"));
        assert_eq!(2.0 * f64::from(nvlink.links) * nvlink.gigabytes_per_second_per_link, total, "{id}");
    }
    for id in ["p100", "t4", "a10", "l40s", "rtx4090", "rtx5090", "rtx-6000-ada", "rtx-pro-6000-blackwell", "test-512m"]
    {
        assert!(profile::builtin(id).is_some_and(|profile| profile.nvlink.is_none()), "{id}");
    }
}

#[test]
fn types_follow_the_architecture() {
    each(|profile| {
        let has = |name: &str| profile.supported_types.iter().any(|listed| listed == name);
        let rank = |architecture| match architecture {
            Architecture::Maxwell => 0,
            Architecture::Pascal => 1,
            Architecture::Volta => 2,
            Architecture::Turing => 3,
            Architecture::Ampere => 4,
            Architecture::Ada => 5,
            Architecture::Hopper => 6,
            Architecture::Blackwell => 7,
        };
        let age = rank(profile.architecture);
        assert!(has("fp64") && has("fp32"));
        assert_eq!(has("fp16"), age >= 1);
        assert_eq!(has("int8"), age >= 1 && profile.compute_capability != "6.0");
        assert_eq!(has("int4"), age >= 3);
        assert_eq!((has("tf32"), has("bf16")), (age >= 4, age >= 4));
        assert_eq!(has("fp8"), age >= 5);
        assert_eq!(has("fp4"), age >= 7);
        let unique: BTreeSet<&String> = profile.supported_types.iter().collect();
        assert_eq!(unique.len(), profile.supported_types.len());
    });
}

#[test]
fn measured_and_synthetic_profiles_are_marked() {
    let of = |status| -> Vec<&str> {
        profile::all().iter().filter(|profile| profile.status == status).map(|profile| profile.id.as_str()).collect()
    };
    assert_eq!(of(ProfileStatus::Measured), ["rtx-pro-5000-blackwell", "rtx3090ti"]);
    assert_eq!(of(ProfileStatus::Synthetic), ["a100-1g", "test-512m"]);
}

#[test]
fn every_file_names_its_sources() {
    for profile in profile::all() {
        let path = format!("{}/../profiles/{}.yaml", env!("CARGO_MANIFEST_DIR"), profile.id);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let comments: String = text.lines().filter(|line| line.starts_with('#')).collect();
        let fields = ["memory.bytes", "sm_count", "clocks", "bus_width_bits", "l2_bytes", "limits", "power", "pcie"];
        for field in fields.into_iter().chain(["nvlink", "supported_types", "compute_capability", "device_id"]) {
            assert!(comments.contains(field), "{path} names no source of {field}");
        }
    }
}
