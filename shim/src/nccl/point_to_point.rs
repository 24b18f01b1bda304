//! Send and recv.

use std::ffi::{c_int, c_void};

use protocol::datatype::Operation;

use super::collective::transfer;
use super::error::NcclResult;

/// Body of `ncclSend`.
pub(crate) fn send(
    buffer: *const c_void,
    count: usize,
    datatype: c_int,
    peer: c_int,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    transfer(Operation::Send, buffer.cast_mut(), count, datatype, peer, communicator, stream)
}

/// Body of `ncclRecv`.
pub(crate) fn receive(
    buffer: *mut c_void,
    count: usize,
    datatype: c_int,
    peer: c_int,
    communicator: usize,
    stream: usize,
) -> NcclResult {
    transfer(Operation::Recv, buffer, count, datatype, peer, communicator, stream)
}
