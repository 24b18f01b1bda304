//! The devices whose memory a device may access.

use std::collections::BTreeSet;

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

/// Their ordinals; a set, because bits would not hold 1024 of them.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<BTreeSet<u32>>);

impl Peers {
    /// Adds a device.
    ///
    /// # Errors
    /// `PEER_ACCESS_ALREADY_ENABLED`
    pub(super) fn enable(&self, peer: u32) -> CudaResult {
        let added = self.0.lock().insert(peer);
        if added { Ok(()) } else { Err(CudaError::PEER_ACCESS_ALREADY_ENABLED) }
    }

    /// The opposite.
    ///
    /// # Errors
    /// `PEER_ACCESS_NOT_ENABLED`
    pub(crate) fn disable(&self, peer: u32) -> CudaResult {
        let removed = self.0.lock().remove(&peer);
        if removed { Ok(()) } else { Err(CudaError::PEER_ACCESS_NOT_ENABLED) }
    }

    /// Whether the device may access `peer`.
    pub(crate) fn has(&self, peer: u32) -> bool {
        self.0.lock().contains(&peer)
    }
}
