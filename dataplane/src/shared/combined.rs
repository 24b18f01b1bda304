//! Collectives whose contributions travel with their descriptors: what the rank that comes last does for all, and what each rank takes
//! of it.

use protocol::datatype::Operation;

use crate::call::Call;
use crate::kernels::finite::Format;
use crate::kernels::lost;
use crate::kernels::reduce::Reduction;
use crate::operation::context::OpContext;
use crate::operation::descriptor::{self, Descriptor};
use crate::shared::segment::{Outcome, Segment};

/// Bytes of a cache line.
const LINE: usize = 64;

/// The calls of all ranks, in rank order.
pub(crate) fn calls(segment: &Segment, context: &OpContext) -> Vec<Descriptor> {
    (0..context.size).map(|other| segment.published(other, context.sequence)).collect()
}

/// Where each rank's contribution is, in rank order, if all made the same `call`.
pub(crate) fn payloads(segment: &Segment, context: &OpContext, call: &Call) -> Vec<*const u8> {
    let place = |other| segment.payload(other, context.sequence, call.send_bytes(other, context.size)).cast_const();
    (0..context.size).map(place).collect()
}

/// Compares the calls of all ranks and combines their contributions, in rank order, so that the result does not depend on who came
/// last. Only that rank does this, before the others wake.
pub(crate) fn work_out(segment: &Segment, context: &OpContext, call: &Call) -> Outcome {
    let descriptors = calls(segment, context);
    // Each rank says so itself.
    if descriptor::compare(context, &descriptors).is_err() {
        return Outcome::Each;
    }
    let (size, results) = (context.size as usize, segment.results());
    let (sends, block) = (payloads(segment, context, call), call.block_bytes());
    match call.operation {
        Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter => {
            let scalars: Vec<[u8; 8]> = descriptors.iter().map(|call| call.scalar).collect();
            let bytes = call.largest_contribution(context.size);
            let count = bytes / call.datatype.size();
            // SAFETY: each contribution is in its place and has that many bytes, and the result has room for one.
            let is_reported = unsafe {
                let is_lost = segment.watches_losses() && loses(call, &sends, context.size);
                let op = call.reduction.unwrap_or(protocol::datatype::ReductionOp::Sum);
                Reduction { datatype: call.datatype, op, scalars: &scalars }.run(&sends, &[results], count);
                is_lost || Format::has_any(call.datatype, results as usize, bytes)
            };
            if is_reported {
                return Outcome::Each;
            }
        }
        Operation::AllGather | Operation::Gather => {
            for (from, send) in sends.iter().enumerate() {
                // SAFETY: as above; a block is no larger than what a result has for each rank.
                unsafe { std::ptr::copy_nonoverlapping(*send, results.add(from * block), block) };
            }
        }
        // SAFETY: as above: each rank contributes, and gets, a block for each rank.
        Operation::AllToAll => unsafe { transpose(&sends, results, block, size) },
        // The root's contribution stays where it is.
        _ => {}
    }
    Outcome::Ready { latest: descriptor::latest(&descriptors) }
}

/// Takes this rank's part of what [`work_out`] combined.
///
/// # Safety
/// The call's receive buffer is writable for what this rank receives.
pub(crate) unsafe fn take(segment: &Segment, context: &OpContext, call: &Call) {
    let (rank, size) = (context.rank, context.size);
    let (block, me) = (call.block_bytes(), rank as usize);
    let root = call.root.unwrap_or(0);
    let of_root = || segment.payload(root, context.sequence, call.send_bytes(root, size)).cast_const();
    let results = segment.results().cast_const();
    let from = match call.operation {
        Operation::Broadcast => of_root(),
        Operation::Scatter => of_root().wrapping_add(me * block),
        Operation::ReduceScatter => results.wrapping_add(me * block),
        Operation::AllToAll => results.wrapping_add(me * size as usize * block),
        _ => results,
    };
    let bytes = call.receive_bytes(rank, size);
    if bytes > 0 {
        // SAFETY: the result is as long as what the rank receives, and no buffer of a program is in the segment; else by the caller.
        unsafe { std::ptr::copy_nonoverlapping(from, call.receive.address, bytes) };
    }
}

/// Whether a rank's sum loses what another one gave.
///
/// # Safety
/// `sends` has what each of `size` ranks contributes.
unsafe fn loses(call: &Call, sends: &[*const u8], size: u32) -> bool {
    let parts = if call.operation == Operation::ReduceScatter { size as usize } else { 1 };
    (0..parts).any(|part| {
        let part: Vec<*const u8> = sends.iter().map(|send| send.wrapping_add(part * call.block_bytes())).collect();
        // SAFETY: by the caller: each part has the call's count of elements.
        unsafe { lost::first(call, &part, call.count as usize) }.is_some()
    })
}

/// Block `to` of what rank `from` sends becomes block `from` of what rank `to` gets. A line of every contribution at a time, because the
/// blocks may be much smaller.
///
/// # Safety
/// `sends` has `size` pointers to `size` blocks each, and `results` is writable for all of them.
unsafe fn transpose(sends: &[*const u8], results: *mut u8, block: usize, size: usize) {
    let step = (LINE / block.max(1)).max(1);
    for first in (0..size).step_by(step) {
        for (from, send) in sends.iter().enumerate() {
            for to in first..(first + step).min(size) {
                // SAFETY: by the caller.
                unsafe {
                    std::ptr::copy_nonoverlapping(send.add(to * block), results.add((to * size + from) * block), block);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::datatype::{Datatype, ReductionOp};

    use super::*;
    use crate::arena::Arena;
    use crate::call::Buffer;
    use crate::operation::collective::pull;
    use crate::operation::stage::Stage;
    use protocol::ready::Ready;

    /// The bytes that each rank gets, either combined by the last one or pulled by each.
    fn results(call: &Call, size: u32, inputs: &[Vec<u8>], each: bool) -> Vec<Vec<u8>> {
        let segment = Segment::found(Arena::create("combined test", Segment::bytes(size)).unwrap(), size);
        let stage = Stage::new(size);
        let call_of = |rank: u32| Call { send: Buffer::host(inputs[rank as usize].as_ptr().cast_mut()), ..*call };
        for rank in 0..size {
            let (call, bytes) = (call_of(rank), call.send_bytes(rank, size));
            // SAFETY: the input is as long as what the rank contributes.
            unsafe { segment.publish(rank, Descriptor::new(&call, 1), call.send.address, bytes) };
        }
        let context = |rank| stage.context(rank, Duration::from_secs(1));
        assert_eq!(
            work_out(&segment, &context(size - 1), &call_of(size - 1)),
            Outcome::Ready { latest: Ready { ns: 9, rank: 0 } }
        );
        let got = |rank: u32| {
            let mut bytes = vec![0xa5; call.receive_bytes(rank, size)];
            let call = Call { receive: Buffer::host(bytes.as_mut_ptr()), ..call_of(rank) };
            let context = context(rank);
            let sends = payloads(&segment, &context, &call);
            let scalars = vec![call.scalar_bytes(); size as usize];
            // SAFETY: all contributions are in their places, and the receive buffer is long enough.
            unsafe {
                match each {
                    true => pull(&call, rank, size, &sends, &scalars, bytes.as_mut_ptr()),
                    false => take(&segment, &context, &call),
                }
            }
            bytes
        };
        (0..size).map(got).collect()
    }

    /// Sums of these floats depend on the order.
    #[test]
    fn what_the_last_rank_combines_has_the_bits_that_each_would_get() {
        use Operation::{AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, ReduceScatter, Scatter};
        for size in [1, 2, 3, 7, 40] {
            for operation in [AllGather, AllReduce, AllToAll, Broadcast, Gather, Reduce, ReduceScatter, Scatter] {
                for count in [1, 3, 16, 25] {
                    let mut call = Call::new(operation, count, Datatype::Float32);
                    (call.reduction, call.root, call.ready_ns) = (Some(ReductionOp::Sum), Some(size - 1), 9);
                    let number =
                        |rank: u32, at: usize| (1.0 + rank as f32 * 0.37 + at as f32) * 10f32.powi(rank as i32 % 7);
                    let input = |rank| {
                        let elements = call.send_bytes(rank, size) / 4;
                        (0..elements).flat_map(|at| number(rank, at).to_ne_bytes()).collect()
                    };
                    let inputs: Vec<Vec<u8>> = (0..size).map(input).collect();
                    assert_eq!(
                        results(&call, size, &inputs, false),
                        results(&call, size, &inputs, true),
                        "{operation} of {count} over {size}"
                    );
                }
            }
        }
    }
}
