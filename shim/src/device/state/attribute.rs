//! Attributes of a simulated device, under the driver that the machine has.

pub(crate) use protocol::gpu_attribute::MULTICAST_SUPPORTED;

use protocol::gpu_attribute;

use super::device::Device;
use super::version;
use crate::settings;

/// Compute capability.
pub(crate) fn capability(device: &Device) -> (i32, i32) {
    device.gpu.capability()
}

/// The value of attribute `number`; `None` for a number that CUDA does not have.
pub(crate) fn get(device: &Device, number: i32) -> Option<i32> {
    // Without links to other GPUs there is no switch.
    if number == MULTICAST_SUPPORTED && !settings::get().is_ok_and(|settings| settings.is_linked(device.gpu)) {
        return Some(0);
    }
    gpu_attribute::get(device.gpu, number, version::is_twelve())
}
