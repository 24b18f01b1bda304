//! What a way of moving bytes (shared memory, sockets) is given and what it answers.

use std::time::{Duration, Instant};

use protocol::datatype::{Operation, ReductionOp};
use protocol::message::Member;
use protocol::record::ErrorCode;

use crate::call::Call;
use crate::failure::{Failure, name_ranks};
use crate::kernels::reduce::Reduction;
use crate::kernels::streaming;
use crate::operation::history::OpHistory;

/// The communicator and the moment, as an operation sees them.
pub(crate) struct OpContext<'a> {
    pub(crate) rank: u32,
    pub(crate) size: u32,
    pub(crate) members: &'a [Member],
    /// Position of the collective, from 1; 0 for transfers.
    pub(crate) sequence: u64,
    pub(crate) deadline: Instant,
    pub(crate) timeout: Duration,
    /// Where transfers note that they are done, while others of their group are not.
    pub(crate) history: &'a OpHistory,
}

/// How long an operation waited for others and how long it moved bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    pub(crate) wait_us: f64,
    pub(crate) execute_us: f64,
    /// By the machine's monotonic clock, ns.
    pub(crate) ended_ns: u64,
    /// For send and recv: which transfer of the ordered pair, from 1.
    pub(crate) transfer: u64,
}

impl OpContext<'_> {
    /// "rank 2", with its place in the launch where that differs. No process id: sentences are the same from run to run.
    pub(crate) fn name(&self, rank: u32) -> String {
        match self.members.get(rank as usize) {
            Some(member) if member.global_rank.0 != rank => format!("rank {rank} (global rank {})", member.global_rank),
            _ => format!("rank {rank}"),
        }
    }

    /// How long an operation waits for other ranks, as sentences tell it.
    pub(crate) fn timeout_ms(&self) -> u128 {
        self.timeout.as_millis()
    }

    /// Until when to wait for ranks that are at work since `moment`.
    pub(crate) fn deadline_from(&self, moment: Instant) -> Instant {
        moment + self.timeout
    }

    /// The failure of `what` when `lost` will not come, for the reason the first of them gave.
    pub(crate) fn lost(&self, what: &str, lost: &[u32], reason: Option<(ErrorCode, String)>) -> Failure {
        let (code, reason) = reason.unwrap_or((ErrorCode::RankLost, "it is gone".to_owned()));
        let names: Vec<String> = lost.iter().map(|rank| self.name(*rank)).collect();
        Failure::new(code, format!("{what} needs {}, which will not come: {reason}", names.join(", ")))
            .blaming(lost.to_vec())
    }

    /// The failure of a collective that `missing` did not come to in time.
    pub(crate) fn late(&self, operation: Operation, missing: Vec<u32>) -> Failure {
        let detail = format!(
            "rank {} waited {} ms in {operation} (collective {}) for {}",
            self.rank,
            self.timeout_ms(),
            self.sequence,
            name_ranks(&missing)
        );
        Failure::new(ErrorCode::TimeoutWaitingForCollective, detail).blaming(missing)
    }
}

/// The timing of an operation that began at `start`, had everybody at `met` and is done now. `transfer` as in [`Timing`].
pub(crate) fn timing(start: Instant, met: Instant, transfer: u64) -> Timing {
    let wait_us = microseconds(start, met);
    Timing { wait_us, execute_us: microseconds(met, Instant::now()), ended_ns: monotonic_ns(), transfer }
}

/// The clock behind [`Instant`], which all processes of a machine share.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is written to, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Microseconds between two moments.
fn microseconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e6
}

/// Elements that are not cut apart: at least a cache line of any datatype.
pub(crate) const GRAIN: usize = 128;

/// The part of `count` elements that `rank` of `size` works on, as (first, length). Parts begin on cache lines.
pub(crate) fn share(count: usize, rank: u32, size: u32) -> (usize, usize) {
    let each = count.div_ceil(size as usize).next_multiple_of(GRAIN);
    let first = (each * rank as usize).min(count);
    (first, each.min(count - first))
}

/// Moves what `rank` is to get when it can read every rank's contribution: all collectives but the reductions that ranks
/// share among each other.
///
/// # Safety
/// `sends[r]` is readable for what rank r contributes; the call's receive buffer is writable for what `rank` gets.
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
    let reduction = Reduction { datatype: call.datatype, op: call.reduction.unwrap_or(ReductionOp::Sum), scalars };
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
            Operation::AllReduce => reduction.run(sends, &[receive], count),
            Operation::Reduce if me == root => reduction.run(sends, &[receive], count),
            Operation::ReduceScatter => {
                let mine: Vec<*const u8> = sends.iter().map(|send| send.wrapping_add(me * block)).collect();
                reduction.run(&mine, &[receive], count);
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

/// True when the buffers of an all_to_all overlap: its contribution must be moved aside first.
pub(crate) fn overlaps(call: &Call, rank: u32, size: u32) -> bool {
    let (send, receive) = (call.send.address as usize, call.receive.address as usize);
    call.operation == Operation::AllToAll
        && send < receive + call.receive_bytes(rank, size)
        && receive < send + call.send_bytes(rank, size)
}

/// A communicator's ranks in this process, for tests of one way of moving bytes.
#[cfg(test)]
pub(crate) struct Stage {
    members: Vec<Member>,
    history: OpHistory,
}

#[cfg(test)]
impl Stage {
    pub(crate) fn of(size: u32) -> Self {
        let member = |rank| Member {
            global_rank: protocol::ids::Rank(rank),
            device: 0,
            pid: std::process::id(),
            host: String::new(),
            arena: None,
            control: None,
            data_address: String::new(),
        };
        Self { members: (0..size).map(member).collect(), history: OpHistory::default() }
    }

    /// What `rank` sees, which waits for `timeout` from now on.
    pub(crate) fn context(&self, rank: u32, timeout: Duration) -> OpContext<'_> {
        let (members, history) = (&self.members, &self.history);
        let size = members.len() as u32;
        OpContext { rank, size, members, sequence: 1, deadline: Instant::now() + timeout, timeout, history }
    }
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
