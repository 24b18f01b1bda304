//! Attributes of a simulated device, under the driver that the machine has.

use protocol::gpu_attribute;

use super::device::Device;
use super::version;

/// Compute capability.
pub(crate) fn capability(device: &Device) -> (i32, i32) {
    device.gpu.capability()
}

/// The value of attribute `number`; `None` for a number that CUDA does not have.
pub(crate) fn get(device: &Device, number: i32) -> Option<i32> {
    gpu_attribute::get(device.gpu, number, version::is_twelve())
}
