//! Collectives over direct connections: descriptors to everybody, comparison, then the payload. Reductions are shared as in
//! shared memory: every rank reduces its part in rank order, so both ways give the same bits.

use std::time::Instant;

use protocol::datatype::{Operation, ReductionOp};

use crate::call::Call;
use crate::descriptor::{self, Descriptor};
use crate::failure::Failure;
use crate::mesh::{Lost, Mesh, Stop};
use crate::reduce::Reduction;
use crate::transport::{Scene, Timing, overlaps, pull, share, timing};

/// Connections that carry collectives.
const CHANNEL: u8 = 0;
/// A communicator keeps a scratch of up to so many bytes from one reduction to the next.
const KEPT_BYTES: usize = 64 << 20;

/// Runs one collective to its end on this rank.
pub(crate) fn collective(mesh: &mut Mesh, scene: &Scene, lost: Lost, call: &Call) -> Result<Timing, Failure> {
    let result = Exchange { mesh: &mut *mesh, scene, lost, call }.run();
    mesh.clear();
    result
}

struct Exchange<'a> {
    mesh: &'a mut Mesh,
    scene: &'a Scene<'a>,
    lost: Lost<'a>,
    call: &'a Call,
}

impl Exchange<'_> {
    fn run(mut self) -> Result<Timing, Failure> {
        let start = Instant::now();
        let own = Descriptor::of(self.call, self.scene.sequence);
        let others: Vec<u32> = self.others().collect();
        let mut expected = Vec::with_capacity(others.len());
        for other in &others {
            self.mesh.send_own(*other, CHANNEL, own.to_bytes().to_vec());
            expected.push((*other, self.mesh.receive_own(*other, CHANNEL, Descriptor::BYTES)));
        }
        self.finish()?;
        let mut calls = vec![own; self.scene.size as usize];
        for (other, id) in expected {
            let bytes = self.mesh.taken(id);
            calls[other as usize] = Descriptor::from_bytes(bytes.try_into().expect("as long as it was asked for"));
        }
        descriptor::compare(self.scene.sequence, &calls)?;
        let met = Instant::now();
        let scalars: Vec<[u8; 8]> = calls.iter().map(|call| call.scalar).collect();
        match self.call.operation {
            Operation::AllReduce | Operation::Reduce => self.shared_reduction(&scalars)?,
            _ => self.gathered(&scalars)?,
        }
        Ok(timing(start, met, 0))
    }

    fn others(&self) -> impl Iterator<Item = u32> + use<> {
        let rank = self.scene.rank;
        (0..self.scene.size).filter(move |other| *other != rank)
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let (scene, operation) = (self.scene, self.call.operation);
        self.mesh.finish(scene, self.lost).map_err(|stop: Stop| {
            let what = format!("{operation} (collective {})", scene.sequence);
            stop.failure(scene, &what, |missing| scene.late(operation, missing))
        })
    }

    fn shared_reduction(&mut self, scalars: &[[u8; 8]]) -> Result<(), Failure> {
        let mut scratch = std::mem::take(&mut self.mesh.scratch);
        let result = self.reduction_in(&mut scratch, scalars);
        if result.is_err() {
            // Before the scratch goes: the mesh may still point into it.
            self.mesh.clear();
        } else if scratch.len() <= KEPT_BYTES {
            self.mesh.scratch = scratch;
        }
        result
    }

    /// all_reduce and reduce: parts to their owners, reduced there, results to those who want them.
    fn reduction_in(&mut self, scratch: &mut Vec<u8>, scalars: &[[u8; 8]]) -> Result<(), Failure> {
        let (rank, size, call) = (self.scene.rank, self.scene.size, self.call);
        let width = call.datatype.size();
        let part = |of: u32| {
            let (first, length) = share(call.count as usize, of, size);
            (first * width, length * width)
        };
        let (first, bytes) = part(rank);
        let needed = bytes * size as usize;
        if scratch.len() < needed {
            scratch.resize(needed, 0);
        }
        for other in self.others() {
            let (offset, length) = part(other);
            // SAFETY: parts lie within the contribution and within the scratch, one block for each rank; both outlive `finish`,
            // and a failure clears the mesh before they go.
            unsafe {
                self.mesh.send(other, CHANNEL, call.send.address.add(offset), length);
                let block = scratch.as_mut_ptr().add(other as usize * bytes);
                self.mesh.receive(other, CHANNEL, block, bytes);
            }
        }
        self.finish()?;
        let root = call.root.unwrap_or(0);
        let wanted = |of: u32| call.operation == Operation::AllReduce || of == root;
        let reduction = Reduction { datatype: call.datatype, op: call.reduction.unwrap_or(ReductionOp::Sum), scalars };
        // Where the result is not wanted here, our block of the scratch holds it.
        // SAFETY: parts lie within the buffers; each source has as many elements as the destination.
        let result = unsafe {
            let own = scratch.as_mut_ptr().add(rank as usize * bytes);
            let destination = if wanted(rank) { call.receive.address.add(first) } else { own };
            let sources: Vec<*const u8> = (0..size)
                .map(|from| {
                    if from == rank {
                        call.send.address.add(first)
                    } else {
                        scratch.as_mut_ptr().add(from as usize * bytes)
                    }
                })
                .map(<*mut u8>::cast_const)
                .collect();
            reduction.run(&sources, &[destination], bytes / width);
            destination
        };
        for other in self.others() {
            let (offset, length) = part(other);
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
        self.finish()
    }

    /// Everything else: what others contribute to this rank comes here, and is then put in place as in shared memory.
    fn gathered(&mut self, scalars: &[[u8; 8]]) -> Result<(), Failure> {
        let (rank, size, call) = (self.scene.rank, self.scene.size, self.call);
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
        // Of whom a block comes, and whether contributions hold one block for each rank (then only that one travels).
        let (comes, per_rank): (fn(u32, u32, u32) -> bool, bool) = match call.operation {
            Operation::AllGather => (|_, _, _| true, false),
            Operation::ReduceScatter | Operation::AllToAll => (|_, _, _| true, true),
            Operation::Broadcast => (|from, _, root| from == root, false),
            Operation::Scatter => (|from, _, root| from == root, true),
            Operation::Gather => (|_, to, root| to == root, false),
            _ => return Ok(()),
        };
        // What is not reduced comes straight to its place; reduced blocks are set aside first.
        let place = |from: u32| match call.operation {
            Operation::ReduceScatter => None,
            Operation::Broadcast | Operation::Scatter => Some(call.receive.address),
            _ => Some(call.receive.address.wrapping_add(from as usize * block)),
        };
        let (mut arrived, mut scratch): (Vec<(u32, *const u8)>, Vec<Vec<u8>>) = (Vec::new(), Vec::new());
        for other in self.others() {
            let offset = if per_rank { other as usize * block } else { 0 };
            // SAFETY: blocks lie within the contribution and the result; the vectors outlive `finish` and their heap blocks do
            // not move.
            unsafe {
                if comes(rank, other, root) {
                    self.mesh.send(other, CHANNEL, send.add(offset), block);
                }
                if comes(other, rank, root) {
                    let target = place(other).unwrap_or_else(|| {
                        scratch.push(vec![0u8; block]);
                        scratch.last_mut().map_or(std::ptr::null_mut(), |bytes| bytes.as_mut_ptr())
                    });
                    self.mesh.receive(other, CHANNEL, target, block);
                    arrived.push((other, target));
                }
            }
        }
        let finished = self.finish();
        if finished.is_err() {
            self.mesh.clear();
        }
        finished?;
        // `pull` finds the block for this rank `rank * block` into a per-rank contribution; the base may lie outside it.
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
