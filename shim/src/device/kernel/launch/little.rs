//! Kernels that run although nothing large computes (`FAKEGPU_COMPUTE=skip`): those with PTX on little memory of which everything that
//! was written is known. The code that `torch.compile` makes of masks and counts is of this kind.

use super::{Arguments, Launch};
use crate::device::Device;
use crate::device::kernel::program::Program;
use crate::device::kernel::{Kernel, Runnable};
use crate::sanitizer::known;

/// The most bytes that a kernel's parameters point into, and the most threads of a launch: more take longer than all that is skipped.
const MOST_BYTES: usize = 1 << 20;
const MOST_THREADS: u64 = 1 << 17;

/// A kernel that runs, and the blocks of memory (address and bytes) that its parameters point into.
pub(super) struct Little {
    pub(super) runnable: Runnable,
    pub(super) blocks: Vec<(usize, usize)>,
}

/// What may be pointers among the parameters of the kernel `name`; `None` if the program has no such kernel.
///
/// # Safety
/// The arguments are where the program claims.
pub(super) unsafe fn words(program: &Program, name: &str, arguments: &Arguments) -> Option<Vec<usize>> {
    // SAFETY: by the caller.
    let values = unsafe { arguments.collect(program.entry(name)?) }.ok()?;
    let (words, _) = values.as_chunks::<8>();
    Some(words.iter().map(|word| usize::from_ne_bytes(*word)).collect())
}

/// The code of a kernel that is to run.
///
/// # Safety
/// The arguments are where the program claims.
pub(super) unsafe fn find(device: &Device, kernel: &Kernel, launch: &Launch, arguments: &Arguments) -> Option<Little> {
    if !launch.runs_now || !known::is_wanted() || known::is_operator_under_way() {
        return None;
    }
    let threads =
        launch.grid.iter().chain(&launch.block).try_fold(1, |all: u64, size| all.checked_mul(u64::from(*size)))?;
    let program = kernel.own_program(device).ok()?;
    // What variables of the device hold is not followed.
    if threads > MOST_THREADS || program.has_variables() {
        return None;
    }
    let name = kernel.name().to_string_lossy();
    // SAFETY: by the caller.
    let words = unsafe { words(&program, &name, arguments) }?;
    let blocks = known::blocks(words.into_iter());
    if blocks.iter().map(|(_, bytes)| bytes).sum::<usize>() > MOST_BYTES || !known::is_all_known(&blocks) {
        return None;
    }
    let compiled = program.kernel(&name).ok()?;
    if compiled.kernel.may_wait() || compiled.kernel.launches() {
        return None;
    }
    Some(Little { runnable: Runnable { program, compiled }, blocks })
}
