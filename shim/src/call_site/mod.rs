//! Where in the program a call of NCCL is: the innermost line of Python that is the user's, or else the C function that
//! called.

pub(crate) mod caller;
mod layout;
mod memory;
mod origin;
mod python;
mod text;

use protocol::ids::SiteId;
pub(crate) use python::Pass;

/// PyTorch has code at `address`: its own frames are not the user's, also where it is not an installed package.
pub(crate) fn framework_at(address: usize) {
    python::framework_at(address);
}

/// PyTorch tells backward passes apart by `function`.
pub(crate) fn passes_by(function: Pass) {
    python::passes_by(function);
}

/// Whether this thread works for a backward pass.
pub(crate) fn is_in_backward_pass() -> bool {
    python::pass().is_some()
}

/// Whether this thread only learns shapes for PyTorch, from results of memory that nobody wrote. At the cost of a walk over all frames.
pub(crate) fn is_in_trial() -> bool {
    python::is_within(origin::learns_shapes)
}

/// Whether PyTorch is in the process, as far as its calls have shown.
pub(crate) fn has_framework() -> bool {
    python::has_framework()
}

/// The line of Python that this thread is at, for calls that do not keep who called.
pub(crate) fn of_python() -> Option<SiteId> {
    python::innermost()
}

/// The C function that allocates, in a program without PyTorch: that allocates seldom enough for a walk over the stack.
pub(crate) fn of_allocation() -> Option<SiteId> {
    if has_framework() { None } else { caller::on_stack() }
}

/// The line of Python, or else the C function that called, at any cost: for what is wrong.
pub(crate) fn of_mistake() -> Option<SiteId> {
    python::innermost().or_else(caller::on_stack)
}

/// The same as [`of_python`], at a cost that every operator can bear.
pub(crate) fn of_this_thread() -> Option<SiteId> {
    python::of_this_thread()
}

/// The place of the call that this thread is in. Cheap enough for every collective: a place is worked out once.
pub(crate) fn here() -> SiteId {
    python::innermost().unwrap_or_else(caller::site)
}
