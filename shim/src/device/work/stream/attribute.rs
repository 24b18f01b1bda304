//! Stream attributes set with `cudaStreamSetAttribute`: stored and returned. None changes a value computed here.

use std::collections::BTreeMap;

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

use super::{PRIORITIES, Stream};
use crate::device::state::attribute;

/// Bytes of `cudaLaunchAttributeValue`.
pub(crate) const SIZE: usize = 64;

/// `cudaLaunchAttributeValue`: a union.
pub(crate) type Value = [u8; SIZE];

const ACCESS_POLICY_WINDOW: u32 = 1;
const SYNCHRONIZATION_POLICY: u32 = 3;
const PRIORITY: u32 = 8;
const SYNC_DOMAIN_MAP: u32 = 9;
const SYNC_DOMAIN: u32 = 10;

/// Attributes that were set, by `cudaLaunchAttributeID`.
#[derive(Debug, Default)]
pub(super) struct Attributes(Mutex<BTreeMap<u32, Value>>);

impl Stream {
    /// The stream's priority.
    pub(crate) fn priority(&self) -> i32 {
        self.attribute(PRIORITY).map_or(self.priority, |value| number(&value, 0))
    }

    /// The attribute that was set, or CUDA's default.
    ///
    /// # Errors
    /// `INVALID_VALUE` for one that streams do not have.
    pub(crate) fn attribute(&self, id: u32) -> CudaResult<Value> {
        let known = self.attributes.0.lock();
        if let Some(value) = known.get(&id) {
            return Ok(*value);
        }
        let mut value = [0; SIZE];
        match id {
            ACCESS_POLICY_WINDOW | SYNC_DOMAIN => {}
            // cudaSyncPolicyAuto
            SYNCHRONIZATION_POLICY => value[0] = 1,
            PRIORITY => value[..4].copy_from_slice(&self.priority.to_ne_bytes()),
            // The default domain is domain 0, the remote one 1 where there is one.
            SYNC_DOMAIN_MAP => value[1] = u8::from(self.domains() > 1),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(value)
    }

    /// Keeps an attribute.
    ///
    /// # Errors
    /// `INVALID_VALUE` for one that streams do not have, or a value that the device could not support.
    pub(crate) fn set_attribute(&self, id: u32, value: Value) -> CudaResult {
        if !self.could_keep(id, &value) {
            return Err(CudaError::INVALID_VALUE);
        }
        self.attributes.0.lock().insert(id, value);
        Ok(())
    }

    /// Copies the attributes of another stream.
    pub(crate) fn copy_attributes(&self, from: &Stream) {
        let values = from.attributes.0.lock().clone();
        *self.attributes.0.lock() = values;
    }

    fn could_keep(&self, id: u32, value: &Value) -> bool {
        match id {
            ACCESS_POLICY_WINDOW => {
                // `cudaAccessPolicyWindow`: base, bytes, share of hits, what hits and misses are (normal, streaming, persisting).
                let bytes = u64::from_ne_bytes(value[8..16].try_into().expect("eight bytes"));
                let share = f32::from_ne_bytes(value[16..20].try_into().expect("four bytes"));
                let most = attribute::get(self.device(), 109).unwrap_or(0) as u64;
                let kinds = (0..=2).contains(&number(value, 20)) && (0..=1).contains(&number(value, 24));
                bytes <= most && (0.0..=1.0).contains(&share) && kinds
            }
            SYNCHRONIZATION_POLICY => (1..=4).contains(&number(value, 0)),
            PRIORITY => (PRIORITIES.1..=PRIORITIES.0).contains(&number(value, 0)),
            SYNC_DOMAIN_MAP => value[..2].iter().all(|domain| i32::from(*domain) < self.domains()),
            SYNC_DOMAIN => (0..=1).contains(&number(value, 0)),
            _ => false,
        }
    }

    /// `cudaDevAttrMemSyncDomainCount`
    fn domains(&self) -> i32 {
        attribute::get(self.device(), 126).unwrap_or(1)
    }
}

fn number(value: &Value, at: usize) -> i32 {
    i32::from_ne_bytes(value[at..at + 4].try_into().expect("four bytes"))
}
