//! What a program does wrong with addresses, as findings. Sentences have no addresses in them: these differ from run to run.

use protocol::finding::FindingKind;

use super::address;
use super::memory::{self, HostKind, Kind, Trace};
use crate::report::finding;

/// The call under way `verb`s ("reads", "writes") `bytes` at `address`, which are not all in one live allocation.
pub(crate) fn access(verb: &str, address: usize, bytes: usize) {
    let function = finding::function();
    let what = format!("{function} {verb} {}", count(bytes));
    let (kind, sentence) = if let Some(location) = address::locate(address) {
        let (at, size, device) = (address - location.base, count(location.size), location.device.ordinal);
        (FindingKind::OutOfRangeCopy, format!("{what} from byte {at} of an allocation of {size} on device {device}"))
    } else {
        match memory::trace(address) {
            Some(Trace::Freed { device, was, .. }) => (
                FindingKind::UseAfterFree,
                format!("{what} of an allocation of {} on device {device} that was freed", count(was.size)),
            ),
            Some(Trace::Behind { device, size, distance }) => (
                FindingKind::OutOfRangeCopy,
                format!(
                    "{what} on device {device}, {} behind the end of an allocation of {}",
                    count(distance),
                    count(size)
                ),
            ),
            Some(Trace::Nowhere { device }) => {
                (FindingKind::OutOfRangeCopy, format!("{what} on device {device} where nothing is allocated"))
            }
            None => (FindingKind::OutOfRangeCopy, format!("{what} where no memory is mapped")),
        }
    };
    finding::record(kind, function, None, sentence);
}

/// `function` frees `address`, at which nothing starts that it could free.
pub(crate) fn free(function: &str, address: usize) {
    let Some((kind, what)) = not_to_free(address) else { return };
    finding::record(kind, function, None, format!("{function} of {what}"));
}

fn not_to_free(address: usize) -> Option<(FindingKind, String)> {
    let foreign = |what: String| Some((FindingKind::ForeignFree, what));
    if let Some(location) = address::locate(address) {
        let (at, size, device) = (address - location.base, count(location.size), location.device.ordinal);
        return foreign(match location.kind {
            Kind::Mapped => "memory that was mapped, which cuMemUnmap takes back".to_owned(),
            Kind::Imported => "memory of another process, which cudaIpcCloseMemHandle takes back".to_owned(),
            Kind::Internal => "a variable or array of the program".to_owned(),
            Kind::Plain | Kind::Pool(_) | Kind::Managed if at == 0 => {
                format!("an allocation of {size} on device {device} that this function does not free")
            }
            Kind::Plain | Kind::Pool(_) | Kind::Managed => {
                format!("an address {at} bytes inside an allocation of {size} on device {device}")
            }
        });
    }
    match memory::trace(address) {
        // Destructors that run after a reset free what is gone already.
        Some(Trace::Freed { was, .. }) if was.by_reset => return None,
        Some(Trace::Freed { device, at: 0, was }) => {
            let what = format!("an allocation of {} on device {device} that was freed before", count(was.size));
            return Some((FindingKind::DoubleFree, what));
        }
        Some(Trace::Freed { device, at, was }) => {
            return foreign(format!(
                "an address {at} bytes inside an allocation of {} on device {device} that was freed before",
                count(was.size)
            ));
        }
        Some(Trace::Behind { device, .. } | Trace::Nowhere { device }) => {
            return foreign(format!("an address of device {device} where nothing is allocated"));
        }
        None => {}
    }
    if let Some(range) = memory::locate_host(address) {
        return foreign(match (range.kind, address - range.base) {
            (HostKind::Allocated, 0) => "pinned host memory, which cudaFreeHost frees".to_owned(),
            (HostKind::Managed, 0) => "managed memory, which cudaFree frees".to_owned(),
            (HostKind::Registered, _) => "the program's own memory, which is registered with CUDA".to_owned(),
            (_, at) => format!("an address {at} bytes inside host memory of {}", count(range.size)),
        });
    }
    match memory::freed_host(address) {
        Some(size) => {
            Some((FindingKind::DoubleFree, format!("pinned host memory of {} that was freed before", count(size))))
        }
        None => foreign("memory that CUDA did not allocate".to_owned()),
    }
}

fn count(bytes: usize) -> String {
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}
