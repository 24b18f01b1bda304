//! Bytes that the program's calls copied and filled, by device, for the report.

use std::collections::BTreeMap;

use dataplane::lock::Mutex;
use protocol::device_report::{Io, Tally};

use crate::book;
use crate::context::current;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Host to device.
    In,
    /// Device to host.
    Out,
    /// Between devices, or within one.
    Within,
    /// Filled.
    Fill,
    /// Depends on the addresses.
    ByAddress(usize, usize),
}

#[derive(Debug)]
struct Moved {
    devices: BTreeMap<usize, Io>,
    host: Tally,
}

static MOVED: Mutex<Moved> = Mutex::new(Moved { devices: BTreeMap::new(), host: Tally { calls: 0, bytes: 0 } });

/// Counts a call that the real library accepted, for the device of this thread's context.
pub(crate) fn count(way: Way, bytes: usize) {
    let Ok((_, device)) = current() else { return };
    let on_device = |address| book::find(address).is_some();
    let way = match way {
        Way::ByAddress(to, from) => match (on_device(to), on_device(from)) {
            (true, true) => Some(Way::Within),
            (true, false) => Some(Way::In),
            (false, true) => Some(Way::Out),
            (false, false) => None,
        },
        way => Some(way),
    };
    let mut moved = MOVED.lock();
    let moved = &mut *moved;
    let io = moved.devices.entry(device.ordinal as usize).or_default();
    let tally = match way {
        Some(Way::In) => &mut io.h2d,
        Some(Way::Out) => &mut io.d2h,
        Some(Way::Fill) => &mut io.memset,
        Some(Way::Within | Way::ByAddress(..)) => &mut io.d2d,
        None => &mut moved.host,
    };
    *tally += Tally { calls: 1, bytes: bytes as u64 };
}

/// Bytes moved to, from and on a device.
pub(crate) fn of_device(ordinal: usize) -> Io {
    MOVED.lock().devices.get(&ordinal).copied().unwrap_or_default()
}

/// Bytes moved from host memory to host memory.
pub(crate) fn on_host() -> Tally {
    MOVED.lock().host
}
