//! The descriptors that ranks publish before a collective moves any byte, and the comparison that finds disagreements.

use protocol::datatype::{Datatype, Operation, ReductionOp};
use protocol::ready::Ready;
use protocol::record::ErrorCode;

use crate::call::{Call, Place};
use crate::failure::Failure;
use crate::operation::context::OpContext;

/// A call in its wire form: fixed size, plain numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) sequence: u64,
    pub(crate) count: u64,
    pub(crate) scalar: [u8; 8],
    /// See [`Call::ready_ns`]; ranks differ in it.
    pub(crate) ready_ns: u64,
    pub(crate) operation: i32,
    pub(crate) datatype: i32,
    /// The number of the value; -1 if there is none.
    pub(crate) reduction: i32,
    /// The number of the value; -1 if there is none.
    pub(crate) root: i32,
    pub(crate) send: Place,
    pub(crate) receive: Place,
    /// Addresses in the owner's process: ranks of the same process use them directly.
    pub(crate) send_address: u64,
    pub(crate) receive_address: u64,
}

impl Descriptor {
    pub(crate) const BYTES: usize = size_of::<Self>();

    pub(crate) fn new(call: &Call, sequence: u64) -> Self {
        Self {
            sequence,
            count: call.count,
            scalar: call.scalar_bytes(),
            ready_ns: call.ready_ns,
            operation: call.operation.code(),
            datatype: call.datatype.code(),
            reduction: call.reduction.map_or(-1, ReductionOp::code),
            root: call.root.map_or(-1, |root| root as i32),
            send: call.send.place.unwrap_or_default(),
            receive: call.receive.place.unwrap_or_default(),
            send_address: call.send.address as u64,
            receive_address: call.receive.address as u64,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        // SAFETY: the struct is `repr(C)` without padding (asserted below), so all its bytes are initialized.
        unsafe { std::mem::transmute(self) }
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        // SAFETY: every bit pattern is a value of every field.
        unsafe { std::mem::transmute(bytes) }
    }

    fn describe(&self) -> String {
        let operation = Operation::from_code(self.operation).map_or("?", Operation::name);
        let datatype = Datatype::from_code(self.datatype).map_or("?", Datatype::name);
        let mut text = format!("{operation}(count {}, {datatype}", self.count);
        if let Some(op) = ReductionOp::from_code(self.reduction) {
            text.push_str(&format!(", {op}"));
        }
        if self.root >= 0 {
            text.push_str(&format!(", root {}", self.root));
        }
        text.push(')');
        text
    }
}

const _: () = assert!(Descriptor::BYTES == 8 * 4 + 4 * 4 + 2 * 32 + 2 * 8, "the layout has no padding");

/// The last of the ranks, by rank, and when it is ready.
pub(crate) fn latest(calls: &[Descriptor]) -> Ready {
    let ready = calls.iter().zip(0..).map(|(call, rank)| Ready { ns: call.ready_ns, rank });
    ready.reduce(Ready::or_later).unwrap_or_default()
}

/// The first disagreement between the ranks' calls; every rank reports the same one.
///
/// # Errors
/// The kind of mismatch, a sentence with each rank's call, and the ranks that differ from the majority's first call.
pub(crate) fn compare(context: &OpContext<'_>, calls: &[Descriptor]) -> Result<(), Failure> {
    compare_named(context.sequence, calls, &|rank| context.name(rank))
}

fn compare_named(sequence: u64, calls: &[Descriptor], name: &dyn Fn(u32) -> String) -> Result<(), Failure> {
    type Field = fn(&Descriptor) -> i128;
    let fields: [(ErrorCode, Field); 6] = [
        (ErrorCode::CollectiveTypeMismatch, |call| i128::from(call.operation)),
        (ErrorCode::CollectiveTypeMismatch, |call| i128::from(call.sequence)),
        (ErrorCode::DtypeMismatch, |call| i128::from(call.datatype)),
        (ErrorCode::CountMismatch, |call| i128::from(call.count)),
        (ErrorCode::ReduceOpMismatch, |call| i128::from(call.reduction)),
        (ErrorCode::RootMismatch, |call| i128::from(call.root)),
    ];
    for (code, field) in fields {
        let value = |index: usize| field(&calls[index]);
        if (1..calls.len()).all(|rank| value(rank) == value(0)) {
            continue;
        }
        let votes = |of: usize| (0..calls.len()).filter(|rank| value(*rank) == value(of)).count();
        let most = (0..calls.len()).max_by_key(|rank| (votes(*rank), std::cmp::Reverse(*rank))).unwrap_or(0);
        let culprits = (0..calls.len()).filter(|rank| value(*rank) != value(most)).map(|rank| rank as u32).collect();
        return Err(Failure::new(code, sentence(sequence, calls, name)).blaming(culprits));
    }
    Ok(())
}

fn sentence(sequence: u64, calls: &[Descriptor], name: &dyn Fn(u32) -> String) -> String {
    const SHOWN: usize = 16;
    let mut parts: Vec<String> = calls
        .iter()
        .take(SHOWN)
        .zip(0..)
        .map(|(call, rank)| format!("{} called {}", name(rank), call.describe()))
        .collect();
    if calls.len() > SHOWN {
        parts.push(format!("and {} more ranks", calls.len() - SHOWN));
    }
    format!("the ranks' calls differ at collective {sequence}: {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(operation: Operation, count: u64) -> Descriptor {
        let mut call = Call::new(operation, count, Datatype::Float32);
        call.reduction = Some(ReductionOp::Sum);
        Descriptor::new(&call, 7)
    }

    fn compare(sequence: u64, calls: &[Descriptor]) -> Result<(), Failure> {
        compare_named(sequence, calls, &|rank| format!("rank {rank} (global rank {})", rank + 4))
    }

    #[test]
    fn bytes_round_trip() {
        let descriptor = call(Operation::AllReduce, 4);
        assert_eq!(Descriptor::from_bytes(descriptor.to_bytes()), descriptor);
    }

    #[test]
    fn the_odd_one_out_is_named() {
        let all = call(Operation::AllReduce, 4);
        let other = call(Operation::AllReduce, 5);
        let failure = compare(7, &[all, all, other]).unwrap_err();
        assert_eq!(failure.code, ErrorCode::CountMismatch);
        assert_eq!(failure.culprits, [protocol::ids::Rank(2)]);
        assert!(
            failure.detail.contains("rank 2 (global rank 6) called all_reduce(count 5, float32, sum)"),
            "{failure}"
        );
        let other = call(Operation::Broadcast, 4);
        assert_eq!(compare(7, &[other, all]).unwrap_err().code, ErrorCode::CollectiveTypeMismatch);
        assert_eq!(compare(7, &[all, all]), Ok(()));
    }
}
