//! Attributes of kernels: from their code, or assumed if we have no code.

use std::ffi::{c_int, c_uint};

use abi::cuda::{CudaError, CudaResult};
use abi::library::Library;

use crate::boundary::gap;
use crate::device::Device;
use crate::device::kernel::Kernel;
use crate::device::state::attribute;

/// Assumed for a kernel without code here: a medium register count and no static shared memory.
const ASSUMED_REGISTERS: u32 = 32;

/// The resource needs of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Registers per thread.
    pub(crate) registers: u32,
    /// Static shared memory per block, bytes.
    pub(crate) shared_bytes: u32,
    /// Dynamic shared memory that a launch may ask for, bytes.
    pub(crate) max_dynamic: u32,
    pub(crate) constant_bytes: u32,
    /// Local memory per thread, bytes.
    pub(crate) local_bytes: u32,
    /// Maximum number of threads per block.
    pub(crate) max_threads: u32,
    /// Compute capability that it was written for (and compiled for), times ten.
    pub(crate) written_for: u32,
    pub(crate) compiled_for: u32,
    pub(crate) required_cluster: Option<[u32; 3]>,
}

/// The figures of a kernel. For a kernel without code here they are assumed, which is a gap.
pub(crate) fn figures(device: &Device, kernel: &Kernel, library: Library, call: &'static str) -> CudaResult<Figures> {
    let (major, minor) = attribute::capability(device);
    let compiled_for = (major * 10 + minor) as u32;
    let limits = &device.gpu.profile.limits;
    let Ok(runnable) = kernel.code(device) else {
        let detail =
            format!("{}: assumes {ASSUMED_REGISTERS} registers, no static memory", kernel.name().to_string_lossy());
        gap::tolerate(library, call, &detail)?;
        return Ok(Figures {
            registers: ASSUMED_REGISTERS,
            shared_bytes: 0,
            max_dynamic: limits.shared_memory_per_block,
            constant_bytes: 0,
            local_bytes: 0,
            max_threads: 1024,
            written_for: compiled_for,
            compiled_for,
            required_cluster: None,
        });
    };
    let attributes = runnable.compiled.attributes;
    let entry = runnable.compiled.kernel.entry();
    // An estimate, which must not say that a block fits nowhere.
    let most = (limits.registers_per_block / attributes.max_threads.max(1) / 8 * 8).max(16);
    Ok(Figures {
        registers: attributes.registers.min(most),
        shared_bytes: attributes.shared_bytes as u32,
        max_dynamic: runnable.compiled.max_dynamic(limits.shared_memory_per_block),
        constant_bytes: attributes.const_bytes as u32,
        local_bytes: attributes.local_bytes as u32,
        max_threads: attributes.max_threads,
        written_for: entry.binary_version,
        compiled_for,
        required_cluster: entry.required_cluster,
    })
}

/// One attribute, as `cuFuncGetAttribute` and `cuKernelGetAttribute` number them.
pub(crate) fn one_attribute(device: &Device, kernel: &Kernel, number: c_uint, call: &'static str) -> CudaResult<c_int> {
    let figures = figures(device, kernel, Library::CudaDriver, call)?;
    let cluster = figures.required_cluster;
    let value = match number {
        0 => figures.max_threads,
        1 => figures.shared_bytes,
        2 => figures.constant_bytes,
        3 => figures.local_bytes,
        4 => figures.registers,
        5 => figures.written_for,
        6 => figures.compiled_for,
        7 | 14 | 15 => 0,
        8 => figures.max_dynamic,
        9 => return Ok(-1),
        10 => u32::from(cluster.is_some()),
        11..=13 => cluster.map_or(0, |sizes| sizes[number as usize - 11]),
        _ => return Err(CudaError::INVALID_VALUE),
    };
    Ok(value as c_int)
}

/// Sets an attribute. Dynamic shared memory is kept for launches; a value that the device could not support is refused.
pub(crate) fn set_attribute(device: &Device, kernel: &Kernel, number: c_uint, value: c_int) -> CudaResult {
    let limit = device.gpu.profile.limits.shared_memory_per_block_optin as c_int;
    let code = kernel.code(device).ok();
    let own = code.as_ref().map_or(0, |code| code.compiled.attributes.shared_bytes as c_int);
    let fits = match number {
        8 => (0..=limit - own).contains(&value),
        9 => (-1..=100).contains(&value),
        10..=15 => value >= 0,
        _ => false,
    };
    if !fits {
        return Err(CudaError::INVALID_VALUE);
    }
    if let (8, Some(code)) = (number, code) {
        code.compiled.set_max_dynamic(value as u32);
    }
    Ok(())
}
