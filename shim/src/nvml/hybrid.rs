//! NVML in mode `hybrid`, where the real GPUs compute: it answers what is known of the devices that the program sees. What only
//! the real GPU knows (load, sensors, errors, links) is not supported.

use std::ffi::{c_int, c_uint};
use std::fs;
use std::sync::OnceLock;

use protocol::gpu::Gpu;

use super::error::{NvmlError, NvmlResult};
use crate::settings::hybrid::facts;

/// What is answered: identity, limits, memory, processes.
const KNOWN: &[&str] = &[
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetDefaultApplicationsClock",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleBySerial",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetHandleByUUIDV",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetPciInfoExt",
    "nvmlDeviceGetPciInfo_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPcieLinkMaxSpeed",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetSupportedGraphicsClocks",
    "nvmlDeviceGetSupportedMemoryClocks",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetUUID",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlGetExcludedDeviceCount",
    "nvmlInit",
    "nvmlInitWithFlags",
    "nvmlInit_v2",
    "nvmlInternalGetExportTable",
    "nvmlShutdown",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverBranch",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetProcessName",
    "nvmlUnitGetCount",
];

/// Whether the function of this name answers.
pub(super) fn is_known(name: &str) -> bool {
    facts().is_none() || KNOWN.binary_search(&name).is_ok()
}

/// The same for `NVML_FI_DEV_*`: the number of links (91), power limits (187 to 190, 192) and temperature limits (193 to 196).
pub(super) fn admit_field(field: c_uint) -> NvmlResult {
    if facts().is_none() || matches!(field, 91 | 187..=190 | 192..=196) {
        Ok(())
    } else {
        Err(NvmlError::NOT_SUPPORTED)
    }
}

/// Bytes of memory that CUDA shows of the GPU with that index.
pub(super) fn total_memory(index: usize, gpu: &Gpu) -> NvmlResult<u64> {
    match facts().map(|facts| (facts.total_memory)(index as u32)) {
        None => Ok(gpu.profile.memory.bytes),
        Some(0) => Err(NvmlError::NOT_SUPPORTED),
        Some(total) => Ok(total),
    }
}

/// The real driver's version as its kernel module gives it; `None` where the driver is simulated.
pub(super) fn driver() -> Option<NvmlResult<&'static str>> {
    static VERSION: OnceLock<Option<String>> = OnceLock::new();
    facts()?;
    let read = || Some(fs::read_to_string("/sys/module/nvidia/version").ok()?.trim().to_owned());
    Some(VERSION.get_or_init(read).as_deref().ok_or(NvmlError::NOT_SUPPORTED))
}

/// The real driver's version of CUDA; `None` where the driver is simulated.
pub(super) fn cuda_version() -> Option<NvmlResult<c_int>> {
    match (facts()?.cuda_version)() {
        0 => Some(Err(NvmlError::NOT_SUPPORTED)),
        version => Some(Ok(version)),
    }
}

#[cfg(test)]
mod tests {
    use super::KNOWN;
    use crate::exports::nvml::EXPORTS;
    use abi::table::Status;

    #[test]
    fn what_is_known_is_sorted_and_exists() {
        assert!(KNOWN.is_sorted());
        let answers = |name: &&str| EXPORTS.iter().any(|export| export.name == *name && export.status == Status::Real);
        assert_eq!(KNOWN.iter().filter(|name| !answers(name)).count(), 0);
    }
}
