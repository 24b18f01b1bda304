"""NVML: which fields this GPU has, and their values where they belong to the model and not to the moment or the machine."""

from calls import At, Out, Ref, call, row, setup, table

STATIC, MOMENT = False, True
#: Functions of a device and one 32-bit number: (name after nvmlDeviceGet, whether the number is of the moment or the machine).
NUMBERS = [
    ("Architecture", STATIC), ("Brand", STATIC), ("BusType", STATIC), ("BoardId", MOMENT), ("ComputeMode", MOMENT),
    ("CurrPcieLinkGeneration", MOMENT), ("CurrPcieLinkWidth", MOMENT), ("DisplayActive", MOMENT), ("DisplayMode", MOMENT),
    ("EnforcedPowerLimit", MOMENT), ("FanSpeed", MOMENT), ("GpuMaxPcieLinkGeneration", STATIC), ("Index", STATIC),
    ("InforomConfigurationChecksum", MOMENT), ("IrqNum", MOMENT), ("MaxPcieLinkGeneration", MOMENT), ("MaxPcieLinkWidth", MOMENT),
    ("MemoryBusWidth", STATIC), ("MinorNumber", MOMENT), ("ModuleId", MOMENT), ("MultiGpuBoard", STATIC), ("NumFans", STATIC),
    ("NumGpuCores", STATIC), ("PcieLinkMaxSpeed", STATIC), ("PcieReplayCounter", MOMENT), ("PcieSpeed", MOMENT),
    ("PerformanceState", MOMENT), ("PersistenceMode", MOMENT), ("PowerManagementDefaultLimit", STATIC),
    ("PowerManagementLimit", MOMENT), ("PowerManagementMode", STATIC), ("PowerSource", STATIC), ("PowerUsage", MOMENT),
    ("AccountingMode", MOMENT), ("MaxMigDeviceCount", STATIC), ("DefaultEccMode", STATIC), ("AdaptiveClockInfoStatus", STATIC),
    ("GpuOperationMode", MOMENT),
]
#: Functions of a device and two numbers that are filled.
PAIRS = [
    ("CudaComputeCapability", STATIC), ("EccMode", MOMENT), ("MigMode", MOMENT), ("PowerManagementLimitConstraints", STATIC),
    ("UtilizationRates", MOMENT), ("EncoderUtilization", MOMENT), ("DecoderUtilization", MOMENT), ("MinMaxFanSpeed", STATIC),
]
#: Functions of a device, a choice, and one number: (name, choices, whose number).
CHOICES = [
    ("ClockInfo", {0: "graphics", 1: "SM", 2: "memory", 3: "video"}, MOMENT),
    ("MaxClockInfo", {0: "graphics", 1: "SM", 2: "memory", 3: "video"}, STATIC),
    ("ApplicationsClock", {0: "graphics", 2: "memory"}, MOMENT),
    ("DefaultApplicationsClock", {0: "graphics", 2: "memory"}, STATIC),
    ("MaxCustomerBoostClock", {0: "graphics", 2: "memory"}, STATIC),
    ("Temperature", {0: "GPU"}, MOMENT),
    ("TemperatureThreshold", {0: "shutdown", 1: "slowdown", 2: "memory", 3: "GPU", 4: "least sound", 5: "current sound", 6: "most sound"}, STATIC),
    ("NvLinkState", {0: "0", 17: "17", 18: "18"}, MOMENT),
    ("NvLinkVersion", {0: "0"}, STATIC),
    ("PcieThroughput", {0: "sent", 1: "received"}, MOMENT),
]
#: Functions of a device and a 64-bit number.
LONG = [("TotalEnergyConsumption", MOMENT), ("SupportedClocksEventReasons", STATIC), ("CurrentClocksEventReasons", MOMENT), ("SupportedEventTypes", STATIC)]
#: Text that identifies a card or a machine is not recorded: only whether there is some.
TEXT = [("Name", "text", STATIC), ("UUID", "set", STATIC), ("Serial", "set", STATIC), ("VbiosVersion", "text", MOMENT)]

BEFORE = (setup("nvmlInit_v2"), setup("nvmlDeviceGetHandleByIndex_v2", 0, Out("device")))


def field(name, *arguments, note=""):
    title = f"nvmlDeviceGet{name}" + (f" {note}" if note else "")
    return row(title, *BEFORE, call(f"nvmlDeviceGet{name}", Ref("device"), *arguments), context="none")


def ask(title, *calls, **rest):
    return row(title, *calls, context="none", **rest)


ROWS = [
    *(field(name, Out("value", "u32", measured=whose)) for name, whose in NUMBERS),
    *(field(name, Out("first", "u32", measured=whose), Out("second", "u32", measured=whose)) for name, whose in PAIRS),
    *(field(name, choice, Out("value", "u32", measured=whose), note=note) for name, choices, whose in CHOICES for choice, note in choices.items()),
    *(field(name, Out("value", "u64", measured=whose)) for name, whose in LONG),
    *(field(name, Out("value", kind, 128, measured=whose), 96) for name, kind, whose in TEXT),
    ask("nvmlDeviceGetMemoryInfo", *BEFORE, call("nvmlDeviceGetMemoryInfo", Ref("device"), Out("total", "u64", 24))),
    ask("nvmlDeviceGetBAR1MemoryInfo", *BEFORE, call("nvmlDeviceGetBAR1MemoryInfo", Ref("device"), Out("total", "u64", 24))),
    *(ask(f"nvmlDeviceGetTotalEccErrors {kind} {counter}", *BEFORE, call("nvmlDeviceGetTotalEccErrors", Ref("device"), at, which, Out("count", "u64", measured=True)))
      for at, kind in enumerate(("corrected", "uncorrected")) for which, counter in enumerate(("volatile", "aggregate"))),
    ask("nvmlDeviceGetRemappedRows", *BEFORE, call("nvmlDeviceGetRemappedRows", Ref("device"), *(Out(name, "u32", measured=True) for name in "abcd"))),
    ask("nvmlDeviceGetRetiredPagesPendingStatus", *BEFORE, call("nvmlDeviceGetRetiredPagesPendingStatus", Ref("device"), Out("pending", "u32", measured=True))),
    ask("nvmlDeviceGetVirtualizationMode", *BEFORE, call("nvmlDeviceGetVirtualizationMode", Ref("device"), Out("mode", "u32", measured=True))),
    *(ask(f"nvmlDeviceGetSupportedMemoryClocks, room for {room}", *BEFORE, setup("nvmlDeviceGetIndex", Ref("device"), Out("count", "u32")), call("nvmlDeviceGetSupportedMemoryClocks", Ref("device"), At("count"), 0)) for room in (0,)),
    # Mistakes.
    ask("nvmlDeviceGetCount before nvmlInit", call("nvmlDeviceGetCount_v2", Out("count", "u32")), documented="Uninitialized"),
    ask("nvmlShutdown before nvmlInit", call("nvmlShutdown"), documented="Uninitialized"),
    ask("nvmlInit twice, nvmlShutdown once", call("nvmlInit_v2"), call("nvmlInit_v2"), call("nvmlShutdown"), call("nvmlDeviceGetCount_v2", Out("count", "u32")), documented="Success"),
    ask("nvmlDeviceGetHandleByIndex(99)", setup("nvmlInit_v2"), call("nvmlDeviceGetHandleByIndex_v2", 99, Out("other")), documented="Invalid Argument"),
    ask("nvmlDeviceGetHandleByIndex without a place", setup("nvmlInit_v2"), call("nvmlDeviceGetHandleByIndex_v2", 0, 0), documented="Invalid Argument"),
    ask("nvmlDeviceGetCount without a place", setup("nvmlInit_v2"), call("nvmlDeviceGetCount_v2", 0), documented="Invalid Argument"),
    ask("nvmlDeviceGetName into 4 bytes", *BEFORE, call("nvmlDeviceGetName", Ref("device"), Out("name", None, 96), 4), documented="Insufficient Size"),
    ask("nvmlSystemGetDriverVersion into 2 bytes", setup("nvmlInit_v2"), call("nvmlSystemGetDriverVersion", Out("version", None, 96), 2), documented="Insufficient Size"),
    ask("nvmlDeviceGetClockInfo of clock 99", *BEFORE, call("nvmlDeviceGetClockInfo", Ref("device"), 99, Out("value", "u32")), documented="Invalid Argument"),
    ask("nvmlDeviceGetTemperature of sensor 99", *BEFORE, call("nvmlDeviceGetTemperature", Ref("device"), 99, Out("value", "u32")), documented="Invalid Argument"),
    ask("nvmlDeviceGetMemoryInfo without a place", *BEFORE, call("nvmlDeviceGetMemoryInfo", Ref("device"), 0), documented="Invalid Argument"),
    ask("nvmlDeviceGetP2PStatus of one device", *BEFORE, call("nvmlDeviceGetP2PStatus", Ref("device"), Ref("device"), 0, Out("status", "u32"))),
    ask("nvmlDeviceGetTopologyCommonAncestor of one device", *BEFORE, call("nvmlDeviceGetTopologyCommonAncestor", Ref("device"), Ref("device"), Out("level", "u32"))),
]


def record(machine):
    return table(ROWS, machine)
