//! c10's current GPU and stream.

use std::sync::Arc;

use super::libtorch::torch;
use crate::device::work::stream::{self, Stream};

/// PyTorch's current stream of a GPU, which must be the current one.
pub(super) fn stream(index: i8) -> Option<Arc<Stream>> {
    let symbols = &torch().symbols;
    // SAFETY: c10's current stream of a GPU, and its handle.
    let handle = unsafe {
        let stream = (symbols.current_stream)(index);
        (symbols.stream_handle)(&stream) as usize
    };
    stream::resolve(handle).ok()
}

/// Makes the GPU whose operator runs the current one for the duration, as PyTorch's own wrappers do. This includes c10,
/// which may only have recorded which GPU is to become current while that GPU has no context.
pub(super) struct CurrentDevice(Option<i8>);

impl CurrentDevice {
    pub(super) fn become_(index: i8) -> Self {
        if index < 0 {
            return Self(None);
        }
        // SAFETY: c10's function takes any GPU, and this one has tensors.
        let before = unsafe { (torch().symbols.exchange_device)(index) };
        Self((before != index).then_some(before))
    }
}

impl Drop for CurrentDevice {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // SAFETY: it was the current GPU.
            unsafe { (torch().symbols.maybe_exchange_device)(before) };
        }
    }
}
