//! GPU health events triggered by a collective: the GPU simulation is notified of them here.

use std::sync::OnceLock;

use protocol::gpu_event::GpuEvent;

static LISTENER: OnceLock<fn(&GpuEvent)> = OnceLock::new();

/// From now on, `listener` is called when an event that waits for a rank's operation occurs, on that rank's thread and before the
/// operation begins. Only the first listener counts.
pub fn listen(listener: fn(&GpuEvent)) {
    let _ = LISTENER.set(listener);
}

/// An event happens.
pub(crate) fn happens(event: &GpuEvent) {
    if let Some(listener) = LISTENER.get() {
        listener(event);
    }
}
