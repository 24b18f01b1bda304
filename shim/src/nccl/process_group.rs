//! What PyTorch's process groups are given that no NCCL call shows: lists of outputs that are the same memory, the tags and strides of
//! sends and recvs, and tensors that autograd follows. `process_group.py` looks at the calls; the runner compares the ranks.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};

use dataplane::site;
use protocol::finding::FindingKind;
use protocol::ids::{Rank, SiteId};
use protocol::transfer::{MOST, Route, Transfer};
use protocol::upstream::{self, Upstream};
use xxhash_rust::xxh64::xxh64;

use crate::call_site;
use crate::device::work::stream;
use crate::process::python::{Asked, guarded};
use crate::process::rank;
use crate::report::{finding, journal};

const PYTHON: &str = include_str!("process_group.py");

static ASKED: Asked = Asked::new();

/// Called when a communicator is about to form: from now on, calls are looked at, if this is Python.
pub(super) fn watch() {
    ASKED.once(install);
}

/// Runs `process_group.py` in the main thread of Python, which holds the GIL.
unsafe extern "C" fn install(_: *mut c_void) -> c_int {
    let functions = [
        ("aliased", aliased as *const () as usize),
        ("transferred", transferred as *const () as usize),
        ("installed", installed as *const () as usize),
        ("most", MOST),
        ("here", here as *const () as usize),
        ("wait", stream::wait as *const () as usize),
        ("upstream", came_back as *const () as usize),
    ];
    // SAFETY: Python calls this function with the GIL held.
    unsafe { ASKED.start(PYTHON, &functions) };
    0
}

/// Called when calls are looked at.
extern "C" fn installed() {
    ASKED.installed();
}

/// Called for a call whose outputs with these numbers overlap.
unsafe extern "C" fn aliased(call: *const c_char, first: c_uint, second: c_uint) {
    guarded(|| {
        // SAFETY: Python's string.
        let call = unsafe { CStr::from_ptr(call) }.to_string_lossy();
        let who = rank().map_or_else(|| "the process".to_owned(), |rank| format!("rank {rank}"));
        let sentence = format!(
            "{who} calls {call} with a list of outputs in which {first} and {second} are the same memory: each rank's tensor overwrites \
             the one before"
        );
        finding::record(FindingKind::BufferOverlap, &call, None, sentence);
    });
}

/// An end of a send or recv, as Python describes it.
#[repr(C)]
struct End {
    group: *const c_char,
    /// Of each dimension the size and the stride.
    sizes: *const u64,
    dimensions: u64,
    rank: c_uint,
    source: c_uint,
    destination: c_uint,
    is_batched: bool,
    is_send: bool,
    tag: c_longlong,
    earlier: u64,
}

/// Called for an end that is noted.
unsafe extern "C" fn transferred(end: *const End) {
    guarded(|| {
        // SAFETY: Python keeps the struct, its string and its array during the call.
        let (end, group, sizes) = unsafe {
            let end = &*end;
            let sizes = std::slice::from_raw_parts(end.sizes, 2 * end.dimensions as usize);
            (end, CStr::from_ptr(end.group).to_string_lossy().into_owned(), sizes)
        };
        journal::note_transfer(Transfer {
            rank: Rank(end.rank),
            route: Route {
                group,
                source: end.source,
                destination: end.destination,
                is_batched: end.is_batched,
                earlier: end.earlier,
            },
            is_send: end.is_send,
            tag: end.tag,
            shape: sizes.iter().step_by(2).copied().collect(),
            strides: sizes.iter().skip(1).step_by(2).copied().collect(),
            site: call_site::of_python().and_then(site::find),
        });
    });
}

/// The line of the program that makes the call.
extern "C" fn here() -> c_uint {
    guarded(|| call_site::of_python().map_or(0, |site| site.0))
}

/// Called for the gradient of a tensor that an all_reduce of these ranks changed.
unsafe extern "C" fn came_back(
    rank: c_uint,
    ranks: *const c_uint,
    count: usize,
    address: usize,
    bytes: usize,
    site: c_uint,
    earlier: u64,
) {
    guarded(|| {
        if earlier >= upstream::MOST {
            return;
        }
        // SAFETY: an array of Python's, and a tensor that it holds; the memory of a simulated GPU is this process's.
        let (ranks, bytes) = unsafe {
            (std::slice::from_raw_parts(ranks, count), std::slice::from_raw_parts(address as *const u8, bytes))
        };
        journal::note_upstream(Upstream {
            rank: Rank(rank),
            ranks: ranks.iter().copied().map(Rank).collect(),
            site: site::find(SiteId(site)),
            earlier,
            gradient: xxh64(bytes, 0),
        });
    });
}
