//! The resources of a device communicator that kernels' barriers and exchanges need: sizes as in NCCL's headers.

use std::ffi::c_int;

use abi::argument::Out;

use super::device_communicator::Resource;
use super::error::{NcclError, NcclResult};
use super::team::Team;

/// `ncclLsaBarrierHandle_t`, `ncclLLA2AHandle_t` and `ncclGinBarrierHandle_t`: its start, and a number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pair {
    start: u32,
    count: u32,
}

/// Address of the handle's first number, which `ncclDevCommCreate` writes.
fn first_number(handle: Out<Pair>) -> *mut u32 {
    handle.0.cast()
}

/// Body of `ncclLsaBarrierCreateRequirement`: three own counters, and one per rank.
pub(crate) fn lsa_barrier(team: Team, count: c_int, handle: Out<Pair>, out: Out<Resource>) -> NcclResult {
    handle.set(Pair { start: 0, count: count as u32 })?;
    let counters = whole(count)? * (3 + whole(team.ranks)?);
    Ok(out.set(Resource::buffer(counters * size_of::<u32>(), size_of::<u32>(), first_number(handle)))?)
}

/// Body of `ncclLLA2ACalcSlots`: a slot has 8 bytes of an element.
pub(crate) fn all_to_all_slots(elements: c_int, bytes: c_int) -> c_int {
    elements.saturating_mul(bytes.saturating_add(7) / 8)
}

/// Body of `ncclLLA2ACreateRequirement`: per block an epoch and two sets of slots of 16 bytes.
pub(crate) fn all_to_all(blocks: c_int, slots: c_int, handle: Out<Pair>, out: Out<Resource>) -> NcclResult {
    const SLOT: usize = 16;
    handle.set(Pair { start: 0, count: slots as u32 })?;
    Ok(out.set(Resource::buffer(whole(blocks)? * (1 + 2 * whole(slots)?) * SLOT, SLOT, first_number(handle)))?)
}

/// Body of `ncclGinBarrierCreateRequirement`: a signal per barrier and rank.
pub(crate) fn gin_barrier(
    _communicator: usize,
    team: Team,
    count: c_int,
    handle: Out<Pair>,
    out: Out<Resource>,
) -> NcclResult {
    let handle = handle.required()?;
    Ok(out.set(Resource::signals(count.saturating_mul(team.ranks), first_number(handle)))?)
}

fn whole(number: c_int) -> NcclResult<usize> {
    usize::try_from(number).map_err(|_| NcclError::INVALID_ARGUMENT.because(format!("{number} is below 0")))
}
