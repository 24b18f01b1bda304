//! The collective calls: turns arguments into a checked call, and adds the call to the group.
#![expect(clippy::too_many_arguments, reason = "NCCL's signatures")]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use dataplane::call::Call;
use protocol::datatype::Operation;

use super::buffer::{is_of_another_device, place};
use super::communicator::{Communicator, resolve};
use super::error::{NcclError, NcclResult};
use super::{debug, group, reduction};
use crate::call_site;
use crate::device::work::stream::{self, Stream};

/// The arguments common to all collectives.
struct Arguments {
    operation: Operation,
    send: *const c_void,
    receive: *mut c_void,
    count: usize,
    datatype: c_int,
    op: Option<c_int>,
    root: Option<c_int>,
    peer: Option<c_int>,
    communicator: usize,
    stream: usize,
}

impl Arguments {
    fn new(operation: Operation, count: usize, datatype: c_int, communicator: usize, stream: usize) -> Self {
        let (send, receive) = (std::ptr::null(), std::ptr::null_mut());
        Self { operation, send, receive, count, datatype, op: None, root: None, peer: None, communicator, stream }
    }

    fn submit(self) -> NcclResult {
        group::within(|| self.check())
    }

    fn check(self) -> NcclResult {
        let communicator = resolve(self.communicator)?;
        let ranks = communicator.usable()?;
        communicator.device.healthy()?;
        let datatype = reduction::datatype(self.datatype)?;
        let mut call = Call::new(self.operation, self.count as u64, datatype);
        call.site = call_site::here();
        if let Some(op) = self.op {
            let (op, scalar) = reduction::operator(&communicator, op, datatype)?;
            (call.reduction, call.scalar) = (Some(op), scalar);
        }
        call.root = self.root.map(|root| rank(self.operation, "root", root)).transpose()?;
        call.peer = self.peer.map(|peer| rank(self.operation, "peer", peer)).transpose()?;
        call.send.address = self.send.cast_mut().cast();
        call.receive.address = self.receive.cast();
        ranks.check(&call).map_err(|failure| NcclError::from(&failure))?;
        call.send = place(&communicator, "send", call.send.address, call.send_bytes(ranks.rank(), ranks.size()))?;
        call.receive =
            place(&communicator, "receive", call.receive.address, call.receive_bytes(ranks.rank(), ranks.size()))?;
        let stream = stream_of(&communicator, self.stream)?;
        debug::operates(&communicator, &ranks, &call, self.stream, communicator.count_operation());
        group::operate(communicator, stream, call)
    }
}

/// The stream for a C handle; the default streams are those of the communicator's device.
///
/// # Errors
/// `UNHANDLED_CUDA_ERROR` if there is no such stream, it belongs to another device (CUDA refuses NCCL's kernel there), or the
/// device accepts no more work.
pub(super) fn stream_of(communicator: &Communicator, handle: usize) -> NcclResult<Arc<Stream>> {
    let own = communicator.device;
    own.alive()?;
    let refuse = |why: String| Err(NcclError::UNHANDLED_CUDA_ERROR.because(why));
    match handle {
        0 | 1 => Ok(stream::legacy(own)),
        2 => Ok(stream::per_thread(own)),
        handle => match stream::resolve(handle) {
            Ok(stream) if stream.device == own.ordinal => Ok(stream),
            Ok(stream) => {
                is_of_another_device(communicator, "gets a stream", stream.device);
                refuse(format!(
                    "invalid resource handle: the stream belongs to device {}, the communicator uses device {}",
                    stream.device, own.ordinal
                ))
            }
            Err(_) => refuse(format!("{handle:#x} is not a valid stream")),
        },
    }
}

pub(super) fn rank(operation: Operation, what: &str, value: c_int) -> NcclResult<u32> {
    u32::try_from(value)
        .map_err(|_| NcclError::INVALID_ARGUMENT.because(format!("{operation}: {what} {value} is not a rank")))
}

macro_rules! bodies {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*)
        = $operation:ident($count:expr, $datatype:expr, $op:expr, $root:expr);)*) => {
        $($(#[$doc])*
        pub(crate) fn $name(
            send: *const c_void,
            receive: *mut c_void,
            $($argument: $type,)*
            communicator: usize,
            stream: usize,
        ) -> NcclResult {
            let arguments = Arguments::new(Operation::$operation, $count, $datatype, communicator, stream);
            Arguments { send, receive, op: $op, root: $root, ..arguments }.submit()
        })*
    };
}

bodies! {
    /// Body of `ncclAllReduce`.
    all_reduce(count: usize, datatype: c_int, op: c_int) = AllReduce(count, datatype, Some(op), None);
    /// Body of `ncclReduce`.
    reduce(count: usize, datatype: c_int, op: c_int, root: c_int) = Reduce(count, datatype, Some(op), Some(root));
    /// Body of `ncclBroadcast`.
    broadcast(count: usize, datatype: c_int, root: c_int) = Broadcast(count, datatype, None, Some(root));
    /// Body of `ncclAllGather`; the count is what each rank sends.
    all_gather(count: usize, datatype: c_int) = AllGather(count, datatype, None, None);
    /// Body of `ncclReduceScatter`; the count is what each rank receives.
    reduce_scatter(count: usize, datatype: c_int, op: c_int) = ReduceScatter(count, datatype, Some(op), None);
    /// Body of `ncclAlltoAll`; the count is what each pair exchanges.
    all_to_all(count: usize, datatype: c_int) = AllToAll(count, datatype, None, None);
    /// Body of `ncclGather`; the count is what each rank sends.
    gather(count: usize, datatype: c_int, root: c_int) = Gather(count, datatype, None, Some(root));
    /// Body of `ncclScatter`; the count is what each rank receives.
    scatter(count: usize, datatype: c_int, root: c_int) = Scatter(count, datatype, None, Some(root));
}

/// Body of `ncclBcast`, broadcast in place.
pub(crate) fn bcast(
    buffer: *mut c_void,
    count: usize,
    datatype: c_int,
    root: c_int,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    broadcast(buffer.cast_const(), buffer, count, datatype, root, communicator, stream)
}

/// `ncclSend` and `ncclRecv`.
pub(super) fn transfer(
    operation: Operation,
    buffer: *mut c_void,
    count: usize,
    datatype: c_int,
    peer: c_int,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    let mut arguments = Arguments::new(operation, count, datatype, communicator, stream);
    match operation {
        Operation::Send => arguments.send = buffer.cast_const(),
        _ => arguments.receive = buffer,
    }
    arguments.peer = Some(peer);
    arguments.submit()
}
