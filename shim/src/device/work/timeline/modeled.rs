//! Work on the modeled clock: when it begins, by what is before it, and when it ends, by what it costs.

use std::cell::Cell;

use dataplane::site;
use protocol::ids::SiteId;
use protocol::report::PathKind;
use timing::streams::Start;
use timing::work::{Cost, is_for_tensor_cores};

use super::Done;
use super::cost;
use super::work::{Kind, Work};
use crate::boundary::calls::Origin;
use crate::call_site;
use crate::device::work::clock;
use crate::device::work::stream::{Stream, Times};
use crate::report::{operations, time};

/// When a piece of work ran on the modeled clock, ns from the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Modeled {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
    /// When its stream could have begun it, and when the host had submitted it as well.
    could_ns: u64,
    ready_ns: u64,
    /// How many marks of steps there were when the host submitted it, and when that was.
    marked: usize,
    at_ns: u64,
    /// When what is before it had ended; 0 for nothing. By other work that was delayed for so long.
    after_ns: u64,
    lost_ns: u64,
    /// The global rank that it waited for.
    awaited: Option<u32>,
    /// The line of the program, if it is looked at closely.
    site: Option<SiteId>,
    /// Whether the model knew what decides how long it takes.
    pub(crate) is_known: bool,
}

/// Work that was submitted.
#[derive(Clone, Debug)]
pub(super) struct Submitted {
    times: Times,
    at_ns: u64,
    is_node: bool,
    marked: usize,
    /// The line of the program, of work that is looked at closely.
    site: Option<SiteId>,
    /// Its number in the log of operations.
    pub(super) logged: Option<usize>,
}

/// Work that has begun.
#[derive(Debug)]
pub(super) struct Running {
    times: Times,
    marked: usize,
    site: Option<SiteId>,
    at_ns: u64,
    lost_ns: u64,
    is_node: bool,
    start: Start,
    begin_ns: u64,
    /// The global rank that was ready last, if it was not this one.
    awaited: Option<u32>,
    logged: Option<usize>,
    /// What it costs, if that was said.
    cost: Option<Cost>,
}

thread_local! {
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// What this thread submits is part of a piece of work that was submitted before, until this is dropped.
pub(crate) struct Within(bool);

impl Within {
    /// The thread submits parts.
    pub(crate) fn begin() -> Self {
        Self(IS_WITHIN.replace(true))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        IS_WITHIN.set(self.0);
    }
}

/// Whether what this thread submits is part of something else.
pub(super) fn is_within() -> bool {
    IS_WITHIN.get()
}

/// The host submits it, which takes time. `None` without a modeled clock, and for what takes none.
pub(super) fn submit(stream: &Stream, work: &Work, origin: &Origin) -> Option<Submitted> {
    if !clock::is_modeled() || matches!(work.kind, Kind::Event { .. }) {
        return None;
    }
    let is_node = origin.node.is_some();
    let at_ns = clock::spend(cost::host_us(work, is_node));
    let marked = time::marked();
    let site = time::is_sampled(marked).then(call_site::of_python).flatten();
    let logged = operations::submit(stream.times().key(), site);
    Some(Submitted { times: stream.times().clone(), at_ns, is_node, marked, site, logged })
}

impl Submitted {
    /// The device begins it as soon as it can. Everything before it in its stream is done.
    pub(super) fn begin(self) -> Running {
        let Self { times, at_ns, marked, site, is_node, logged } = self;
        let after_ns = times.ends_in_order_ns();
        let lost_ns = times.lost_ns(after_ns);
        let start = Start::new(after_ns, at_ns, is_node);
        let begin_ns = start.ready_ns;
        Running { times, marked, site, at_ns, lost_ns, is_node, start, begin_ns, awaited: None, logged, cost: None }
    }
}

impl Running {
    /// When this rank is ready for it.
    pub(super) fn ready_ns(&self) -> u64 {
        self.start.ready_ns
    }

    /// It began when the last of its ranks was ready, and costs that; `rank` is which that was.
    pub(super) fn met(&mut self, latest_ns: u64, rank: impl FnOnce() -> Option<u32>, cost: Option<Cost>) {
        if latest_ns > self.begin_ns {
            self.begin_ns = latest_ns;
            self.awaited = rank();
        }
        self.cost = cost;
    }

    /// It is over.
    pub(super) fn end(self, device: u32, work: &Work) -> Modeled {
        let shape = work.shape(self.is_node);
        let mut cost = self.cost.unwrap_or_else(|| cost::on_device(device, &shape));
        if is_for_tensor_cores(&shape) {
            cost.us = self.times.stretched_us(cost::gpu(device), self.begin_ns, cost.us);
        }
        let Self { times, marked, site, at_ns, lost_ns, start, begin_ns, awaited, logged, .. } = self;
        let (end_ns, pieces) = start.pieces(begin_ns, &cost);
        pieces.for_each(|(interval, demand)| times.ran(interval, start.gap_ns, marked, demand));
        logged.into_iter().for_each(|number| operations::ended(number, &work.name, shape));
        let Start { after_ns, could_ns, ready_ns, .. } = start;
        Modeled {
            begin_ns,
            end_ns,
            could_ns,
            ready_ns,
            marked,
            awaited,
            site,
            at_ns,
            after_ns,
            lost_ns,
            is_known: cost.is_known,
        }
    }
}

/// Adds it to the totals of the report.
pub(super) fn add(done: &Done) {
    let Some(modeled) = done.modeled else { return };
    let part = match done.work.kind {
        Kind::HostFunction => time::Part::Nothing,
        Kind::Collective { .. } => time::Part::Communicating,
        _ => time::Part::Computing,
    };
    let unknown = (!modeled.is_known).then_some(&*done.work.name);
    let Modeled { begin_ns, end_ns, could_ns, ready_ns, marked, .. } = modeled;
    let ran = time::Ran { device: done.device, part, marked, could_ns, ready_ns, begin_ns, end_ns };
    time::add(ran, unknown, || time::Detail {
        name: done.work.name.to_string(),
        kind: match done.work.kind {
            Kind::Collective { .. } => PathKind::Collective,
            Kind::Copy { .. } | Kind::Fill { .. } => PathKind::Copy,
            _ => PathKind::Compute,
        },
        operation: match &done.work.kind {
            Kind::Collective { parts, .. } => {
                let first = parts.first().map(|part| part.operation);
                first.filter(|first| parts.iter().all(|part| part.operation == *first))
            }
            _ => None,
        },
        bytes: match &done.work.kind {
            Kind::Collective { parts, ranks } => Some(parts.iter().map(|part| part.bytes(*ranks)).sum()),
            Kind::Copy { bytes, .. } | Kind::Fill { bytes, .. } => Some(*bytes),
            _ => None,
        },
        // The same wherever the program lies.
        line: modeled.site.and_then(site::find).map(|site| {
            let name = site.file.rsplit('/').next().unwrap_or_default().to_owned();
            (name, site.line)
        }),
        stream: done.stream,
        at_ns: modeled.at_ns,
        after_ns: modeled.after_ns,
        lost_ns: modeled.lost_ns,
        ready_ns,
        begin_ns,
        awaited: modeled.awaited,
        end_ns,
        is_host_late: could_ns < ready_ns,
    });
}
