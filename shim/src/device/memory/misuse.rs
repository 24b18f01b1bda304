//! A program's misuse of addresses, as findings. Messages contain no addresses, because these differ from run to run.

use protocol::finding::FindingKind;
use protocol::ids::SiteId;
use ptx::{Mistake, MistakeKind, Spot, Touched, Trap, TrapKind};

use crate::call_site::cpp_name;
use crate::device::Device;
use crate::device::memory::{self, HostKind, Kind, Trace, address, mapping, multicast};
use crate::report::finding;
use crate::sanitizer::{init, owner};

/// Nothing is ever allocated below this: an address here is a null pointer plus an offset.
const PAGE_OF_NULL: usize = 4096;

/// Reports that the current call `verb`s ("reads", "writes") `bytes` at `address`, which are not all in one live
/// allocation.
pub(crate) fn access(verb: &str, address: usize, bytes: usize) {
    let function = finding::function();
    record(function, format!("{function} {verb} {}", count(bytes)), address);
}

/// Reports that a copy launched by a kernel touches bytes that are not all in one live allocation.
pub(crate) fn of_child(kernel: &str, writes: bool, address: usize, bytes: usize) {
    let what = format!("a copy that the kernel {kernel} launched {} {}", does(writes), count(bytes));
    record("cudaMemcpyAsync", what, address);
}

/// Reports that a kernel launched at `site` (or by the current call) stopped.
pub(crate) fn stopped(device: &Device, trap: &Trap, site: Option<SiteId>) {
    let who = thread(trap.thread, trap.block, &trap.kernel, &trap.spot);
    let say = |kind, what: String| note(kind, &trap.kernel, site, format!("{who} {what}"));
    let verb = |touched: Option<Touched>| match touched {
        Some(Touched { writes, bytes, .. }) => format!("{} {}", does(writes), count(bytes as usize)),
        None => "touches memory".to_owned(),
    };
    match trap.kind {
        TrapKind::IllegalAddress => match trap.touched.and_then(|touched| touched.space) {
            Some("image") => {
                let what = "uses an invalid texture or surface object, or one with other dimensions or texels";
                say(FindingKind::KernelTrap, what.to_owned());
            }
            Some("texel") => {
                let what = "stores a number that the surface's texels cannot hold: what a GPU stores is not documented";
                say(FindingKind::KernelTrap, what.to_owned());
            }
            Some("surface") => {
                say(FindingKind::OutOfRangeCopy, format!("{} outside of a surface", verb(trap.touched)));
            }
            Some(space) => say(
                FindingKind::OutOfRangeCopy,
                format!("{} of {space} memory at byte {}, where there is none", verb(trap.touched), trap.address),
            ),
            None => illegal(device, trap, site, format!("{who} {}", verb(trap.touched))),
        },
        TrapKind::MisalignedAddress => {
            // The address differs from run to run, not what it is off by.
            let bytes = trap.touched.map_or(0, |touched| u64::from(touched.bytes));
            let off = if bytes.is_power_of_two() { trap.address % bytes } else { 0 };
            let what = verb(trap.touched);
            say(
                FindingKind::MisalignedAccess,
                format!("{what} at an address that is {off} more than a multiple of {bytes}"),
            );
        }
        TrapKind::Assert => say(FindingKind::DeviceAssert, "fails an assertion".to_owned()),
        TrapKind::Trap => say(FindingKind::KernelTrap, "stops the kernel".to_owned()),
        TrapKind::Breakpoint => say(FindingKind::KernelTrap, "comes to a breakpoint".to_owned()),
        TrapKind::StackOverflow => say(FindingKind::KernelTrap, "needs more stack than cudaLimitStackSize".to_owned()),
        TrapKind::InvalidPointer => {
            say(FindingKind::KernelTrap, "calls through a pointer that is not a function".to_owned())
        }
        TrapKind::InvalidBarrier => {
            say(
                FindingKind::BarrierMisuse,
                "uses a barrier whose number or count is not allowed, or differs from that of the others".to_owned(),
            );
        }
        TrapKind::Deadlock => {
            let mut lines: Vec<String> = trap.waiting.iter().map(u32::to_string).collect();
            lines.dedup();
            let lines = lines.join(", ");
            say(
                FindingKind::BarrierMisuse,
                format!("waits forever: the threads of the block wait at PTX lines {lines}"),
            );
        }
        TrapKind::Cancelled => {}
    }
}

fn illegal(device: &Device, trap: &Trap, site: Option<SiteId>, what: String) {
    let address = trap.address as usize;
    let say = |kind, why: String| note(kind, &trap.kernel, site, format!("{what} {why}"));
    match address::locate(address) {
        Some(location) if location.device.ordinal != device.ordinal || is_closed(address, device) => {
            let (there, here) = (location.device.ordinal, device.ordinal);
            let way = match location.kind {
                Kind::Pool(_) => "cudaMemPoolSetAccess",
                Kind::Mapped => "cuMemSetAccess",
                _ => "cudaDeviceEnablePeerAccess",
            };
            say(FindingKind::PeerAccess, format!("of device {there}, which device {here} may not reach ({way})"));
        }
        None if multicast::is_there(address) => {
            let why = match trap.spot.ptx.contains("multimem") {
                true => "at a multicast address to which some device of the team has bound no memory",
                false => "at a multicast address, where only multimem instructions may",
            };
            say(FindingKind::OutOfRangeCopy, why.to_owned());
        }
        None if address < PAGE_OF_NULL => say(FindingKind::OutOfRangeCopy, "through a null pointer".to_owned()),
        None if memory::trace(address).is_none() => {
            let why = "of memory that is not the GPU's: host memory that is not pinned, or none at all";
            say(FindingKind::OutOfRangeCopy, why.to_owned());
        }
        _ => {
            let (kind, sentence) = place(what, address);
            note(kind, &trap.kernel, site, sentence);
        }
    }
}

/// Whether the address is mapped, and nobody gave the device access to the mapping.
fn is_closed(address: usize, device: &Device) -> bool {
    mapping::access(address, (mapping::ON_DEVICE, device.ordinal as i32)) == Some(0)
}

/// Reports that a kernel launched at `site` (or by the current call) made a mistake that did not stop it. `allocated` is where
/// uninitialized memory was allocated.
pub(crate) fn noticed(mistake: &Mistake, site: Option<SiteId>, allocated: impl FnOnce(u64) -> Option<SiteId>) {
    let Mistake { kind, block, spot, address, bytes, .. } = mistake;
    let kernel = &cpp_name::of_kernel(&mistake.kernel);
    let who = thread(mistake.thread, *block, kernel, spot);
    let other = mistake
        .other
        .as_ref()
        .map_or_else(String::new, |([x, y, z], spot)| format!("thread ({x},{y},{z}) ({})", place_in_source(spot)));
    let bytes = count(*bytes as usize);
    let (kind, sentence) = match *kind {
        MistakeKind::SharedRace { writes, wrote } => (
            FindingKind::SharedRace,
            format!(
                "{who} {} {bytes} at byte {address} of shared memory that {other} {}, with no barrier in between",
                does(writes),
                does(wrote)
            ),
        ),
        MistakeKind::UnwrittenShared => (
            FindingKind::UninitializedRead,
            format!("{who} reads {bytes} at byte {address} of shared memory that no thread of the block has written"),
        ),
        MistakeKind::UnwrittenGlobal => {
            let place = allocated(*address).map_or_else(String::new, init::allocated_at);
            let sentence = format!("{who} reads {bytes} that nobody has written since they were allocated{place}");
            (FindingKind::UninitializedRead, sentence)
        }
        MistakeKind::DivergentBarrier => (
            FindingKind::BarrierMisuse,
            format!("{who} waits for all threads of its block, and {other} at another barrier"),
        ),
        MistakeKind::NotInMask => {
            (FindingKind::BarrierMisuse, format!("{who} is not in the mask of lanes that it names"))
        }
        MistakeKind::UnequalMasks => {
            (FindingKind::BarrierMisuse, format!("{who} and {other} wait for each other with different masks"))
        }
    };
    note(kind, kernel, site, sentence);
}

fn note(kind: FindingKind, operation: &str, site: Option<SiteId>, sentence: String) {
    match site {
        Some(site) => finding::record_at(kind, operation, sentence, site),
        None => finding::record(kind, operation, None, sentence),
    }
}

fn thread([x, y, z]: [u32; 3], [bx, by, bz]: [u32; 3], kernel: &str, spot: &Spot) -> String {
    format!("thread ({x},{y},{z}) of block ({bx},{by},{bz}) of kernel {kernel} ({})", place_in_source(spot))
}

/// As displayed by `Spot`, but without directories, because they differ between machines.
fn place_in_source(spot: &Spot) -> String {
    let bare = |(file, line): &(String, u32)| (file.rsplit('/').next().unwrap_or_default().to_owned(), *line);
    let (source, caller) = (spot.source.as_ref().map(bare), spot.caller.as_ref().map(bare));
    Spot { source, caller, ..spot.clone() }.to_string()
}

fn does(writes: bool) -> &'static str {
    if writes { "writes" } else { "reads" }
}

/// Records a finding; `what` is a sentence to be completed with what is at `address`.
fn record(function: &str, what: String, address: usize) {
    let (kind, sentence) = place(what, address);
    finding::record(kind, function, None, sentence);
}

/// Completes the sentence `what` with what is at `address`.
fn place(what: String, address: usize) -> (FindingKind, String) {
    if let Some(block) = owner::outside(address) {
        let (kind, behind) = block;
        return (kind, format!("{what} {behind}"));
    }
    let (kind, sentence) = if let Some(location) = address::locate(address) {
        let (at, size, device) = (address - location.base, count(location.size), location.device.ordinal);
        let place = owner::describe(address);
        (
            FindingKind::OutOfRangeCopy,
            format!("{what} from byte {at} of an allocation of {size} on device {device}{place}"),
        )
    } else {
        match memory::trace(address) {
            Some(Trace::Freed { device, was, .. }) => (
                FindingKind::UseAfterFree,
                format!(
                    "{what} of an allocation of {} on device {device} that was freed{}",
                    count(was.size),
                    owner::allocated_at(was.site)
                ),
            ),
            Some(Trace::Behind { device, size, distance }) => (
                FindingKind::OutOfRangeCopy,
                format!(
                    "{what} on device {device}, {} past the end of an allocation of {}{}",
                    count(distance),
                    count(size),
                    owner::describe(address - distance - 1)
                ),
            ),
            Some(Trace::Nowhere { device }) => {
                (FindingKind::OutOfRangeCopy, format!("{what} on device {device} where nothing is allocated"))
            }
            None => (FindingKind::OutOfRangeCopy, format!("{what} where no memory is mapped")),
        }
    };
    (kind, sentence)
}

/// Reports that `function` frees `address`, where nothing starts that it could free.
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
            Kind::Graph(_) if at == 0 => "memory of a graph that no launch left allocated".to_owned(),
            Kind::Plain | Kind::Pool(_) | Kind::Managed if at == 0 => {
                format!("an allocation of {size} on device {device} that this function does not free")
            }
            Kind::Plain | Kind::Pool(_) | Kind::Managed | Kind::Graph(_) => {
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
            (HostKind::Mapped, _) => "mapped memory, which cuMemUnmap takes away".to_owned(),
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
