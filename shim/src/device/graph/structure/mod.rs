//! Operations, which a live stream issues immediately and a graph at each launch. A graph: its nodes in the order in which they
//! were added, their dependencies, and an order in which they can run.

mod conditional;
mod memory;

use std::collections::{BTreeSet, HashMap};
use std::fmt::{Debug, Formatter};
use std::sync::{Arc, OnceLock, Weak};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::lock::Mutex;
use protocol::ids::SiteId;

pub(crate) use conditional::{Choice, Conditional};

use super::user_object::Held;
use crate::call_site;
use crate::device::kernel::condition::Condition;
use crate::device::kernel::launch::KernelCall;
use crate::device::memory::copy::{BoxCopy, BoxFill};
use crate::device::memory::graph_memory::Allocation;
use crate::device::memory::undo::Undo;
use crate::device::work::event::Event;
use crate::device::work::stream::Stream;
use crate::sanitizer::races;

/// Work of a library, which is issued again at every launch of its graph.
pub(crate) trait Work: Send + Sync {
    /// Submits it to a stream that is not capturing.
    ///
    /// # Errors
    /// The library's errors, as CUDA codes.
    fn issue(&self, stream: &Arc<Stream>) -> CudaResult;

    /// Its name in `cudaGraphDebugDotPrint` and in messages.
    fn name(&self) -> &str;

    /// A number passed to the observer of launches ([`super::exec::watch`]), once for each launch of a graph that has it.
    fn mark(&self) -> Option<usize> {
        None
    }
}

/// A program's function that is called in stream order, and its argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCall {
    /// `cudaHostFn_t`
    pub(crate) function: unsafe extern "C" fn(*mut std::ffi::c_void),
    /// Address passed to the function.
    pub(crate) data: usize,
}

/// An operation.
#[derive(Clone)]
pub(crate) enum Operation {
    Empty,
    Copy(BoxCopy),
    Fill(BoxFill),
    Kernel(Arc<KernelCall>),
    Host(HostCall),
    Record(Arc<Event>),
    Wait(Arc<Event>),
    /// Only in graphs.
    Allocate(Arc<Allocation>),
    /// Only in graphs.
    Free(Arc<Allocation>),
    /// Only in graphs.
    Child(Arc<Graph>),
    /// Only in graphs.
    Conditional(Arc<Conditional>),
    /// Work of a library: a kernel as far as CUDA can see.
    Work(Arc<dyn Work>),
}

impl Debug for Operation {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Operation {
    /// `cudaGraphNodeType`, `CUgraphNodeType`
    pub(crate) fn node_type(&self) -> u32 {
        match self {
            Self::Kernel(_) | Self::Work(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Allocate(_) => 10,
            Self::Free(_) => 11,
            Self::Conditional(_) => 13,
        }
    }

    /// One word for messages; for a kernel, its own name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Empty => "empty".to_owned(),
            Self::Copy(_) => "memcpy".to_owned(),
            Self::Fill(_) => "memset".to_owned(),
            Self::Kernel(call) => call.name(),
            Self::Host(_) => "host".to_owned(),
            Self::Record(_) => "event record".to_owned(),
            Self::Wait(_) => "event wait".to_owned(),
            Self::Allocate(_) => "memory allocation".to_owned(),
            Self::Free(_) => "memory free".to_owned(),
            Self::Child(_) => "graph".to_owned(),
            Self::Conditional(_) => "conditional".to_owned(),
            Self::Work(work) => work.name().to_owned(),
        }
    }

    /// Its name as a node in findings, if different from the name of the work.
    pub(crate) fn node_name(&self) -> Option<&'static str> {
        match self {
            Self::Copy(_) => Some("memcpy node"),
            Self::Fill(_) => Some("memset node"),
            Self::Free(_) => Some("memory free node"),
            _ => None,
        }
    }

    /// Checks made by CUDA before it is submitted to a stream or put into a graph.
    ///
    /// # Errors
    /// Depend on the kind of operation.
    pub(crate) fn check(&self) -> CudaResult {
        match self {
            Self::Copy(copy) => copy.check().map(drop),
            Self::Fill(fill) => fill.check().map(drop),
            _ => Ok(()),
        }
    }

    /// Submits it to a stream that is not capturing.
    ///
    /// # Errors
    /// Depend on the kind of operation.
    pub(crate) fn issue(&self, stream: &Arc<Stream>) -> CudaResult {
        match self {
            Self::Empty => Ok(()),
            Self::Copy(copy) => copy.issue(stream),
            Self::Fill(fill) => fill.issue(stream),
            Self::Kernel(call) => call.issue(stream),
            Self::Host(call) => {
                call.issue(stream);
                Ok(())
            }
            Self::Record(event) => event.record(stream),
            Self::Wait(event) => {
                event.hold_up(stream);
                Ok(())
            }
            Self::Allocate(allocation) => {
                allocation.begin(stream);
                Ok(())
            }
            Self::Free(allocation) => {
                allocation.end("memory free node", stream);
                Ok(())
            }
            // Graphs are flattened before they are launched, and the launch looks at conditions.
            Self::Child(_) | Self::Conditional(_) => Err(CudaError::UNKNOWN),
            Self::Work(work) => work.issue(stream),
        }
    }

    /// Does it once within a capture, so that PyTorch operators after it find meaningful numbers. Kernels and host
    /// functions, whose writes are unknown, wait for the first launch.
    pub(crate) fn rehearse(&self, undo: &mut Undo) {
        match self {
            Self::Copy(copy) => copy.rehearse(undo),
            Self::Fill(fill) => fill.rehearse(undo),
            Self::Allocate(allocation) => undo.fresh(allocation.address, allocation.size),
            _ => {}
        }
    }
}

/// The handles of all graphs, including those in child nodes.
pub(crate) static GRAPHS: Handles<Graph> = Handles::new(10);
static NODES: Handles<Node> = Handles::new(11);

/// A `cudaGraphNode_t`: which graph it is in. The rest is stored there, by its handle.
#[derive(Debug)]
struct Node {
    graph: Weak<Graph>,
}

/// One node of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) handle: usize,
    /// The node that it is a copy of; 0 in a graph that is not a copy.
    pub(crate) origin: usize,
    /// The device that it was captured on; `None` if it runs on the device of the launch.
    pub(crate) device: Option<u32>,
    pub(crate) operation: Operation,
    /// Handles of the nodes that it depends on.
    pub(crate) after: Vec<usize>,
    pub(crate) is_enabled: bool,
    /// The line on which it was captured or added, if known and needed.
    pub(crate) site: SiteId,
}

/// A graph in an order in which it can run.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// Its nodes, with child graphs replaced by their nodes.
    pub(crate) entries: Vec<Entry>,
    /// The indices of the direct dependencies of each node.
    pub(crate) after: Vec<Vec<usize>>,
}

/// A graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Whether it is part of a child node or an executable graph, and is destroyed with it.
    is_child: bool,
    entries: Mutex<Vec<Entry>>,
    /// Objects that the program keeps alive for it.
    pub(crate) held: Held,
    conditions: Mutex<Vec<Arc<Condition>>>,
    /// Lives as long as the executable graph that was last made from it.
    instance: Mutex<Weak<()>>,
    /// Its own handle, if a program can have it.
    handle: OnceLock<usize>,
}

impl Graph {
    /// An empty graph and its handle.
    pub(crate) fn create() -> (Arc<Self>, usize) {
        Self::default().publish()
    }

    fn empty(is_child: bool, conditions: Vec<Arc<Condition>>, held: Held) -> Self {
        Self {
            is_child,
            entries: Mutex::default(),
            held,
            conditions: Mutex::new(conditions),
            instance: Mutex::default(),
            handle: OnceLock::new(),
        }
    }

    fn publish(self) -> (Arc<Self>, usize) {
        let graph = Arc::new(self);
        let handle = GRAPHS.insert(Arc::clone(&graph));
        let _ = graph.handle.set(handle);
        (graph, handle)
    }

    /// The handle that a program holds.
    pub(crate) fn handle(&self) -> usize {
        self.handle.get().copied().unwrap_or(0)
    }

    /// Makes a condition for its nodes; returns its handle.
    pub(crate) fn condition(&self, value: u32, is_default: bool) -> u64 {
        let condition = Condition::create(value, is_default);
        let handle = condition.handle();
        self.conditions.lock().push(condition);
        handle
    }

    /// Its condition with that handle.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it has none.
    pub(crate) fn condition_of(&self, handle: u64) -> CudaResult<Arc<Condition>> {
        let conditions = self.conditions.lock();
        conditions.iter().find(|known| known.handle() == handle).cloned().ok_or(CudaError::INVALID_VALUE)
    }

    /// True if any of its nodes, or of its child graphs' nodes, are conditional.
    pub(crate) fn is_conditional(&self) -> bool {
        self.entries.lock().iter().any(|entry| match &entry.operation {
            Operation::Conditional(_) => true,
            Operation::Child(graph) => graph.is_conditional(),
            _ => false,
        })
    }

    /// Adds a node; returns its handle.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a dependency that is not in this graph or is listed twice, and for memory that is freed twice.
    pub(crate) fn add(
        self: &Arc<Self>,
        operation: Operation,
        device: Option<u32>,
        after: Vec<usize>,
    ) -> CudaResult<usize> {
        let mut entries = self.entries.lock();
        let is_known = |handle: &usize| entries.iter().any(|entry| entry.handle == *handle);
        let is_unique = after.iter().collect::<BTreeSet<_>>().len() == after.len();
        if !is_unique || !after.iter().all(is_known) {
            return Err(CudaError::INVALID_VALUE);
        }
        match &operation {
            Operation::Allocate(allocation) => allocation.reuse(),
            Operation::Free(allocation) => allocation.free_in(self.handle())?,
            _ => {}
        }
        let handle = NODES.insert(Arc::new(Node { graph: Arc::downgrade(self) }));
        let site =
            if races::are_wanted() { call_site::of_this_thread().or_else(call_site::of_allocation) } else { None };
        let site = site.unwrap_or_default();
        entries.push(Entry { handle, origin: 0, device, operation, after, is_enabled: true, site });
        Ok(handle)
    }

    /// All nodes, in the order in which they were added.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// True if it has a node with that handle.
    pub(crate) fn has(&self, node: usize) -> bool {
        self.entries.lock().iter().any(|entry| entry.handle == node)
    }

    /// Changes the node with this handle, or its copy.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is none, and errors of `change`.
    pub(crate) fn change<T>(&self, node: usize, change: impl FnOnce(&mut Entry) -> CudaResult<T>) -> CudaResult<T> {
        let mut entries = self.entries.lock();
        let entry = entries.iter_mut().find(|entry| entry.handle == node || (node != 0 && entry.origin == node));
        change(entry.ok_or(CudaError::INVALID_VALUE)?)
    }

    /// Adds or removes edges.
    ///
    /// # Errors
    /// `INVALID_VALUE` for nodes of other graphs, an edge that already exists or does not exist, and one from a node to itself;
    /// `NOT_SUPPORTED` for removing edges from a graph that allocates or frees.
    pub(crate) fn connect(&self, edges: &[(usize, usize)], is_new: bool) -> CudaResult {
        if !is_new {
            self.must_not_have_memory()?;
        }
        let mut entries = self.entries.lock();
        let mut changed = entries.clone();
        for (from, to) in edges {
            if from == to || !changed.iter().any(|entry| entry.handle == *from) {
                return Err(CudaError::INVALID_VALUE);
            }
            let entry = changed.iter_mut().find(|entry| entry.handle == *to).ok_or(CudaError::INVALID_VALUE)?;
            let known = entry.after.iter().position(|before| before == from);
            match (known, is_new) {
                (None, true) => entry.after.push(*from),
                (Some(place), false) => drop(entry.after.remove(place)),
                _ => return Err(CudaError::INVALID_VALUE),
            }
        }
        *entries = changed;
        Ok(())
    }

    /// Removes a node with its edges.
    ///
    /// # Errors
    /// `INVALID_VALUE` if it is not in this graph; `NOT_SUPPORTED` for a node that allocates or frees.
    pub(crate) fn remove(&self, node: usize) -> CudaResult {
        self.must_not_have_memory()?;
        let mut entries = self.entries.lock();
        let place = entries.iter().position(|entry| entry.handle == node).ok_or(CudaError::INVALID_VALUE)?;
        entries.remove(place);
        entries.iter_mut().for_each(|entry| entry.after.retain(|before| *before != node));
        NODES.remove(node);
        Ok(())
    }

    /// The nodes that come before any of `nodes`, and `nodes` themselves.
    pub(crate) fn until(&self, nodes: &[usize]) -> BTreeSet<usize> {
        let entries = self.entries.lock();
        let places: HashMap<usize, &Entry> = entries.iter().map(|entry| (entry.handle, entry)).collect();
        let mut found = BTreeSet::new();
        let mut left = nodes.to_vec();
        while let Some(node) = left.pop() {
            if found.insert(node) {
                left.extend(places.get(&node).into_iter().flat_map(|entry| entry.after.iter().copied()));
            }
        }
        found
    }

    /// A copy with its own nodes and child graphs, and its handle.
    pub(crate) fn copy(&self, is_child: bool) -> (Arc<Self>, usize) {
        let conditions = self.conditions.lock().clone();
        let (copy, handle) = Self::empty(is_child, conditions, self.held.copy()).publish();
        let originals = self.entries();
        let handles: HashMap<usize, usize> = originals
            .iter()
            .map(|entry| (entry.handle, NODES.insert(Arc::new(Node { graph: Arc::downgrade(&copy) }))))
            .collect();
        let copied = |entry: &Entry| Entry {
            handle: handles[&entry.handle],
            origin: entry.handle,
            operation: match &entry.operation {
                Operation::Child(graph) => Operation::Child(graph.copy(true).0),
                Operation::Conditional(node) => Operation::Conditional(node.copy()),
                other => other.clone(),
            },
            after: entry.after.iter().filter_map(|before| handles.get(before).copied()).collect(),
            ..*entry
        };
        *copy.entries.lock() = originals.iter().map(copied).collect();
        (copy, handle)
    }

    /// The nodes in an order in which each comes after all that it depends on: among those that could be next, the one
    /// added first. Child graphs are expanded in place; disabled nodes are left out.
    ///
    /// # Errors
    /// `INVALID_VALUE` for a graph with a cycle.
    pub(crate) fn sequence(&self) -> CudaResult<Sequence> {
        let mut sequence = Sequence::default();
        self.append_to(&mut sequence, &[])?;
        Ok(sequence)
    }

    /// Appends its nodes, which come after those at the indices `before`; returns the indices of the nodes after which all of it
    /// is done.
    fn append_to(&self, sequence: &mut Sequence, before: &[usize]) -> CudaResult<Vec<usize>> {
        let entries = self.entries();
        let places: HashMap<usize, usize> =
            entries.iter().enumerate().map(|(place, entry)| (entry.handle, place)).collect();
        let edges: Vec<Vec<usize>> = entries
            .iter()
            .map(|entry| entry.after.iter().filter_map(|before| places.get(before).copied()).collect())
            .collect();
        // Where each node ends in the sequence: nowhere of its own, if it is switched off or an empty graph.
        let mut ends: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); entries.len()];
        for place in topological(&edges).ok_or(CudaError::INVALID_VALUE)? {
            let entry = &entries[place];
            let mut after: BTreeSet<usize> = edges[place].iter().flat_map(|before| &ends[*before]).copied().collect();
            if edges[place].is_empty() {
                after.extend(before);
            }
            ends[place] = match &entry.operation {
                _ if !entry.is_enabled => after,
                Operation::Child(graph) => {
                    let after: Vec<usize> = after.into_iter().collect();
                    graph.append_to(sequence, &after)?.into_iter().collect()
                }
                _ => {
                    sequence.after.push(after.into_iter().collect());
                    sequence.entries.push(entry.clone());
                    BTreeSet::from([sequence.entries.len() - 1])
                }
            };
        }
        let mut is_last = vec![true; entries.len()];
        edges.iter().flatten().for_each(|before| is_last[*before] = false);
        let last: BTreeSet<usize> =
            ends.into_iter().zip(is_last).filter(|(_, is_last)| *is_last).flat_map(|(ends, _)| ends).collect();
        Ok(if entries.is_empty() { before.to_vec() } else { last.into_iter().collect() })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        for entry in self.entries.lock().iter() {
            NODES.remove(entry.handle);
            if let Operation::Conditional(node) = &entry.operation {
                node.handles.iter().for_each(|body| drop(GRAPHS.remove(*body)));
            }
            if let Operation::Child(graph) = &entry.operation {
                GRAPHS.remove(graph.handle());
            }
        }
    }
}

/// Indices in an order in which each comes after those that `edges` lists for it, lowest first. `None` for a cycle.
fn topological(edges: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut missing: Vec<usize> = edges.iter().map(Vec::len).collect();
    let mut followers = vec![Vec::new(); edges.len()];
    for (place, before) in edges.iter().enumerate() {
        before.iter().for_each(|before| followers[*before].push(place));
    }
    let mut ready: BTreeSet<usize> = (0..edges.len()).filter(|place| missing[*place] == 0).collect();
    let mut order = Vec::with_capacity(edges.len());
    while let Some(place) = ready.pop_first() {
        order.push(place);
        for follower in &followers[place] {
            missing[*follower] -= 1;
            if missing[*follower] == 0 {
                ready.insert(*follower);
            }
        }
    }
    (order.len() == edges.len()).then_some(order)
}

/// The graph behind a handle.
///
/// # Errors
/// `INVALID_VALUE` if it names no live graph.
pub(crate) fn resolve(handle: usize) -> CudaResult<Arc<Graph>> {
    GRAPHS.get(handle).ok_or(CudaError::INVALID_VALUE)
}

/// The graph that a node is in.
///
/// # Errors
/// `INVALID_VALUE` if it names no live node.
pub(crate) fn graph_of(node: usize) -> CudaResult<Arc<Graph>> {
    NODES.get(node).and_then(|node| node.graph.upgrade()).ok_or(CudaError::INVALID_VALUE)
}

/// Destroys a graph. Executable graphs made from it stay valid.
///
/// # Errors
/// `INVALID_VALUE` if it names no live graph, or one in a child node.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    if resolve(handle)?.is_child {
        return Err(CudaError::INVALID_VALUE);
    }
    GRAPHS.remove(handle).map(drop).ok_or(CudaError::INVALID_VALUE)
}

#[cfg(test)]
mod tests;
