//! The health of GPUs: the events that the case (`gpu`) has triggered so far, the resulting CUDA errors, and what monitors see.
//!
//! The events are in the environment, the same for every process. Whether one has happened is determined from the clock, or
//! from the machine's file if it waits for a collective. Nothing is sent to anyone, so all processes agree.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use abi::cuda::CudaError;
use protocol::fault::{Fault, Trigger};
use protocol::gpu::Gpu;
use protocol::gpu_event::{GpuEvent, GpuHealth, Repairs, Throttle};

use super::board::{self, Times};
use super::meter;
use crate::settings;

/// The GPU events of this case.
fn events() -> &'static [Fault] {
    settings::get().map_or(&[][..], |settings| &settings.gpu_events[..])
}

/// Whether anything happens to any GPU of the case. The clock of timed events starts at the first call.
pub(crate) fn is_watched() -> bool {
    static WATCHED: OnceLock<bool> = OnceLock::new();
    *WATCHED.get_or_init(|| {
        if events().is_empty() {
            return false;
        }
        let start = &board::times().start;
        let _ = start.compare_exchange(0, meter::now(), Ordering::AcqRel, Ordering::Relaxed);
        dataplane::gpu::listen(happens);
        true
    })
}

/// Called when an event that waited for a collective happens.
fn happens(event: &GpuEvent) {
    let times = board::times();
    let Some(slot) = times.happened.get(event.slot as usize) else { return };
    if slot.compare_exchange(0, meter::now(), Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        times.changes.fetch_add(1, Ordering::AcqRel);
        dataplane::futex::wake_all(&times.changes);
    }
}

/// When an event happens or happened; `None` if not known yet.
fn due(fault: &Fault, times: &Times) -> Option<u64> {
    match fault.at {
        Trigger::After { elapsed, .. } => {
            Some(times.start.load(Ordering::Acquire).saturating_add(elapsed.as_micros() as u64))
        }
        Trigger::Collective { .. } => {
            let slot = times.happened.get(fault.action.gpu()?.slot as usize)?;
            Some(slot.load(Ordering::Acquire)).filter(|at| *at > 0)
        }
    }
}

/// The events of a GPU that have happened by `now`, in that order, each with its time (us); and when the next one is due.
fn so_far(gpu: &Gpu, now: u64) -> (Vec<(u64, &'static GpuEvent)>, Option<u64>) {
    if !is_watched() {
        return (Vec::new(), None);
    }
    let times = board::times();
    let own = events().iter().filter_map(|fault| Some((fault, fault.action.gpu()?)));
    let own = own.filter(|(_, event)| (event.node, event.local) == (gpu.node, gpu.local));
    let known = own.filter_map(|(fault, event)| Some((due(fault, times)?, event)));
    let (mut past, later): (Vec<_>, Vec<_>) = known.partition(|(at, _)| *at <= now);
    past.sort_by_key(|(at, event)| (*at, event.slot));
    (past, later.into_iter().map(|(at, _)| at).min())
}

/// When a process got its context on a device.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    since: AtomicU64,
}

impl Watch {
    /// The error of every call from now on, if an event made the GPU unusable for existing work.
    ///
    /// NVIDIA documents `cudaErrorECCUncorrectable` for an error "detected during execution". For a GPU that fell off the bus,
    /// it documents the Xid but no code: an existing context fails with "an unknown internal error", and for a new one the
    /// device is "unavailable at the current time".
    pub(super) fn error(&self, gpu: &Gpu) -> Option<CudaError> {
        let now = meter::now();
        let is_new = self.since.compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire).is_ok();
        error(&so_far(gpu, now).0, self.since.load(Ordering::Acquire), is_new)
    }
}

/// As [`Watch::error`], for a context that has existed `since` a time, or was about to be created.
fn error(past: &[(u64, &GpuEvent)], since: u64, is_new: bool) -> Option<CudaError> {
    past.iter().find_map(|(at, event)| {
        let health = &event.health;
        if health.lost {
            Some(if is_new { CudaError::DEVICES_UNAVAILABLE } else { CudaError::UNKNOWN })
        } else {
            (health.is_fatal() && *at > since).then_some(CudaError::ECC_UNCORRECTABLE)
        }
    })
}

/// Error counts of one kind from error correction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Since the driver was loaded.
    pub(crate) volatile: u64,
    /// Over the GPU's lifetime.
    pub(crate) aggregate: u64,
}

impl Count {
    fn add(&mut self, now: u32, earlier: u32) {
        self.volatile += u64::from(now);
        self.aggregate += u64::from(now) + u64::from(earlier);
    }
}

/// The state of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    /// Whether it fell off the bus.
    pub(crate) is_lost: bool,
    /// Corrected errors, and uncorrected ones.
    pub(crate) corrected: Count,
    pub(crate) uncorrected: Count,
    /// Rows that were remapped, or pages that were retired.
    pub(crate) rows: Repairs,
    pub(crate) pages: Repairs,
    /// What throttles it, and since when (us).
    pub(crate) throttle: Option<(Throttle, u64)>,
    /// The generation that the link to the host runs at, if below its maximum.
    pub(crate) pcie_generation: Option<u32>,
    pub(crate) pcie_width: Option<u32>,
}

impl Condition {
    /// The state after these events, in order.
    fn after<'e>(events: impl Iterator<Item = (u64, &'e GpuHealth)>) -> Self {
        let mut condition = Self::default();
        for (at, health) in events {
            condition.is_lost |= health.lost;
            if let Some(ecc) = health.ecc {
                condition.corrected.add(ecc.corrected, ecc.earlier_corrected);
                condition.uncorrected.add(ecc.uncorrected, ecc.earlier_uncorrected);
                // Memory that cannot be relied on is replaced: at once for what happened before the driver was loaded, else at
                // the next reset.
                for repairs in [&mut condition.rows, &mut condition.pages] {
                    let errors = ecc.earlier_uncorrected.saturating_add(ecc.uncorrected);
                    repairs.uncorrected = repairs.uncorrected.saturating_add(errors);
                    repairs.pending |= ecc.uncorrected > 0;
                }
            }
            add(&mut condition.rows, health.remapped_rows);
            add(&mut condition.pages, health.retired_pages);
            match health.throttle {
                Some(Throttle::None) => condition.throttle = None,
                Some(throttle) => condition.throttle = Some((throttle, at)),
                None => {}
            }
            condition.pcie_generation = health.pcie_generation.or(condition.pcie_generation);
            condition.pcie_width = health.pcie_width.or(condition.pcie_width);
        }
        condition
    }

    /// What throttles the clocks.
    pub(crate) fn throttle(&self) -> Throttle {
        self.throttle.map_or(Throttle::None, |(throttle, _)| throttle)
    }
}

fn add(sum: &mut Repairs, more: Option<Repairs>) {
    let Some(more) = more else { return };
    sum.corrected = sum.corrected.saturating_add(more.corrected);
    sum.uncorrected = sum.uncorrected.saturating_add(more.uncorrected);
    sum.pending |= more.pending;
    sum.failed |= more.failed;
}

/// The current state of a GPU of the machine.
pub(crate) fn condition(gpu: &Gpu) -> Condition {
    Condition::after(so_far(gpu, meter::now()).0.into_iter().map(|(at, event)| (at, &event.health)))
}

/// Events that a monitor is notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The driver logged an Xid.
    Xid(u32),
    /// A corrected error.
    Corrected,
    /// An uncorrected error.
    Uncorrected,
}

/// The notifications to monitors about a GPU, each with its time (us) and event; and when more are due.
pub(crate) fn notices(gpu: &Gpu, now: u64) -> (Vec<(u64, u32, Notice)>, Option<u64>) {
    let (past, next) = so_far(gpu, now);
    let notices = past.into_iter().flat_map(|(at, event)| {
        let ecc = event.health.ecc.unwrap_or_default();
        let notices = [
            (ecc.corrected > 0).then_some(Notice::Corrected),
            (ecc.uncorrected > 0).then_some(Notice::Uncorrected),
            event.health.xid.map(Notice::Xid),
        ];
        notices.into_iter().flatten().map(move |notice| (at, event.slot, notice))
    });
    (notices.collect(), next)
}

/// Changes whenever something happens at a collective.
pub(crate) fn changes() -> &'static AtomicU32 {
    &board::times().changes
}

#[cfg(test)]
mod tests {
    use protocol::gpu_event::EccErrors;

    use super::*;

    fn event(health: GpuHealth) -> GpuEvent {
        GpuEvent { gpu: "node0/0".to_owned(), node: 0, local: 0, slot: 0, health }
    }

    fn ecc(corrected: u32, uncorrected: u32, earlier_corrected: u32, earlier_uncorrected: u32) -> GpuHealth {
        let ecc = Some(EccErrors { corrected, uncorrected, earlier_corrected, earlier_uncorrected });
        GpuHealth { ecc, ..GpuHealth::default() }
    }

    #[test]
    fn what_cuda_answers_by_table() {
        let lost = event(GpuHealth { lost: true, ..GpuHealth::default() });
        let (uncorrected, corrected) = (event(ecc(0, 1, 0, 0)), event(ecc(9, 0, 0, 3)));
        for (what, past, since, is_new, code) in [
            ("nothing happened", vec![], 5, false, None),
            ("lost while it is used", vec![(7, &lost)], 5, false, Some(999)),
            ("lost before", vec![(3, &lost)], 5, true, Some(46)),
            ("an uncorrectable error while it is used", vec![(7, &uncorrected)], 5, false, Some(214)),
            ("one that was there before the context", vec![(5, &uncorrected)], 5, false, None),
            ("corrected ones, and old ones", vec![(7, &corrected)], 5, false, None),
            ("the first error stays", vec![(6, &uncorrected), (7, &lost)], 5, false, Some(214)),
        ] {
            assert_eq!(error(&past, since, is_new).map(|error| error.0), code, "{what}");
        }
    }

    #[test]
    fn counters_add_up_and_the_last_word_counts() {
        let hot = |throttle| GpuHealth { throttle: Some(throttle), ..GpuHealth::default() };
        let slow = |generation| GpuHealth { pcie_generation: Some(generation), ..GpuHealth::default() };
        let rows = Some(Repairs { corrected: 1, failed: true, ..Repairs::default() });
        let condition = Condition::after(
            [
                (1, &ecc(12, 0, 40, 2)),
                (2, &ecc(3, 1, 0, 0)),
                (3, &hot(Throttle::Thermal)),
                (4, &slow(3)),
                (5, &slow(2)),
                (6, &GpuHealth { remapped_rows: rows, ..GpuHealth::default() }),
            ]
            .into_iter(),
        );
        assert_eq!(condition.corrected, Count { volatile: 15, aggregate: 55 });
        assert_eq!(condition.uncorrected, Count { volatile: 1, aggregate: 3 });
        assert_eq!(condition.rows, Repairs { corrected: 1, uncorrected: 3, pending: true, failed: true });
        assert_eq!(condition.pages, Repairs { corrected: 0, uncorrected: 3, pending: true, failed: false });
        assert_eq!((condition.throttle, condition.pcie_generation), (Some((Throttle::Thermal, 3)), Some(2)));
        let cool = Condition::after([(1, &hot(Throttle::PowerCap)), (2, &hot(Throttle::None))].into_iter());
        assert_eq!(cool, Condition::default());
    }
}
