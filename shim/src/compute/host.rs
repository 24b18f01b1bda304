//! What operators on the CPU read: memory that is pinned may be what a copy from a GPU still writes.

use std::ffi::c_void;

use super::bytes::{Bytes, tensors};
use super::cxx::{Device, IValue, OperatorHandle, Stack};
use super::kernel::Functor;
use super::operator::Operator;
use crate::device::memory;
use crate::sanitizer::races;

/// In the place of the CPU's kernel of an operator that reads on the host: looks at what it reads, then goes on with that.
///
/// # Safety
/// libtorch calls it with the object of `kernel::functor`, of an operator with a kernel for the CPU, and a stack that ends with the
/// operator's arguments.
pub(super) unsafe extern "C-unwind" fn read(
    functor: *mut c_void,
    handle: *const OperatorHandle,
    keys: u64,
    stack: *mut Stack,
) {
    // SAFETY: the object of `functor`, which lives forever.
    let Functor { operator, .. } = unsafe { &*functor.cast::<Functor>() };
    // SAFETY: the stack is the caller's and ours until we return.
    let values = unsafe { (*stack).items() };
    look(operator, &values[values.len() - operator.schema().arguments.len()..]);
    if let Some(kernel) = operator.cpu {
        // SAFETY: the kernel that this one is in the place of, with its arguments.
        unsafe { kernel.call(handle, keys, stack) };
    }
}

fn look(operator: &'static Operator, arguments: &[IValue]) {
    let read = operator.schema().arguments.iter().zip(arguments).flat_map(|(kind, slot)| tensors(*kind, slot));
    for bytes in read.filter(|tensor| tensor.device().kind != Device::CUDA).filter_map(Bytes::of) {
        let (address, bytes) = bytes.hull();
        // No copy from a GPU goes on in other memory: the call waits for it.
        if memory::locate_host(address).is_some() {
            races::host_reads(&operator.name, address, bytes);
        }
    }
}
