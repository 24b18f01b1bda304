//! What the devices of this process did on the modeled clock, added up for the device report.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use dataplane::lock::Mutex;
use protocol::device_report::DeviceTime;

/// Intervals that are kept apart before those that touch are joined.
const KEPT: usize = 1 << 16;

#[derive(Debug, Default)]
struct Device {
    /// Times in which kernels and copies ran, and in which collectives did; ns.
    computing: Intervals,
    communicating: Intervals,
    works: u64,
    unknown: BTreeMap<String, u64>,
}

static DEVICES: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());

/// What a piece of work is to these totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Computing,
    Communicating,
}

/// Adds a piece of work, by its beginning and end, ns; `unknown` is the name of one about which the model knows nothing.
pub(crate) fn add(device: u32, part: Part, interval: (u64, u64), unknown: Option<&str>) {
    let mut devices = DEVICES.lock();
    let device = devices.entry(device).or_default();
    match part {
        Part::Communicating => device.communicating.add(interval),
        Part::Computing => device.computing.add(interval),
    }
    device.works += 1;
    if let Some(name) = unknown {
        match device.unknown.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(device.unknown.insert(name.to_owned(), 1)),
        }
    }
}

static HOST: OnceLock<fn() -> u64> = OnceLock::new();

/// From now on, `host_ns` tells the host's time.
pub(crate) fn tell(host_ns: fn() -> u64) {
    let _ = HOST.set(host_ns);
}

/// The host's time, ns; `None` without a modeled clock.
pub(super) fn host_ns() -> Option<u64> {
    HOST.get().map(|host_ns| host_ns())
}

/// The totals of a device; `None` if it did nothing.
pub(super) fn totals(device: u32, is_calibrated: bool) -> Option<DeviceTime> {
    let mut devices = DEVICES.lock();
    let device = devices.get_mut(&device)?;
    let (computing, communicating) = (device.computing.joined().to_vec(), device.communicating.joined().to_vec());
    let length = |intervals: &[(u64, u64)]| intervals.iter().map(|(begin, end)| end - begin).sum::<u64>();
    let both = overlap(&computing, &communicating);
    let communication = length(&communicating);
    Some(DeviceTime {
        is_calibrated,
        works: device.works,
        busy_ns: length(&computing) + communication - both,
        computing_ns: length(&computing),
        communication_ns: communication,
        exposed_communication_ns: communication - both,
        unknown: device.unknown.clone(),
    })
}

/// Times that may overlap.
#[derive(Debug, Default)]
struct Intervals(Vec<(u64, u64)>);

impl Intervals {
    fn add(&mut self, interval: (u64, u64)) {
        if let Some(last) = self.0.last_mut()
            && interval.0 <= last.1
            && interval.0 >= last.0
        {
            last.1 = last.1.max(interval.1);
            return;
        }
        self.0.push(interval);
        if self.0.len().is_multiple_of(KEPT) {
            self.joined();
        }
    }

    /// In order, and joined where they touch.
    fn joined(&mut self) -> &[(u64, u64)] {
        self.0.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.0.len());
        for (begin, end) in self.0.drain(..) {
            match joined.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => joined.push((begin, end)),
            }
        }
        self.0 = joined;
        &self.0
    }
}

/// The length of what two joined lists have in common.
fn overlap(one: &[(u64, u64)], other: &[(u64, u64)]) -> u64 {
    let (mut first, mut second, mut common) = (0, 0, 0);
    while let (Some(a), Some(b)) = (one.get(first), other.get(second)) {
        common += a.1.min(b.1).saturating_sub(a.0.max(b.0));
        if a.1 <= b.1 { first += 1 } else { second += 1 }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_by_computing_is_not_exposed() {
        let mut intervals = Intervals::default();
        [(30, 40), (0, 10), (5, 12), (12, 20)].into_iter().for_each(|interval| intervals.add(interval));
        assert_eq!(intervals.joined(), [(0, 20), (30, 40)]);
        assert_eq!(overlap(&[(0, 20), (30, 40)], &[(10, 35), (38, 50)]), 10 + 5 + 2);
        assert_eq!(overlap(&[(0, 20)], &[]), 0);
    }
}
