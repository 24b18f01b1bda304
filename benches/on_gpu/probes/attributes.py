"""Device attributes: every number of `cudaDeviceAttr` and `CUdevice_attribute`, in one process each."""

import ctypes

from calls import apart

#: The last numbers of CUDA 13's enumerations and some beyond, where a newer driver answers.
NUMBERS = range(1, 161)
#: By what they are of: where the GPU is plugged in, who set it up. Numbers are the same in both enumerations.
MACHINE = {
    20: "ComputeMode", 17: "KernelExecTimeout", 33: "PciBusId", 34: "PciDeviceId", 35: "TccDriver", 50: "PciDomainId",
    130: "NumaId", 134: "HostNumaId", 139: "GpuPciDeviceId", 140: "GpuPciSubsystemId",
}
#: Names for readers; a number is what is compared.
NAMES = {
    1: "MaxThreadsPerBlock", 2: "MaxBlockDimX", 3: "MaxBlockDimY", 4: "MaxBlockDimZ", 5: "MaxGridDimX", 6: "MaxGridDimY",
    7: "MaxGridDimZ", 8: "MaxSharedMemoryPerBlock", 9: "TotalConstantMemory", 10: "WarpSize", 11: "MaxPitch",
    12: "MaxRegistersPerBlock", 13: "ClockRate", 14: "TextureAlignment", 15: "GpuOverlap", 16: "MultiProcessorCount",
    18: "Integrated", 19: "CanMapHostMemory", 31: "ConcurrentKernels", 32: "EccEnabled", 36: "MemoryClockRate",
    37: "GlobalMemoryBusWidth", 38: "L2CacheSize", 39: "MaxThreadsPerMultiProcessor", 40: "AsyncEngineCount",
    41: "UnifiedAddressing", 51: "TexturePitchAlignment", 75: "ComputeCapabilityMajor", 76: "ComputeCapabilityMinor",
    78: "StreamPrioritiesSupported", 79: "GlobalL1CacheSupported", 80: "LocalL1CacheSupported",
    81: "MaxSharedMemoryPerMultiprocessor", 82: "MaxRegistersPerMultiprocessor", 83: "ManagedMemory", 84: "IsMultiGpuBoard",
    85: "MultiGpuBoardGroupID", 86: "HostNativeAtomicSupported", 87: "SingleToDoublePrecisionPerfRatio",
    88: "PageableMemoryAccess", 89: "ConcurrentManagedAccess", 90: "ComputePreemptionSupported",
    91: "CanUseHostPointerForRegisteredMem", 95: "CooperativeLaunch", 97: "MaxSharedMemoryPerBlockOptin",
    98: "CanFlushRemoteWrites", 99: "HostRegisterSupported", 100: "PageableMemoryAccessUsesHostPageTables",
    101: "DirectManagedMemAccessFromHost", 106: "MaxBlocksPerMultiprocessor", 108: "MaxPersistingL2CacheSize",
    109: "MaxAccessPolicyWindowSize", 111: "ReservedSharedMemoryPerBlock", 115: "MemoryPoolsSupported",
    116: "GPUDirectRDMASupported", 120: "ClusterLaunch", **MACHINE,
}


def record(machine):
    answers = {}
    for function, title in (("cuDeviceGetAttribute", "driver"), ("cudaDeviceGetAttribute", "runtime")):
        if machine.libraries.find(function) is None:
            answers[title] = {"skipped": f"there is no {machine.libraries.of(function)[0]}"}
            continue
        of_all = apart(lambda tell, function=function: tell(_ask(machine.libraries, function)))
        if "ended" in of_all:
            answers[title] = of_all
            continue
        answers.update({f"{title} {name}": answer for name, answer in of_all.items() if name != "gap"})
    return answers


def _ask(libraries, function):
    ask, value, found = libraries.find(function), ctypes.c_int(), {}
    libraries.find("cuInit")(0)
    for number in NUMBERS:
        value.value = -1
        code = ask(ctypes.byref(value), number, 0)
        name = f"{number} {NAMES[number]}" if number in NAMES else str(number)
        answer = found[name] = {"answers": [libraries.code(function, code)]}
        if code == 0:
            answer["measured" if number in MACHINE else "out"] = {"value": value.value}
    return found
