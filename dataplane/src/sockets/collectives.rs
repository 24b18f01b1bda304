//! Collectives over direct connections: descriptors to everybody, comparison, then the payload. Reductions are divided as in
//! shared memory: every rank reduces its part in rank order, so both ways give the same bits.

use std::time::Instant;

use protocol::datatype::Operation;

use crate::call::Call;
use crate::failure::Failure;
use crate::operation::collective::{GRAIN, overlaps, pull, reduce, share};
use crate::operation::context::OpContext;
use crate::operation::descriptor;
use crate::operation::descriptor::Descriptor;
use crate::operation::timing::{Timing, timing};
use crate::sockets::mesh::{Mesh, Stop};

/// Connections that carry collectives.
const CHANNEL: u8 = 0;
/// What all ranks contribute to one rank's piece of a reduction, bytes: most of it stays in the caches from the sockets to the
/// sum.
const PIECES_BYTES: usize = 8 << 20;

/// Runs one collective to completion on this rank.
pub(crate) fn run(mesh: &mut Mesh, context: &OpContext, call: &Call) -> Result<Timing, Failure> {
    let result = Exchange { mesh: &mut *mesh, context, call }.run();
    mesh.clear();
    result
}

struct Exchange<'a> {
    mesh: &'a mut Mesh,
    context: &'a OpContext<'a>,
    call: &'a Call,
}

impl Exchange<'_> {
    fn run(mut self) -> Result<Timing, Failure> {
        let start = Instant::now();
        let own = Descriptor::new(self.call, self.context.sequence);
        let others: Vec<u32> = self.others().collect();
        let mut expected = Vec::with_capacity(others.len());
        for other in &others {
            self.mesh.send_own(*other, CHANNEL, own.to_bytes().to_vec());
            expected.push((*other, self.mesh.receive_own(*other, CHANNEL, Descriptor::BYTES)));
        }
        self.finish()?;
        let mut calls = vec![own; self.context.size as usize];
        for (other, id) in expected {
            let bytes = self.mesh.taken(id);
            calls[other as usize] = Descriptor::from_bytes(bytes.try_into().expect("as long as it was asked for"));
        }
        descriptor::compare(self.context, &calls)?;
        let met = Instant::now();
        let scalars: Vec<[u8; 8]> = calls.iter().map(|call| call.scalar).collect();
        match self.call.operation {
            Operation::AllReduce | Operation::Reduce | Operation::ReduceScatter => self.shared_reduction(&scalars)?,
            _ => self.gathered(&scalars)?,
        }
        Ok(timing(start, met, 0).after(descriptor::latest(&calls)))
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let rank = self.context.rank;
        (0..self.context.size).filter(move |other| *other != rank)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let (context, operation) = (self.context, self.call.called());
        self.mesh.finish(context).map_err(|stop: Stop| {
            let what = format!("{operation} (collective {})", context.sequence);
            stop.failure(context, &what, |missing| context.late(operation, missing))
        })
    }

    fn shared_reduction(&mut self, scalars: &[[u8; 8]]) -> Result<(), Failure> {
        let mut scratch = std::mem::take(&mut self.mesh.scratch);
        let result = self.reduction_in(&mut scratch, scalars);
        if result.is_err() {
            // Before the scratch memory goes: the mesh may still point into it.
            self.mesh.clear();
        }
        self.mesh.scratch = scratch;
        result
    }

    /// Reductions: parts go to their owners, are reduced there, and the results go to the ranks that want them. Large parts go
    /// piece by piece, the results of one piece together with the contributions to the next one.
    fn reduction_in(&mut self, scratch: &mut Vec<u8>, scalars: &[[u8; 8]]) -> Result<(), Failure> {
        let (rank, size, call) = (self.context.rank, self.context.size, self.call);
        let width = call.datatype.size();
        let scatters = call.operation == Operation::ReduceScatter;
        // The elements that a rank reduces, as (first, length).
        let share = |of: u32| match scatters {
            true => (of as usize * call.count as usize, call.count as usize),
            false => share(call.count as usize, of, size),
        };
        let most = (PIECES_BYTES / size as usize / width).next_multiple_of(GRAIN);
        let piece = |of: u32, index: usize| {
            let (first, length) = share(of);
            let from = (index * most).min(length);
            ((first + from) * width, most.min(length - from) * width)
        };
        let room = most.min(share(0).1) * width;
        if scratch.len() < room * size as usize {
            scratch.resize(room * size as usize, 0);
        }
        let root = call.root.unwrap_or(0);
        let wanted = |of: u32| call.operation == Operation::AllReduce || (!scatters && of == root);
        // The first rank's part is the longest.
        for index in 0..share(0).1.div_ceil(most) {
            let (first, bytes) = piece(rank, index);
            for other in self.others() {
                let (offset, length) = piece(other, index);
                // SAFETY: pieces are within the contribution and within the scratch, one block for each rank; both outlive
                // `finish`, and a failure clears the mesh before they go.
                unsafe {
                    self.mesh.send(other, CHANNEL, call.send.address.add(offset), length);
                    let block = scratch.as_mut_ptr().add(other as usize * room);
                    self.mesh.receive(other, CHANNEL, block, bytes);
                }
            }
            self.finish()?;
            // SAFETY: pieces are within the buffers; each source has as many elements as the destination. What is still to be sent
            // of the last piece's result is done.
            let result = unsafe {
                // If the result is not wanted here, our block of the scratch memory holds it.
                let destination = match call.operation {
                    Operation::ReduceScatter => call.receive.address.add(index * most * width),
                    _ if wanted(rank) => call.receive.address.add(first),
                    _ => scratch.as_mut_ptr().add(rank as usize * room),
                };
                let source = |from: u32| {
                    if from == rank {
                        call.send.address.add(first).cast_const()
                    } else {
                        scratch.as_ptr().add(from as usize * room)
                    }
                };
                let sources: Vec<*const u8> = (0..size).map(source).collect();
                reduce(call, scalars, &sources, &[destination], bytes / width);
                destination
            };
            for other in self.others() {
                let (offset, length) = piece(other, index);
                // SAFETY: as above.
                unsafe {
                    if wanted(other) {
                        self.mesh.send(other, CHANNEL, result, bytes);
                    }
                    if wanted(rank) {
                        self.mesh.receive(other, CHANNEL, call.receive.address.add(offset), length);
                    }
                }
            }
        }
        self.finish()
    }

    /// Everything else: what others contribute to this rank goes straight to its place.
    fn gathered(&mut self, scalars: &[[u8; 8]]) -> Result<(), Failure> {
        let (rank, size, call) = (self.context.rank, self.context.size, self.call);
        let block = call.block_bytes();
        let root = call.root.unwrap_or(0);
        let aside = overlaps(call, rank, size).then(|| {
            let bytes = call.send_bytes(rank, size);
            let mut copy = vec![0u8; bytes];
            // SAFETY: the caller's promise for its contribution.
            unsafe { std::ptr::copy_nonoverlapping(call.send.address, copy.as_mut_ptr(), bytes) };
            copy
        });
        let send = aside.as_ref().map_or(call.send.address.cast_const(), |copy| copy.as_ptr());
        // Whose blocks come, and whether contributions hold one block for each rank (then only that one travels).
        let (comes, per_rank): (fn(u32, u32, u32) -> bool, bool) = match call.operation {
            Operation::AllGather => (|_, _, _| true, false),
            Operation::AllToAll => (|_, _, _| true, true),
            Operation::Broadcast => (|from, _, root| from == root, false),
            Operation::Scatter => (|from, _, root| from == root, true),
            Operation::Gather => (|_, to, root| to == root, false),
            _ => return Ok(()),
        };
        let place = |from: u32| match call.operation {
            Operation::Broadcast | Operation::Scatter => call.receive.address,
            _ => call.receive.address.wrapping_add(from as usize * block),
        };
        let mut arrived: Vec<(u32, *const u8)> = Vec::new();
        for other in self.others() {
            let offset = if per_rank { other as usize * block } else { 0 };
            // SAFETY: blocks are within the contribution and the result; what was moved aside outlives `finish`.
            unsafe {
                if comes(rank, other, root) {
                    self.mesh.send(other, CHANNEL, send.add(offset), block);
                }
                if comes(other, rank, root) {
                    self.mesh.receive(other, CHANNEL, place(other), block);
                    arrived.push((other, place(other)));
                }
            }
        }
        let finished = self.finish();
        if finished.is_err() {
            self.mesh.clear();
        }
        finished?;
        // `pull` finds the block for this rank `rank * block` into a per-rank contribution; the base may be outside it.
        let skip = if per_rank { rank as usize * block } else { 0 };
        let mut sends = vec![send; size as usize];
        for (from, block) in &arrived {
            sends[*from as usize] = block.wrapping_sub(skip);
        }
        // SAFETY: `pull` reads exactly the blocks that came, and our own contribution; it leaves alone what is in its place.
        unsafe { pull(call, rank, size, &sends, scalars, call.receive.address) };
        Ok(())
    }
}
