//! Nested launches of a running kernel: kernels of its own program, and copies.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};
use ptx::Child;

use super::{Given, KernelCall, Launch, check_kernel, check_sizes};
use crate::boundary::gap;
use crate::call_site::cpp_name;
use crate::device::kernel::children::{Accept, Children, Task};
use crate::device::kernel::grid::Grid;
use crate::device::kernel::{Kernel, Runnable};
use crate::device::memory::misuse;

/// The launches that a running kernel may make.
pub(super) struct Nested<'a> {
    pub(super) parent: &'a KernelCall,
    pub(super) given: &'a Given,
}

impl<'a> Accept<'a> for Nested<'a> {
    fn parameter_bytes(&self, function: u64) -> CudaResult<usize> {
        let entry = self.parent.runnable.program.entry_at(function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        Ok(entry.param_bytes() as usize)
    }

    fn kernel(&self, child: &Child, params: Vec<u8>) -> CudaResult<Task<'a>> {
        // As the CUDA Programming Guide's section on dynamic parallelism has it.
        const MAX_DEPTH: u32 = 24;
        const CALL: &str = "cudaLaunchDevice";
        let KernelCall { device, runnable, globals, library, depth, .. } = self.parent;
        let program = &runnable.program;
        let entry = program.entry_at(child.function).ok_or(CudaError::INVALID_DEVICE_FUNCTION)?;
        let launch = Launch::plain(child.grid, child.block, child.shared_bytes as usize);
        check_sizes(device, &launch)?;
        if *depth + 1 >= MAX_DEPTH {
            return Err(CudaError::LAUNCH_MAX_DEPTH);
        }
        let compiled = match program.kernel(&entry.name) {
            Ok(compiled) => compiled,
            Err(why) => {
                gap::record(*library, CALL, &why);
                // Device code seldom looks at the code that it gets: nothing may go on.
                return Ok(Box::new(|| device.fail(CudaError::NO_KERNEL_IMAGE)));
            }
        };
        let runnable = Runnable { program: Arc::clone(program), compiled };
        let call = KernelCall {
            device,
            cluster: check_kernel(device, &runnable, &launch)?,
            kernel: Kernel::of_program(&entry.name, program),
            runnable,
            launch,
            params,
            places: Vec::new(),
            globals: Arc::clone(globals),
            library: *library,
            call: CALL,
            depth: depth + 1,
        };
        let Given { site, blocks, .. } = self.given;
        let given = Given { site: *site, blocks: blocks.clone(), unwritten: None, submitted: None };
        Ok(Box::new(move || {
            device.counters.launched(&call.name());
            call.run(&given);
        }))
    }

    fn copy(&self, to: u64, source: u64, bytes: u64) -> Task<'a> {
        let Nested { parent, given } = *self;
        Box::new(move || parent.copy(given, to, source, bytes))
    }
}

impl KernelCall {
    /// A copy that it launched.
    fn copy(&self, given: &Given, to: u64, source: u64, bytes: u64) {
        let accept = Nested { parent: self, given };
        let children = Children::new(self.device, &accept);
        let grid =
            Grid { device: self.device, site: given.site, blocks: given.blocks.as_ref(), unwritten: &[], children };
        let holds = |address: u64| {
            ptx::Memory::range(&grid, address)
                .is_some_and(|range| address.checked_add(bytes).is_some_and(|end| end <= range.end))
        };
        if self.device.alive().is_err() || bytes == 0 {
            return;
        }
        if let Some(wrong) = [to, source].into_iter().find(|address| !holds(*address)) {
            let name = cpp_name::of_kernel(&self.name());
            eprintln!(
                "fakegpu: device {}: a copy that kernel {name} launched: {bytes} bytes at {wrong:#x}: illegal address",
                self.device.ordinal
            );
            misuse::of_child(&name, wrong == to, wrong as usize, bytes as usize);
            return self.device.fail(CudaError::ILLEGAL_ADDRESS);
        }
        // SAFETY: both are in allocations that this device may touch, which live until the work that was given to it is done.
        unsafe { std::ptr::copy(source as *const u8, to as *mut u8, bytes as usize) };
    }
}
