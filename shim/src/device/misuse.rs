//! What a program does wrong with addresses, as findings. Sentences have no addresses in them: these differ from run to run.

use protocol::finding::FindingKind;
use ptx::Trap;

use super::memory::{self, HostKind, Kind, Trace};
use super::{Device, address};
use crate::report::finding;

/// Below it nothing is ever allocated: an address here is a null pointer and an offset.
const PAGE_OF_NULL: usize = 4096;

/// The call under way `verb`s ("reads", "writes") `bytes` at `address`, which are not all in one live allocation.
pub(crate) fn access(verb: &str, address: usize, bytes: usize) {
    let function = finding::function();
    record(function, format!("{function} {verb} {}", count(bytes)), address);
}

/// A kernel stopped at an address that it may not touch.
pub(crate) fn kernel(device: &Device, trap: &Trap) {
    let ([bx, by, bz], [x, y, z]) = (trap.block, trap.thread);
    let source = trap.source.as_ref().map_or_else(String::new, |(file, line)| format!(", {file}:{line}"));
    let who = format!(
        "thread ({x},{y},{z}) of block ({bx},{by},{bz}) of kernel {} (PTX line {}: `{}`{source})",
        trap.kernel, trap.line, trap.ptx
    );
    let address = trap.address as usize;
    let foreign =
        |what: String| finding::record(FindingKind::OutOfRangeCopy, &trap.kernel, None, format!("{who} {what}"));
    match address::locate(address) {
        Some(location) if location.device.ordinal != device.ordinal => foreign(format!(
            "touches memory of device {}, which device {} may not reach (cudaDeviceEnablePeerAccess)",
            location.device.ordinal, device.ordinal
        )),
        None if address < PAGE_OF_NULL => foreign("follows a null pointer".to_owned()),
        None if memory::trace(address).is_none() => {
            foreign("touches memory that is not the GPU's: host memory that is not pinned, or none at all".to_owned());
        }
        _ => record(&trap.kernel, format!("{who} touches memory"), address),
    }
}

/// `what` ends in the bytes at `address`.
fn record(function: &str, what: String, address: usize) {
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
