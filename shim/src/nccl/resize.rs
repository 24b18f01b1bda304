//! Communicators that continue with fewer or more ranks: shrink, grow, and revoke, which prepares for a shrink.

use std::ffi::c_int;
use std::sync::Arc;

use abi::argument::Out;
use dataplane::communicator::GrowTicket;

use super::communicator::{Communicator, participant, process, resolve};
use super::error::{NcclError, NcclResult};
use super::group;
use super::header::{Config, REVOKE_DEFAULT, SHRINK_ABORT, UniqueId};
use super::init::{ABORT_PATIENCE, device_now, same_participant};
use super::{config, debug, donor};

/// Body of `ncclCommShrink`. With `NCCL_SHRINK_ABORT`, the operations on the parent end first; other flags have no
/// effect.
///
/// # Safety
/// `excluded` is null or holds `count` ranks.
pub(crate) unsafe fn shrink(
    parent: usize,
    excluded: *const c_int,
    count: c_int,
    out: Out<usize>,
    config: Out<Config>,
    flags: c_int,
) -> NcclResult {
    group::within(|| {
        let abort = flags & SHRINK_ABORT != 0;
        let parent = resolve(parent)?;
        let _inside = parent.enter();
        let out = out.required()?;
        let count = usize::try_from(count).unwrap_or(0);
        if excluded.is_null() || count == 0 {
            return Err(NcclError::INVALID_ARGUMENT.because("no rank to leave out"));
        }
        // SAFETY: the caller's promise.
        let excluded = (0..count).map(|index| unsafe { excluded.add(index).read_unaligned() });
        let excluded: Result<Vec<u32>, _> = excluded.map(u32::try_from).collect();
        let excluded = excluded.map_err(|_| NcclError::INVALID_ARGUMENT.because("a rank to leave out is negative"))?;
        let ranks = parent.parent(true)?;
        let in_background = config::in_background(config, parent.in_background)?;
        let ticket = ranks.shrink_ticket(excluded, abort)?;
        let (process, participant) = (process()?, same_participant(&parent, &ranks)?);
        if abort {
            ranks.stop_to_shrink();
            parent.release();
        }
        let communicator = Communicator::forming(parent.device, in_background);
        let forming = Arc::clone(&communicator);
        let work = move |_| {
            if abort {
                parent.drain_for(ABORT_PATIENCE);
            }
            let result = process.shrink(ticket, participant);
            if let Ok(child) = &result {
                debug::formed("ncclCommShrink", &forming, child, process.cluster(), &[]);
                forming.identify(donor::derived(parent.identity(), &ranks, child));
            }
            forming.formed(result.map(Some));
        };
        group::form(communicator, out, None, in_background, Box::new(work))
    })
}

/// Body of `ncclCommGetUniqueId`: the id that new ranks bring to `ncclCommGrow`.
pub(crate) fn unique_id(handle: usize, out: Out<UniqueId>) -> NcclResult {
    let communicator = resolve(handle)?;
    let out = out.required()?;
    let Some(id) = communicator.parent(false)?.grow_id() else {
        return Err(NcclError::INVALID_USAGE
            .because("the communicator has not grown with the last unique id; there is one at a time"));
    };
    Ok(out.set(UniqueId(id))?)
}

/// Body of `ncclCommGrow`. New ranks have no parent and bring the id and their rank; the others keep theirs.
pub(crate) fn grow(
    parent: usize,
    size: c_int,
    id: Out<UniqueId>,
    rank: c_int,
    out: Out<usize>,
    config: Out<Config>,
) -> NcclResult {
    group::within(|| {
        let refuse = |why: String| NcclError::INVALID_ARGUMENT.because(format!("ncclCommGrow: {why}"));
        let out = out.required()?;
        out.set(0)?;
        let ticket = if id.is_null() { None } else { GrowTicket::from_id(&id.get()?.0) };
        if parent == 0 {
            let process = process()?;
            // The rank that would have made the id may not exist.
            let ticket = ticket.or_else(|| (process.is_alone() && !id.is_null()).then(GrowTicket::of_nobody));
            let ticket = ticket.ok_or_else(|| refuse("a new rank needs the id of ncclCommGetUniqueId".to_owned()))?;
            let (Ok(rank), Ok(size)) = (u32::try_from(rank), u32::try_from(size)) else {
                return Err(refuse(format!("a new rank needs a place, not rank {rank} of {size}")));
            };
            if rank >= size {
                return Err(refuse(format!("rank {rank} of {size} ranks")));
            }
            let in_background = config::in_background(config, false)?;
            let device = device_now()?;
            let participant = participant(device, true)?;
            let communicator = Communicator::forming(device, in_background);
            let forming = Arc::clone(&communicator);
            let work = move |_| {
                let result = process.grow(None, ticket, size, rank, participant);
                if let Ok(grown) = &result {
                    debug::formed("ncclCommGrow", &forming, grown, process.cluster(), &[]);
                }
                forming.formed(result.map(Some));
            };
            return group::form(communicator, out, None, in_background, Box::new(work));
        }
        let parent = resolve(parent)?;
        let _inside = parent.enter();
        let ranks = parent.parent(false)?;
        let larger = u32::try_from(size).ok().filter(|size| *size > ranks.size());
        let size = larger.ok_or_else(|| refuse(format!("{size} ranks are not more than {}", ranks.size())))?;
        if rank != -1 {
            return Err(refuse(format!("a rank of the communicator keeps its rank and passes -1, not {rank}")));
        }
        let next = ranks.grow_ticket();
        if !id.is_null() && ticket != Some(next) {
            return Err(refuse("the id is not the communicator's next one".to_owned()));
        }
        let in_background = config::in_background(config, parent.in_background)?;
        let (process, participant) = (process()?, same_participant(&parent, &ranks)?);
        let communicator = Communicator::forming(parent.device, in_background);
        let forming = Arc::clone(&communicator);
        let work = move |_| {
            let result = process.grow(Some(&ranks), next, size, ranks.rank(), participant);
            if let Ok(grown) = &result {
                debug::formed("ncclCommGrow", &forming, grown, process.cluster(), &[]);
            }
            forming.formed(result.map(Some));
        };
        group::form(communicator, out, None, in_background, Box::new(work))
    })
}

/// Body of `ncclCommRevoke`. Does nothing for null. This rank's operations end; operations of ranks that need it keep waiting
/// until these ranks revoke, too.
pub(crate) fn revoke(handle: usize, flags: c_int) -> NcclResult {
    if handle == 0 {
        return Ok(());
    }
    let communicator = resolve(handle)?;
    if flags != REVOKE_DEFAULT {
        return Err(NcclError::INVALID_ARGUMENT.because(format!("revoke flags {flags:#x} are not known")));
    }
    if communicator.is_finalized() {
        return Err(NcclError::INVALID_ARGUMENT.because("a finalized communicator is not revoked: destroy it"));
    }
    let ranks = communicator.ranks()?;
    if !communicator.revoke() {
        return Err(NcclError::INVALID_ARGUMENT.because("the communicator is revoked already"));
    }
    ranks.revoke();
    communicator.release();
    if communicator.in_background {
        return match communicator.async_error() {
            0 => Ok(()),
            code => Err(NcclError(code)),
        };
    }
    communicator.drain_for(ABORT_PATIENCE);
    Ok(())
}
