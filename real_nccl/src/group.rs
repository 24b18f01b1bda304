//! Calls between `ncclGroupStart` and `ncclGroupEnd`: what is noted of them and which communicators they make, per thread.

use std::cell::RefCell;
use std::sync::Arc;

use abi::nccl;
use dataplane::call::Call;

use crate::books::Books;
use crate::{handles, trouble};

/// A communicator that the real NCCL is creating: where it writes the handle, the books, and those of the communicator that is split
/// if this rank gets a part.
struct Made {
    out: *mut usize,
    books: Arc<Books>,
    parent: Option<Arc<Books>>,
}

#[derive(Default)]
struct Group {
    depth: u32,
    calls: Vec<(Arc<Books>, Vec<Call>)>,
    made: Vec<Made>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// `ncclGroupStart` succeeded.
pub(crate) fn starts() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

fn is_open() -> bool {
    GROUP.with_borrow(|group| group.depth > 0)
}

/// `ncclGroupEnd`: if the group is the outermost one, notes its calls, then lets the real NCCL run them.
///
/// # Safety
/// The pointers given to [`make`] in this group are still valid.
pub(crate) unsafe fn ends(real: impl FnOnce() -> u32) -> Result<u32, u32> {
    let done = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        (group.depth == 0).then(|| std::mem::take(group))
    });
    let Some(group) = done else { return trouble::theirs(real()) };
    let noted: Vec<Arc<Books>> = group.calls.iter().map(|(books, _)| Arc::clone(books)).collect();
    group.calls.into_iter().for_each(|(books, calls)| books.calls(calls));
    let result = trouble::theirs(real());
    match result {
        // SAFETY: the caller's promise.
        Ok(code) => group.made.into_iter().for_each(|made| unsafe { made.hold(code) }),
        Err(_) => noted.iter().chain(group.made.iter().map(|made| &made.books)).for_each(|books| books.abort()),
    }
    result
}

impl Made {
    /// After the real NCCL returned `code`. While it is in progress, it may not have written a split's handle.
    ///
    /// # Safety
    /// `out` is valid, and if a split is in progress, it remains so until the program has used the handle.
    unsafe fn hold(self, code: u32) {
        // SAFETY: the caller's promise.
        let handle = unsafe { self.out.read_volatile() };
        match self.parent {
            _ if handle != 0 => handles::hold(handle, self.books),
            // SAFETY: the caller's promise.
            Some(parent) if code == nccl::IN_PROGRESS => unsafe { handles::expect(self.out, parent, self.books) },
            // A split may leave a rank without a communicator.
            _ => {}
        }
    }
}

/// An operation: noted first, so that a rank waiting in the real NCCL is known to be waiting.
pub(crate) fn operate(books: &Arc<Books>, call: Call, real: impl FnOnce() -> u32) -> Result<u32, u32> {
    books.usable()?;
    if !is_open() {
        books.calls(vec![call]);
        return trouble::theirs(real()).inspect_err(|_| books.abort());
    }
    let code = trouble::theirs(real())?;
    GROUP.with_borrow_mut(|group| match group.calls.iter_mut().find(|(other, _)| Arc::ptr_eq(other, books)) {
        Some((_, calls)) => calls.push(call),
        None => group.calls.push((Arc::clone(books), vec![call])),
    });
    Ok(code)
}

/// A communicator. The real NCCL writes its handle to `out`, now or when the group ends.
///
/// # Safety
/// `out` is valid until then, and if a split is in progress, until the program has used the handle.
pub(crate) unsafe fn make(
    out: *mut usize,
    books: Arc<Books>,
    parent: Option<Arc<Books>>,
    real: impl FnOnce() -> u32,
) -> Result<u32, u32> {
    let code = trouble::theirs(real()).inspect_err(|_| books.abort())?;
    let made = Made { out, books, parent };
    if is_open() {
        GROUP.with_borrow_mut(|group| group.made.push(made));
    } else {
        // SAFETY: the caller's promise.
        unsafe { made.hold(code) };
    }
    Ok(code)
}
