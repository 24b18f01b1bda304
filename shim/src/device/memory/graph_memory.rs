//! Memory that graph nodes allocate and free: who owns which addresses, and which of them outlive a launch (CUDA programming
//! guide, "Graph memory nodes"). It exists as soon as its node is added, so that its address never changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use abi::cuda::{CudaError, CudaResult};
use dataplane::lock::Mutex;

use crate::device::memory::{self, Kind, fresh};
use crate::device::work::stream::{self, Stream};
use crate::device::{Device, all};
use crate::sanitizer::races::{self, Access};

/// Memory of one or more allocating nodes that use it one after the other.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) device: u32,
    pub(crate) address: usize,
    /// Bytes.
    pub(crate) size: usize,
    /// Handle of the graph with the node that allocates.
    owner: usize,
    kind: Kind,
    /// Handle of the graph with a node that frees it.
    freed_in: Mutex<Option<usize>>,
}

/// All allocations, by address.
static KNOWN: Mutex<BTreeMap<usize, Weak<Allocation>>> = Mutex::new(BTreeMap::new());
/// Allocations made by a launch and not freed yet, by address.
static LEFT: Mutex<BTreeMap<usize, Arc<Allocation>>> = Mutex::new(BTreeMap::new());
/// Current and peak bytes, by device.
static USED: Mutex<BTreeMap<u32, (u64, u64)>> = Mutex::new(BTreeMap::new());

impl Allocation {
    /// New memory for nodes of the graph `owner`.
    ///
    /// # Errors
    /// `INVALID_VALUE` for 0 bytes, `MEMORY_ALLOCATION`.
    pub(crate) fn create(device: &'static Device, size: usize, owner: usize) -> CudaResult<Arc<Self>> {
        static IDS: AtomicU64 = AtomicU64::new(0);
        if size == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let kind = Kind::Graph(IDS.fetch_add(1, Ordering::Relaxed));
        let address = memory::allocate(device, size, kind)?;
        let allocation = Self { device: device.ordinal, address, size, owner, kind, freed_in: Mutex::default() };
        let allocation = Arc::new(allocation);
        KNOWN.lock().insert(address, Arc::downgrade(&allocation));
        let mut used = USED.lock();
        let (now, most) = used.entry(device.ordinal).or_default();
        *now += size as u64;
        *most = (*most).max(*now);
        drop(used);
        Ok(allocation)
    }

    /// Whether it can be reused: the last node that uses it is one of the graph `owner` that frees it.
    pub(crate) fn is_free_again(&self, owner: usize) -> bool {
        self.owner == owner && *self.freed_in.lock() == Some(owner)
    }

    /// Records that another node allocates it.
    pub(crate) fn reuse(&self) {
        *self.freed_in.lock() = None;
    }

    /// Records that a node of `graph` will free it.
    ///
    /// # Errors
    /// `INVALID_VALUE` if one already does: twice in its own graph, or in that and another.
    pub(crate) fn free_in(&self, graph: usize) -> CudaResult {
        let mut freed = self.freed_in.lock();
        if freed.is_some_and(|before| before == self.owner || graph == self.owner) {
            return Err(CudaError::INVALID_VALUE);
        }
        *freed = Some(graph);
        Ok(())
    }

    /// Called when the allocating node is reached: its memory counts as uninitialized.
    pub(crate) fn begin(&self, stream: &Arc<Stream>) {
        fresh::handed_out(self.address, self.size, stream);
    }

    /// Called when the freeing node, or `function`, is reached: whoever gets the memory next writes to it.
    pub(crate) fn end(&self, function: &'static str, stream: &Arc<Stream>) {
        races::work(&[stream.lane()], function, &[Access { address: self.address, bytes: self.size, writes: true }]);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut known = KNOWN.lock();
        if known.get(&self.address).is_some_and(|known| known.strong_count() == 0) {
            known.remove(&self.address);
        }
        drop(known);
        memory::free_graph(self.address, self.kind);
        if let Some((now, _)) = USED.lock().get_mut(&self.device) {
            *now -= self.size as u64;
        }
    }
}

/// The one that starts at `address`.
///
/// # Errors
/// `INVALID_VALUE` if none does.
pub(crate) fn find(address: usize) -> CudaResult<Arc<Allocation>> {
    KNOWN.lock().get(&address).and_then(Weak::upgrade).ok_or(CudaError::INVALID_VALUE)
}

/// The effect of a graph launch on memory that outlives it.
#[derive(Debug, Default)]
pub(crate) struct Balance {
    /// All memory that its nodes allocate or free.
    all: Vec<Arc<Allocation>>,
    /// Allocated and not freed.
    left: Vec<Arc<Allocation>>,
    /// Freed and not allocated.
    taken: Vec<Arc<Allocation>>,
}

impl Balance {
    pub(crate) fn allocate(&mut self, allocation: &Arc<Allocation>) {
        self.all.push(Arc::clone(allocation));
        self.left.push(Arc::clone(allocation));
    }

    pub(crate) fn free(&mut self, allocation: &Arc<Allocation>) {
        match self.left.iter().position(|left| Arc::ptr_eq(left, allocation)) {
            Some(place) => drop(self.left.remove(place)),
            None => {
                self.all.push(Arc::clone(allocation));
                self.taken.push(Arc::clone(allocation));
            }
        }
    }

    /// Begins a launch; `frees` whether it frees what an earlier one left.
    ///
    /// # Errors
    /// `INVALID_VALUE` if something that it allocates was not freed since, or it frees unallocated memory.
    pub(crate) fn begin(&self, frees: bool) -> CudaResult {
        let mut left = LEFT.lock();
        let is_there = |allocation: &Arc<Allocation>| left.contains_key(&allocation.address);
        if (!frees && self.left.iter().any(is_there)) || !self.taken.iter().all(is_there) {
            return Err(CudaError::INVALID_VALUE);
        }
        for allocation in &self.taken {
            left.remove(&allocation.address);
        }
        left.extend(self.left.iter().map(|allocation| (allocation.address, Arc::clone(allocation))));
        Ok(())
    }

    /// Called after everything was submitted to `stream`: the memory stays until that is done.
    pub(crate) fn end(&self, stream: &Arc<Stream>) {
        if !self.all.is_empty() {
            let held = self.all.clone();
            stream.run(move || drop(held));
        }
    }
}

fn take(address: usize) -> CudaResult<Arc<Allocation>> {
    LEFT.lock().remove(&address).ok_or(CudaError::INVALID_VALUE)
}

/// Frees, in stream order, memory that a launch left.
///
/// # Errors
/// `INVALID_VALUE` if nothing is allocated there, or its own graph frees it.
pub(crate) fn free_in_order(address: usize, function: &'static str, stream: &Arc<Stream>) -> CudaResult {
    let allocation = take(address)?;
    allocation.end(function, stream);
    stream.run(move || drop(allocation));
    Ok(())
}

/// Frees memory that a launch left, once its device is done.
///
/// # Errors
/// As [`free_in_order`].
pub(crate) fn free(address: usize) -> CudaResult {
    let allocation = take(address)?;
    stream::synchronize_device(&all()[allocation.device as usize]);
    Ok(())
}

/// Bytes of a device held by graphs: current, and peak since [`reset_most`].
pub(crate) fn used(device: u32) -> (u64, u64) {
    USED.lock().get(&device).copied().unwrap_or_default()
}

/// Resets the peak to the current value.
pub(crate) fn reset_most(device: u32) {
    if let Some((now, most)) = USED.lock().get_mut(&device) {
        *most = *now;
    }
}
