//! Kernels that run on a device: monitors see it as busy, and it draws power.

use crate::device::Device;
use crate::device::state::health;

/// A kernel runs on a device, until this is dropped.
pub(crate) struct Running(&'static Device);

/// A kernel starts.
pub(crate) fn start(device: &'static Device) -> Running {
    device.share.begin();
    Running(device)
}

impl Drop for Running {
    fn drop(&mut self) {
        let busy = self.0.share.end();
        if busy > 0
            && let Some(ledger) = self.0.share.ledger()
        {
            ledger.ran(busy, health::condition(self.0.gpu).throttle());
        }
    }
}
