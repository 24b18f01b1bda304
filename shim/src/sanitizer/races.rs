//! Races between streams: two pieces of work touch the same bytes, one of them writes, and nothing orders the two. What orders
//! work are its stream, events, a host that waited, and the legacy default stream (CUDA C++ Programming Guide, "Asynchronous
//! Concurrent Execution"). The host counts as one: what a thread waited for is known to all that submit work, since how
//! threads order each other is not seen (PyTorch's watchdog asks for every collective, and frees its memory). So a race may be missed, but none is made up.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use dataplane::lock::Mutex;
use dataplane::site;
use protocol::finding::FindingKind;
use protocol::ids::SiteId;
use protocol::site::CallSite;

pub(crate) use super::clock::Clock;
pub(crate) use super::shadow::Access;
use super::shadow::{Conflict, Shadow, Work};
use crate::call_site;
use crate::process::fork;
use crate::report::finding;
use crate::settings;

/// Different races that are reported; a program that never waits has thousands.
const REPORTED: usize = 16;

/// How a stream is ordered against others of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The legacy default stream: after all blocking streams, and they after it.
    Legacy,
    Blocking,
    NonBlocking,
}

/// A stream, as far as order is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    /// Unique in the process.
    pub(crate) id: u64,
    pub(crate) device: u32,
    pub(crate) order: Order,
}

#[derive(Debug)]
struct Known {
    lane: Lane,
    /// From 1, in the order of their first work: the same in every run.
    number: usize,
    clock: Clock,
}

#[derive(Debug, Default)]
struct State {
    host: Clock,
    streams: HashMap<u64, Known>,
    shadow: Shadow,
    reported: BTreeSet<(&'static str, &'static str)>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// Whether the program asks for it.
pub(crate) fn are_wanted() -> bool {
    settings::get().is_ok_and(|settings| settings.sanitize.races) && !fork::is_lost()
}

/// A piece of work is submitted, to all of `lanes` at once, that touches `accesses`.
pub(crate) fn work(lanes: &[Lane], name: &'static str, accesses: &[Access]) {
    if !are_wanted() || lanes.is_empty() {
        return;
    }
    let site = call_site::of_this_thread().unwrap_or_default();
    let races = STATE.lock().work(lanes, name, site, accesses);
    for sentence in races {
        finding::record(FindingKind::Race, name, None, sentence);
    }
}

/// What is known to be done once `lane` gets to what it was given so far: for an event.
pub(crate) fn point(lane: Lane) -> Clock {
    if are_wanted() { STATE.lock().enter(lane).clone() } else { Clock::new() }
}

/// `lane` waits for a point.
pub(crate) fn wait(lane: Lane, point: &Clock) {
    if are_wanted() {
        STATE.lock().enter(lane).join(point);
    }
}

/// The host waited for a point, or asked and was told that it is reached.
pub(crate) fn host_waited(point: &Clock) {
    if are_wanted() {
        STATE.lock().host.join(point);
    }
}

/// The same, for all that `lane` was given.
pub(crate) fn host_waited_for(lane: Lane) {
    if are_wanted() {
        let mut state = STATE.lock();
        let point = state.enter(lane).clone();
        state.host.join(&point);
    }
}

/// The host waited for all work of a device.
pub(crate) fn host_waited_for_device(device: u32) {
    if are_wanted() {
        let mut state = STATE.lock();
        let State { host, streams, .. } = &mut *state;
        streams.values().filter(|known| known.lane.device == device).for_each(|known| {
            host.join(&known.clock);
        });
    }
}

/// Memory was freed: who gets it next has nothing to do with who had it.
pub(crate) fn forget(address: usize, bytes: usize) {
    if are_wanted() {
        STATE.lock().shadow.forget(address, bytes);
    }
}

impl State {
    /// The clock of `lane`, with everything that its next work comes after.
    fn enter(&mut self, lane: Lane) -> &mut Clock {
        let streams = &mut self.streams;
        let number = streams.len() + 1;
        let known = streams.entry(lane.id).or_insert_with(|| Known { lane, number, clock: Clock::new() });
        let mut clock = std::mem::take(&mut known.clock);
        clock.join(&self.host);
        let is_before = |other: &&Known| {
            other.lane.device == lane.device
                && match lane.order {
                    Order::Legacy => other.lane.order == Order::Blocking,
                    Order::Blocking => other.lane.order == Order::Legacy,
                    Order::NonBlocking => false,
                }
        };
        if lane.order != Order::NonBlocking {
            streams.values().filter(is_before).for_each(|other| clock.join(&other.clock));
        }
        let known = streams.get_mut(&lane.id).expect("was just made");
        known.clock = clock;
        &mut known.clock
    }

    /// Does a piece of work; gives a sentence for each race that is new.
    fn work(&mut self, lanes: &[Lane], name: &'static str, site: SiteId, accesses: &[Access]) -> Vec<String> {
        let (first, others) = (lanes[0], &lanes[1..]);
        let mut clock = std::mem::take(self.enter(first));
        for other in others {
            clock.join(self.enter(*other));
        }
        let work = Work { stream: first.id, number: clock.tick(first.id), name, site };
        let mut races = Vec::new();
        for access in accesses {
            if let Some(conflict) = self.shadow.touch(*access, work, &clock) {
                races.extend(self.race(access, work, conflict));
            }
        }
        for other in others {
            self.enter(*other).join(&clock);
        }
        *self.enter(first) = clock;
        races
    }

    fn race(&mut self, access: &Access, work: Work, conflict: Conflict) -> Option<String> {
        let is_new = self.reported.len() < REPORTED && self.reported.insert((work.name, conflict.work.name));
        is_new.then(|| {
            let does = |writes: bool| if writes { "writes" } else { "reads" };
            format!(
                "{} on {} {} {} bytes that {} on {} {}{}, and nothing orders the two",
                work.name,
                self.stream(work.stream),
                does(access.writes),
                access.bytes,
                conflict.work.name,
                self.stream(conflict.work.stream),
                does(conflict.writes),
                at(conflict.work.site),
            )
        })
    }

    fn stream(&self, id: u64) -> String {
        match self.streams.get(&id) {
            Some(Known { lane: Lane { order: Order::Legacy, device, .. }, .. }) => {
                format!("the default stream of device {device}")
            }
            Some(Known { lane: Lane { device, .. }, number, .. }) => format!("stream {number} of device {device}"),
            None => "a stream".to_owned(),
        }
    }
}

/// Where the earlier of the two was called; the finding has the other's place.
fn at(site: SiteId) -> String {
    let Some(CallSite { file, line, .. }) = site::of(site) else { return String::new() };
    let name = file.rsplit('/').next().unwrap_or_default();
    format!(" (called at {name}:{line})")
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
    fn freed_memory_has_no_history() {
        let mut state = State::default();
        state.does(&[SIDE], "fill", WRITE);
        state.shadow.forget(96, 16);
        assert_eq!(state.does(&[DEFAULT], "mul", READ), [""; 0]);
    }
}
