//! The contents of the report of `-q`, as data: each item with its label and its element in XML (nvsmi_device_v13.dtd).

use crate::gpu::Read::{
    self, Bar1, Clock, Ecc, Memory, Nothing, Nth, Number, Of, Reason, Text, Value, Watts, WattsOf, Word,
};

/// An item of the report.
pub(crate) enum Item {
    /// A value: label, element, unit.
    Leaf(&'static str, &'static str, &'static str, Read),
    /// A group of other items.
    Group(&'static str, &'static str, &'static [Item]),
    /// The same, but a single "N/A" if one of its values is missing.
    Whole(&'static str, &'static str, Read, &'static [Item]),
    /// A field of `--query-gpu`, with its unit.
    Field(&'static str, &'static str, &'static str),
    /// Items that are in XML only.
    XmlOnly(&'static [Item]),
    /// An element that is in XML only, and its text.
    Element(&'static str, &'static str),
    /// Clocks that can be set; in the text only on request.
    SupportedClocks,
    Processes,
    /// In the text only, if the section is requested: samples of the values in the preceding element. The section's element,
    /// label, `NVML_*_SAMPLES`, unit.
    Samples(&'static str, &'static str, i32, &'static str),
}

use Item::{Element, Field, Group, Leaf, Processes, Samples, SupportedClocks, Whole, XmlOnly};

const YES: &[&str] = &["No", "Yes"];
const DEPRECATED: Read = Read::Fixed("Requested functionality has been deprecated");

const fn na(label: &'static str, element: &'static str) -> Item {
    Leaf(label, element, "", Nothing)
}

static LIMITS: &[Item] = &[
    XmlOnly(&[Leaf("Power State", "power_state", "", DEPRECATED)]),
    na("Average Power Draw", "average_power_draw"),
    na("Instantaneous Power Draw", "instant_power_draw"),
    na("Current Power Limit", "current_power_limit"),
    na("Requested Power Limit", "requested_power_limit"),
    na("Default Power Limit", "default_power_limit"),
    na("Min Power Limit", "min_power_limit"),
    na("Max Power Limit", "max_power_limit"),
];

/// All items of a GPU.
pub(crate) static GPU: &[Item] = &[
    Leaf("Product Name", "product_name", "", Text("GetName")),
    Leaf("Product Brand", "product_brand", "", Of(|gpu| gpu.brand())),
    Leaf("Product Architecture", "product_architecture", "", Of(|gpu| gpu.architecture())),
    Leaf("Display Mode", "display_mode", "", DEPRECATED),
    Field("Display Attached", "display_attached", "display_attached"),
    Field("Display Active", "display_active", "display_active"),
    Field("Persistence Mode", "persistence_mode", "persistence_mode"),
    Field("Addressing Mode", "addressing_mode", "addressing_mode"),
    Group(
        "MIG Mode",
        "mig_mode",
        &[Field("Current", "current_mig", "mig.mode.current"), Field("Pending", "pending_mig", "mig.mode.pending")],
    ),
    Element("mig_devices", "None"),
    Field("Accounting Mode", "accounting_mode", "accounting.mode"),
    Field("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "accounting.buffer_size"),
    Group("Driver Model", "driver_model", &[na("Current", "current_dm"), na("Pending", "pending_dm")]),
    Field("Serial Number", "serial", "serial"),
    Field("GPU UUID", "uuid", "uuid"),
    Leaf("GPU PDI", "pdi", "", Of(|gpu| gpu.nvml.pdi(gpu.device).map(|pdi| format!("0x{pdi:016x}")))),
    Leaf("Minor Number", "minor_number", "", Number("GetMinorNumber")),
    Field("VBIOS Version", "vbios_version", "vbios_version"),
    Leaf("MultiGPU Board", "multigpu_board", "", Word("GetMultiGpuBoard", 0, YES)),
    Leaf(
        "Board ID",
        "board_id",
        "",
        Of(|gpu| gpu.nvml.number(gpu.device, "nvmlDeviceGetBoardId").map(|id| format!("0x{id:x}"))),
    ),
    Leaf("Board Part Number", "board_part_number", "", Text("GetBoardPartNumber")),
    na("GPU Part Number", "gpu_part_number"),
    na("FRU Part Number", "gpu_fru_part_number"),
    Group(
        "Platform Info",
        "platformInfo",
        &[
            na("Chassis Serial Number", "chassis_serial_number"),
            na("Slot Number", "slot_number"),
            na("Tray Index", "tray_index"),
            na("Host ID", "host_id"),
            na("Peer Type", "peer_type"),
            Leaf("Module Id", "module_id", "", Number("GetModuleId")),
            na("GPU Fabric GUID", "gpu_fabric_guid"),
        ],
    ),
    Group(
        "Inforom Version",
        "inforom_version",
        &[
            Field("Image Version", "img_version", "inforom.img"),
            Field("OEM Object", "oem_object", "inforom.oem"),
            Field("ECC Object", "ecc_object", "inforom.ecc"),
            Field("Power Management Object", "pwr_object", "inforom.pwr"),
        ],
    ),
    Group(
        "Inforom BBX Object Flush",
        "inforom_bbx_flush",
        &[na("Latest Timestamp", "latest_timestamp"), na("Latest Duration", "latest_duration")],
    ),
    Group("GPU Operation Mode", "gpu_operation_mode", &[na("Current", "current_gom"), na("Pending", "pending_gom")]),
    Field("GPU C2C Mode", "c2c_mode", "c2c.mode"),
    Group(
        "GPU Virtualization Mode",
        "gpu_virtualization_mode",
        &[
            Leaf(
                "Virtualization Mode",
                "virtualization_mode",
                "",
                Word("GetVirtualizationMode", 0, &["None", "Pass-Through", "VGPU", "Host VGPU", "Host VSGA"]),
            ),
            na("Host VGPU Mode", "host_vgpu_mode"),
            na("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode"),
        ],
    ),
    Field("GPU Recovery Action", "gpu_recovery_action", "gpu_recovery_action"),
    Leaf("GSP Firmware Version", "gsp_firmware_version", "", Text("GetGspFirmwareVersion")),
    Group("IBMNPU", "ibmnpu", &[na("Relaxed Ordering Mode", "relaxed_ordering_mode")]),
    Group(
        "PCI",
        "pci",
        &[
            Field("Bus", "pci_bus", "pci.bus"),
            Field("Device", "pci_device", "pci.device"),
            Field("Domain", "pci_domain", "pci.domain"),
            Field("Base Classcode", "pci_base_class", "pci.baseClass"),
            Field("Sub Classcode", "pci_sub_class", "pci.subClass"),
            Field("Device Id", "pci_device_id", "pci.device_id"),
            Field("Bus Id", "pci_bus_id", "pci.bus_id"),
            Field("Sub System Id", "pci_sub_system_id", "pci.sub_device_id"),
            Group(
                "GPU Link Info",
                "pci_gpu_link_info",
                &[
                    Group(
                        "PCIe Generation",
                        "pcie_gen",
                        &[
                            Field("Max", "max_link_gen", "pcie.link.gen.max"),
                            Field("Current", "current_link_gen", "pcie.link.gen.current"),
                            Field("Device Current", "device_current_link_gen", "pcie.link.gen.gpucurrent"),
                            Field("Device Max", "max_device_link_gen", "pcie.link.gen.gpumax"),
                            Field("Host Max", "max_host_link_gen", "pcie.link.gen.hostmax"),
                        ],
                    ),
                    Group(
                        "Link Width",
                        "link_widths",
                        &[
                            Leaf(
                                "Max",
                                "max_link_width",
                                "",
                                Of(|gpu| {
                                    gpu.nvml
                                        .number(gpu.device, "nvmlDeviceGetMaxPcieLinkWidth")
                                        .map(|lanes| format!("{lanes}x"))
                                }),
                            ),
                            Leaf(
                                "Current",
                                "current_link_width",
                                "",
                                Of(|gpu| {
                                    gpu.nvml
                                        .number(gpu.device, "nvmlDeviceGetCurrPcieLinkWidth")
                                        .map(|lanes| format!("{lanes}x"))
                                }),
                            ),
                        ],
                    ),
                ],
            ),
            Group(
                "Bridge Chip",
                "pci_bridge_chip",
                &[na("Type", "bridge_chip_type"), na("Firmware", "bridge_chip_fw")],
            ),
            Leaf("Replays Since Reset", "replay_counter", "", Number("GetPcieReplayCounter")),
            Leaf("Replay Number Rollovers", "replay_rollover_counter", "", Value(95)),
            Leaf("Tx Throughput", "tx_util", "KB/s", Of(|gpu| gpu.throughput(0))),
            Leaf("Rx Throughput", "rx_util", "KB/s", Of(|gpu| gpu.throughput(1))),
            na("Atomic Caps Outbound", "atomic_caps_outbound"),
            na("Atomic Caps Inbound", "atomic_caps_inbound"),
        ],
    ),
    Field("Fan Speed", "fan_speed", "fan.speed"),
    Field("Performance State", "performance_state", "pstate"),
    Group(
        "Clocks Event Reasons",
        "clocks_event_reasons",
        &[
            Leaf("Idle", "clocks_event_reason_gpu_idle", "", Reason(0x1)),
            Leaf("Applications Clocks Setting", "clocks_event_reason_applications_clocks_setting", "", Reason(0x2)),
            Leaf("SW Power Cap", "clocks_event_reason_sw_power_cap", "", Reason(0x4)),
            Leaf("HW Slowdown", "clocks_event_reason_hw_slowdown", "", Reason(0x8)),
            Leaf("    HW Thermal Slowdown", "clocks_event_reason_hw_thermal_slowdown", "", Reason(0x40)),
            Leaf("    HW Power Brake Slowdown", "clocks_event_reason_hw_power_brake_slowdown", "", Reason(0x80)),
            Leaf("Sync Boost", "clocks_event_reason_sync_boost", "", Reason(0x10)),
            Leaf("SW Thermal Slowdown", "clocks_event_reason_sw_thermal_slowdown", "", Reason(0x20)),
            Leaf("Display Clock Setting", "clocks_event_reason_display_clocks_setting", "", Reason(0x100)),
        ],
    ),
    Group(
        "Clocks Event Reasons Counters",
        "clocks_event_reasons_counters",
        &[
            Field(
                "SW Power Capping",
                "clocks_event_reasons_counters_sw_power_cap",
                "clocks_event_reasons_counters.sw_power_cap",
            ),
            Field("Sync Boost", "clocks_event_reasons_counters_sync_boost", "clocks_event_reasons_counters.sync_boost"),
            Field(
                "SW Thermal Slowdown",
                "clocks_event_reasons_counters_sw_therm_slowdown",
                "clocks_event_reasons_counters.sw_thermal_slowdown",
            ),
            Field(
                "HW Thermal Slowdown",
                "clocks_event_reasons_counters_hw_therm_slowdown",
                "clocks_event_reasons_counters.hw_thermal_slowdown",
            ),
            Field(
                "HW Power Braking",
                "clocks_event_reasons_counters_hw_power_brake",
                "clocks_event_reasons_counters.hw_power_brake_slowdown",
            ),
        ],
    ),
    na("Sparse Operation Mode", "sparse_operation_mode"),
    Group(
        "FB Memory Usage",
        "fb_memory_usage",
        &[
            Leaf("Total", "total", "MiB", Memory(0)),
            Leaf("Reserved", "reserved", "MiB", Memory(3)),
            Leaf("Used", "used", "MiB", Memory(1)),
            Leaf("Free", "free", "MiB", Memory(2)),
        ],
    ),
    Group(
        "BAR1 Memory Usage",
        "bar1_memory_usage",
        &[
            Leaf("Total", "total", "MiB", Bar1(0)),
            Leaf("Used", "used", "MiB", Bar1(1)),
            Leaf("Free", "free", "MiB", Bar1(2)),
        ],
    ),
    Group(
        "Conf Compute Protected Memory Usage",
        "cc_protected_memory_usage",
        &[
            Field("Total", "total", "protected_memory.total"),
            Field("Used", "used", "protected_memory.used"),
            Field("Free", "free", "protected_memory.free"),
        ],
    ),
    Field("Compute Mode", "compute_mode", "compute_mode"),
    Group(
        "Utilization",
        "utilization",
        &[
            Field("GPU", "gpu_util", "utilization.gpu"),
            Field("Memory", "memory_util", "utilization.memory"),
            Field("Encoder", "encoder_util", "utilization.encoder"),
            Field("Decoder", "decoder_util", "utilization.decoder"),
            Field("JPEG", "jpeg_util", "utilization.jpeg"),
            Field("OFA", "ofa_util", "utilization.ofa"),
        ],
    ),
    Samples("utilization", "GPU Utilization Samples", 1, "%"),
    Samples("utilization", "Memory Utilization Samples", 2, "%"),
    Samples("utilization", "ENC Utilization Samples", 3, "%"),
    Samples("utilization", "DEC Utilization Samples", 4, "%"),
    Samples("utilization", "JPG Utilization Samples", 8, "%"),
    Samples("utilization", "OFA Utilization Samples", 9, "%"),
    Group(
        "Encoder Stats",
        "encoder_stats",
        &[
            Field("Active Sessions", "session_count", "encoder.stats.sessionCount"),
            Field("Average FPS", "average_fps", "encoder.stats.averageFps"),
            Field("Average Latency", "average_latency", "encoder.stats.averageLatency"),
        ],
    ),
    Group(
        "FBC Stats",
        "fbc_stats",
        &[
            Leaf("Active Sessions", "session_count", "", Read::Fixed("0")),
            Leaf("Average FPS", "average_fps", "", Read::Fixed("0")),
            Leaf("Average Latency", "average_latency", "", Read::Fixed("0")),
        ],
    ),
    Group(
        "DRAM Encryption Mode",
        "dram_encryption_mode",
        &[na("Current", "current_dram_encryption"), na("Pending", "pending_dram_encryption")],
    ),
    Group(
        "ECC Mode",
        "ecc_mode",
        &[Field("Current", "current_ecc", "ecc.mode.current"), Field("Pending", "pending_ecc", "ecc.mode.pending")],
    ),
    Group(
        "ECC Errors",
        "ecc_errors",
        &[
            Group(
                "Volatile",
                "volatile",
                &[
                    Leaf("SRAM Correctable", "sram_correctable", "", Ecc(0, 0, Some(7))),
                    Leaf("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", "", Ecc(1, 0, Some(7))),
                    Leaf("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "", Ecc(1, 0, Some(7))),
                    Leaf("DRAM Correctable", "dram_correctable", "", Ecc(0, 0, Some(2))),
                    Leaf("DRAM Uncorrectable", "dram_uncorrectable", "", Ecc(1, 0, Some(2))),
                ],
            ),
            Group(
                "Aggregate",
                "aggregate",
                &[
                    Leaf("SRAM Correctable", "sram_correctable", "", Ecc(0, 1, Some(7))),
                    Leaf("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", "", Ecc(1, 1, Some(7))),
                    Leaf("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "", Ecc(1, 1, Some(7))),
                    Leaf("DRAM Correctable", "dram_correctable", "", Ecc(0, 1, Some(2))),
                    Leaf("DRAM Uncorrectable", "dram_uncorrectable", "", Ecc(1, 1, Some(2))),
                    Leaf("SRAM Threshold Exceeded", "sram_threshold_exceeded", "", Of(|gpu| gpu.sram_threshold())),
                ],
            ),
            Group(
                "Aggregate Uncorrectable SRAM Sources",
                "aggregate_uncorrectable_sram_sources",
                &[
                    Leaf("SRAM L2", "sram_l2", "", Of(|gpu| gpu.sram_errors(6))),
                    Leaf("SRAM SM", "sram_sm", "", Of(|gpu| gpu.sram_errors(7))),
                    Leaf("SRAM Microcontroller", "sram_microcontroller", "", Of(|gpu| gpu.sram_errors(9))),
                    Leaf("SRAM PCIE", "sram_pcie", "", Of(|gpu| gpu.sram_errors(8))),
                    Leaf("SRAM Other", "sram_other", "", Of(|gpu| gpu.sram_errors(10))),
                ],
            ),
            na("Channel Repair Pending", "channel_repair_pending"),
            na("TPC Repair Pending", "tpc_repair_pending"),
            na("Unrepairable Memory", "unrepairable_memory"),
        ],
    ),
    Group(
        "Retired Pages",
        "retired_pages",
        &[
            Field("Single Bit ECC", "multiple_single_bit_retirement", "retired_pages.sbe"),
            Field("Double Bit ECC", "double_bit_retirement", "retired_pages.dbe"),
            Field("Pending Page Blacklist", "pending_blacklist", "retired_pages.pending"),
            XmlOnly(&[Field("Pending Retirement", "pending_retirement", "retired_pages.pending")]),
        ],
    ),
    Whole(
        "Remapped Rows",
        "remapped_rows",
        Nth("GetRemappedRows", 0),
        &[
            Field("Correctable Error", "remapped_row_corr", "remapped_rows.correctable"),
            Field("Uncorrectable Error", "remapped_row_unc", "remapped_rows.uncorrectable"),
            Field("Pending", "remapped_row_pending", "remapped_rows.pending"),
            Field("Remapping Failure Occurred", "remapped_row_failure", "remapped_rows.failure"),
            Whole("Bank Remap Availability Histogram", "row_remapper_histogram", Nothing, &[]),
        ],
    ),
    Group(
        "Temperature",
        "temperature",
        &[
            Leaf(
                "GPU Current Temp",
                "gpu_temp",
                "C",
                Of(|gpu| gpu.nvml.long(gpu.device, "nvmlDeviceGetTemperature", [0]).map(|degrees| degrees.to_string())),
            ),
            Leaf("GPU T.Limit Temp", "gpu_temp_tlimit", "C", Of(|gpu| gpu.margin())),
            Leaf("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", "C", Value(193)),
            Leaf("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", "C", Value(194)),
            Leaf("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "C", Value(196)),
            na("GPU Target Temperature", "gpu_target_temperature"),
            Leaf("Memory Current Temp", "memory_temp", "C", Value(82)),
            Leaf("Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold", "C", Value(195)),
        ],
    ),
    XmlOnly(&[Group(
        "Supported GPU_TARGET_TEMP",
        "supported_gpu_target_temp",
        &[na("Min", "gpu_target_temp_min"), na("Max", "gpu_target_temp_max")],
    )]),
    Group(
        "GPU Power Readings",
        "gpu_power_readings",
        &[
            XmlOnly(&[Leaf("Power State", "power_state", "", DEPRECATED)]),
            Leaf("Average Power Draw", "average_power_draw", "W", WattsOf(185)),
            Leaf("Instantaneous Power Draw", "instant_power_draw", "W", WattsOf(186)),
            Leaf("Current Power Limit", "current_power_limit", "W", Watts("GetEnforcedPowerLimit")),
            Leaf("Requested Power Limit", "requested_power_limit", "W", Watts("GetPowerManagementLimit")),
            Leaf("Default Power Limit", "default_power_limit", "W", Watts("GetPowerManagementDefaultLimit")),
            Leaf("Min Power Limit", "min_power_limit", "W", WattsOf(187)),
            Leaf("Max Power Limit", "max_power_limit", "W", WattsOf(188)),
        ],
    ),
    Samples("gpu_power_readings", "Power Samples", 0, "W"),
    Group(
        "GPU Memory Power Readings ",
        "gpu_memory_power_readings",
        &[na("Average Power Draw", "average_power_draw"), na("Instantaneous Power Draw", "instant_power_draw")],
    ),
    Group("Module Power Readings", "module_power_readings", LIMITS),
    na("Power Smoothing", "power_smoothing"),
    Group(
        "Workload Power Profiles",
        "power_profiles",
        &[
            na("Requested Profiles", "power_profile_requested_profiles"),
            na("Enforced Profiles", "power_profile_enforced_profiles"),
        ],
    ),
    XmlOnly(&[na("EDPp Multiplier", "edpp_multiplier")]),
    Group(
        "Clocks",
        "clocks",
        &[
            Leaf("Graphics", "graphics_clock", "MHz", Clock("GetClockInfo", 0)),
            Leaf("SM", "sm_clock", "MHz", Clock("GetClockInfo", 1)),
            Leaf("Memory", "mem_clock", "MHz", Clock("GetClockInfo", 2)),
            Leaf("Video", "video_clock", "MHz", Clock("GetClockInfo", 3)),
        ],
    ),
    Group(
        "Applications Clocks",
        "applications_clocks",
        &[
            Leaf("Graphics", "graphics_clock", "MHz", Clock("GetApplicationsClock", 0)),
            Leaf("Memory", "mem_clock", "MHz", Clock("GetApplicationsClock", 2)),
        ],
    ),
    Group(
        "Default Applications Clocks",
        "default_applications_clocks",
        &[
            Leaf("Graphics", "graphics_clock", "MHz", Clock("GetDefaultApplicationsClock", 0)),
            Leaf("Memory", "mem_clock", "MHz", Clock("GetDefaultApplicationsClock", 2)),
        ],
    ),
    Group("Deferred Clocks", "deferred_clocks", &[na("Memory", "mem_clock")]),
    Group(
        "Max Clocks",
        "max_clocks",
        &[
            Leaf("Graphics", "graphics_clock", "MHz", Clock("GetMaxClockInfo", 0)),
            Leaf("SM", "sm_clock", "MHz", Clock("GetMaxClockInfo", 1)),
            Leaf("Memory", "mem_clock", "MHz", Clock("GetMaxClockInfo", 2)),
            Leaf("Video", "video_clock", "MHz", Clock("GetMaxClockInfo", 3)),
        ],
    ),
    Group(
        "Max Customer Boost Clocks",
        "max_customer_boost_clocks",
        &[Leaf("Graphics", "graphics_clock", "MHz", Clock("GetMaxCustomerBoostClock", 0))],
    ),
    Group(
        "Clock Policy",
        "clock_policy",
        &[na("Auto Boost", "auto_boost"), na("Auto Boost Default", "auto_boost_default")],
    ),
    Samples("clocks", "SM Clock Samples", 5, "MHz"),
    Samples("clocks", "Memory Clock Samples", 6, "MHz"),
    Group("Voltage", "voltage", &[na("Graphics", "graphics_volt")]),
    Group(
        "Fabric",
        "fabric",
        &[
            na("State", "state"),
            na("Status", "status"),
            na("CliqueId", "cliqueId"),
            na("ClusterUUID", "clusterUuid"),
            Group(
                "Health",
                "health",
                &[
                    na("Summary", "summary"),
                    na("Bandwidth", "bandwidth"),
                    na("Route Recovery in progress", "route_recovery_in_progress"),
                    na("Route Unhealthy", "route_unhealthy"),
                    na("Access Timeout Recovery", "access_timeout_recovery"),
                    na("Incorrect Configuration", "incorrect_configuration"),
                ],
            ),
        ],
    ),
    SupportedClocks,
    Processes,
    XmlOnly(&[Group("Accounted Processes", "accounted_processes", &[])]),
    Group("Capabilities", "capabilities", &[Leaf("EGM", "egm", "", Read::Fixed("disabled"))]),
];
