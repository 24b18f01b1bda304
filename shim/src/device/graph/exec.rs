//! Graphs that can be launched: a copy of a graph, in an order that keeps its dependencies. A launch issues every operation
//! again, one after the other, in its stream.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use abi::cuda::{CudaError, CudaResult};
use abi::handle::Handles;
use dataplane::lock::Mutex;
use timing::work::host;

use super::capture;
use super::structure::{Choice, Conditional, Entry, Graph, Operation, Sequence};
use crate::device;
use crate::device::kernel::condition::Condition;
use crate::device::memory::graph_memory::Balance;
use crate::device::work::clock;
use crate::device::work::stream::{self, Kind, Stream};
use crate::device::work::timeline::{self, InNode, Node};
use crate::sanitizer::branch::Branches;
use crate::sanitizer::owner::Replay;
use crate::sanitizer::races;

static EXECS: Handles<Exec> = Handles::new(12);

/// What an observer of launches learns: a mark of the graph, the stream, and whether the graph has been given to it.
type Watch = fn(usize, &Arc<Stream>, bool);

static WATCH: OnceLock<Watch> = OnceLock::new();

/// From now on, `told` is called by the launching thread before and after each launch of a graph that has marks, once per mark.
pub(crate) fn watch(told: Watch) {
    let _ = WATCH.set(told);
}

/// A `cudaGraphExec_t`.
#[derive(Debug)]
pub(crate) struct Exec {
    /// Its number in this process.
    id: u32,
    pub(crate) flags: u64,
    /// Its own copy; the nodes' origins are the nodes that the program knows.
    graph: Arc<Graph>,
    /// Tells the graph that it was made from that it is alive.
    _instance: Arc<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    plan: Arc<Plan>,
    /// The streams of nodes on devices other than that of the launch.
    streams: BTreeMap<u32, Arc<Stream>>,
}

/// The sequence that a launch executes.
#[derive(Debug)]
struct Plan {
    entries: Vec<Entry>,
    branches: Branches,
    marks: BTreeSet<usize>,
    /// The conditions of all its conditional nodes.
    conditions: Vec<Arc<Condition>>,
    balance: Balance,
}

/// Conditions of these nodes, and of their bodies' nodes.
fn conditions(entries: &[Entry], found: &mut Vec<Arc<Condition>>) {
    for entry in entries {
        match &entry.operation {
            Operation::Conditional(node) => {
                found.push(Arc::clone(&node.condition));
                node.bodies.iter().for_each(|body| conditions(&body.entries(), found));
            }
            Operation::Child(graph) => conditions(&graph.entries(), found),
            _ => {}
        }
    }
}

impl Plan {
    fn new(graph: &Graph) -> CudaResult<Arc<Self>> {
        let Sequence { entries, after } = graph.sequence()?;
        let mark = |entry: &Entry| match &entry.operation {
            Operation::Work(work) => work.mark(),
            _ => None,
        };
        let marks = entries.iter().filter_map(mark).collect();
        let mut found = Vec::new();
        conditions(&entries, &mut found);
        let mut balance = Balance::default();
        for entry in &entries {
            match &entry.operation {
                Operation::Allocate(allocation) => balance.allocate(allocation),
                Operation::Free(allocation) => balance.free(allocation),
                _ => {}
            }
        }
        Ok(Arc::new(Self { entries, branches: Branches::new(after), marks, conditions: found, balance }))
    }

    fn tell(&self, stream: &Arc<Stream>, is_over: bool) {
        if let Some(told) = WATCH.get() {
            self.marks.iter().for_each(|mark| told(*mark, stream, is_over));
        }
    }
}

/// A difference in a graph that is to replace another, numbered as in `cudaGraphExecUpdateResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) result: u32,
    /// Node of the new graph; 0 if the difference is not about a node.
    pub(crate) node: usize,
}

/// `cudaGraphInstantiateFlagAutoFreeOnLaunch`
const AUTO_FREE_ON_LAUNCH: u64 = 1;

const TOPOLOGY: u32 = 2;
const NODE_TYPE: u32 = 3;
const PARAMETERS: u32 = 5;

/// Makes an executable graph from a graph; returns its handle.
///
/// # Errors
/// `INVALID_VALUE` for a graph with a cycle; `NOT_SUPPORTED` for a second one of a graph that allocates or frees.
pub(crate) fn instantiate(graph: &Graph, flags: u64) -> CudaResult<usize> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    graph.sequence()?;
    let instance = graph.instance()?;
    let (copy, _) = graph.copy(true);
    let plan = Plan::new(&copy)?;
    let state = Mutex::new(State { plan, streams: BTreeMap::new() });
    let id = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    Ok(EXECS.insert(Arc::new(Exec { id, flags, graph: copy, _instance: instance, state })))
}

/// The one behind a handle.
///
/// # Errors
/// `INVALID_VALUE` if it names no live one.
pub(crate) fn resolve(handle: usize) -> CudaResult<Arc<Exec>> {
    EXECS.get(handle).ok_or(CudaError::INVALID_VALUE)
}

/// Destroys it; launches in progress still finish.
///
/// # Errors
/// `INVALID_VALUE` if it names no live one.
pub(crate) fn destroy(handle: usize) -> CudaResult {
    EXECS.remove(handle).map(drop).ok_or(CudaError::INVALID_VALUE)
}

impl Drop for Exec {
    fn drop(&mut self) {
        super::structure::GRAPHS.remove(self.graph.handle());
        self.state.lock().streams.values().for_each(stream::retire);
    }
}

impl Exec {
    /// Submits every operation to `stream`; if that captures, adds the graph as a child.
    ///
    /// # Errors
    /// Those of captures, and of the first operation that fails. Earlier operations are then already submitted.
    pub(crate) fn launch(&self, stream: &Arc<Stream>) -> CudaResult {
        if let Some(capture) = capture::for_stream(stream)? {
            self.graph.must_not_have_memory()?;
            return capture.add(&[stream], Operation::Child(self.graph.copy(true).0));
        }
        let plan = Arc::clone(&self.state.lock().plan);
        plan.balance.begin(self.flags & AUTO_FREE_ON_LAUNCH != 0)?;
        plan.tell(stream, false);
        if !plan.conditions.is_empty() {
            // An earlier launch may still look at them.
            stream.synchronize();
            plan.conditions.iter().for_each(|condition| condition.reset());
        }
        let replay = Replay::begin();
        let issued = self.issue(&plan, stream);
        plan.balance.end(stream);
        issued?;
        drop(replay);
        plan.tell(stream, true);
        device::answer_before_failure();
        Ok(())
    }

    fn issue(&self, plan: &Plan, stream: &Arc<Stream>) -> CudaResult {
        if clock::is_modeled() {
            clock::spend(host::GRAPH_US);
        }
        let mut launch = plan.branches.launch(stream.lane());
        for Entry { handle, device, operation, site, .. } in &plan.entries {
            let _node = timeline::is_wanted().then(|| InNode::begin(Node { graph: self.id, node: *handle as u64 }));
            let mut issue = |stream: &Arc<Stream>| {
                launch.node(stream.lane(), operation.node_name(), *site, || match operation {
                    Operation::Conditional(node) => self.decide(node, stream),
                    operation => operation.issue(stream),
                })
            };
            match device.filter(|device| *device != stream.device) {
                None => issue(stream)?,
                Some(device) => {
                    let other = self.stream_on(device);
                    follow(&other, stream);
                    let result = issue(&other);
                    follow(stream, &other);
                    result?;
                }
            }
        }
        Ok(())
    }

    /// Waits for the value of a condition, and submits the chosen body to `stream`.
    fn decide(&self, node: &Conditional, stream: &Arc<Stream>) -> CudaResult {
        let value = || -> CudaResult<usize> {
            stream.synchronize();
            device::all()[stream.device as usize].alive()?;
            Ok(node.condition.value() as usize)
        };
        let run = |body: usize| match node.bodies.get(body) {
            Some(body) => self.issue(&*Plan::new(body)?, stream),
            None => Ok(()),
        };
        match node.choice {
            Choice::If => run(usize::from(value()? == 0)),
            Choice::Switch => run(value()?),
            Choice::While => {
                while value()? != 0 {
                    run(0)?;
                }
                Ok(())
            }
        }
    }

    fn stream_on(&self, device: u32) -> Arc<Stream> {
        let mut state = self.state.lock();
        let make = || stream::unnamed(&device::all()[device as usize], Kind::NonBlocking);
        Arc::clone(state.streams.entry(device).or_insert_with(make))
    }

    /// Changes the operation of the node that is a copy of `node`; `change` returns the new operation.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is none, and errors of `change`.
    pub(crate) fn change(&self, node: usize, change: impl FnOnce(&mut Entry) -> CudaResult) -> CudaResult {
        self.graph.change(node, change)?;
        self.state.lock().plan = Plan::new(&self.graph)?;
        Ok(())
    }

    /// Takes over a graph, with the same nodes and edges, for a child node.
    ///
    /// # Errors
    /// `INVALID_VALUE` if there is no such node; `GRAPH_EXEC_UPDATE_FAILURE` if the graphs differ.
    pub(crate) fn replace_child(&self, node: usize, graph: &Graph) -> CudaResult {
        self.change(node, |entry| match &entry.operation {
            Operation::Child(own) => update(own, graph).map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE),
            _ => Err(CudaError::INVALID_VALUE),
        })
    }

    /// Takes over the operations of a graph with the same nodes and edges.
    ///
    /// # Errors
    /// The first difference that cannot be taken over; then nothing is changed.
    pub(crate) fn update(&self, graph: &Graph) -> Result<(), Difference> {
        update(&self.graph, graph)?;
        if let Ok(plan) = Plan::new(&self.graph) {
            self.state.lock().plan = plan;
        }
        Ok(())
    }
}

/// From now on, work of `stream` comes after everything submitted to `other`.
fn follow(stream: &Arc<Stream>, other: &Arc<Stream>) {
    races::wait(stream.lane(), &races::point(other.lane()));
    stream::follow(stream, other);
}

fn update(own: &Graph, new: &Graph) -> Result<(), Difference> {
    let (before, after) = (own.entries(), new.entries());
    let place = |entries: &[Entry], handle: usize| entries.iter().position(|entry| entry.handle == handle);
    let edges = |entries: &[Entry], entry: &Entry| {
        let mut places: Vec<_> = entry.after.iter().map(|handle| place(entries, *handle)).collect();
        places.sort_unstable();
        places
    };
    if before.len() != after.len() {
        return Err(Difference { result: TOPOLOGY, node: 0 });
    }
    for (old, new) in before.iter().zip(&after) {
        let differs = |result| Err(Difference { result, node: new.handle });
        if old.operation.node_type() != new.operation.node_type() {
            return differs(NODE_TYPE);
        }
        if edges(&before, old) != edges(&after, new) {
            return differs(TOPOLOGY);
        }
        if old.device != new.device || !may_replace(&old.operation, &new.operation) {
            return differs(PARAMETERS);
        }
    }
    for (old, new) in before.iter().zip(&after) {
        match (&old.operation, &new.operation) {
            (Operation::Child(old), Operation::Child(new)) => update(old, new)?,
            (_, operation) => {
                let operation = operation.clone();
                let _ = own.change(old.handle, |entry| {
                    (entry.operation, entry.site) = (operation, new.site);
                    Ok(())
                });
            }
        }
    }
    Ok(())
}

/// Whether an executable graph can replace `old` with `new`: a kernel or copy with another of its kind.
fn may_replace(old: &Operation, new: &Operation) -> bool {
    match (old, new) {
        (Operation::Kernel(old), Operation::Kernel(new)) => std::ptr::eq(old.device, new.device),
        (Operation::Conditional(_) | Operation::Allocate(_) | Operation::Free(_), _) => false,
        (Operation::Work(_), Operation::Kernel(_)) | (Operation::Kernel(_), Operation::Work(_)) => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::device::graph::structure::Work;

    struct Count(AtomicUsize);

    impl Work for Count {
        fn issue(&self, _: &Arc<Stream>) -> CudaResult {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn name(&self) -> &str {
            "count"
        }
    }

    #[test]
    fn a_launch_issues_everything_and_an_update_replaces_it() {
        let device = device::get(4).unwrap();
        let stream = stream::resolve(stream::create(device, Kind::NonBlocking, 0)).unwrap();
        let count = || Arc::new(Count(AtomicUsize::new(0)));
        let of = |work: &Arc<Count>| {
            let (graph, _) = Graph::create();
            let (child, _) = Graph::create();
            child.add(Operation::Work(work.clone()), None, vec![]).unwrap();
            let node = graph.add(Operation::Child(child.copy(true).0), None, vec![]).unwrap();
            graph.add(Operation::Work(work.clone()), Some(1), vec![node]).unwrap();
            graph
        };
        let (first, second) = (count(), count());
        let graph = of(&first);
        let exec = resolve(instantiate(&graph, 0).unwrap()).unwrap();
        exec.launch(&stream).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!(first.0.load(Ordering::Relaxed), 4);
        exec.update(&of(&second)).unwrap();
        exec.launch(&stream).unwrap();
        assert_eq!((first.0.load(Ordering::Relaxed), second.0.load(Ordering::Relaxed)), (4, 2));

        let node = graph.add(Operation::Empty, None, vec![]).unwrap();
        assert_eq!(exec.update(&graph), Err(Difference { result: TOPOLOGY, node: 0 }));
        let other = of(&second);
        let last = other.entries()[1].clone();
        other.connect(&[(last.after[0], last.handle)], false).unwrap();
        assert_eq!(exec.update(&other), Err(Difference { result: TOPOLOGY, node: last.handle }));
        other
            .change(last.handle, |entry| {
                entry.operation = Operation::Empty;
                Ok(())
            })
            .unwrap();
        assert_eq!(exec.update(&other), Err(Difference { result: NODE_TYPE, node: last.handle }));
        assert_eq!(exec.change(node, |_| Ok(())), Err(CudaError::INVALID_VALUE), "added later");
    }
}
