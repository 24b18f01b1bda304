//! Which threads are inside calls on a communicator. NCCL does not lock communicators: two threads at a time corrupt one, and
//! which of them comes first differs from rank to rank. A thread is inside from the start of a call to its end; in a group, from
//! its first call on the communicator until the group has ended. Functions that may be called from any thread (ncclCommAbort,
//! ncclCommRevoke, queries) do not count.

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
    /// The function it called first.
    function: &'static str,
    /// The number of calls it is in.
    calls: u32,
}

thread_local! {
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A unique number of the calling thread, from 1, never reused.
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
    /// Records that the calling thread is in one more call, `function`. Returns the call that another thread is in, if
    /// any.
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
    /// Records that the calling thread begins the current call on the communicator `id`. If another thread is inside at the same
    /// time, that is a finding.
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
