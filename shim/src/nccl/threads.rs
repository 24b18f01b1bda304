//! Which threads are inside calls on a communicator. NCCL does not lock one: two at a time corrupt it, and which of them comes first
//! differs from rank to rank. A thread is inside from a call's begin to its end; in a group, from its first call on the communicator
//! until the group has ended. What may be called from any thread (ncclCommAbort, ncclCommRevoke, questions) does not count.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::CommunicatorId;

use crate::report::finding;

/// The threads inside calls on one communicator.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<Vec<Caller>>);

#[derive(Clone, Copy, Debug)]
struct Caller {
    thread: u64,
    /// What it called first.
    function: &'static str,
    /// How many calls it is in.
    calls: u32,
}

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number of the calling thread, from 1, that no other ever has.
pub(super) fn number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(1 + LAST.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

impl Callers {
    /// The calling thread is in one more call, `function`. Gives what another thread is in.
    fn enter(&self, function: &'static str) -> Option<&'static str> {
        let thread = number();
        let mut callers = self.0.lock();
        let other = callers.iter().find(|caller| caller.thread != thread).map(|caller| caller.function);
        match callers.iter_mut().find(|caller| caller.thread == thread) {
            Some(caller) => caller.calls += 1,
            None => callers.push(Caller { thread, function, calls: 1 }),
        }
        other
    }

    fn leave(&self) {
        let thread = number();
        let mut callers = self.0.lock();
        if let Some(at) = callers.iter().position(|caller| caller.thread == thread) {
            callers[at].calls -= 1;
            if callers[at].calls == 0 {
                callers.swap_remove(at);
            }
        }
    }
}

/// A thread in a call on a communicator, until dropped.
pub(crate) struct Inside(Arc<Callers>);

impl Inside {
    /// The calling thread begins the call under way on the communicator `id`. Another thread that is inside meanwhile is a finding.
    pub(super) fn begin(callers: &Arc<Callers>, id: impl FnOnce() -> Option<CommunicatorId>) -> Self {
        let function = finding::function();
        if let Some(other) = callers.enter(function) {
            let id = id();
            let name = id.map_or_else(|| "a communicator".to_owned(), |id| format!("communicator {id}"));
            // Which came first may differ from run to run.
            let (first, second) = if other < function { (other, function) } else { (function, other) };
            let sentence = format!("two threads are inside {first} and {second} on {name} at the same time");
            finding::record(FindingKind::ConcurrentCalls, function, id, sentence);
        }
        Self(Arc::clone(callers))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_thread_is_in_the_way() {
        let callers = Callers::default();
        assert_eq!(callers.enter("ncclAllReduce"), None);
        assert_eq!(callers.enter("ncclBroadcast"), None, "the same thread");
        let elsewhere = |function| std::thread::scope(|scope| scope.spawn(|| callers.enter(function)).join().unwrap());
        assert_eq!(elsewhere("ncclCommSplit"), Some("ncclAllReduce"));
        callers.0.lock().retain(|caller| caller.function != "ncclCommSplit");
        callers.leave();
        assert_eq!(elsewhere("ncclSend"), Some("ncclAllReduce"), "one of two calls has ended");
        callers.0.lock().retain(|caller| caller.function != "ncclSend");
        callers.leave();
        assert_eq!(elsewhere("ncclRecv"), None);
    }
}
