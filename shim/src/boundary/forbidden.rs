//! Calls where CUDA permits none: in a stream's host functions, and in a child of a process that had used CUDA when it
//! forked. They fail with NVIDIA's codes, and the program often goes on, so each is a finding.

use protocol::finding::FindingKind;

use crate::report::finding;

/// Parts of the names of functions whose failure changes what the program computes. Queries are left out, because a child may ask
/// whether there is a GPU, and so is what destructors call.
const DO_WORK: &[&str] = &[
    "Malloc",
    "MemAlloc",
    "Memcpy",
    "Memset",
    "Launch",
    "StreamCreate",
    "ModuleLoad",
    "LibraryLoad",
    "CommInit",
    "ncclAll",
    "ncclReduce",
    "ncclBroadcast",
    "ncclSend",
    "ncclRecv",
];

/// Called when a host function calls `name`.
#[cold]
pub(super) fn in_host_function(name: &'static str) {
    finding::during(name, || {
        let function = finding::function();
        let sentence = format!("{function} is called in a host function of a stream, where CUDA permits no calls");
        finding::record(FindingKind::ForbiddenCall, function, None, sentence);
    });
}

/// Called when a forked child calls `name`.
#[cold]
pub(super) fn in_forked_child(name: &'static str) {
    if !DO_WORK.iter().any(|part| name.contains(part)) {
        return;
    }
    finding::during(name, || {
        let function = finding::function();
        let sentence = format!(
            "{function} is called in a forked child: its parent had used CUDA before, which does not survive a fork"
        );
        finding::record_in_forked_child(FindingKind::ForbiddenCall, function, sentence);
    });
}
