//! Device communicators, with which kernels would communicate directly with other ranks. Only the host's part is here: the
//! struct holds its ranks and the location of the barriers in the resource window, and that memory is allocated on the device.
//! Such kernels do not run, so fields that only they would follow (the window table, the flat address space of the team) are
//! null.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

use abi::argument::{Null, Out};
use abi::library::Library;

use super::communicator::{process, resolve};
use super::error::{NcclError, NcclResult};
use super::header::CONFIG_MAGIC;
use super::info::version_number;
use super::{team, window};
use crate::boundary::gap;
use crate::device::memory::mapping::GRANULARITY;
use crate::device::memory::{self, Kind};

/// The unit of resource buffer handles, bytes.
const UNIT: usize = 128;
/// First version whose device communicator has its own version field.
const VERSIONED: c_uint = 23000;

/// `ncclDevCommRequirements_t` of NCCL 2.30.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Requirements {
    size: usize,
    magic: c_uint,
    version: c_uint,
    resources: *mut Resource,
    teams: *mut Team,
    lsa_multimem: bool,
    barriers: c_int,
    lsa_barriers: c_int,
    rail_gin_barriers: c_int,
    lsa_ll_blocks: c_int,
    lsa_ll_slots: c_int,
    gin_force_enable: bool,
    gin_contexts: c_int,
    gin_signals: c_int,
    gin_counters: c_int,
    gin_connection: c_int,
    gin_exclusive: bool,
    gin_queue_depth: c_int,
    gin_traffic_class: c_int,
    world_gin_barriers: c_int,
    gin_strong_signals: bool,
    gin_va_signals: bool,
}

/// `ncclDevResourceRequirements_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Resource {
    next: *mut Resource,
    bytes: usize,
    alignment: usize,
    out_buffer: *mut u32,
    gin_signals: c_int,
    gin_counters: c_int,
    out_signals: *mut u32,
    out_counters: *mut u32,
}

impl Resource {
    /// A buffer of this many bytes; `ncclDevCommCreate` writes its location to `out`.
    pub(super) fn buffer(bytes: usize, alignment: usize, out: *mut u32) -> Self {
        Self { bytes, alignment, out_buffer: out, ..Self::signals(0, null_mut()) }
    }

    /// This many signals; `ncclDevCommCreate` writes the number of the first to `out`.
    pub(super) fn signals(count: c_int, out: *mut u32) -> Self {
        Self {
            next: null_mut(),
            bytes: 0,
            alignment: 0,
            out_buffer: null_mut(),
            gin_signals: count,
            gin_counters: 0,
            out_signals: out,
            out_counters: null_mut(),
        }
    }
}

/// `ncclTeamRequirements_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Team {
    next: *mut Team,
    ranks: [c_int; 3],
    multimem: bool,
    out_multimem: *mut usize,
}

/// `ncclLsaBarrierHandle_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Barriers {
    buffer: u32,
    count: c_int,
}

/// `ncclDevComm_t` of NCCL 2.30.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceCommunicator {
    magic: c_uint,
    version: c_uint,
    rank: c_int,
    ranks: c_int,
    ranks_reciprocal: u32,
    lsa_rank: c_int,
    lsa_size: c_int,
    lsa_size_reciprocal: u32,
    window_table: usize,
    resource_window: usize,
    resource_window_inlined: [u64; 8],
    hybrid_world_gin_barrier: [u32; 2],
    lsa_multimem: usize,
    lsa_barrier: Barriers,
    rail_gin_barrier: [u32; 2],
    gin_connections: u8,
    gin_types: [u8; 4],
    gin_handles: [usize; 4],
    gin_signals: c_int,
    gin_counters: c_int,
    gin_signal_shadows: usize,
    gin_contexts: u32,
    gin_flags: [bool; 3],
    abort_flag: usize,
    hybrid_lsa_barrier: Barriers,
    hybrid_rail_gin_barrier: [u32; 2],
    world_gin_barrier: [u32; 2],
}

const _: () = assert!(size_of::<Requirements>() == 96 && std::mem::offset_of!(Requirements, gin_va_signals) == 93);
const _: () = assert!(std::mem::offset_of!(Requirements, world_gin_barriers) == 88);
const _: () = assert!(size_of::<Resource>() == 56 && size_of::<Team>() == 32);
const _: () = assert!(size_of::<DeviceCommunicator>() == 240);
const _: () = assert!(std::mem::offset_of!(DeviceCommunicator, lsa_barrier) == 128);
const _: () = assert!(std::mem::offset_of!(DeviceCommunicator, gin_contexts) == 200);
const _: () = assert!(std::mem::offset_of!(DeviceCommunicator, hybrid_lsa_barrier) == 216);

/// Body of `ncclDevCommCreate`.
///
/// # Safety
/// `requirements` is null or was made with NCCL's initializer; its lists and their targets are live.
pub(crate) unsafe fn create(
    communicator: usize,
    requirements: *const Requirements,
    out: Out<DeviceCommunicator>,
) -> NcclResult {
    let communicator = resolve(communicator)?;
    // SAFETY: the caller's promise.
    let wanted = unsafe { read(requirements) }?;
    let out = out.required()?;
    // SAFETY: the caller's promise.
    let (resources, teams) = unsafe { (list(wanted.resources, |one| one.next), list(wanted.teams, |one| one.next)) };
    check(&wanted, &resources)?;
    if wanted.lsa_multimem || teams.iter().any(|team| team.multimem) {
        return Err(NcclError::INVALID_ARGUMENT.because("multicast is asked for, and this system has none"));
    }
    let ranks = communicator.usable()?;
    let lsa_size = team::lsa_size(&ranks, process()?.cluster());

    // In NCCL's order: its own barriers, then what the program asks for.
    let (mut used, mut lsa_barrier, mut hybrid) = (0usize, Barriers::default(), Barriers::default());
    for (barriers, count) in [(&mut lsa_barrier, wanted.lsa_barriers), (&mut hybrid, wanted.barriers)] {
        used = used.next_multiple_of(UNIT);
        *barriers = Barriers { buffer: (used / UNIT) as u32, count };
        used += count.max(0) as usize * (3 + lsa_size as usize) * size_of::<u32>();
    }
    for resource in &resources {
        used = used.next_multiple_of(resource.alignment.max(UNIT));
        Out(resource.out_buffer).set_if_wanted((used / UNIT) as u32);
        Out(resource.out_signals).set_if_wanted(0);
        Out(resource.out_counters).set_if_wanted(0);
        used = used.checked_add(resource.bytes).ok_or_else(too_large)?;
    }
    let total = used.checked_next_multiple_of(GRANULARITY).ok_or_else(too_large)?;
    let resource_window = if total == 0 {
        0
    } else {
        let address = memory::allocate(communicator.device, total, Kind::Internal)?;
        // SAFETY: fresh memory of that length.
        unsafe { std::ptr::write_bytes(address as *mut u8, 0, total) };
        window::insert(&communicator, address, total, false, Some(address))?
    };
    out.set(DeviceCommunicator {
        magic: CONFIG_MAGIC,
        version: wanted.version,
        rank: ranks.rank() as c_int,
        ranks: ranks.size() as c_int,
        ranks_reciprocal: reciprocal(ranks.size()),
        lsa_rank: (ranks.rank() % lsa_size) as c_int,
        lsa_size: lsa_size as c_int,
        lsa_size_reciprocal: reciprocal(lsa_size),
        window_table: 0,
        resource_window,
        resource_window_inlined: [0; 8],
        hybrid_world_gin_barrier: [0; 2],
        lsa_multimem: 0,
        lsa_barrier,
        rail_gin_barrier: [0; 2],
        gin_connections: 0,
        gin_types: [0; 4],
        gin_handles: [0; 4],
        gin_signals: 0,
        gin_counters: 0,
        gin_signal_shadows: 0,
        gin_contexts: 0,
        gin_flags: [false; 3],
        abort_flag: 0,
        hybrid_lsa_barrier: hybrid,
        hybrid_rail_gin_barrier: [0; 2],
        world_gin_barrier: [0; 2],
    })?;
    Ok(())
}

/// Body of `ncclDevCommDestroy`.
pub(crate) fn destroy(communicator: usize, from: Out<DeviceCommunicator>) -> NcclResult {
    resolve(communicator)?;
    let given = from.get()?;
    if given.magic != CONFIG_MAGIC {
        return Err(NcclError::INVALID_ARGUMENT.because("the device communicator was not made by ncclDevCommCreate"));
    }
    known_version(given.version)?;
    window::deregister(communicator, given.resource_window)
}

/// The requirements, with zeros for fields that the caller's NCCL does not have.
///
/// # Safety
/// As [`create`].
unsafe fn read(requirements: *const Requirements) -> NcclResult<Requirements> {
    // SAFETY: all-zero is a value of this plain struct: null lists, nothing wanted.
    let mut known: Requirements = unsafe { std::mem::zeroed() };
    if requirements.is_null() {
        return Err(Null.into());
    }
    // SAFETY: the struct begins with its own size and its magic number; no more than its size is read, and no more than
    // `known` holds.
    unsafe {
        let bytes = (&raw mut known).cast::<u8>();
        std::ptr::copy_nonoverlapping(requirements.cast::<u8>(), bytes, 16);
        if known.magic == CONFIG_MAGIC {
            let given = known.size.clamp(16, size_of::<Requirements>());
            std::ptr::copy_nonoverlapping(requirements.cast::<u8>(), bytes, given);
        }
    }
    if known.magic != CONFIG_MAGIC {
        return Err(NcclError::INVALID_USAGE
            .because("the requirements were not made with NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER"));
    }
    known_version(known.version)?;
    Ok(known)
}

fn known_version(compiled: c_uint) -> NcclResult {
    let own = version_number() as c_uint;
    if compiled > own {
        let detail = format!("the program was compiled with NCCL {compiled}, this library is {own}");
        return Err(NcclError::INVALID_USAGE.because(detail));
    }
    if compiled < VERSIONED {
        // Theirs is laid out differently.
        gap::record(Library::Nccl, "ncclDevCommCreate", "a device communicator of NCCL before 2.30");
        return Err(
            NcclError::INVALID_USAGE.because(format!("device communicators of NCCL {compiled} are not supported"))
        );
    }
    Ok(())
}

/// GIN is the GPU's own way to the network, which is not simulated.
fn check(wanted: &Requirements, resources: &[Resource]) -> NcclResult {
    let counts =
        [wanted.gin_signals, wanted.gin_counters, wanted.barriers, wanted.rail_gin_barriers, wanted.world_gin_barriers];
    let asked = counts.iter().any(|count| *count > 0)
        || resources.iter().any(|resource| resource.gin_signals > 0 || resource.gin_counters > 0);
    if wanted.gin_connection != 0 || wanted.gin_force_enable {
        gap::record(Library::Nccl, "ncclDevCommCreate", "GIN");
        return Err(NcclError::INVALID_ARGUMENT.because("GIN is asked for, which this communicator does not support"));
    }
    if asked {
        return Err(NcclError::INVALID_ARGUMENT.because("GIN resources are asked for, and ginConnectionType is NONE"));
    }
    Ok(())
}

/// A linked list in C.
///
/// # Safety
/// Every element is live.
unsafe fn list<T: Copy>(first: *mut T, next: impl Fn(&T) -> *mut T) -> Vec<T> {
    let mut found = Vec::new();
    let mut at = first;
    while !at.is_null() {
        // SAFETY: the caller's promise.
        let one = unsafe { at.read() };
        at = next(&one);
        found.push(one);
    }
    found
}

fn too_large() -> NcclError {
    NcclError::INVALID_ARGUMENT.because("the resource buffers are larger than an address space")
}

/// The factor that NCCL's kernels multiply with in order to divide.
fn reciprocal(number: u32) -> u32 {
    (u32::MAX / number).wrapping_add(u32::from(number.is_power_of_two()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_divide() {
        for number in [2u32, 3, 4, 6, 7, 8, 72] {
            for value in [0u32, 1, number - 1, number, 1000, 4095] {
                let high = ((u64::from(value) * u64::from(reciprocal(number))) >> 32) as u32;
                assert!(value / number - high <= 1, "{value} / {number}");
            }
        }
        assert_eq!((reciprocal(1), reciprocal(2), reciprocal(3)), (0, 1 << 31, 0x5555_5555));
    }
}
