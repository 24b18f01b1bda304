//! Collectives through memory that all ranks map: descriptors meet at a barrier, then every rank reads the others' buffers where
//! they are and writes its part of the result, and a second barrier lets the buffers go. What is small travels with the descriptors,
//! and the rank that comes last combines it for all ([`combined`]). If a rank gives up before the first
//! barrier, no rank takes part. A rank past the first barrier is waited for at the second, whatever it learns in the meantime.

use std::time::Instant;

use protocol::datatype::Operation;

use crate::arena::Arena;
use crate::call::{Call, Place};
use crate::failure::Failure;
use crate::kernels::{lost, streaming};
use crate::operation::collective::{overlaps, pull, reduce, share};
use crate::operation::context::OpContext;
use crate::operation::descriptor;
use crate::operation::descriptor::Descriptor;
use crate::operation::timing::{Timing, timing};
use crate::shared::combined;
use crate::shared::mapping::Mappings;
use crate::shared::reach::reach;
use crate::shared::segment::{Arrival, INLINE_BYTES, Outcome, Segment};

/// State that collectives keep from one to the next.
pub(crate) struct Collectives {
    barriers: u64,
    pub(crate) mappings: Mappings,
    send_bounce: Option<Bounce>,
    receive_bounce: Option<Bounce>,
}

/// A memory file through which buffers outside the arenas travel.
struct Bounce {
    arena: Arena,
}

impl Collectives {
    pub(crate) fn new() -> Self {
        Self { barriers: 0, mappings: Mappings::default(), send_bounce: None, receive_bounce: None }
    }

    /// Runs one collective to its end on this rank.
    pub(crate) fn run(&mut self, segment: &Segment, context: &OpContext, call: &Call) -> Result<Timing, Failure> {
        let start = Instant::now();
        let (rank, size) = (context.rank, context.size);
        let contributed = call.send_bytes(rank, size);
        let beside = call.largest_contribution(size) <= INLINE_BYTES;
        let mut descriptor = Descriptor::new(call, context.sequence);
        let mut own = Own { send: call.send.address, receive: call.receive.address, copy_out: 0 };
        if !beside {
            self.place_buffers(context, call, &mut descriptor, &mut own)?;
        }
        if lost::is_watched() {
            segment.watch_losses();
        }
        // SAFETY: this is the only running operation of this rank; the send buffer is the caller's promise. Everybody has passed
        // the barrier of the previous collective, hence is done with the one before it.
        unsafe { segment.publish(rank, descriptor, call.send.address, if beside { contributed } else { 0 }) };
        self.barriers += 1;
        segment.arrive_and(rank, self.barriers, || {
            let outcome = if beside { combined::work_out(segment, context, call) } else { Outcome::Each };
            segment.conclude(context.sequence, outcome);
        });
        let awaited = beside.then_some(context.sequence);
        let arrival = segment.wait(rank, self.barriers, awaited, context.deadline);
        concluded(segment, context, call.operation, arrival)?;
        let met = Instant::now();
        if let Some(Outcome::Ready { latest }) = awaited.and_then(|sequence| segment.outcome(sequence)) {
            // SAFETY: the receive buffer is the caller's promise.
            unsafe { combined::take(segment, context, call) };
            return Ok(timing(start, met, 0).after(latest));
        }
        let descriptors = combined::calls(segment, context);
        descriptor::compare(context, &descriptors)?;
        let scalars: Vec<[u8; 8]> = descriptors.iter().map(|call| call.scalar).collect();
        if beside {
            let sends = combined::payloads(segment, context, call);
            // SAFETY: each payload is in its place; the receive buffer is the caller's promise.
            unsafe { pull(call, rank, size, &sends, &scalars, call.receive.address) };
        } else {
            let moved = self.move_bytes(context, call, &descriptors, &scalars, &own);
            self.barriers += 1;
            // Those that move bytes now have all the time of a wait that begins now.
            let arrival = segment.settle(rank, self.barriers, moved.is_ok(), context.deadline_from(met));
            moved?;
            concluded(segment, context, call.operation, arrival)?;
            if own.copy_out > 0 {
                // SAFETY: both hold the operation's result; the bounce is ours alone after the barrier.
                unsafe { std::ptr::copy_nonoverlapping(own.receive, call.receive.address, own.copy_out) };
            }
        }
        Ok(timing(start, met, 0).after(descriptor::latest(&descriptors)))
    }

    /// Gives every buffer that others must access a place in a memory file.
    fn place_buffers(
        &mut self,
        context: &OpContext,
        call: &Call,
        descriptor: &mut Descriptor,
        own: &mut Own,
    ) -> Result<(), Failure> {
        let pid = context.members[context.rank as usize].pid;
        let one_process = context.members.iter().all(|member| member.pid == pid);
        let contributed = call.send_bytes(context.rank, context.size);
        let overlap = overlaps(call, context.rank, context.size);
        if contributed > 0 && (overlap || (call.send.place.is_none() && !one_process)) {
            let bounce = Bounce::of_at_least(&mut self.send_bounce, contributed)?;
            own.send = bounce.arena.base();
            // SAFETY: the bounce is long enough and this thread's alone; the send buffer is the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(call.send.address, own.send, contributed) };
            descriptor.send = bounce.place();
            descriptor.send_address = own.send as u64;
        }
        // Only in these operations do others write into this rank's result.
        let written_by_others =
            matches!(call.operation, Operation::AllReduce | Operation::Reduce | Operation::AllGather);
        let got = call.receive_bytes(context.rank, context.size);
        if written_by_others && got > 0 && call.receive.place.is_none() && !one_process {
            let bounce = Bounce::of_at_least(&mut self.receive_bounce, got)?;
            own.receive = bounce.arena.base();
            own.copy_out = got;
            descriptor.receive = bounce.place();
            descriptor.receive_address = own.receive as u64;
        }
        Ok(())
    }

    fn move_bytes(
        &mut self,
        context: &OpContext,
        call: &Call,
        descriptors: &[Descriptor],
        scalars: &[[u8; 8]],
        own: &Own,
    ) -> Result<(), Failure> {
        let (rank, size) = (context.rank, context.size);
        let mut sends = Vec::with_capacity(size as usize);
        for other in 0..size {
            let descriptor = &descriptors[other as usize];
            let bytes = call.send_bytes(other, size);
            let address = if other == rank {
                own.send
            } else {
                self.reach(context, call, other, &descriptor.send, descriptor.send_address, bytes)?
            };
            sends.push(address.cast_const());
        }
        let root = call.root.unwrap_or(0);
        let writes_to = |other: u32| match call.operation {
            Operation::AllReduce | Operation::AllGather => true,
            Operation::Reduce => other == root,
            _ => false,
        };
        if !matches!(call.operation, Operation::AllReduce | Operation::Reduce | Operation::AllGather) {
            // SAFETY: `reach` checked that each buffer holds what its rank contributes; ours is the caller's promise.
            unsafe { pull(call, rank, size, &sends, scalars, own.receive) };
            return Ok(());
        }
        let mut receives = Vec::with_capacity(size as usize);
        for other in (0..size).filter(|other| writes_to(*other)) {
            let descriptor = &descriptors[other as usize];
            let bytes = call.receive_bytes(other, size);
            receives.push(if other == rank {
                own.receive
            } else {
                self.reach(context, call, other, &descriptor.receive, descriptor.receive_address, bytes)?
            });
        }
        if call.operation == Operation::AllGather {
            let block = call.block_bytes();
            // SAFETY: `reach` checked all buffers; each rank writes its own block, and a rank's block in its own result is its
            // contribution (in place) or does not overlap it.
            unsafe {
                let blocks: Vec<*mut u8> = receives.iter().map(|receive| receive.add(rank as usize * block)).collect();
                spread(own.send, &blocks, block);
            }
            return Ok(());
        }
        let (first, length) = share(call.count as usize, rank, size);
        let skip = first * call.datatype.size();
        // SAFETY: `reach` checked all buffers; each rank works on its own share, and a rank's result is its contribution
        // (in place) or does not overlap it.
        unsafe {
            let sends: Vec<*const u8> = sends.iter().map(|send| send.add(skip)).collect();
            let receives: Vec<*mut u8> = receives.iter().map(|receive| receive.add(skip)).collect();
            reduce(call, scalars, &sends, &receives, length);
        }
        Ok(())
    }

    /// Another rank's buffer, mapped in this process.
    fn reach(
        &mut self,
        context: &OpContext,
        call: &Call,
        other: u32,
        place: &Place,
        address: u64,
        bytes: usize,
    ) -> Result<*mut u8, Failure> {
        if bytes == 0 {
            return Ok(std::ptr::null_mut());
        }
        let what = || format!("{} (collective {})", call.operation, context.sequence);
        reach(&mut self.mappings, context, &what, other, place, address, bytes)
    }
}

/// The result of the operation after a wait at a barrier.
fn concluded(segment: &Segment, context: &OpContext, operation: Operation, arrival: Arrival) -> Result<(), Failure> {
    match arrival {
        Arrival::All => Ok(()),
        Arrival::Lost(lost) => {
            let what = format!("{operation} (collective {})", context.sequence);
            Err(context.lost(&what, &lost, lost.first().and_then(|rank| segment.status(*rank))))
        }
        Arrival::Missing(missing) => Err(context.late(operation, missing)),
    }
}

/// Copies `bytes` to every destination, piece by piece, so that memory is read once and further reads come from the
/// cache.
///
/// # Safety
/// All pointers are valid for `bytes`; a destination is the source itself or does not overlap it.
unsafe fn spread(source: *const u8, destinations: &[*mut u8], bytes: usize) {
    let written = bytes * destinations.len();
    // Pieces begin where the destinations' lines do, since nothing else is streamed.
    let head = destinations.first().map_or(0, |first| first.align_offset(streaming::LINE)).min(bytes);
    let mut at = 0;
    while at < bytes {
        let length = if at < head { head } else { streaming::GROUP.min(bytes - at) };
        for destination in destinations.iter().filter(|destination| destination.cast_const() != source) {
            // SAFETY: within `bytes`; the caller's promise.
            unsafe { streaming::copy(source.add(at), destination.add(at), length, written, streaming::FROM_CACHE) };
        }
        at += length;
    }
}

/// This rank's buffers as the operation uses them.
struct Own {
    send: *mut u8,
    receive: *mut u8,
    /// Bytes to copy from `receive` to the caller's buffer at the end.
    copy_out: usize,
}

impl Bounce {
    fn of_at_least(held: &mut Option<Self>, bytes: usize) -> Result<&mut Self, Failure> {
        if held.as_ref().is_none_or(|bounce| bounce.arena.length() < bytes) {
            let length = bytes.next_power_of_two().max(1 << 20);
            let failed =
                |error| Failure::system("cannot make a memory file for a buffer outside device memory", &error);
            let arena = Arena::create("ftest bounce", length).map_err(failed)?;
            *held = Some(Self { arena });
        }
        Ok(held.as_mut().expect("was just filled"))
    }

    fn place(&self) -> Place {
        Place {
            file_id: self.arena.file_id(),
            length: self.arena.length() as u64,
            offset: 0,
            fd: self.arena.fd(),
            valid: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::datatype::{Datatype, ReductionOp};
    use protocol::record::ErrorCode;

    use super::*;
    use crate::call::Buffer;
    use crate::operation::stage::Stage;

    const COUNT: usize = 1 << 18;
    const SOON: Duration = Duration::from_millis(200);

    fn segment(size: u32) -> Segment {
        Segment::found(Arena::create("shared test", Segment::bytes(size)).unwrap(), size)
    }

    /// An all_reduce in place.
    fn reduce(buffer: &mut [f32]) -> Call {
        let mut call = Call::new(Operation::AllReduce, buffer.len() as u64, Datatype::Float32);
        call.reduction = Some(ReductionOp::Sum);
        call.send = Buffer::host(buffer.as_mut_ptr().cast());
        call.receive = call.send;
        call
    }

    #[test]
    fn nobody_moves_bytes_with_a_rank_that_gave_up_before_all_had_come() {
        use ErrorCode::{Aborted, Revoked, TimeoutWaitingForCollective};
        for given_up in [Aborted, Revoked, TimeoutWaitingForCollective] {
            let (segment, stage) = (segment(2), Stage::new(2));
            let mut buffers = [vec![1f32; COUNT], vec![1f32; COUNT]];
            let calls = buffers.each_mut().map(|buffer| reduce(buffer));
            let first = if given_up == TimeoutWaitingForCollective {
                let failure =
                    Collectives::new().run(&segment, &stage.context(0, Duration::ZERO), &calls[0]).unwrap_err();
                segment.lose(0, given_up, &failure.detail);
                failure
            } else {
                segment.lose(0, given_up, "rank 0 stopped");
                Collectives::new().run(&segment, &stage.context(0, SOON), &calls[0]).unwrap_err()
            };
            assert_eq!(first.code, given_up, "{first}");
            // The program of rank 0 uses its buffer again.
            buffers[0].fill(7.0);
            let second = Collectives::new().run(&segment, &stage.context(1, SOON), &calls[1]).unwrap_err();
            // A revoke is a rank's own: rank 1 waits for it.
            let expected = if given_up == Revoked { TimeoutWaitingForCollective } else { given_up };
            assert_eq!((second.code, &second.culprits[..]), (expected, &[protocol::ids::Rank(0)][..]), "{second}");
            assert!(buffers[0].iter().all(|value| *value == 7.0) && buffers[1].iter().all(|value| *value == 1.0));
        }
    }

    #[test]
    fn a_rank_that_stops_while_it_moves_bytes_is_waited_for() {
        for stopped in [ErrorCode::Aborted, ErrorCode::Revoked] {
            for comes in [false, true] {
                let (segment, stage) = (segment(2), Stage::new(2));
                let mut buffers = [vec![1f32; COUNT], vec![1f32; COUNT]];
                let calls = buffers.each_mut().map(|buffer| reduce(buffer));
                // Rank 0 is at work, and the second rank's way to the end is open.
                // SAFETY: nothing is published but the descriptor; both buffers outlive the threads below.
                unsafe { segment.publish(0, Descriptor::new(&calls[0], 1), std::ptr::null(), 0) };
                segment.arrive(0, 1);
                let other = std::thread::scope(|scope| {
                    let timeout = if comes { Duration::from_secs(20) } else { SOON };
                    let (segment, stage, call) = (&segment, &stage, &calls[1]);
                    let other = scope
                        .spawn(move || Collectives::new().run(segment, &stage.context(1, timeout), call).map(drop));
                    let later = Instant::now() + Duration::from_secs(20);
                    assert_eq!(segment.wait(0, 1, None, later), Arrival::All);
                    segment.lose(0, stopped, "rank 0 stopped");
                    if comes {
                        assert_eq!(segment.settle(0, 2, true, later), Arrival::All);
                    }
                    other.join().unwrap()
                });
                let expected = other.err().map(|failure| failure.code);
                assert_eq!(expected, (!comes).then_some(ErrorCode::TimeoutWaitingForCollective));
            }
        }
    }

    /// The rank that came last ends before it has worked anything out for the others.
    #[test]
    fn ranks_work_it_out_themselves_if_the_one_that_came_last_is_gone_or_stuck() {
        for is_gone in [true, false] {
            let (segment, stage) = (segment(3), Stage::new(3));
            let mut buffers = [vec![1f32], vec![2f32], vec![4f32]];
            let calls = buffers.each_mut().map(|buffer| reduce(buffer));
            std::thread::scope(|scope| {
                let (segment, stage) = (&segment, &stage);
                for rank in 0..2 {
                    let call = calls[rank as usize];
                    let timeout = if is_gone { Duration::from_secs(20) } else { SOON };
                    scope.spawn(move || Collectives::new().run(segment, &stage.context(rank, timeout), &call).unwrap());
                }
                // SAFETY: the contribution is readable.
                unsafe { segment.publish(2, Descriptor::new(&calls[2], 1), calls[2].send.address, 4) };
                while !segment.has_come(0, 1) || !segment.has_come(1, 1) {
                    std::thread::yield_now();
                }
                segment.arrive_and(2, 1, || {
                    if is_gone {
                        segment.lose(2, ErrorCode::RankLost, "rank 2 is gone");
                    }
                });
            });
            assert_eq!(buffers, [[7.0], [7.0], [4.0]]);
        }
    }

    /// What one operation costs a rank does not grow with their number: the calls of all are read once, not once by each. Nobody
    /// sleeps until the deadline, as a rank would that is not woken.
    #[test]
    fn a_rank_looks_at_one_call_for_each_operation_however_many_ranks_there_are() {
        const LATER: Duration = Duration::from_secs(60);
        for (ranks, calls) in [(2u32, 4000), (16, 500), (64, 100)] {
            let (segment, stage) = (segment(ranks), Stage::new(ranks));
            let start = Instant::now();
            std::thread::scope(|scope| {
                for rank in 0..ranks {
                    let (segment, stage) = (&segment, &stage);
                    scope.spawn(move || {
                        let mut collectives = Collectives::new();
                        for sequence in 1..=calls {
                            let mut buffer = [rank as f32];
                            let call = reduce(&mut buffer);
                            let context = OpContext { sequence, ..stage.context(rank, LATER) };
                            collectives.run(segment, &context, &call).unwrap();
                            assert_eq!(buffer, [(ranks * (ranks - 1) / 2) as f32]);
                        }
                    });
                }
            });
            assert!(start.elapsed() < LATER, "a rank was not woken");
            assert_eq!(segment.looked(), u64::from(ranks) * calls, "{ranks} ranks");
        }
    }
}
