//! Code common to sends and recvs on any transport.

use protocol::datatype::{Datatype, Operation};
use protocol::record::ErrorCode;

use super::context::OpContext;
use crate::call::Call;
use crate::failure::Failure;

/// Messages up to this many bytes are buffered: their sender does not wait for the receiver.
pub(crate) const EAGER_BYTES: usize = protocol::operations::EAGER_BYTES as usize;

/// One side of a transfer, as seen by the other side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) count: u64,
    /// [`Datatype::code`].
    pub(crate) datatype: i32,
}

/// How this rank's call differs from the peer's, if it does.
pub(crate) fn difference(call: &Call, theirs: Side) -> Option<ErrorCode> {
    if theirs.datatype != call.datatype.code() {
        Some(ErrorCode::DtypeMismatch)
    } else if theirs.count != call.count {
        Some(ErrorCode::CountMismatch)
    } else {
        None
    }
}

/// The failure of a transfer whose two sides differ; both ranks report it with the same kind.
pub(crate) fn mismatch(context: &OpContext, peer: u32, code: ErrorCode, call: &Call, theirs: Side) -> Failure {
    let datatype = Datatype::from_code(theirs.datatype).map_or("?", Datatype::name);
    let (mine, other) = if call.operation == Operation::Send { ("sends", "receives") } else { ("receives", "sends") };
    let detail = format!(
        "send and recv differ: {} {mine} {} elements of {}, {} {other} {} of {datatype}",
        context.name(context.rank),
        call.count,
        call.datatype,
        context.name(peer),
        theirs.count
    );
    Failure::new(code, detail).blaming(vec![context.rank, peer])
}
