//! Where in the program an NCCL call is made: the innermost Python line in the user's code, or else the calling C
//! function.

pub(crate) mod caller;
pub(crate) mod cpp_name;
mod layout;
mod origin;
mod peek;
mod python;
mod text;

use dataplane::site;
use protocol::ids::SiteId;
pub(crate) use python::Pass;

/// Records that PyTorch has code at `address`: its own frames are not the user's, even if it is not an installed
/// package.
pub(crate) fn framework_at(address: usize) {
    python::framework_at(address);
}

/// Sets PyTorch's `function` that identifies backward passes.
pub(crate) fn passes_by(function: Pass) {
    python::passes_by(function);
}

/// Whether this thread is working on a backward pass.
pub(crate) fn is_in_backward_pass() -> bool {
    python::pass().is_some()
}

/// Whether this thread only infers shapes for PyTorch, from results in uninitialized memory. Costs a walk over all frames.
pub(crate) fn is_in_trial() -> bool {
    python::is_within(origin::learns_shapes)
}

/// Whether PyTorch is in the process, judging by its calls so far.
pub(crate) fn has_framework() -> bool {
    python::has_framework()
}

/// Whether the process runs Python, of a version that we know.
pub(crate) fn has_python() -> bool {
    python::is_there()
}

/// The Python line that this thread is at, for calls that do not record their caller.
pub(crate) fn of_python() -> Option<SiteId> {
    python::innermost()
}

/// The C function that allocates, in a program without PyTorch, which allocates rarely enough for a stack walk.
pub(crate) fn of_allocation() -> Option<SiteId> {
    if has_framework() { None } else { caller::on_stack() }
}

/// The Python line, or else the calling C function, at any cost: for reporting mistakes.
pub(crate) fn of_mistake() -> Option<SiteId> {
    python::innermost().or_else(caller::on_stack)
}

/// Whether no other thread is looking for a site, which in a forked child would never end.
pub(crate) fn is_free() -> bool {
    site::is_free() && caller::is_free()
}

/// The address in the program's code, or that of its libraries, to which the call under way returns. Costs a stack walk.
pub(crate) fn address() -> Option<usize> {
    caller::address_on_stack()
}

/// The same as [`of_python`], at a cost that every operator can bear.
pub(crate) fn of_this_thread() -> Option<SiteId> {
    python::of_this_thread()
}

/// The site of the call that this thread is in. Cheap enough for every collective, because each site is resolved once.
pub(crate) fn here() -> SiteId {
    python::innermost().unwrap_or_else(caller::site)
}
