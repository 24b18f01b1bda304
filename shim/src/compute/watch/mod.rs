//! The sanitizers and an operator: what it does is recorded before it computes, and checked or applied afterwards. One file for
//! each word of `FAKEGPU_SANITIZE` and for `schedule`; the rules and findings are in `sanitizer`.

mod finite;
mod init;
mod races;
mod schedule;

use protocol::ids::SiteId;

use super::cxx::IValue;
use super::object::Tensor;
use super::operator::Operator;
use crate::sanitizer;
use crate::sanitizer::init::Read;
use crate::sanitizer::owner::Tenancy;
use crate::sanitizer::races::{Access, Lane};
use finite::NonFinite;
use init::Unwritten;
use races::Accesses;
use schedule::Postponed;

/// An operator under way, as those see it that a case has enabled.
pub(super) struct Watch {
    // Dropped in this order if the operator throws: whose derivative it computes is known until the end.
    postponed: Option<Postponed>,
    unwritten: Option<Unwritten>,
    not_finite: Option<NonFinite>,
    accesses: Option<Accesses>,
}

impl Watch {
    /// Called before an operator computes on the GPU `index`. On `several` devices it is not postponed.
    #[inline]
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue], index: i8, several: bool) -> Self {
        let accesses = Accesses::begin(operator, arguments, index);
        let not_finite = NonFinite::begin(operator, arguments);
        let unwritten = Unwritten::begin(operator, arguments);
        let postponed = if several { None } else { Postponed::begin(operator, arguments, index) };
        Self { postponed, unwritten, not_finite, accesses }
    }

    /// Called when the operator is done, with its results; its arguments still exist.
    #[inline]
    pub(super) fn end(self, results: &[IValue]) {
        let Self { postponed, unwritten, not_finite, accesses } = self;
        if let Some(not_finite) = not_finite {
            not_finite.end(results);
        }
        if let Some(unwritten) = unwritten {
            unwritten.end(results);
        }
        // Until then, it is known whose derivative this is.
        if let Some(accesses) = accesses {
            accesses.end(results);
        }
        if let Some(postponed) = postponed {
            postponed.end(results);
        }
    }
}

/// An operator being captured into a CUDA graph.
pub(super) struct Captured {
    accesses: Option<Accesses>,
    unwritten: Option<Unwritten>,
}

impl Captured {
    /// Called before it computes on the GPU `index`.
    pub(super) fn begin(operator: &'static Operator, arguments: &[IValue], index: i8) -> Self {
        let accesses = Accesses::begin(operator, arguments, index);
        Self { accesses, unwritten: Unwritten::begin(operator, arguments) }
    }

    /// Called when it is done, with its results: what every launch of the graph does.
    pub(super) fn end(self, results: &[Tensor]) -> Replay {
        let Self { accesses, unwritten } = self;
        let (site, accesses) = accesses.map_or_else(Default::default, |accesses| accesses.ranges(results));
        let tenancies = accesses.iter().filter_map(|access| Some((*access, Tenancy::now(access.address)?))).collect();
        Replay { site, accesses, tenancies, reads: unwritten.map_or_else(Vec::new, Unwritten::into_reads) }
    }
}

/// A captured operator, whenever its graph is launched.
pub(super) struct Replay {
    /// The captured line.
    site: SiteId,
    accesses: Vec<Access>,
    /// The accesses to memory that is not the graph's own, with who had it then.
    tenancies: Vec<(Access, Tenancy)>,
    /// What must have been written before it runs.
    reads: Vec<Read>,
}

/// A captured operator under way.
pub(super) struct Replayed(Option<NonFinite>);

impl Replay {
    /// The operator is submitted.
    pub(super) fn submit(&self, operator: &'static Operator, lane: Lane) {
        sanitizer::races::work_at(self.site, &[lane], &operator.name, &self.accesses);
        for (access, tenancy) in &self.tenancies {
            if let Some(successor) = tenancy.successor() {
                sanitizer::owner::replayed(&operator.name, *access, &successor, self.site);
            }
        }
    }

    /// Called before it computes, with a way to its arguments, which are views of GPU memory.
    pub(super) fn begin(&self, operator: &'static Operator, arguments: impl Fn() -> Vec<IValue>) -> Replayed {
        sanitizer::init::read_at(self.site, &operator.name, &self.reads);
        let numbers = || NonFinite::in_graph(operator, &arguments());
        Replayed(sanitizer::finite::is_wanted().then(numbers).flatten())
    }

    /// Called when it is done, with a way to its results.
    pub(super) fn end(&self, replayed: Replayed, results: impl Fn() -> Vec<Tensor>) {
        if sanitizer::init::is_wanted() {
            let written = self.accesses.iter().filter(|access| access.writes);
            written.for_each(|access| sanitizer::init::written(access.address, access.bytes));
        }
        if let Some(not_finite) = replayed.0 {
            not_finite.end_in_graph(self.site, &results());
        }
    }
}
