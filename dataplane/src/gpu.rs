//! What a collective does to the health of a GPU: who simulates GPUs hears of it here.

use std::sync::OnceLock;

use protocol::gpu_event::GpuEvent;

static LISTENER: OnceLock<fn(&GpuEvent)> = OnceLock::new();

/// From now on `listener` is called when an event that waits for an operation of a rank happens, on that rank's thread and before the
/// operation begins. The first listener stays.
pub fn listen(listener: fn(&GpuEvent)) {
    let _ = LISTENER.set(listener);
}

/// An event happens.
pub(crate) fn happens(event: &GpuEvent) {
    if let Some(listener) = LISTENER.get() {
        listener(event);
    }
}
