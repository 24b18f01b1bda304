//! How communicators begin and end: unique ids, init in its four forms, split, finalize, destroy, abort.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use super::communicator::{COMMUNICATORS, Communicator, participant, process, resolve};
use super::config;
use super::error::{self, NcclError, NcclResult};
use super::header::{Config, NO_COLOR, UniqueId};
use super::{debug, donor, ended, files, group, memory, only, optimizers, process_group, replicas, sampling, window};
use crate::boundary::gap;
use crate::device::state::context;
use crate::device::{self, Device};
use crate::process::delay::{self, Moment};
use crate::report::finding;
use abi::argument::Out;
use abi::library::Library;
use dataplane::process::Participant;
use protocol::finding::FindingKind;
use protocol::record::ErrorCode;

/// How long an abort waits for operations that it has just woken.
pub(super) const ABORT_PATIENCE: Duration = Duration::from_secs(10);

/// Body of `ncclGetUniqueId`.
pub(crate) fn unique_id(out: Out<UniqueId>) -> NcclResult {
    let out = out.required()?;
    Ok(out.set(fresh_id()?)?)
}

fn fresh_id() -> NcclResult<UniqueId> {
    let mut bytes = [0; 128];
    dataplane::unique::fill(&mut bytes)
        .map_err(|error| NcclError::SYSTEM.because(format!("no random bytes for a unique id: {error}")))?;
    Ok(UniqueId(bytes))
}

/// Body of `ncclCommInitRank`.
pub(crate) fn init_rank(out: Out<usize>, size: c_int, id: UniqueId, rank: c_int) -> NcclResult {
    joining(|| begin(out, size, &id, rank, device_now()?, true, false))
}

/// Body of `ncclCommInitRankConfig`.
pub(crate) fn init_rank_config(
    out: Out<usize>,
    size: c_int,
    id: UniqueId,
    rank: c_int,
    config: Out<Config>,
) -> NcclResult {
    joining(|| begin(out, size, &id, rank, device_now()?, true, config::in_background(config, false)?))
}

/// Body of `ncclCommInitRankScalable`. The ids form one rendezvous, identified by the first.
pub(crate) fn init_rank_scalable(
    out: Out<usize>,
    size: c_int,
    rank: c_int,
    id_count: c_int,
    ids: Out<UniqueId>,
    config: Out<Config>,
) -> NcclResult {
    joining(|| {
        if id_count < 1 || id_count > size {
            return Err(NcclError::INVALID_ARGUMENT.because(format!("{id_count} unique ids for {size} ranks")));
        }
        begin(out, size, &ids.get()?, rank, device_now()?, true, config::in_background(config, false)?)
    })
}

/// Body of `ncclCommInitAll`: one rank on each listed device of this process.
///
/// # Safety
/// `out` has room for `count` handles; `devices` is null or holds `count` ordinals.
pub(crate) unsafe fn init_all(out: Out<usize>, count: c_int, devices: *const c_int) -> NcclResult {
    let out = out.required()?;
    let visible = device::all().len();
    let Some(count) = usize::try_from(count).ok().filter(|count| (1..=visible).contains(count)) else {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("{count} communicators on {visible} devices")));
    };
    let ordinals: Vec<c_int> = if devices.is_null() {
        (0..count as c_int).collect()
    } else {
        // SAFETY: the caller's promise.
        (0..count).map(|index| unsafe { devices.add(index).read_unaligned() }).collect()
    };
    let mut chosen = Vec::with_capacity(count);
    for (index, ordinal) in ordinals.iter().enumerate() {
        let device = device::get(*ordinal)
            .map_err(|_| NcclError::INVALID_ARGUMENT.because(format!("device {ordinal} does not exist")))?;
        if ordinals[..index].contains(ordinal) {
            let sentence = format!("ncclCommInitAll with device {ordinal} for two ranks");
            finding::record(FindingKind::SharedDevice, "ncclCommInitAll", None, sentence);
            return Err(NcclError::INVALID_USAGE.because(format!("device {ordinal} is listed twice")));
        }
        chosen.push(device);
    }
    let id = fresh_id()?;
    group::start()?;
    for (rank, device) in chosen.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        let slot = Out(unsafe { out.0.add(rank) });
        group::within(|| begin(slot, count as c_int, &id, rank as c_int, device, false, false)).ok();
    }
    group::end()
}

/// Runs the body of a call with which this process's one rank joins a communicator. If it fails before other ranks are
/// contacted, the ranks that wait for it learn of that from the coordinator.
fn joining(body: impl FnOnce() -> NcclResult) -> NcclResult {
    let result = group::within(body);
    if result.is_err_and(|error| error != NcclError::IN_PROGRESS)
        && let Ok(process) = process()
    {
        let rank = crate::process::rank().or_else(|| device::current().ok().map(|device| device.gpu.rank.0));
        process.join_failed(rank.unwrap_or_default(), &error::last_text());
    }
    result
}

pub(super) fn device_now() -> NcclResult<&'static Device> {
    context::enter()?;
    Ok(device::current()?)
}

fn begin(
    out: Out<usize>,
    size: c_int,
    id: &UniqueId,
    rank: c_int,
    device: &'static Device,
    one_rank: bool,
    in_background: bool,
) -> NcclResult {
    let out = out.required()?;
    if size < 1 || !(0..size).contains(&rank) {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("rank {rank} of {size} ranks")));
    }
    device.alive()?;
    let (process, participant) = (process()?, participant(device, one_rank)?);
    let is_only = only::is_calling_alone(in_background);
    replicas::watch();
    sampling::watch();
    files::watch();
    process_group::watch();
    optimizers::watch();
    delay::wait(Moment::Start);
    let communicator = Communicator::forming(device, in_background);
    let forming = Arc::clone(&communicator);
    let bytes = id.0;
    let work = move |together| {
        let participant = match together {
            1 => Participant { is_only, ..participant },
            // Several ranks of a process are known by their GPUs, as those of ncclCommInitAll are.
            _ => Participant { is_only: false, global_rank: device.gpu.rank.0, ..participant },
        };
        debug::begins("ncclCommInitRank", &forming, rank as u32, size as u32, &bytes);
        forming.identify(donor::formed(&bytes, size as u32, rank as u32));
        let result = process.init_communicator(&bytes, size as u32, rank as u32, participant);
        match &result {
            Ok(ranks) => debug::formed("ncclCommInitRank", &forming, ranks, process.cluster(), &bytes),
            // Where there is a coordinator, its report has it.
            Err(failure) if failure.code == ErrorCode::SharedDevice && !process.has_coordinator() => {
                finding::record(FindingKind::SharedDevice, "ncclCommInitRank", None, failure.detail.clone());
            }
            Err(_) => {}
        }
        forming.formed(result.map(Some));
    };
    group::form(communicator, out, Some(*id), in_background, Box::new(work))
}

/// Body of `ncclCommSplit`.
pub(crate) fn split(parent: usize, color: c_int, key: c_int, out: Out<usize>, config: Out<Config>) -> NcclResult {
    group::within(|| {
        let parent = resolve(parent)?;
        let _inside = parent.enter();
        let (out, ranks) = (out.required()?, parent.parent(false)?);
        if color < NO_COLOR {
            return Err(
                NcclError::INVALID_ARGUMENT.because(format!("color {color} is negative, but not NCCL_SPLIT_NOCOLOR"))
            );
        }
        let in_background = config::in_background(config, parent.in_background)?;
        let (process, participant) = (process()?, same_participant(&parent, &ranks)?);
        let color = u32::try_from(color).ok();
        if color.is_some() && !process.knows_split(&ranks) {
            gap::record(Library::Nccl, "ncclCommSplit", "as one rank whose others do not exist (--as-rank)");
            return Err(NcclError::INVALID_USAGE.because(
                "ncclCommSplit: only this rank's color is known, since the other ranks do not exist; make the communicator \
                 with ncclCommInitRank or ncclCommShrink, which name its ranks",
            ));
        }
        let communicator = Communicator::forming(parent.device, in_background);
        let forming = Arc::clone(&communicator);
        let order = ranks.split_ticket();
        let work = move |_| {
            let result = process.split(&ranks, order, color, key, participant);
            if let Ok(Some(child)) = &result {
                debug::formed("ncclCommSplit", &forming, child, process.cluster(), &[]);
                forming.identify(donor::derived(parent.identity(), &ranks, child));
            }
            forming.formed(result);
        };
        group::form(communicator, out, None, in_background, Box::new(work))
    })
}

/// `parent`'s rank as a participant: its place in the launch does not change.
pub(super) fn same_participant(
    parent: &Communicator,
    ranks: &dataplane::communicator::Communicator,
) -> NcclResult<Participant> {
    let global_rank = ranks.members()[ranks.rank() as usize].global_rank.0;
    Ok(Participant { global_rank, ..participant(parent.device, false)? })
}

/// Body of `ncclCommFinalize`.
pub(crate) fn finalize(handle: usize) -> NcclResult {
    let communicator = resolve(handle)?;
    let _inside = communicator.enter();
    if communicator.is_revoked() {
        return Err(NcclError::INVALID_ARGUMENT.because("a revoked communicator is not finalized: destroy it"));
    }
    communicator.usable()?;
    communicator.finalize();
    communicator.drain();
    match communicator.failure() {
        Some(failure) => Err(failure.into()),
        None => Ok(()),
    }
}

/// Body of `ncclCommDestroy`. Does nothing for null.
pub(crate) fn destroy(handle: usize) -> NcclResult {
    if handle == 0 {
        return Ok(());
    }
    let communicator = resolve(handle)?;
    let _inside = communicator.enter();
    communicator.judge_groups("ncclCommDestroy");
    communicator.finalize();
    communicator.drain();
    COMMUNICATORS.remove(handle);
    ended::note(handle, communicator.id(), "destroyed");
    window::forget_all(&communicator);
    memory::forget_all(communicator.serial);
    if let Ok(ranks) = communicator.ranks() {
        ranks.leave();
        debug::ends(&communicator, &ranks, "Destroy COMPLETE");
    }
    Ok(())
}

/// Body of `ncclCommAbort`. Does nothing for null.
pub(crate) fn abort(handle: usize) -> NcclResult {
    if handle == 0 {
        return Ok(());
    }
    let communicator = resolve(handle)?;
    COMMUNICATORS.remove(handle);
    ended::note(handle, communicator.id(), "aborted");
    communicator.finalize();
    communicator.abort();
    communicator.drain_for(ABORT_PATIENCE);
    window::forget_all(&communicator);
    memory::forget_all(communicator.serial);
    if let Ok(ranks) = communicator.ranks() {
        debug::ends(&communicator, &ranks, "Abort COMPLETE");
    }
    Ok(())
}
