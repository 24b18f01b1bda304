//! Puts, signals and waits for signals. NCCL 2.30 has one signal and one context.
#![expect(clippy::too_many_arguments, reason = "NCCL's signatures")]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use dataplane::call::{Call, Remote};
use dataplane::communicator::Communicator as Ranks;
use protocol::datatype::{Datatype, Operation};

use super::buffer::place;
use super::collective::{rank, stream_of};
use super::communicator::{Communicator, resolve};
use super::error::{NcclError, NcclResult};
use super::header::SignalWait;
use super::{debug, group, reduction, window};
use crate::call_site;

/// Body of `ncclPutSignal`.
pub(crate) fn put_signal(
    local: *const c_void,
    count: usize,
    datatype: c_int,
    peer: c_int,
    handle: usize,
    offset: usize,
    signal: c_int,
    context: c_int,
    flags: c_uint,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    group::within(|| {
        let communicator = resolve(communicator)?;
        let ranks = communicator.usable()?;
        let mut call = Call::new(Operation::PutSignal, count as u64, reduction::datatype(datatype)?);
        call.site = call_site::here();
        call.peer = Some(rank(call.operation, "peer", peer)?);
        only_one(signal, context, flags)?;
        let invalid = |what: String| NcclError::INVALID_ARGUMENT.because(format!("ncclPutSignal: {what}"));
        let target = window::find(&communicator, handle)?;
        if local.is_null() {
            return Err(invalid("the local buffer is null".to_owned()));
        }
        call.send.address = local.cast_mut().cast();
        ranks.check(&call).map_err(|failure| NcclError::from(&failure))?;
        let bytes = call.send_bytes(ranks.rank(), ranks.size());
        let Some(source) = window::around(&communicator, local as usize, bytes) else {
            return Err(invalid(format!(
                "the {bytes} bytes at {local:p} are in no symmetric window of the communicator"
            )));
        };
        if !(source.is_placed && target.is_placed) {
            return Err(invalid("a window is host memory, or device memory in several pieces".to_owned()));
        }
        // The other rank's window is as long as ours, or the put fails in its stream.
        if offset.checked_add(bytes).is_none_or(|end| end > target.size) {
            return Err(invalid(format!("{bytes} bytes at {offset} exceed the window of {} bytes", target.size)));
        }
        call.remote = Some(Remote { window: target.number, offset: offset as u64 });
        call.send = place(&communicator, "local", call.send.address, bytes)?;
        submit(&communicator, &ranks, &[call], stream)
    })
}

/// Body of `ncclSignal`.
pub(crate) fn signal(
    peer: c_int,
    signal: c_int,
    context: c_int,
    flags: c_uint,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    group::within(|| {
        let communicator = resolve(communicator)?;
        let ranks = communicator.usable()?;
        let mut call = Call::new(Operation::Signal, 0, Datatype::Int8);
        call.site = call_site::here();
        call.peer = Some(rank(call.operation, "peer", peer)?);
        only_one(signal, context, flags)?;
        ranks.check(&call).map_err(|failure| NcclError::from(&failure))?;
        submit(&communicator, &ranks, &[call], stream)
    })
}

/// Body of `ncclWaitSignal`.
///
/// # Safety
/// `waits` is null or holds `count` descriptors.
pub(crate) unsafe fn wait_signal(
    count: c_int,
    waits: *const SignalWait,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    group::within(|| {
        let communicator = resolve(communicator)?;
        let ranks = communicator.usable()?;
        let count = usize::try_from(count).unwrap_or(0);
        if waits.is_null() || count == 0 {
            return Err(NcclError::INVALID_ARGUMENT.because("ncclWaitSignal: nothing to wait for"));
        }
        let mut calls = Vec::with_capacity(count);
        let site = call_site::here();
        for index in 0..count {
            // SAFETY: the caller's promise.
            let wait = unsafe { waits.add(index).read_unaligned() };
            if wait.count < 1 {
                let detail = format!("ncclWaitSignal: descriptor {index} waits for {} signals", wait.count);
                return Err(NcclError::INVALID_ARGUMENT.because(detail));
            }
            only_one(wait.signal, wait.context, 0)?;
            let mut call = Call::new(Operation::WaitSignal, wait.count as u64, Datatype::Int8);
            call.peer = Some(rank(call.operation, "peer", wait.peer)?);
            call.site = site;
            ranks.check(&call).map_err(|failure| NcclError::from(&failure))?;
            calls.push(call);
        }
        submit(&communicator, &ranks, &calls, stream)
    })
}

fn only_one(signal: c_int, context: c_int, flags: c_uint) -> NcclResult {
    for (what, value) in [("signal index", i64::from(signal)), ("context", context.into()), ("flags", flags.into())] {
        if value != 0 {
            return Err(NcclError::INVALID_ARGUMENT.because(format!("{what} {value}: NCCL 2.30 has only 0")));
        }
    }
    Ok(())
}

fn submit(communicator: &Arc<Communicator>, ranks: &Ranks, calls: &[Call], stream: usize) -> NcclResult {
    let queue = stream_of(communicator, stream)?;
    for call in calls {
        debug::operates(communicator, ranks, call, stream, communicator.count_operation());
    }
    group::operate_together(communicator, &queue, calls)
}
