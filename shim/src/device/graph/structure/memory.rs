//! What graphs with allocating or freeing nodes may do, and which memory such a node gets.

use std::sync::Arc;

use abi::cuda::{CudaError, CudaResult};

use super::{Graph, Operation};
use crate::device::Device;
use crate::device::memory::graph_memory::Allocation;

impl Graph {
    /// For operations that CUDA does not allow on a graph with nodes that allocate or free.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` if it, or a child graph, has some.
    pub(crate) fn must_not_have_memory(&self) -> CudaResult {
        let has_some = self.entries.lock().iter().any(|entry| match &entry.operation {
            Operation::Allocate(_) | Operation::Free(_) => true,
            Operation::Child(graph) => graph.must_not_have_memory().is_err(),
            _ => false,
        });
        if has_some { Err(CudaError::NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Called when an executable graph is made from it; returns the token that it keeps.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` for a graph that allocates or frees, while there is another executable graph.
    pub(crate) fn instance(&self) -> CudaResult<Arc<()>> {
        let mut instance = self.instance.lock();
        if instance.strong_count() > 0 {
            self.must_not_have_memory()?;
        }
        let token = Arc::new(());
        *instance = Arc::downgrade(&token);
        Ok(token)
    }

    /// Memory for a node that comes after others: memory freed by one of those, or new memory.
    ///
    /// # Errors
    /// `NOT_SUPPORTED` in bodies of conditional nodes and in child graphs, `INVALID_VALUE` for 0 bytes, `MEMORY_ALLOCATION`.
    pub(crate) fn memory(&self, device: &'static Device, size: usize, after: &[usize]) -> CudaResult<Arc<Allocation>> {
        if self.is_child {
            return Err(CudaError::NOT_SUPPORTED);
        }
        let before = self.until(after);
        let entries = self.entries.lock();
        let known = entries.iter().filter(|entry| before.contains(&entry.handle)).find_map(|entry| {
            let Operation::Free(allocation) = &entry.operation else { return None };
            let fits = allocation.size == size && allocation.device == device.ordinal;
            (fits && allocation.is_free_again(self.handle())).then(|| Arc::clone(allocation))
        });
        known.map_or_else(|| Allocation::create(device, size, self.handle()), Ok)
    }
}
