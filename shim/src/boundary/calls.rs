//! Calls of CUDA's API as profilers see them: each has a number, which connects it with the work that it submits, and the identifiers
//! that the profiler pushed in the thread.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use abi::library::Library;

use super::gap;

/// Kinds of external identifiers (`CUpti_ExternalCorrelationKind`), from 0 up.
pub(crate) const KINDS: usize = 6;

/// The last identifier of each kind that the thread pushed.
pub(crate) type External = [Option<u64>; KINDS];

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) library: Library,
    pub(crate) name: &'static str,
    pub(crate) correlation: u32,
}

/// What a call waits for, or lets a stream wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) kind: WaitKind,
    pub(crate) device: u32,
    /// The stream's context; 0 for the device's primary one.
    pub(crate) context: usize,
    pub(crate) stream: Option<u64>,
    /// The event and its latest record.
    pub(crate) event: Option<(u32, u64)>,
}

/// `CUpti_ActivitySynchronizationType`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitKind {
    Event = 1,
    StreamForEvent = 2,
    Stream = 3,
    Context = 4,
}

/// Who is told of calls.
pub(crate) struct Observer {
    /// Before it; the result is passed on to `end`.
    pub(crate) begin: fn(Call) -> u64,
    /// After it, with its result, and what it waited for.
    pub(crate) end: fn(Call, u64, u32, Option<Wait>),
}

/// What submitted a piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Of the call under way, or a number of its own.
    pub(crate) correlation: u32,
    /// Set if no call of CUDA's API is under way.
    pub(crate) launch: Option<Launch>,
    /// Set if a graph is launched.
    pub(crate) node: Option<Node>,
}

/// A launch that a library would have made with CUDA's API, and here did without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) thread: u32,
    pub(crate) external: External,
}

static IS_OBSERVED: AtomicBool = AtomicBool::new(false);
static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// What is known of a thread.
#[derive(Default)]
struct Thread {
    /// The call under way; 0 for none.
    current: Cell<u32>,
    pushed: RefCell<[Vec<u64>; KINDS]>,
    node: Cell<Option<Node>>,
    wait: Cell<Option<Wait>>,
}

thread_local! {
    // Boxed: static memory of threads is scarce.
    static THREAD: OnceCell<Box<Thread>> = const { OnceCell::new() };
}

/// The default in a thread that is ending.
fn of_thread<T: Default>(body: impl FnOnce(&Thread) -> T) -> T {
    THREAD.try_with(|thread| body(thread.get_or_init(Box::default))).unwrap_or_default()
}

/// A node of an executable graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Number of the executable graph in this process.
    pub(crate) graph: u32,
    /// The handle of the node.
    pub(crate) node: u64,
}

/// Sets the node whose work this thread submits; returns the one before.
pub(crate) fn exchange_node(node: Option<Node>) -> Option<Node> {
    of_thread(|thread| thread.node.replace(node))
}

/// Whether `observer` is told of calls from now on.
pub(crate) fn observe(observer: Observer, is_observed: bool) {
    OBSERVER.get_or_init(|| observer);
    IS_OBSERVED.store(is_observed, Ordering::Release);
}

/// Makes a call of `library`, which the observer is told of.
#[inline]
pub(super) fn during(library: Library, name: &'static str, body: impl FnOnce() -> u32) -> u32 {
    if !IS_OBSERVED.load(Ordering::Relaxed) {
        return body();
    }
    let is_inner = of_thread(|thread| thread.current.get()) != 0 || gap::is_muted();
    let observer = OBSERVER.get().filter(|_| matches!(library, Library::CudaRuntime | Library::CudaDriver));
    match observer.filter(|_| !is_inner) {
        None => body(),
        Some(observer) => {
            let call = Call { library, name, correlation: new_correlation() };
            of_thread(|thread| thread.current.set(call.correlation));
            let begun = (observer.begin)(call);
            let code = body();
            (observer.end)(call, begun, code, of_thread(|thread| thread.wait.take()));
            of_thread(|thread| thread.current.set(0));
            code
        }
    }
}

/// What submits work in this thread now.
pub(crate) fn origin() -> Origin {
    let (current, node) = of_thread(|thread| (thread.current.get(), thread.node.get()));
    if current != 0 {
        return Origin { correlation: current, launch: None, node };
    }
    let launch = Launch { thread: thread(), external: external() };
    Origin { correlation: new_correlation(), launch: Some(launch), node }
}

/// Says what the call under way waits for.
#[inline]
pub(crate) fn waits(wait: impl FnOnce() -> Wait) {
    if IS_OBSERVED.load(Ordering::Relaxed) {
        of_thread(|thread| thread.wait.set(Some(wait())));
    }
}

/// Says that the call under way waits for all work of a device.
pub(crate) fn waits_for_device(device: u32) {
    waits(|| Wait { kind: WaitKind::Context, device, context: 0, stream: None, event: None });
}

/// This thread, as CUPTI numbers it.
pub(crate) fn thread() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    let handle = unsafe { libc::pthread_self() };
    handle as u32
}

/// Adds an identifier of a kind in this thread; `None` if there is no such kind.
pub(crate) fn push(kind: usize, id: u64) -> Option<()> {
    of_thread(|thread| thread.pushed.borrow_mut().get_mut(kind).map(|stack| stack.push(id)))
}

/// Removes the last identifier of a kind; an inner `None` if there was none.
pub(crate) fn pop(kind: usize) -> Option<Option<u64>> {
    of_thread(|thread| thread.pushed.borrow_mut().get_mut(kind).map(Vec::pop))
}

/// The last identifiers of this thread.
pub(crate) fn external() -> External {
    of_thread(|thread| thread.pushed.borrow().each_ref().map(|stack| stack.last().copied()))
}

fn new_correlation() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_outside_of_calls_is_launched_by_its_thread() {
        assert_eq!((push(3, 7), push(3, 8), push(9, 1)), (Some(()), Some(()), None));
        let first = origin();
        let launch = first.launch.unwrap();
        assert_eq!((launch.thread, launch.external[3], launch.external[4]), (thread(), Some(8), None));
        assert_eq!((pop(3), pop(3), pop(3), pop(9)), (Some(Some(8)), Some(Some(7)), Some(None), None));
        assert_ne!(origin().correlation, first.correlation);
    }
}
