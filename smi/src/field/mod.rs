//! The fields of `--query-gpu`, as data: names, unit, how each is read, and what `--help-query-gpu` says about it.

mod newer;

use crate::gpu::Gpu;
use crate::gpu::Read::{self, *};

/// One field of `--query-gpu`.
pub(crate) struct Field {
    /// The name in headers, then its aliases.
    pub(crate) names: &'static [&'static str],
    /// Unit of the numbers; empty for none.
    pub(crate) unit: &'static str,
    pub(crate) read: Read,
    pub(crate) about: &'static str,
}

const fn field(names: &'static [&'static str], unit: &'static str, read: Read, about: &'static str) -> Field {
    Field { names, unit, read, about }
}

const MODE: &[&str] = &["Disabled", "Enabled"];
const YES: &[&str] = &["No", "Yes"];
pub(crate) const COMPUTE_MODES: &[&str] = &["Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process"];
const RECOVERY: &[&str] = &["None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"];

/// The eight places of ECC errors and their sum, for one kind of error and one counter.
macro_rules! ecc {
    ($prefix:literal, $error:literal, $counter:literal) => {
        [
            field(
                &[concat!($prefix, "device_memory")],
                "",
                Ecc($error, $counter, Some(2)),
                "ECC errors in device memory.",
            ),
            field(&[concat!($prefix, "dram")], "", Ecc($error, $counter, Some(2)), "ECC errors in device memory."),
            field(&[concat!($prefix, "register_file")], "", Ecc($error, $counter, Some(3)), "ECC errors in registers."),
            field(&[concat!($prefix, "l1_cache")], "", Ecc($error, $counter, Some(0)), "ECC errors in the L1 cache."),
            field(&[concat!($prefix, "l2_cache")], "", Ecc($error, $counter, Some(1)), "ECC errors in the L2 cache."),
            field(
                &[concat!($prefix, "texture_memory")],
                "",
                Ecc($error, $counter, Some(4)),
                "Parity errors in texture memory.",
            ),
            field(&[concat!($prefix, "cbu")], "", Ecc($error, $counter, Some(6)), "Parity errors in the CBU."),
            field(&[concat!($prefix, "sram")], "", Ecc($error, $counter, Some(7)), "ECC errors in SRAM."),
            field(&[concat!($prefix, "total")], "", Ecc($error, $counter, None), "ECC errors on the whole chip."),
        ]
    };
}

static ECC: [[Field; 9]; 4] = [
    ecc!("ecc.errors.corrected.volatile.", 0, 0),
    ecc!("ecc.errors.corrected.aggregate.", 0, 1),
    ecc!("ecc.errors.uncorrected.volatile.", 1, 0),
    ecc!("ecc.errors.uncorrected.aggregate.", 1, 1),
];

/// Errors in SRAM by kind and place, from `nvmlEccSramErrorStatus_v1_t`.
static SRAM: &[Field] = &[
    field(
        &["ecc.errors.uncorrected.volatile.sram.parity"],
        "",
        Of(|gpu| gpu.sram_errors(3)),
        "Parity errors in SRAM since the driver was loaded.",
    ),
    field(
        &["ecc.errors.uncorrected.volatile.sram.secded"],
        "",
        Of(|gpu| gpu.sram_errors(4)),
        "SEC-DED errors in SRAM since the driver was loaded.",
    ),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.parity"],
        "",
        Of(|gpu| gpu.sram_errors(0)),
        "Parity errors in SRAM in the life of the GPU.",
    ),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.secded"],
        "",
        Of(|gpu| gpu.sram_errors(1)),
        "SEC-DED errors in SRAM in the life of the GPU.",
    ),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.thresholdExceeded"],
        "",
        Of(|gpu| gpu.sram_threshold()),
        "Whether SRAM has so many errors that the GPU should be replaced.",
    ),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.l2"],
        "",
        Of(|gpu| gpu.sram_errors(6)),
        "SRAM errors in the L2 cache.",
    ),
    field(&["ecc.errors.uncorrected.aggregate.sram.sm"], "", Of(|gpu| gpu.sram_errors(7)), "SRAM errors in the SMs."),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.mcu"],
        "",
        Of(|gpu| gpu.sram_errors(9)),
        "SRAM errors in the microcontrollers.",
    ),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.pcie"],
        "",
        Of(|gpu| gpu.sram_errors(8)),
        "SRAM errors in the PCIe engine.",
    ),
    field(
        &["ecc.errors.uncorrected.aggregate.sram.other"],
        "",
        Of(|gpu| gpu.sram_errors(10)),
        "SRAM errors elsewhere.",
    ),
];

static BEFORE_ECC: &[Field] = &[
    field(&["timestamp"], "", Of(|gpu| gpu.timestamp()), "When the query was made, as YYYY/MM/DD HH:MM:SS.msec."),
    field(
        &["driver_version"],
        "",
        Of(|gpu| gpu.nvml.system_text("nvmlSystemGetDriverVersion")),
        "Version of the driver.",
    ),
    field(
        &["kmd_version"],
        "",
        Of(|gpu| gpu.nvml.system_text("nvmlSystemGetDriverVersion")),
        "Version of the kernel-mode driver.",
    ),
    field(
        &["vgpu_driver_capability.heterogenous_multivGPU"],
        "",
        Nothing,
        "Whether the driver supports heterogeneous multi-vGPU.",
    ),
    field(&["count"], "", Of(|gpu| Ok(gpu.count.to_string())), "Number of GPUs in the system."),
    field(&["name", "gpu_name"], "", Text("GetName"), "Product name of the GPU."),
    field(&["serial", "gpu_serial"], "", Text("GetSerial"), "Serial number of the board."),
    field(&["uuid", "gpu_uuid"], "", Text("GetUUID"), "Globally unique identifier of the GPU."),
    field(
        &["pci.bus_id", "gpu_bus_id"],
        "",
        Of(|gpu| Ok(gpu.pci.address())),
        "PCI bus id as domain:bus:device.function, in hex.",
    ),
    field(&["pci.domain"], "", Of(|gpu| gpu.pci_domain()), "PCI domain number, in hex."),
    field(&["pci.bus"], "", Of(|gpu| gpu.pci_bus()), "PCI bus number, in hex."),
    field(&["pci.device"], "", Of(|gpu| gpu.pci_device()), "PCI device number, in hex."),
    field(&["pci.baseClass"], "", Of(|gpu| gpu.pci_class(0)), "PCI base class, in hex."),
    field(&["pci.subClass"], "", Of(|gpu| gpu.pci_class(1)), "PCI subclass, in hex."),
    field(&["pci.device_id"], "", Of(|gpu| gpu.pci_device_id()), "PCI device and vendor id, in hex."),
    field(&["pci.sub_device_id"], "", Of(|gpu| gpu.pci_subsystem_id()), "PCI subsystem id, in hex."),
    field(
        &["vgpu_device_capability.fractional_multiVgpu"],
        "",
        Nothing,
        "Fractional vGPU profiles in multi-vGPU configurations.",
    ),
    field(
        &["vgpu_device_capability.heterogeneous_timeSlice_profile"],
        "",
        Nothing,
        "Time-sliced vGPUs of different types at once.",
    ),
    field(
        &["vgpu_device_capability.heterogeneous_timeSlice_sizes"],
        "",
        Nothing,
        "Time-sliced vGPUs of different sizes at once.",
    ),
    field(
        &["pcie.link.gen.current"],
        "",
        Number("GetCurrPcieLinkGeneration"),
        "Current PCIe generation; deprecated, see pcie.link.gen.gpucurrent.",
    ),
    field(&["pcie.link.gen.gpucurrent"], "", Number("GetCurrPcieLinkGeneration"), "Current PCIe generation."),
    field(
        &["pcie.link.gen.max"],
        "",
        Number("GetMaxPcieLinkGeneration"),
        "Highest PCIe generation of this GPU in this system.",
    ),
    field(&["pcie.link.gen.gpumax"], "", Number("GetGpuMaxPcieLinkGeneration"), "Highest PCIe generation of this GPU."),
    field(
        &["pcie.link.gen.hostmax"],
        "",
        Number("GetMaxPcieLinkGeneration"),
        "Highest PCIe generation of the GPU's root port.",
    ),
    field(&["pcie.link.width.current"], "", Number("GetCurrPcieLinkWidth"), "Current PCIe width."),
    field(
        &["pcie.link.width.max"],
        "",
        Number("GetMaxPcieLinkWidth"),
        "Highest PCIe width of this GPU in this system.",
    ),
    field(&["index"], "", Of(|gpu| Ok(gpu.index.to_string())), "Index of the GPU, from 0."),
    field(&["display_mode"], "", Word("GetDisplayMode", 0, MODE), "Whether a display is connected to the GPU."),
    field(&["display_attached"], "", Word("GetDisplayMode", 0, YES), "Whether a display is connected to the GPU."),
    field(&["display_active"], "", Word("GetDisplayActive", 0, MODE), "Whether a display is initialized on the GPU."),
    field(
        &["persistence_mode"],
        "",
        Word("GetPersistenceMode", 0, MODE),
        "Whether the driver stays loaded without clients.",
    ),
    field(&["addressing_mode"], "", Of(addressing), "How GPU and CPU share an address space: None, HMM or ATS."),
    field(&["accounting.mode"], "", Word("GetAccountingMode", 0, MODE), "Whether statistics of processes are kept."),
    field(&["accounting.buffer_size"], "", Number("GetAccountingBufferSize"), "Processes whose statistics are kept."),
    field(&["driver_model.current"], "", Nothing, "The driver model; N/A on Linux."),
    field(&["driver_model.pending"], "", Nothing, "The driver model after a reboot; N/A on Linux."),
    field(&["vbios_version"], "", Text("GetVbiosVersion"), "The BIOS of the board."),
    field(&["inforom.img", "inforom.image"], "", Text("GetInforomImageVersion"), "Version of the infoROM image."),
    field(&["inforom.oem"], "", Nothing, "Version of the OEM configuration data."),
    field(&["inforom.ecc"], "", Nothing, "Version of the ECC recording data."),
    field(&["inforom.pwr", "inforom.power"], "", Nothing, "Version of the power management data."),
    field(&["inforom.checksum_validation"], "", Nothing, "Whether the infoROM's checksums are right: valid, invalid."),
    field(&["reset_status.reset_required"], "", Of(|gpu| yes(gpu, 226)), "Whether the GPU has to be reset."),
    field(
        &["reset_status.drain_and_reset_recommended"],
        "",
        Of(|gpu| yes(gpu, 227)),
        "Whether the GPU should be drained and reset.",
    ),
    field(
        &["gpu_recovery_action"],
        "",
        Of(recovery),
        "What to do to recover from a fault: None, Reset, Reboot, Drain P2P, Drain and Reset.",
    ),
    field(&["gom.current", "gpu_operation_mode.current"], "", Nothing, "The GPU operation mode."),
    field(&["gom.pending", "gpu_operation_mode.pending"], "", Nothing, "The GPU operation mode after a reboot."),
    field(&["fan.speed"], "%", Number("GetFanSpeed"), "Speed of the fan, percent of the highest."),
    field(&["pstate"], "", Of(|gpu| gpu.performance_state()), "Performance state, P0 (highest) to P12."),
    field(
        &["clocks_event_reasons.supported", "clocks_throttle_reasons.supported"],
        "",
        Of(|gpu| gpu.mask("nvmlDeviceGetSupportedClocksEventReasons")),
        "Bitmask of the supported reasons for lower clocks.",
    ),
    field(
        &["clocks_event_reasons.active", "clocks_throttle_reasons.active"],
        "",
        Of(|gpu| gpu.mask("nvmlDeviceGetCurrentClocksEventReasons")),
        "Bitmask of the reasons for lower clocks now.",
    ),
    field(
        &["clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle"],
        "",
        Reason(0x1),
        "Nothing runs on the GPU.",
    ),
    field(
        &["clocks_event_reasons.applications_clocks_setting", "clocks_throttle_reasons.applications_clocks_setting"],
        "",
        Reason(0x2),
        "Clocks are limited by the applications clocks.",
    ),
    field(
        &["clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap"],
        "",
        Reason(0x4),
        "Clocks are limited because of the power draw.",
    ),
    field(
        &["clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown"],
        "",
        Reason(0x8),
        "The hardware slows the GPU down.",
    ),
    field(
        &["clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown"],
        "",
        Reason(0x40),
        "The hardware slows the GPU down because of the temperature.",
    ),
    field(
        &["clocks_event_reasons.hw_power_brake_slowdown", "clocks_throttle_reasons.hw_power_brake_slowdown"],
        "",
        Reason(0x80),
        "The hardware slows the GPU down because the power supply asks for it.",
    ),
    field(
        &["clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown"],
        "",
        Reason(0x20),
        "Clocks are limited because of the temperature.",
    ),
    field(
        &["clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost"],
        "",
        Reason(0x10),
        "Another GPU of a sync boost group holds the clocks down.",
    ),
    field(
        &["clocks_event_reasons_counters.sw_power_cap"],
        "us",
        Microseconds(74),
        "How long the power draw limited clocks.",
    ),
    field(
        &["clocks_event_reasons_counters.sw_thermal_slowdown"],
        "us",
        Microseconds(251),
        "How long the temperature limited clocks.",
    ),
    field(&["clocks_event_reasons_counters.sync_boost"], "us", Microseconds(76), "How long sync boost limited clocks."),
    field(
        &["clocks_event_reasons_counters.hw_thermal_slowdown"],
        "us",
        Microseconds(252),
        "How long the hardware slowed the GPU down because of the temperature.",
    ),
    field(
        &["clocks_event_reasons_counters.hw_power_brake_slowdown"],
        "us",
        Microseconds(253),
        "How long the hardware slowed the GPU down for the power supply.",
    ),
    field(&["memory.total"], "MiB", Memory(0), "Installed memory."),
    field(&["memory.reserved"], "MiB", Memory(3), "Memory reserved by driver and firmware."),
    field(&["memory.used"], "MiB", Memory(1), "Memory allocated by contexts."),
    field(&["memory.free"], "MiB", Memory(2), "Free memory."),
    field(
        &["compute_mode"],
        "",
        Word("GetComputeMode", 0, COMPUTE_MODES),
        "Whether one or several processes may use the GPU.",
    ),
    field(&["compute_cap"], "", Of(|gpu| gpu.compute_capability()), "CUDA compute capability."),
    field(
        &["utilization.gpu"],
        "%",
        Nth("GetUtilizationRates", 0),
        "Percentage of the last second during which a kernel ran.",
    ),
    field(
        &["utilization.memory"],
        "%",
        Of(|gpu| gpu.nvml.long(gpu.device, "nvmlDeviceGetUtilizationRates", []).map(|rates| (rates >> 32).to_string())),
        "Percentage of the last second during which memory was read or written.",
    ),
    field(
        &["utilization.encoder"],
        "%",
        Nth("GetEncoderUtilization", 0),
        "Percentage of the last second during which video was encoded.",
    ),
    field(
        &["utilization.decoder"],
        "%",
        Nth("GetDecoderUtilization", 0),
        "Percentage of the last second during which video was decoded.",
    ),
    field(
        &["utilization.jpeg"],
        "%",
        Nth("GetJpgUtilization", 0),
        "Percentage of the last second during which JPEG was decoded.",
    ),
    field(
        &["utilization.ofa"],
        "%",
        Nth("GetOfaUtilization", 0),
        "Percentage of the last second during which optical flow was computed.",
    ),
    field(&["encoder.stats.sessionCount"], "", Nth("GetEncoderStats", 0), "Encoder sessions."),
    field(&["encoder.stats.averageFps"], "", Nth("GetEncoderStats", 1), "Average frames per second of all sessions."),
    field(
        &["encoder.stats.averageLatency"],
        "",
        Nth("GetEncoderStats", 2),
        "Average latency of all sessions, microseconds.",
    ),
    field(&["dramEncryption.mode.current"], "", Nothing, "Whether memory is encrypted."),
    field(&["dramEncryption.mode.pending"], "", Nothing, "Whether memory is encrypted after a reset."),
    field(&["ecc.mode.current"], "", Word("GetEccMode", 0, MODE), "Whether ECC is on."),
    field(&["ecc.mode.pending"], "", Word("GetEccMode", 1, MODE), "Whether ECC is on after a reboot."),
];

static AFTER_ECC: &[Field] = &[
    field(
        &["retired_pages.single_bit_ecc.count", "retired_pages.sbe"],
        "",
        Of(|gpu| gpu.retired(0)),
        "Pages retired because of corrected errors.",
    ),
    field(
        &["retired_pages.double_bit.count", "retired_pages.dbe"],
        "",
        Of(|gpu| gpu.retired(1)),
        "Pages retired because of an uncorrected error.",
    ),
    field(
        &["retired_pages.pending"],
        "",
        Word("GetRetiredPagesPendingStatus", 0, YES),
        "Whether pages will be retired at the next reboot.",
    ),
    field(&["remapped_rows.correctable"], "", Nth("GetRemappedRows", 0), "Rows remapped because of corrected errors."),
    field(
        &["remapped_rows.uncorrectable"],
        "",
        Nth("GetRemappedRows", 1),
        "Rows remapped because of uncorrected errors.",
    ),
    field(
        &["remapped_rows.pending"],
        "",
        Word("GetRemappedRows", 2, YES),
        "Whether rows will be remapped at the next reset.",
    ),
    field(&["remapped_rows.failure"], "", Word("GetRemappedRows", 3, YES), "Whether a row could not be remapped."),
    field(&["remapped_rows.histogram.max"], "", Nothing, "Banks with all rows left for remapping."),
    field(&["remapped_rows.histogram.high"], "", Nothing, "Banks with many rows left."),
    field(&["remapped_rows.histogram.partial"], "", Nothing, "Banks with some rows left."),
    field(&["remapped_rows.histogram.low"], "", Nothing, "Banks with few rows left."),
    field(&["remapped_rows.histogram.none"], "", Nothing, "Banks with no row left."),
    field(
        &["temperature.gpu"],
        "",
        Of(|gpu| gpu.nvml.long(gpu.device, "nvmlDeviceGetTemperature", [0]).map(|degrees| degrees.to_string())),
        "Temperature of the GPU, degrees Celsius.",
    ),
    field(
        &["temperature.gpu.tlimit"],
        "",
        Of(|gpu| gpu.margin()),
        "Degrees Celsius up to the highest operating temperature.",
    ),
    field(&["temperature.memory"], "", Value(82), "Temperature of the HBM, degrees Celsius."),
    field(&["power.management"], "", Word("GetPowerManagementMode", 0, MODE), "Whether power management is on."),
    field(&["power.draw"], "W", Watts("GetPowerUsage"), "Power draw of the board."),
    field(&["power.draw.average"], "W", WattsOf(185), "Average power draw of the board over the last second."),
    field(&["power.draw.instant"], "W", WattsOf(186), "Power draw of the board now."),
    field(&["power.limit"], "W", Watts("GetPowerManagementLimit"), "Power limit, as it was set."),
    field(&["enforced.power.limit"], "W", Watts("GetEnforcedPowerLimit"), "The lowest of all power limits."),
    field(
        &["power.default_limit"],
        "W",
        Watts("GetPowerManagementDefaultLimit"),
        "Power limit after the driver is loaded.",
    ),
    field(&["power.min_limit"], "W", WattsOf(187), "The lowest power limit that can be set."),
    field(&["power.max_limit"], "W", WattsOf(188), "The highest power limit that can be set."),
    field(&["edpp_multiplier"], "%", Nothing, "The EDPp multiplier."),
    field(&["module.power.draw.average"], "W", Nothing, "Average power draw of the module."),
    field(&["module.power.draw.instant"], "W", Nothing, "Power draw of the module now."),
    field(&["module.power.limit"], "W", Nothing, "Power limit of the module."),
    field(&["module.enforced.power.limit"], "W", Nothing, "The lowest of all power limits of the module."),
    field(&["module.power.default_limit"], "W", Nothing, "Default power limit of the module."),
    field(&["module.power.min_limit"], "W", Nothing, "The lowest power limit of the module."),
    field(&["module.power.max_limit"], "W", Nothing, "The highest power limit of the module."),
    field(&["clocks.current.graphics", "clocks.gr"], "MHz", Clock("GetClockInfo", 0), "Clock of graphics now."),
    field(&["clocks.current.sm", "clocks.sm"], "MHz", Clock("GetClockInfo", 1), "Clock of the SMs now."),
    field(&["clocks.current.memory", "clocks.mem"], "MHz", Clock("GetClockInfo", 2), "Clock of the memory now."),
    field(
        &["clocks.current.video", "clocks.video"],
        "MHz",
        Clock("GetClockInfo", 3),
        "Clock of the video engines now.",
    ),
    field(
        &["clocks.applications.graphics", "clocks.applications.gr"],
        "MHz",
        Clock("GetApplicationsClock", 0),
        "Clock of graphics that applications get.",
    ),
    field(
        &["clocks.applications.memory", "clocks.applications.mem"],
        "MHz",
        Clock("GetApplicationsClock", 2),
        "Clock of the memory that applications get.",
    ),
    field(
        &["clocks.default_applications.graphics", "clocks.default_applications.gr"],
        "MHz",
        Clock("GetDefaultApplicationsClock", 0),
        "Default clock of graphics for applications.",
    ),
    field(
        &["clocks.default_applications.memory", "clocks.default_applications.mem"],
        "MHz",
        Clock("GetDefaultApplicationsClock", 2),
        "Default clock of the memory for applications.",
    ),
    field(&["clocks.max.graphics", "clocks.max.gr"], "MHz", Clock("GetMaxClockInfo", 0), "Highest clock of graphics."),
    field(&["clocks.max.sm"], "MHz", Clock("GetMaxClockInfo", 1), "Highest clock of the SMs."),
    field(&["clocks.max.memory", "clocks.max.mem"], "MHz", Clock("GetMaxClockInfo", 2), "Highest clock of the memory."),
    field(&["mig.mode.current"], "", Word("GetMigMode", 0, MODE), "Whether MIG is on."),
    field(&["mig.mode.pending"], "", Word("GetMigMode", 1, MODE), "Whether MIG is on after a reset."),
    field(&["gsp.mode.current"], "", Word("GetGspFirmwareMode", 0, MODE), "Whether the GPU runs its own firmware."),
    field(
        &["gsp.mode.default"],
        "",
        Word("GetGspFirmwareMode", 1, MODE),
        "Whether the GPU runs its own firmware by default.",
    ),
    field(&["c2c.mode"], "", Word("GetC2cModeInfoV", 0, MODE), "Whether chip-to-chip links are on."),
    field(&["protected_memory.total"], "MiB", Fixed("0"), "Memory protected by confidential computing."),
    field(&["protected_memory.used"], "MiB", Fixed("0"), "Protected memory that is used."),
    field(&["protected_memory.free"], "MiB", Fixed("0"), "Protected memory that is free."),
    field(&["fabric.state"], "", Nothing, "How far the GPU is registered with the fabric."),
    field(&["fabric.status"], "", Nothing, "Error of the registration with the fabric."),
    field(&["fabric.cliqueId"], "", Nothing, "Clique of the GPU in the fabric."),
    field(&["fabric.clusterUuid"], "", Nothing, "Cluster of the GPU in the fabric."),
    field(&["fabric.health.summary"], "", Nothing, "Health of the GPU's fabric."),
    field(&["platform.chassis_serial_number"], "", Nothing, "Serial number of the chassis."),
    field(&["platform.slot_number"], "", Nothing, "Slot of the tray in the rack."),
    field(&["platform.tray_index"], "", Nothing, "Index of the tray within its kind in the chassis."),
    field(&["platform.host_id"], "", Nothing, "The host's number in the slot."),
    field(&["platform.peer_type"], "", Nothing, "Whether the NVLink peer is a GPU or a switch."),
    field(&["platform.module_id"], "", Number("GetModuleId"), "The GPU's number in the host."),
    field(&["platform.gpu_fabric_guid"], "", Nothing, "The GPU's identifier in the fabric."),
    field(&["hostname"], "", Nothing, "Host name that was set for the GPU."),
];

fn yes(gpu: &Gpu<'_>, field: u32) -> crate::gpu::Reading {
    gpu.nvml.field(gpu.device, field, 0).map(|is| YES[usize::from(is != 0)].to_owned())
}

fn recovery(gpu: &Gpu<'_>) -> crate::gpu::Reading {
    let action = gpu.nvml.field(gpu.device, 230, 0)? as usize;
    RECOVERY.get(action).map(|word| (*word).to_owned()).ok_or(crate::nvml::Code(999))
}

fn addressing(gpu: &Gpu<'_>) -> crate::gpu::Reading {
    let mode = gpu.nvml.versioned(gpu.device, "nvmlDeviceGetAddressingMode")? as usize;
    ["None", "HMM", "ATS"].get(mode).map(|word| (*word).to_owned()).ok_or(crate::nvml::Code(999))
}

/// All fields of `--query-gpu`, in the order of its help.
pub(crate) fn all() -> impl Iterator<Item = &'static Field> {
    BEFORE_ECC.iter().chain(ECC.iter().flatten()).chain(SRAM).chain(AFTER_ECC).chain(newer::NEWER)
}

/// The field of this name.
pub(crate) fn find(name: &str) -> Option<&'static Field> {
    all().find(|field| field.names.contains(&name))
}
