//! Races: two pieces of work in streams, or one and the host, touch the same bytes, one of them writes, and nothing orders the
//! two. Work is ordered by its stream, by events, by waits of the host, and by the legacy default stream (CUDA C++ Programming
//! Guide, "Asynchronous Concurrent Execution"). The host counts as one: what one thread waited for is known to all that submit
//! work, because synchronization between threads is not observed (PyTorch's watchdog queries every collective, and frees its
//! memory). So a race may be missed, but there are no false reports.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use dataplane::lock::Mutex;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;
use rustc_hash::FxHashMap;

pub(crate) use super::clock::Clock;
use super::history::{History, Toucher};
pub(crate) use super::lane::{Lane, Order};
use super::outstanding::Log;
pub(crate) use super::outstanding::Touch;
pub(crate) use super::shadow::Access;
use super::shadow::{Conflict, Work};
use super::{coming, forward, lane, owner, pinned, source_line};
use crate::call_site;
use crate::process::fork;
use crate::report::finding;
use crate::settings;

/// Maximum number of different races reported; a program that never waits has thousands.
const REPORTED: usize = 16;

#[derive(Debug)]
struct Known {
    lane: Lane,
    /// From 1, in order of first work: the same in every run. Branches have the number of the next stream.
    number: usize,
    clock: Clock,
}

#[derive(Debug, Default)]
struct State {
    host: Clock,
    streams: FxHashMap<u64, Known>,
    history: History,
    /// Pieces of work so far.
    count: u64,
    outstanding: Log,
    /// The later and the earlier work; also where the earlier was called, if the later is the host's.
    reported: BTreeSet<(&'static str, &'static str, SiteId)>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// Whether the sanitizer is enabled.
pub(crate) fn are_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.races) && !fork::is_lost()
}

/// Called when a piece of work that touches `accesses` is submitted to all of `lanes` at once.
pub(crate) fn work(lanes: &[Lane], name: &'static str, accesses: &[Access]) {
    if are_wanted() && !lanes.is_empty() {
        let site = lane::site().or_else(call_site::of_this_thread);
        work_at(site.unwrap_or_default(), lanes, name, accesses);
    }
}

/// The same, if the line on which it is called is known.
pub(crate) fn work_at(site: SiteId, lanes: &[Lane], name: &'static str, accesses: &[Access]) {
    if !are_wanted() || lanes.is_empty() {
        return;
    }
    let name = lane::name().unwrap_or(name);
    let races = STATE.lock().work(lanes, name, site, accesses);
    for sentence in races {
        report(name, sentence, lane::site());
    }
}

/// Reports a race of `name`, called at `site` or, without one, where the program is now.
fn report(name: &'static str, sentence: String, site: Option<SiteId>) {
    match site {
        Some(site) => finding::record_at(FindingKind::Race, name, sentence, site),
        None => finding::record(FindingKind::Race, name, None, sentence),
    }
}

/// A kernel that was submitted and may not have run yet.
#[derive(Debug)]
pub(crate) struct Submitted {
    lane: Lane,
    work: Work,
    clock: Clock,
    /// Whether that is everything submitted before it.
    knows_all: bool,
}

/// Called when the kernel `name` is submitted to `lane`. Call [`Submitted::touched`] with what it touches.
pub(crate) fn kernel(lane: Lane, name: &'static str) -> Option<Submitted> {
    are_wanted().then(|| {
        let site = lane::site().or_else(call_site::of_this_thread);
        let mut state = STATE.lock();
        let (work, _) = state.submit(&[lane], name, site.unwrap_or_default(), &[]);
        state.outstanding.open(work.order);
        let clock = state.enter(lane).clone();
        Submitted { lane, work, knows_all: state.is_all(&clock), clock }
    })
}

impl Submitted {
    /// Called when the kernel has run, and touched these bytes and possibly others. `site` is where it was launched, if it did
    /// not run in that call.
    pub(crate) fn touched(&self, touches: &[Touch], site: Option<SiteId>) {
        let Self { work, clock, knows_all, .. } = self;
        let mut races = Vec::new();
        let mut state = STATE.lock();
        let concerns = state.outstanding.concerns(*work);
        for Touch { access, is_atomic } in touches {
            let work = Work { is_atomic: *is_atomic, ..*work };
            if concerns && state.outstanding.is_gone(work, *access) {
                continue;
            }
            let toucher = Toucher { work, clock, knows_all: *knows_all, is_overtaken: true };
            if let Some(conflict) = state.history.touch(*access, toucher) {
                let site = site.or((work.site != SiteId::default()).then_some(work.site));
                races.extend(state.race(access, "memory", work, conflict).map(|sentence| (work.name, sentence, site)));
            }
            if let Some((later, touched)) = concerns.then(|| state.outstanding.conflict(work, *access)).flatten() {
                let conflict = Conflict { work, writes: access.writes };
                let sentence = state.race(&touched, &bytes(touched), later, conflict);
                races.extend(sentence.map(|sentence| (later.name, sentence, Some(later.site))));
            }
        }
        if !knows_all && state.outstanding.has_earlier(work.order) {
            for is_atomic in [false, true] {
                let of_kind = touches.iter().filter(|touch| touch.is_atomic == is_atomic).map(|touch| touch.access);
                state.outstanding.work(Work { is_atomic, ..*work }, clock, &of_kind.collect::<Vec<_>>());
            }
        }
        drop(state);
        for (name, sentence, site) in races {
            report(name, sentence, site);
        }
    }

    /// Records that it writes these bytes of host memory, and the host may not have waited.
    pub(crate) fn brings(&self, address: usize, bytes: usize) {
        if !host_knows(self.lane.id, self.work.number) {
            coming::add(self.lane.id, self.work.number, address, bytes);
        }
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        STATE.lock().outstanding.close(self.work.order);
    }
}

fn bytes(access: Access) -> String {
    format!("{} bytes", access.bytes)
}

/// Records that the copy just submitted to `lane` reads pinned memory, which the host must leave alone until it has
/// waited.
pub(crate) fn reads_pinned(lane: Lane, name: &'static str, address: usize, bytes: usize) {
    if !are_wanted() {
        return;
    }
    let mut state = STATE.lock();
    // If other work may still write there, the host has not caused anything.
    if state.comes(address, bytes).is_some() {
        return;
    }
    let number = state.enter(lane).time_of(lane.id);
    let stream = state.stream(lane.id);
    drop(state);
    let site = call_site::of_this_thread().unwrap_or_default();
    pinned::add(pinned::Sent { lane: lane.id, number, address, bytes, name, site, stream });
}

/// Called before work that writes these bytes of host memory is submitted to `lane`: the host may see from them that earlier work
/// is done.
pub(crate) fn writes_to_host(lane: Lane, address: usize, bytes: usize) {
    if are_wanted() && pinned::is_any() {
        let clock = STATE.lock().enter(lane).clone();
        pinned::settle(&clock);
        pinned::overwritten(address, bytes);
    }
}

/// Called when work runs whose writes are unknown.
pub(crate) fn writes_anywhere() {
    if pinned::is_any() {
        pinned::forget(|_| true);
    }
}

/// Records that the work just submitted to `lane` writes these bytes of host memory, and the caller does not wait.
pub(crate) fn brings(lane: Lane, address: usize, bytes: usize) {
    if are_wanted() {
        coming::add(lane.id, last_of(lane), address, bytes);
    }
}

/// `begin` is called when work starts writing to host memory and nothing did before. It must not call back.
pub(crate) fn when_something_comes(begin: fn()) {
    coming::watch(begin);
}

/// Whether the host has yet to wait for work that writes to its memory.
pub(crate) fn is_something_coming() -> bool {
    coming::is_any() && are_wanted()
}

/// Whether such work writes some of these bytes.
pub(crate) fn is_coming(address: usize, bytes: usize) -> bool {
    coming::touches(address, bytes)
}

/// Called when the host reads or writes bytes through `name`.
pub(crate) fn host_touches(name: &'static str, address: usize, bytes: usize, writes: bool) {
    if !are_wanted() {
        return;
    }
    let mut state = STATE.lock();
    let Some(work) = state.comes(address, bytes) else { return };
    let sentence = state.is_new(name, work.name, work.site).then(|| {
        format!(
            "{name} on the host {} {bytes} bytes that {} on {} writes{}, and nothing orders the two",
            if writes { "writes" } else { "reads" },
            work.name,
            state.stream(work.stream),
            source_line::called(work.site),
        )
    });
    drop(state);
    // What else touches them would say the same: the parts of one operator, a tensor that is printed.
    coming::forget(address, bytes);
    if let Some(sentence) = sentence {
        finding::record(FindingKind::Race, name, None, sentence);
    }
}

/// The number of the last piece of work submitted to `lane`, from 1.
pub(crate) fn last_of(lane: Lane) -> u64 {
    STATE.lock().enter(lane).time_of(lane.id)
}

/// Whether the host has waited for a given piece of work of a stream.
pub(crate) fn host_knows(lane: u64, number: u64) -> bool {
    STATE.lock().host.time_of(lane) >= number
}

/// What is known to be done once `lane` has reached everything submitted so far: for an event.
pub(crate) fn point(lane: Lane) -> Clock {
    if are_wanted() { STATE.lock().enter(lane).clone() } else { Clock::new() }
}

/// Called when `lane` waits for a point.
pub(crate) fn wait(lane: Lane, point: &Clock) {
    if are_wanted() {
        STATE.lock().enter(lane).join(point);
    }
}

/// Called when the host waited for a point, or queried it and found it reached.
pub(crate) fn host_waited(point: &Clock) {
    if are_wanted() {
        hosts(|state| state.host.join(point));
    }
}

/// The same, for everything submitted to `lane`.
pub(crate) fn host_waited_for(lane: Lane) {
    if are_wanted() {
        hosts(|state| {
            let point = state.enter(lane).clone();
            state.host.join(&point);
        });
    }
}

/// Called when the host waited for all work of a device.
pub(crate) fn host_waited_for_device(device: u32) {
    if are_wanted() {
        hosts(|State { host, streams, .. }| {
            streams.values().filter(|known| known.lane.device == device).for_each(|known| host.join(&known.clock));
        });
    }
}

/// The host learns something.
fn hosts(learns: impl FnOnce(&mut State)) {
    let mut state = STATE.lock();
    learns(&mut state);
    // Whatever is submitted from now on is ordered after what the host knows.
    if state.is_all(&state.host) {
        state.history.clear();
    }
    if pinned::is_any() || coming::is_any() {
        let host = state.host.clone();
        drop(state);
        pinned::settle(&host);
        coming::settle(&host);
    }
}

/// Called when memory was allocated, or handed out by an allocator of the program.
pub(crate) fn handed_out(address: usize, bytes: usize) {
    if are_wanted() || owner::is_exact() {
        owner::handed_out(address, bytes);
    }
}

/// The same for a block of the program's allocator, perhaps while a graph is captured.
pub(crate) fn block_handed_out(address: usize, bytes: usize, is_captured: bool) {
    if are_wanted() || owner::is_exact() {
        owner::block_handed_out(address, bytes, is_captured);
    }
}

/// Called when memory was freed: its next owner is unrelated to the previous one.
pub(crate) fn forget(address: usize, bytes: usize) {
    if owner::is_exact() {
        owner::freed(address, bytes);
    }
    if are_wanted() {
        let mut state = STATE.lock();
        state.history.forget(address, bytes);
        let order = state.count + 1;
        state.count = order;
        state.outstanding.gone(order, Access { address, bytes, writes: true });
        drop(state);
        owner::freed(address, bytes);
        if pinned::is_any() {
            pinned::forget(|sent| (address..address.saturating_add(bytes)).contains(&sent.address));
        }
        if coming::is_any() {
            coming::forget(address, bytes);
        }
    }
}

impl State {
    /// The clock of `lane`, including everything that its next work is ordered after.
    fn enter(&mut self, lane: Lane) -> &mut Clock {
        let streams = &mut self.streams;
        if !streams.contains_key(&lane.id) {
            let is_stream = |known: &&Known| !matches!(known.lane.order, Order::Branch(_));
            let number = streams.values().filter(is_stream).count() + 1;
            streams.insert(lane.id, Known { lane, number, clock: Clock::new() });
        }
        let known = streams.get_mut(&lane.id).expect("is there");
        let mut clock = std::mem::take(&mut known.clock);
        clock.join(&self.host);
        let is_before = |other: &&Known| {
            other.lane.device == lane.device
                && match lane.order {
                    Order::Legacy => other.lane.order == Order::Blocking,
                    Order::Blocking => other.lane.order == Order::Legacy,
                    Order::NonBlocking | Order::Branch(_) => false,
                }
        };
        if matches!(lane.order, Order::Legacy | Order::Blocking) {
            streams.values().filter(is_before).for_each(|other| clock.join(&other.clock));
        }
        let known = streams.get_mut(&lane.id).expect("was just made");
        known.clock = clock;
        &mut known.clock
    }

    /// Whether `clock` knows of everything submitted so far.
    fn is_all(&self, clock: &Clock) -> bool {
        self.streams.iter().all(|(id, known)| clock.time_of(*id) >= known.clock.time_of(*id))
    }

    /// Work that writes some of these bytes, and for which the host has not waited.
    fn comes(&mut self, address: usize, bytes: usize) -> Option<Work> {
        if self.is_all(&self.host) { None } else { self.history.writer(address, bytes, &self.host) }
    }

    /// Processes a piece of work; returns a message for each new race.
    fn work(&mut self, lanes: &[Lane], name: &'static str, site: SiteId, accesses: &[Access]) -> Vec<String> {
        self.submit(lanes, name, site, accesses).1
    }

    fn submit(&mut self, lanes: &[Lane], name: &'static str, site: SiteId, accesses: &[Access]) -> (Work, Vec<String>) {
        let (first, others) = (lanes[0], &lanes[1..]);
        let mut clock = std::mem::take(self.enter(first));
        for other in others {
            clock.join(self.enter(*other));
        }
        self.count += 1;
        let (stream, number, order) = (first.id, clock.tick(first.id), self.count);
        let work = Work { stream, number, name, site, forward: forward::now(), order, is_atomic: false };
        let mut races = Vec::new();
        let toucher = Toucher { work, clock: &clock, knows_all: self.is_all(&clock), is_overtaken: false };
        for access in accesses {
            if let Some(conflict) = self.history.touch(*access, toucher) {
                races.extend(self.race(access, &bytes(*access), work, conflict));
            }
        }
        if !toucher.knows_all {
            self.outstanding.work(work, &clock, accesses);
        }
        for other in others {
            self.enter(*other).join(&clock);
        }
        self.streams.get_mut(&first.id).expect("entered above").clock = clock;
        (work, races)
    }

    /// The message about a new race; `what` is touched by `work`.
    fn race(&mut self, access: &Access, what: &str, work: Work, conflict: Conflict) -> Option<String> {
        self.is_new(work.name, conflict.work.name, SiteId::default()).then(|| {
            let does = |writes: bool| if writes { "writes" } else { "reads" };
            format!(
                "{} on {}{} {} {what} that {} on {} {}{}{}, and nothing orders the two{}",
                work.name,
                self.stream(work.stream),
                forward::words(work.forward),
                does(access.writes),
                conflict.work.name,
                self.stream(conflict.work.stream),
                does(conflict.writes),
                source_line::called(conflict.work.site),
                forward::words(conflict.work.forward),
                owner::sentence(access.address),
            )
        })
    }

    /// Whether a race of these two is to be reported, and was not yet.
    fn is_new(&mut self, later: &'static str, earlier: &'static str, site: SiteId) -> bool {
        self.reported.len() < REPORTED && self.reported.insert((later, earlier, site))
    }

    fn stream(&self, id: u64) -> String {
        match self.streams.get(&id) {
            Some(Known { lane: Lane { order: Order::Legacy, device, .. }, .. }) => {
                format!("the default stream of device {device}")
            }
            Some(Known { lane: Lane { order: Order::Branch(number), .. }, .. }) => {
                format!("branch {number} of a CUDA graph on {}", self.stream(Lane::stream_of(id)))
            }
            Some(Known { lane: Lane { device, .. }, number, .. }) => format!("stream {number} of device {device}"),
            None => "a stream".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Lane = Lane { id: 1, device: 0, order: Order::Legacy };
    const SIDE: Lane = Lane { id: 2, device: 0, order: Order::NonBlocking };
    const OTHER: Lane = Lane { id: 3, device: 0, order: Order::NonBlocking };
    const BLOCKING: Lane = Lane { id: 4, device: 0, order: Order::Blocking };
    const WRITE: &[Access] = &[Access { address: 100, bytes: 8, writes: true }];
    const READ: &[Access] = &[Access { address: 104, bytes: 16, writes: false }];

    impl State {
        fn does(&mut self, lanes: &[Lane], name: &'static str, accesses: &[Access]) -> Vec<String> {
            self.work(lanes, name, SiteId::default(), accesses)
        }
    }

    #[test]
    fn work_that_nothing_orders_is_a_race() {
        let mut state = State::default();
        assert_eq!(state.does(&[DEFAULT], "fill", WRITE), [""; 0]);
        assert_eq!(state.does(&[DEFAULT], "add", READ), [""; 0], "one stream is in order");
        assert_eq!(
            state.does(&[SIDE], "mul", READ),
            [
                "mul on stream 2 of device 0 reads 16 bytes that fill on the default stream of device 0 writes, and nothing \
              orders the two"
            ]
        );
        assert_eq!(state.does(&[SIDE], "mul", READ), [""; 0], "reported once");
        assert_eq!(state.does(&[OTHER], "copy", WRITE).len(), 1);
        let apart = &[Access { address: 200, bytes: 8, writes: true }];
        assert_eq!(state.does(&[DEFAULT], "zero", apart), [""; 0]);
        assert_eq!(state.does(&[SIDE], "max", READ).len(), 1);
    }

    #[test]
    fn events_hosts_and_the_default_stream_order_work() {
        let mut state = State::default();
        state.does(&[DEFAULT], "fill", WRITE);
        let event = state.enter(DEFAULT).clone();
        state.enter(SIDE).join(&event);
        assert_eq!(state.does(&[SIDE], "mul", READ), [""; 0], "waited for the event");
        assert_eq!(state.does(&[DEFAULT], "fill again", WRITE).len(), 1, "the reader is not waited for");

        let mut state = State::default();
        state.does(&[SIDE], "fill", WRITE);
        let event = state.enter(SIDE).clone();
        state.does(&[SIDE], "fill once more", WRITE);
        state.host.join(&event);
        assert_eq!(state.does(&[OTHER], "mul", READ).len(), 1, "the host waited for less");
        let all = state.enter(SIDE).clone();
        state.host.join(&all);
        assert_eq!(state.does(&[BLOCKING], "max", READ), [""; 0]);

        let mut state = State::default();
        state.does(&[BLOCKING], "fill", WRITE);
        assert_eq!(state.does(&[DEFAULT], "mul", READ), [""; 0]);
        assert_eq!(state.does(&[BLOCKING], "fill", WRITE), [""; 0]);
        let elsewhere = Lane { device: 1, ..DEFAULT };
        assert_eq!(state.does(&[Lane { id: 9, ..elsewhere }], "mul", READ).len(), 1, "of another device");
    }

    #[test]
    fn work_of_several_streams_comes_after_and_before_all_of_them() {
        let mut state = State::default();
        state.does(&[SIDE], "fill", WRITE);
        assert_eq!(state.does(&[DEFAULT, SIDE], "copy", READ), [""; 0]);
        assert_eq!(state.does(&[SIDE], "fill", WRITE), [""; 0]);
    }

    #[test]
    fn branches_are_ordered_by_what_they_wait_for() {
        let mut state = State::default();
        state.does(&[SIDE], "fill", WRITE);
        let start = state.enter(SIDE).clone();
        let (one, other) = (SIDE.branch(1), SIDE.branch(2));
        for branch in [one, other] {
            state.enter(branch).join(&start);
        }
        assert_eq!(state.does(&[one], "add", WRITE), [""; 0]);
        assert_eq!(
            state.does(&[other], "mul", READ),
            [
                "mul on branch 2 of a CUDA graph on stream 1 of device 0 reads 16 bytes that add on branch 1 of a CUDA graph on \
              stream 1 of device 0 writes, and nothing orders the two"
            ]
        );
        let (first, second) = (state.enter(one).clone(), state.enter(other).clone());
        state.enter(SIDE).join(&first);
        assert_eq!(state.does(&[SIDE], "max", READ), [""; 0]);
        assert_eq!(state.does(&[SIDE], "zero", WRITE).len(), 1, "not behind the second branch");
        state.enter(SIDE).join(&second);
        assert_eq!(state.does(&[OTHER], "copy", &[]), [""; 0]);
        assert_eq!(state.stream(OTHER.id), "stream 2 of device 0");
    }

    #[test]
    fn a_kernel_is_compared_with_what_came_while_it_had_not_run() {
        let write = WRITE[0];
        let mut state = State::default();
        let (kernel, _) = state.submit(&[SIDE], "kernel", SiteId::default(), &[]);
        state.outstanding.open(kernel.order);
        let clock = state.enter(SIDE).clone();
        // Behind it in its stream, and behind an event that is behind it: ordered.
        assert_eq!(state.does(&[SIDE], "add", READ), [""; 0]);
        state.enter(BLOCKING).join(&clock);
        assert_eq!(state.does(&[BLOCKING], "max", READ), [""; 0]);
        assert!(state.outstanding.conflict(kernel, write).is_none());
        assert_eq!(state.does(&[OTHER], "mul", READ), [""; 0], "not yet known");
        let (later, access) = state.outstanding.conflict(kernel, write).expect("nothing orders it behind the kernel");
        assert_eq!((later.name, access), ("mul", READ[0]));
        assert!(state.outstanding.conflict(kernel, Access { writes: false, ..write }).is_none(), "both read");
        state.count += 1;
        state.outstanding.gone(state.count, Access { address: 96, bytes: 8, writes: true });
        let behind = Access { address: 104, ..write };
        assert!(state.outstanding.is_gone(kernel, write) && !state.outstanding.is_gone(kernel, behind));
        state.outstanding.close(kernel.order);
        assert!(state.outstanding.conflict(kernel, write).is_none() && !state.outstanding.is_gone(kernel, write));
    }

    #[test]
    fn freed_memory_has_no_history() {
        let mut state = State::default();
        state.does(&[SIDE], "fill", WRITE);
        state.history.forget(96, 16);
        assert_eq!(state.does(&[DEFAULT], "mul", READ), [""; 0]);
    }
}
