//! Turns the arguments of an operation into what the books note of it.

use std::ffi::{c_int, c_void};

use abi::nccl;
use dataplane::call::{Buffer, Call};
use protocol::datatype::{Datatype, Operation, ReductionOp};

use crate::trouble;

/// The arguments of an operation, as C passes them.
pub(crate) struct Arguments {
    pub(crate) send: *const c_void,
    pub(crate) receive: *mut c_void,
    pub(crate) count: usize,
    pub(crate) datatype: c_int,
    pub(crate) op: Option<c_int>,
    pub(crate) root: Option<c_int>,
    pub(crate) peer: Option<c_int>,
}

impl Default for Arguments {
    fn default() -> Self {
        let (send, receive) = (std::ptr::null(), std::ptr::null_mut());
        Self { send, receive, count: 0, datatype: 0, op: None, root: None, peer: None }
    }
}

impl Arguments {
    /// The call that is noted.
    ///
    /// # Errors
    /// `ncclInvalidArgument` for anything that is not a datatype or rank.
    pub(crate) fn call(&self, operation: Operation) -> Result<Call, u32> {
        let refuse = |what: &str, value: c_int| {
            trouble::refuse(nccl::INVALID_ARGUMENT, &format!("{operation}: {value} is not a {what}"))
        };
        let datatype = Datatype::from_code(self.datatype).ok_or_else(|| refuse("datatype", self.datatype))?;
        let rank = |value: Option<c_int>| {
            value.map(|value| u32::try_from(value).map_err(|_| refuse("rank", value))).transpose()
        };
        let mut call = Call::new(operation, self.count as u64, datatype);
        // Codes that are not NCCL's own come from ncclRedOpCreatePreMulSum.
        call.reduction = self.op.map(|op| ReductionOp::from_code(op).unwrap_or(ReductionOp::PreMulSum));
        (call.root, call.peer) = (rank(self.root)?, rank(self.peer)?);
        (call.send, call.receive) = (Buffer::host(self.send.cast_mut().cast()), Buffer::host(self.receive.cast()));
        Ok(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(datatype: c_int, op: c_int, root: c_int) -> Arguments {
        Arguments { count: 3, datatype, op: Some(op), root: Some(root), ..Arguments::default() }
    }

    #[test]
    fn codes_are_those_of_nccl() {
        let call = arguments(7, 2, 1).call(Operation::Reduce).unwrap();
        assert_eq!(call.describe(), "reduce(count 3, float32, max, root 1)");
        let own = arguments(6, 4096, 0).call(Operation::Reduce).unwrap();
        assert_eq!(own.reduction, Some(ReductionOp::PreMulSum));
        assert_eq!(arguments(99, 0, 0).call(Operation::Reduce).unwrap_err(), nccl::INVALID_ARGUMENT);
        assert_eq!(arguments(7, 0, -1).call(Operation::Reduce).unwrap_err(), nccl::INVALID_ARGUMENT);
    }
}
