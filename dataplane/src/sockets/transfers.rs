//! Send and recv over direct connections. Small messages follow their announcement at once. Large ones wait for the receiver's
//! answer, so both sides learn of a mismatch and no sender runs ahead.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use protocol::datatype::Operation;
use protocol::ready::Ready;
use protocol::record::ErrorCode;

use crate::call::Call;
use crate::failure::{Failure, code_of, name_ranks, number_of};
use crate::operation::context::OpContext;
use crate::operation::timing::{Timing, timing};
use crate::operation::transfer::{EAGER_BYTES, Side, difference, mismatch};
use crate::sockets::mesh::{Mesh, MessageId};

/// Announcements and payloads.
const FORWARD: u8 = 1;
/// Answers.
const BACKWARD: u8 = 2;
const HEAD: usize = 24;

/// State that outlives one group: messages of this rank to itself, and how many transfers each ordered pair has seen.
#[derive(Default)]
pub(crate) struct Memory {
    to_self: VecDeque<(u64, i32, Vec<u8>)>,
    counted: HashMap<(bool, u32), u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// An announcement is on its way out, perhaps with its payload.
    Announced {
        out: MessageId,
        answer: Option<MessageId>,
    },
    /// The announcement is expected.
    Expecting(MessageId),
    Moving(MessageId),
    Done,
}

struct Transfer<'a> {
    call: &'a Call,
    /// Position in the group.
    at: usize,
    peer: u32,
    stage: Stage,
    met: Instant,
    /// The later one of both ends, as far as this one knows.
    latest: Ready,
    timing: Timing,
}

/// Runs a group's sends and recvs to completion; timings are in the order of `calls`.
pub(crate) fn run(
    mesh: &mut Mesh,
    memory: &mut Memory,
    context: &OpContext,
    calls: &[Call],
) -> Result<Vec<Timing>, Failure> {
    let result = Group { mesh: &mut *mesh, memory, context, start: Instant::now() }.run(calls);
    mesh.clear();
    result
}

struct Group<'a> {
    mesh: &'a mut Mesh,
    memory: &'a mut Memory,
    context: &'a OpContext<'a>,
    start: Instant,
}

impl Group<'_> {
    fn run(mut self, calls: &[Call]) -> Result<Vec<Timing>, Failure> {
        let start = self.start;
        let mut transfers: Vec<Transfer> = calls
            .iter()
            .enumerate()
            .map(|(at, call)| Transfer {
                call,
                at,
                peer: call.peer.unwrap_or(0),
                stage: Stage::Waiting,
                met: start,
                latest: call.ready(self.context.rank),
                timing: Timing::default(),
            })
            .collect();
        self.exchange_with_self(&mut transfers)?;
        loop {
            let mut moved = false;
            for at in 0..transfers.len() {
                let (before, rest) = transfers.split_at_mut(at);
                let transfer = &mut rest[0];
                let queued = before.iter().any(|earlier| {
                    earlier.peer == transfer.peer
                        && earlier.call.operation == transfer.call.operation
                        && earlier.stage != Stage::Done
                });
                if !queued {
                    moved |= self.advance(transfer)?;
                }
            }
            if transfers.iter().all(|transfer| transfer.stage == Stage::Done) {
                return Ok(transfers.into_iter().map(|transfer| transfer.timing).collect());
            }
            if moved {
                continue;
            }
            let context = self.context;
            self.mesh.step(context).map_err(|stop| {
                stop.failure(context, "a send or recv", |missing| {
                    let detail = format!(
                        "rank {} waited {} ms in send or recv for {}",
                        context.rank,
                        context.timeout_ms(),
                        name_ranks(&missing)
                    );
                    Failure::new(ErrorCode::TimeoutWaitingForP2p, detail).blaming(missing)
                })
            })?;
        }
    }

    fn exchange_with_self(&mut self, transfers: &mut [Transfer]) -> Result<(), Failure> {
        let rank = self.context.rank;
        for sending in [true, false] {
            for transfer in transfers.iter_mut().filter(|transfer| transfer.peer == rank) {
                let call = transfer.call;
                if (call.operation == Operation::Send) != sending {
                    continue;
                }
                let bytes = call.block_bytes();
                if sending {
                    let mut copy = vec![0u8; bytes];
                    // SAFETY: the caller's promise for its send buffer.
                    unsafe { std::ptr::copy_nonoverlapping(call.send.address, copy.as_mut_ptr(), bytes) };
                    self.memory.to_self.push_back((call.count, call.datatype.code(), copy));
                } else {
                    let Some((count, datatype, copy)) = self.memory.to_self.pop_front() else {
                        let detail = format!("rank {rank} receives from itself and no send to itself came before");
                        return Err(Failure::new(ErrorCode::TimeoutWaitingForP2p, detail).blaming(vec![rank]));
                    };
                    let theirs = Side { count, datatype };
                    check(self.context, rank, call, theirs)?;
                    // SAFETY: the caller's promise for its receive buffer; the counts agree.
                    unsafe { std::ptr::copy_nonoverlapping(copy.as_ptr(), call.receive.address, bytes) };
                }
                self.done(transfer);
            }
        }
        Ok(())
    }

    fn done(&mut self, transfer: &mut Transfer) {
        let key = (transfer.call.operation == Operation::Send, transfer.peer);
        let counted = self.memory.counted.entry(key).or_default();
        *counted += 1;
        transfer.stage = Stage::Done;
        transfer.timing = timing(self.start, transfer.met, *counted).after(transfer.latest);
        self.context.history.done(transfer.at, *counted);
    }

    /// Advances a transfer as far as it goes without waiting; true if it got further.
    fn advance(&mut self, transfer: &mut Transfer) -> Result<bool, Failure> {
        let (call, peer) = (transfer.call, transfer.peer);
        let bytes = call.block_bytes();
        let eager = bytes <= EAGER_BYTES;
        match (transfer.stage, call.operation == Operation::Send) {
            (Stage::Done, _) => return Ok(false),
            (Stage::Waiting, true) => {
                let mut out = self.mesh.send_own(peer, FORWARD, head(call, 0));
                // An empty payload is done before its announcement is on its way.
                if eager && bytes > 0 {
                    // SAFETY: the caller's promise for its send buffer while the operation runs.
                    out = unsafe { self.mesh.send(peer, FORWARD, call.send.address, bytes) };
                }
                let answer = (!eager).then(|| self.mesh.receive_own(peer, BACKWARD, HEAD));
                transfer.stage = Stage::Announced { out, answer };
            }
            (Stage::Announced { out, answer }, _) => match answer {
                None if self.mesh.is_done(out) => {
                    transfer.met = Instant::now();
                    self.done(transfer);
                }
                Some(answer) if self.mesh.is_done(answer) => {
                    let (theirs, number, ready_ns) = parse(&self.mesh.taken(answer));
                    if number != 0 {
                        return Err(mismatch(self.context, peer, code_of(number), call, theirs));
                    }
                    transfer.met = Instant::now();
                    transfer.latest = transfer.latest.or_later(Ready { ns: ready_ns, rank: peer });
                    // SAFETY: as above.
                    transfer.stage = Stage::Moving(unsafe { self.mesh.send(peer, FORWARD, call.send.address, bytes) });
                }
                _ => return Ok(false),
            },
            (Stage::Waiting, false) => {
                transfer.stage = Stage::Expecting(self.mesh.receive_own(peer, FORWARD, HEAD));
            }
            (Stage::Expecting(head_id), _) => {
                if !self.mesh.is_done(head_id) {
                    return Ok(false);
                }
                let (theirs, _, ready_ns) = parse(&self.mesh.taken(head_id));
                let checked = check(self.context, peer, call, theirs);
                transfer.met = Instant::now();
                transfer.latest = transfer.latest.or_later(Ready { ns: ready_ns, rank: peer });
                let their_size =
                    protocol::datatype::Datatype::from_code(theirs.datatype).map_or(1, |datatype| datatype.size());
                if theirs.count.saturating_mul(their_size as u64) > EAGER_BYTES as u64 {
                    let number = checked.as_ref().err().map_or(0, |failure| number_of(failure.code));
                    let answer = self.mesh.send_own(peer, BACKWARD, head(call, number));
                    if checked.is_err() {
                        // The sender must know before our connections close.
                        while !self.mesh.is_done(answer) && self.mesh.step(self.context).is_ok() {}
                    }
                }
                checked?;
                // SAFETY: the caller's promise for its receive buffer; the counts agree.
                transfer.stage =
                    Stage::Moving(unsafe { self.mesh.receive(peer, FORWARD, call.receive.address, bytes) });
            }
            (Stage::Moving(id), _) => {
                if !self.mesh.is_done(id) {
                    return Ok(false);
                }
                self.done(transfer);
            }
        }
        Ok(true)
    }
}

fn check(context: &OpContext, peer: u32, call: &Call, theirs: Side) -> Result<(), Failure> {
    difference(call, theirs).map_or(Ok(()), |code| Err(mismatch(context, peer, code, call, theirs)))
}

fn head(call: &Call, number: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD);
    bytes.extend_from_slice(&call.count.to_le_bytes());
    bytes.extend_from_slice(&call.datatype.code().to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&call.ready_ns.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8]) -> (Side, u32, u64) {
    let word =
        |at: usize| bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    (Side { count: long(0), datatype: word(8) as i32 }, word(12), long(16))
}
