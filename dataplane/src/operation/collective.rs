//! Code common to collectives on any transport: which rank works on which part, and the copies made by a rank that can read
//! everybody's contribution.

use protocol::datatype::{Operation, ReductionOp};

use crate::call::Call;
use crate::kernels::finite;
use crate::kernels::lost;
use crate::kernels::reduce::Reduction;
use crate::kernels::streaming;

/// Elements that are not split up: at least a cache line of any datatype.
pub(crate) const GRAIN: usize = 128;

/// The part of `count` elements that `rank` of `size` works on, as (first, length). Parts begin on cache lines.
pub(crate) fn share(count: usize, rank: u32, size: u32) -> (usize, usize) {
    let each = count.div_ceil(size as usize).next_multiple_of(GRAIN);
    let first = (each * rank as usize).min(count);
    (first, each.min(count - first))
}

/// Moves the data that `rank` receives, given that it can read every rank's contribution: all collectives except
/// reductions divided among the ranks.
///
/// # Safety
/// `sends[r]` is readable for rank r's contribution; the call's receive buffer is writable for what `rank` receives.
pub(crate) unsafe fn pull(
    call: &Call,
    rank: u32,
    size: u32,
    sends: &[*const u8],
    scalars: &[[u8; 8]],
    receive: *mut u8,
) {
    let block = call.block_bytes();
    let (count, me) = (call.count as usize, rank as usize);
    let root = call.root.unwrap_or(0) as usize;
    // SAFETY: offsets are multiples of the block within what each rank contributes or gets; source and destination of a copy
    // are the same range or do not overlap (the rules for in-place calls; all_to_all was moved aside before).
    unsafe {
        let written = call.receive_bytes(rank, size);
        let copy = |from: *const u8, to: *mut u8| {
            if from != to.cast_const() {
                streaming::copy(from, to, block, written, streaming::FROM_MEMORY);
            }
        };
        match call.operation {
            Operation::AllReduce => reduce(call, scalars, sends, &[receive], count),
            Operation::Reduce if me == root => reduce(call, scalars, sends, &[receive], count),
            Operation::ReduceScatter => {
                let mine: Vec<*const u8> = sends.iter().map(|send| send.wrapping_add(me * block)).collect();
                reduce(call, scalars, &mine, &[receive], count);
            }
            Operation::Broadcast => copy(sends[root], receive),
            Operation::Scatter => copy(sends[root].wrapping_add(me * block), receive),
            Operation::AllGather => (0..size as usize).for_each(|from| copy(sends[from], receive.add(from * block))),
            Operation::Gather if me == root => {
                (0..size as usize).for_each(|from| copy(sends[from], receive.add(from * block)));
            }
            Operation::AllToAll => {
                // Every rank begins with itself, so that no two read the same buffer.
                (me..me + size as usize)
                    .map(|from| from % size as usize)
                    .for_each(|from| copy(sends[from].wrapping_add(me * block), receive.add(from * block)));
            }
            _ => {}
        }
    }
}

/// Reduces `count` elements of each rank's contribution into each of `results`.
///
/// # Safety
/// As [`Reduction::run`].
pub(crate) unsafe fn reduce(
    call: &Call,
    scalars: &[[u8; 8]],
    contributions: &[*const u8],
    results: &[*mut u8],
    count: usize,
) {
    let reduction = Reduction { datatype: call.datatype, op: call.reduction.unwrap_or(ReductionOp::Sum), scalars };
    // SAFETY: by the caller; the result is there once the reduction is done.
    unsafe {
        lost::examine(call, contributions, count);
        finite::examine(call, contributions, results, count, |contributions, results, count| {
            reduction.run(contributions, results, count);
        });
    }
}

/// True if the buffers of an all_to_all overlap: its contribution must be moved aside first.
pub(crate) fn overlaps(call: &Call, rank: u32, size: u32) -> bool {
    let (send, receive) = (call.send.address as usize, call.receive.address as usize);
    call.operation == Operation::AllToAll
        && send < receive + call.receive_bytes(rank, size)
        && receive < send + call.send_bytes(rank, size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for count in [0, 1, 127, 128, 129, 1000, 4096, 100_003] {
            for size in 1..6 {
                let mut next = 0;
                for rank in 0..size {
                    let (first, length) = share(count, rank, size);
                    assert!(length == 0 || first == next, "{count} {size} {rank}");
                    next += length;
                }
                assert_eq!(next, count);
            }
        }
    }
}
