//! Kernels that run on a device: monitors see it as busy, and it draws power.

use super::{Device, health, neighbors};

/// A kernel runs on a device, until this is dropped.
pub(crate) struct Running(&'static Device);

/// A kernel starts.
pub(crate) fn start(device: &'static Device) -> Running {
    neighbors::begin(device);
    Running(device)
}

impl Drop for Running {
    fn drop(&mut self) {
        let busy = neighbors::end(self.0);
        if busy > 0
            && let Some(ledger) = neighbors::ledger(self.0)
        {
            ledger.ran(busy, health::condition(self.0.gpu).throttle());
        }
    }
}
